"""Brings a real and a synthetic column to the same few cells, so that they can be counted side by side.

Cells follow the real column, so they and all that is computed from them are restricted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import Column, Kind

QUANTILE_BINS = 20
MISSING = "missing"


@dataclass(frozen=True)
class Cells:
    """One column, coded.

    Attributes:
        name, kind: as in the schema.
        labels: what each cell holds, in words; the last one is the nulls.
        real: cell of each real row, `(real rows,) int64`.
        synthetic: cell of each synthetic row, `(synthetic rows,) int64`.
    """

    name: str
    kind: Kind
    labels: Sequence[str]
    real: np.ndarray
    synthetic: np.ndarray

    @property
    def size(self) -> int:
        """The number of cells, nulls included."""
        return len(self.labels)

    def at(self, real: np.ndarray, synthetic: np.ndarray) -> Cells:
        """Return the cells of some rows, int64 numbers of them, in these orders."""
        return replace(self, real=self.real[real], synthetic=self.synthetic[synthetic])

    def named(self, most: int) -> Cells:
        """Return the column with its commonest real categories, and all others together; a number line stays as it is."""
        names = self.size - 1
        if self.kind.numeric or names <= most:
            return self
        common = np.argsort(-np.bincount(self.real, minlength=self.size)[:-1], kind="stable")[:most]
        place = np.full(self.size, most)
        place[common], place[-1] = np.arange(most), most + 1
        labels = [*(self.labels[i] for i in common), f"{names - most} more", self.labels[-1]]
        return replace(self, labels=labels, real=place[self.real], synthetic=place[self.synthetic])


def code(column: Column, real: pd.Series, synthetic: pd.Series, bins: int = QUANTILE_BINS) -> Cells:
    """Return two columns in shared cells: categories, or quantile bins of the real column; nulls last."""
    if column.kind.numeric:
        return _numbers(column, axis(real, column.kind), axis(synthetic, column.kind), bins)
    both = pd.concat([text(real, column.kind), text(synthetic, column.kind)], ignore_index=True)
    codes, values = pd.factorize(both, sort=False)
    codes = np.where(codes < 0, len(values), codes).astype(np.int64)
    labels = [str(v) for v in values] + [MISSING]
    return Cells(column.name, column.kind, labels, codes[: len(real)], codes[len(real) :])


def axis(values: pd.Series, kind: Kind) -> np.ndarray:
    """Return numbers, days, or seconds (since 1970, or long) as `(rows,) float64`, NaN where null or not finite."""
    return kind.series(values)


def text(values: pd.Series, kind: Kind) -> pd.Series:
    """Return categories and booleans in one spelling, missing where null."""
    values = values.reset_index(drop=True)
    null = values.isna()
    spelled = kind.spelled(values)
    return spelled.astype(object).mask(null, None)


def place(x: float, kind: Kind) -> str:
    """Write a point of a column's number line for a person."""
    return kind.place(x)


def _numbers(column: Column, real: np.ndarray, synthetic: np.ndarray, bins: int) -> Cells:
    known = real[~np.isnan(real)]
    inner = np.linspace(0, 1, bins + 1)[1:-1]
    edges = np.unique(np.quantile(known, inner)) if len(known) else np.array([0.0])
    if column.kind.whole:
        edges = np.unique(np.floor(edges))  # the same cells, at values that occur
    labels = [*_ranges(edges, column.kind), MISSING]

    def cell(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="left")).astype(np.int64)

    return Cells(column.name, column.kind, labels, cell(real), cell(synthetic))


def _ranges(edges: np.ndarray, kind: Kind) -> list[str]:
    """Name the right-closed cells between edges; whole numbers and days by the first and last value they hold."""
    whole = kind.whole
    ends = [place(e, kind) for e in edges]
    starts = [place(e + 1, kind) for e in edges] if whole else [f"over {e}" for e in ends]
    between = [a if a == b else f"{a} to {b}" for a, b in zip(starts[:-1], ends[1:], strict=True)]
    return [f"up to {ends[0]}", *between, f"{starts[-1]} and over" if whole else starts[-1]]
