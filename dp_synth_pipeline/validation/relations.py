"""How strongly columns go together, in each table: Pearson's r, Cramér's V or the correlation ratio, as their kinds ask.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.binning import axis, text

PEARSON, CRAMER, RATIO = "Pearson's r", "Cramér's V", "correlation ratio"

MOST_VALUES = 100
"""A column's values beyond so many of the commonest are counted as one."""

Square = list[list[float | None]]


@dataclass(frozen=True)
class Relations:
    """One figure for each pair of columns, in each table.

    Attributes:
        names: of the columns, in table order.
        measures: for each pair, which of the three was computed; empty on the diagonal.
        real, synthetic: the figures: r from -1 to 1, V and the ratio from 0 to 1; None where one is not defined, as for
            a column of one value.
    """

    names: list[str]
    measures: list[list[str]]
    real: Square
    synthetic: Square

    @property
    def difference(self) -> Square:
        """Synthetic less real."""
        return [
            [None if p is None or q is None else round(q - p, 4) for p, q in zip(a, b, strict=True)]
            for a, b in zip(self.real, self.synthetic, strict=True)
        ]

    def mean_difference(self, measure: str) -> float | None:
        """Return the mean size of the differences of one measure, over its pairs; None if it has none."""
        found = [
            abs(d)
            for i, line in enumerate(self.difference)
            for j, d in enumerate(line[:i])
            if d is not None and self.measures[i][j] == measure
        ]
        return float(np.mean(found)) if found else None


def relations(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, names: Collection[str] | None = None
) -> Relations:
    """Return the relations of all pairs of learned columns in both tables.

    Args:
        names: the columns to look at; all without.
    """
    columns = [c for c in schema.learned if names is None or c.name in names]
    measures = [["" if a is b else _measure(a, b) for b in columns] for a in columns]
    values = {c.name: _common(c, pd.Series(real[c.name])) for c in columns}
    squares = []
    for table in (real, synthetic):
        read = [_read(c, pd.Series(table[c.name]), values[c.name]) for c in columns]
        squares.append(_square(read, measures))
    return Relations([c.name for c in columns], measures, *squares)


def _measure(a: Column, b: Column) -> str:
    if a.kind.numeric and b.kind.numeric:
        return PEARSON
    return RATIO if a.kind.numeric or b.kind.numeric else CRAMER


def _common(column: Column, real: pd.Series) -> pd.Index:
    if column.kind.numeric:
        return pd.Index([])
    return pd.Index(text(real, column.kind).value_counts().head(MOST_VALUES).index)


def _read(column: Column, values: pd.Series, common: pd.Index) -> np.ndarray:
    """Return numbers, float64 with NaN for null, or codes of the common values, int64; -1 for null."""
    if column.kind.numeric:
        return axis(values, column.kind)
    named = text(values, column.kind)
    found = common.get_indexer(pd.Index(named))
    return np.where(named.isna(), -1, np.where(found < 0, len(common), found)).astype(np.int64)


def _square(columns: list[np.ndarray], measures: list[list[str]]) -> Square:
    out: Square = [[None] * len(columns) for _ in columns]
    for i, a in enumerate(columns):
        for j, b in enumerate(columns[:i]):
            measure = measures[i][j]
            if measure == PEARSON:
                found = pearson(a, b)
            elif measure == CRAMER:
                found = cramer(a, b)
            else:
                found = ratio(*((a, b) if a.dtype == np.int64 else (b, a)))
            out[i][j] = out[j][i] = None if found is None else round(found, 4)
    return out


def pearson(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return Pearson's r over the rows where both numbers are known; None if either does not vary."""
    known = ~(np.isnan(a) | np.isnan(b))
    a, b = a[known], b[known]
    if len(a) < 2 or not _varies(a) or not _varies(b):
        return None
    return float(np.clip(np.corrcoef(a, b)[0, 1], -1, 1))


def cramer(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return Cramér's V corrected for bias (Bergsma 2013) of two columns of codes; a null is a value of its own."""
    (rows_of, a), (columns_of, b) = (np.unique(x, return_inverse=True) for x in (a, b))
    shape = len(rows_of), len(columns_of)
    counts = np.bincount(a * shape[1] + b, minlength=math.prod(shape)).reshape(shape).astype(np.float64)
    rows, (r, k) = counts.sum(), counts.shape
    if min(r, k) < 2 or rows < 3:
        return None
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / rows
    phi2 = float(((counts - expected) ** 2 / expected).sum() / rows)
    spare = max(0.0, phi2 - (r - 1) * (k - 1) / (rows - 1))
    smaller = min(r - (r - 1) ** 2 / (rows - 1), k - (k - 1) ** 2 / (rows - 1)) - 1
    return min(1.0, float(np.sqrt(spare / smaller))) if smaller > 0 else None


def ratio(codes: np.ndarray, numbers: np.ndarray) -> float | None:
    """Return the correlation ratio: the root of the part of a number's variance that lies between the codes' means.

    Corrected for chance (Kelley's epsilon squared); a null code is a value of its own, a null number is left out.
    """
    known = ~np.isnan(numbers)
    codes, numbers = codes[known], numbers[known]
    _, codes = np.unique(codes, return_inverse=True)
    groups = int(codes.max()) + 1 if len(codes) else 0
    if groups < 2 or len(numbers) <= groups or not _varies(numbers):
        return None
    numbers = (numbers - numbers.mean()) / numbers.std()
    size = np.bincount(codes)
    between = float((np.bincount(codes, weights=numbers) ** 2 / size).sum()) / len(numbers)
    corrected = 1 - (1 - between) * (len(numbers) - 1) / (len(numbers) - groups)
    return float(np.sqrt(max(0.0, corrected)))


def _varies(x: np.ndarray) -> bool:
    return bool(np.ptp(x) > 0 and np.isfinite(x.std()) and x.std() > 0)
