"""How strongly columns go together, in each table: Pearson's contingency coefficient, one measure for columns of every kind.

Numbers and dates are cut into ten parts, so it sees relations that are no straight line, and a null is a value of its own.
It has a size from 0 to 1 and no direction. Of two numbers that are jointly normal it is about as large as their Pearson's r,
where Cramér's V of as many parts would be about a third of it. Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.binning import Cells, code

MEASURE = "the contingency coefficient"

PARTS = 10
"""Parts of a number line: more would leave more to chance in a small table."""

MOST_VALUES = 100
"""A column's cells beyond so many of the commonest real ones are counted as one."""

Square = list[list[float | None]]

Coded = tuple[np.ndarray, np.ndarray, int]
"""Cell of each real row, cell of each synthetic row, number of cells."""


@dataclass(frozen=True)
class Relations:
    """The contingency coefficient of each pair of columns, in each table.

    Attributes:
        names: of the columns, in table order.
        real, synthetic: from 0 (unrelated) to 1 (each decides the other); None on the diagonal, and for a column of one
            value.
    """

    names: list[str]
    real: Square
    synthetic: Square

    @property
    def difference(self) -> Square:
        """Synthetic less real."""
        return [
            [None if p is None or q is None else round(q - p, 4) for p, q in zip(a, b, strict=True)]
            for a, b in zip(self.real, self.synthetic, strict=True)
        ]

    @property
    def mean_difference(self) -> float | None:
        """The mean size of the differences; None without a pair that has one."""
        found = [abs(d) for i, line in enumerate(self.difference) for d in line[:i] if d is not None]
        return float(np.mean(found)) if found else None

    def of(self, left: str, right: str) -> tuple[float | None, float | None]:
        """Return the real and the synthetic relation of two columns; None for what is not known."""
        if left not in self.names or right not in self.names:
            return None, None
        i, j = self.names.index(left), self.names.index(right)
        return self.real[i][j], self.synthetic[i][j]


def relations(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, names: Collection[str] | None = None
) -> Relations:
    """Return the relations of all pairs of learned columns in both tables.

    Args:
        names: the columns to look at; all without.
    """
    columns = [c for c in schema.learned if names is None or c.name in names]
    coded = [_common(code(c, pd.Series(real[c.name]), pd.Series(synthetic[c.name]), PARTS)) for c in columns]
    first, second = _square([(c[0], c[2]) for c in coded]), _square([(c[1], c[2]) for c in coded])
    return Relations([c.name for c in columns], first, second)


def _common(cells: Cells) -> Coded:
    """Count all but the commonest cells as one."""
    if cells.size <= MOST_VALUES:
        return cells.real, cells.synthetic, cells.size
    kept = np.argsort(-np.bincount(cells.real, minlength=cells.size), kind="stable")[:MOST_VALUES]
    place = np.full(cells.size, MOST_VALUES)
    place[kept] = np.arange(MOST_VALUES)
    return place[cells.real], place[cells.synthetic], MOST_VALUES + 1


def _square(columns: list[tuple[np.ndarray, int]]) -> Square:
    out: Square = [[None] * len(columns) for _ in columns]
    for i, (a, rows) in enumerate(columns):
        for j, (b, cells) in enumerate(columns[:i]):
            counts = np.bincount(a * cells + b, minlength=rows * cells).reshape(rows, cells)
            found = contingency(counts)
            out[i][j] = out[j][i] = None if found is None else round(found, 4)
    return out


def contingency(counts: np.ndarray) -> float | None:
    """Return Pearson's contingency coefficient of a table of counts; None if one column has a single value.

    That is √(φ² / (1 + φ²)), divided by the most that it can be for so many values (Sakoda 1977), with φ² and the numbers of
    values corrected for chance (Bergsma 2013).
    """
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)].astype(np.float64)
    rows, (r, k) = counts.sum(), counts.shape
    if min(r, k) < 2 or rows < 3:
        return None
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / rows
    phi2 = float(((counts - expected) ** 2 / expected).sum() / rows)
    spare = max(0.0, phi2 - (r - 1) * (k - 1) / (rows - 1))
    most = min(r - (r - 1) ** 2 / (rows - 1), k - (k - 1) ** 2 / (rows - 1)) - 1
    return min(1.0, float(np.sqrt(spare / (1 + spare) * (1 + most) / most))) if most > 0 else None
