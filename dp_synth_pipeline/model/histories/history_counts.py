"""Counts how many rows of all persons have each code, with noise: the counts of one person are clipped together in L2.

A profile is of one row of each person, so that a person moves each of its histograms by one. Yet those who have many rows
may have others than those who have few. So all rows are counted, in all columns. Where the counts of one person are longer
than a bound, as one vector over all columns, each of that person's rows counts for as much less. So one person moves all
counts together by at most the bound in L2, and a Gaussian mechanism pays for that.

The bound follows from released facts alone. Drawn histories are clipped as well before their shares are compared with the
released ones, so what clipping does to long histories does not show as a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.model.marginals.measuring import WHOLE, Layout, Marginals, count
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import ROUNDING, Odometer


@dataclass(frozen=True)
class HistoryCountsPlan:
    """What counting rows will do, and spend.

    Attributes:
        noise_multiplier: of the one Gaussian mechanism that it is.
        bound: the most by which a person may move all counts together, in rows (L2).
    """

    noise_multiplier: float
    bound: float

    @property
    def event(self) -> Gaussian:
        """What it costs, whatever the rows are."""
        return Gaussian(self.noise_multiplier)

    @property
    def scale(self) -> float:
        """Standard deviation of each count's noise, in rows."""
        return self.noise_multiplier * self.bound * (1 + ROUNDING)


def bound_of(shares: Sequence[np.ndarray], rows: float) -> float:
    """Return how long the counts of a person with so many rows are, as a vector, if each row is drawn by itself.

    Args:
        shares: probability of each code of each column.
        rows: of such a person, at least 1.
    """
    again = sum(float((np.asarray(p) ** 2).sum()) for p in shares)
    return math.sqrt(rows * len(shares) + rows * (rows - 1) * again)


def parts_of(codes: np.ndarray, units: np.ndarray, bound: float) -> np.ndarray:
    """Return the part of `WHOLE` that each row counts, int64 (rows,): a unit's counts are at most `bound` long together.

    Args:
        codes: int (rows, columns).
        units: number of the unit of each row, int64 (rows,), from 0.
    """
    if not len(codes):
        return np.zeros(0, np.int64)
    squares = np.zeros(int(units.max()) + 1)
    for column in codes.T:
        size = int(column.max()) + 1
        cells, counts = np.unique(units * size + column, return_counts=True)  # in the 64 bits of `units`
        squares += np.bincount(cells // size, counts.astype(np.float64) ** 2, minlength=len(squares))
    longest = np.maximum(np.sqrt(squares), bound)
    return np.floor(WHOLE * (bound / longest) * (1 - ROUNDING)).astype(np.int64)[units]


def measure(
    codes: np.ndarray, units: np.ndarray, cardinalities: Sequence[int], plan: HistoryCountsPlan, odometer: Odometer
) -> Marginals:
    """Measure how many rows have each code of each column, with the noise that `plan` fixed.

    Args:
        codes: int (rows, columns); units: number of the unit of each row, int (rows,), from 0.
        cardinalities: codes of each column.
        odometer: of the entry that was charged `plan.event`.

    Raises:
        NotCharged: if they were to be released without that charge.
    """
    layout = Layout(tuple(cardinalities), tuple((c,) for c in range(len(cardinalities))))
    (noisy,), _ = mechanisms.noisy_histograms(
        [count(codes, layout, parts_of(codes, units, plan.bound))],
        scale=plan.scale * WHOLE,
        sensitivity=plan.bound * WHOLE,
        odometer=odometer,
    )
    counts = noisy / WHOLE
    rows = max(round(float(counts.sum()) / len(cardinalities)), 1)  # each row is counted once in each column
    return Marginals(layout, counts, plan.scale, rows)


def shares_of(measured: Marginals) -> list[np.ndarray]:
    """Return the share of rows that have each code, of each column that was counted."""
    least = measured.scale / 10
    held = [np.maximum(cells, least) for _, cells in measured.layout.blocks(measured.counts)]
    return [cells / cells.sum() for cells in held]
