"""How many rows a privacy unit has, in the real and in the synthetic table.

Restricted: counted in real rows without noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

MOST_LINES = 12
"""Numbers of rows that are told one by one; more rows than that are counted together."""


@dataclass(frozen=True)
class RowsPerUnit:
    """How the units are spread over numbers of rows.

    Attributes:
        unit: the column that names a unit.
        labels: numbers of rows, in words.
        real, synthetic: shares of the units, one per label; `synthetic` is None if the synthetic table names no unit.
        mean_real, mean_synthetic: rows of a unit on average.
        units_real, units_synthetic: numbers of units.
    """

    unit: str
    labels: list[str]
    real: list[float]
    synthetic: list[float] | None
    mean_real: float
    mean_synthetic: float | None
    units_real: int
    units_synthetic: int | None


def rows_per_unit(unit: str, real: pd.Series, synthetic: pd.Series | None) -> RowsPerUnit | None:
    """Return how many rows each unit has; None if no real row names one.

    Args:
        unit: the column, in words.
        real: the unit of each real row.
        synthetic: the unit of each synthetic row; None if the synthetic table names no unit.
    """
    sizes = _sizes(real)
    drawn = None if synthetic is None else _sizes(synthetic)
    if not len(sizes) or (drawn is not None and not len(drawn)):
        return None
    most = int(max(sizes.max(), 0 if drawn is None else drawn.max()))
    labels = [str(n) for n in range(1, min(most, MOST_LINES) + 1)]
    if most > MOST_LINES:
        labels.append(f"more than {MOST_LINES}")
    return RowsPerUnit(
        unit=unit,
        labels=labels,
        real=_shares(sizes, len(labels)),
        synthetic=None if drawn is None else _shares(drawn, len(labels)),
        mean_real=float(sizes.mean()),
        mean_synthetic=None if drawn is None else float(drawn.mean()),
        units_real=len(sizes),
        units_synthetic=None if drawn is None else len(drawn),
    )


def _sizes(units: pd.Series) -> np.ndarray:
    return units.value_counts(dropna=True).to_numpy(dtype=np.int64)


def _shares(sizes: np.ndarray, lines: int) -> list[float]:
    counts = np.bincount(np.minimum(sizes, lines) - 1, minlength=lines)
    return (counts / len(sizes)).tolist()
