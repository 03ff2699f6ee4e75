"""Brings a real and a synthetic column to the same few cells, so that they can be counted side by side.

Cells follow the real column, so they and all that is computed from them are restricted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def code(column: Column, real: pd.Series, synthetic: pd.Series) -> Cells:
    """Return two columns in shared cells: categories, or 20 quantile bins of the real column; nulls last."""
    if column.kind.numeric:
        return _numbers(column, axis(real, column.kind), axis(synthetic, column.kind))
    both = pd.concat([text(real, column.kind), text(synthetic, column.kind)], ignore_index=True)
    codes, values = pd.factorize(both, sort=False)
    codes = np.where(codes < 0, len(values), codes).astype(np.int64)
    labels = [str(v) for v in values] + [MISSING]
    return Cells(column.name, column.kind, labels, codes[: len(real)], codes[len(real) :])


def axis(values: pd.Series, kind: Kind) -> np.ndarray:
    """Return numbers, days, or seconds (since 1970, or long) as `(rows,) float64`, NaN where null or not finite."""
    if kind is Kind.DURATION and pd.api.types.is_integer_dtype(values):  # microseconds, as snapshots hold them
        return values.to_numpy(dtype=np.float64, na_value=np.nan) / 1e6
    if kind is Kind.DURATION:
        lengths = pd.Series(pd.to_timedelta(pd.Series(values.to_numpy(dtype=object, na_value=None)), errors="coerce"))
        return lengths.dt.total_seconds().to_numpy(dtype=np.float64)
    if kind in (Kind.DATE, Kind.DATETIME):
        if values.dtype == object or isinstance(values.dtype, pd.ArrowDtype):
            values = pd.Series(values.to_numpy(dtype=object, na_value=None))
        moments = pd.to_datetime(values, errors="coerce", utc=True).dt.as_unit("us")
        micros = moments.astype("int64").to_numpy(dtype=np.float64)
        micros[moments.isna().to_numpy()] = np.nan
        return np.floor(micros / 86_400e6) if kind is Kind.DATE else micros / 1e6
    parsed = pd.Series(pd.to_numeric(values, errors="coerce"))
    numbers = parsed.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def text(values: pd.Series, kind: Kind) -> pd.Series:
    """Return categories and booleans in one spelling, missing where null."""
    values = values.reset_index(drop=True)
    null = values.isna()
    if kind is Kind.BOOLEAN or pd.api.types.is_bool_dtype(values):
        spelled = values.astype(str).str.lower().str.removesuffix(".0").replace({"1": "true", "0": "false"})
    elif pd.api.types.is_numeric_dtype(values):
        spelled = pd.Series(values.to_numpy(dtype=np.float64, na_value=np.nan)).astype(str).str.removesuffix(".0")
    else:
        spelled = values.astype(str)
    return spelled.astype(object).mask(null, None)


def place(x: float, kind: Kind) -> str:
    """Write a point of a column's number line for a person."""
    if kind is Kind.DURATION:
        return _length(x)
    if kind in (Kind.DATE, Kind.DATETIME):
        moment = np.datetime64(int(x * (86_400 if kind is Kind.DATE else 1)), "s")
        whole = kind is Kind.DATE or x % 86_400 == 0
        return str(moment.astype("datetime64[D]" if whole else "datetime64[m]")).replace("T", " ")
    if abs(x) >= 1e15:
        return f"{x:.3g}"
    return f"{x:,.0f}" if x == int(x) or abs(x) >= 1000 else f"{x:.4g}"


def _length(seconds: float) -> str:
    """Write seconds as days and a clock, such as -2 d 03:04:05."""
    days, micros = divmod(round(abs(seconds) * 1e6), 86_400_000_000)
    minutes, left = divmod(micros, 60_000_000)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{left // 1_000_000:02}"
    if left % 1_000_000:
        clock += f".{left % 1_000_000:06}"
    return f"{'-' if seconds < 0 else ''}{f'{days:,} d ' if days else ''}{clock}"


def _numbers(column: Column, real: np.ndarray, synthetic: np.ndarray) -> Cells:
    known = real[~np.isnan(real)]
    inner = np.linspace(0, 1, QUANTILE_BINS + 1)[1:-1]
    edges = np.unique(np.quantile(known, inner)) if len(known) else np.array([0.0])
    if column.kind in (Kind.INTEGER, Kind.DATE):
        edges = np.unique(np.floor(edges))  # the same cells, at values that occur
    labels = [*_ranges(edges, column.kind), MISSING]

    def cell(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="left")).astype(np.int64)

    return Cells(column.name, column.kind, labels, cell(real), cell(synthetic))


def _ranges(edges: np.ndarray, kind: Kind) -> list[str]:
    """Name the right-closed cells between edges; whole numbers and days by the first and last value they hold."""
    whole = kind in (Kind.INTEGER, Kind.DATE)
    ends = [place(e, kind) for e in edges]
    starts = [place(e + 1, kind) for e in edges] if whole else [f"over {e}" for e in ends]
    between = [a if a == b else f"{a} to {b}" for a, b in zip(starts[:-1], ends[1:], strict=True)]
    return [f"up to {ends[0]}", *between, f"{starts[-1]} and over" if whole else starts[-1]]
