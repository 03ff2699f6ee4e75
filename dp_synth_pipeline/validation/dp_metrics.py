"""Accuracy figures with noise: what a release may say in public about how close its generator came to the real rows.

Counted over the codes that the released profile fixed, against rows drawn from the generator. For a set of columns let
n(v) be the private count of the cell v, and s(v) the drawn count scaled to the released number of rows, whole. The sum of
|n(v) - s(v)| over all cells of all sets is released with two-sided geometric noise. A row stands in one cell of each set
and s is public by then, so a unit of k rows moves the sum by at most k times the number of sets, and the exact number of
rows is needed nowhere. What follows from the noisy sum is free.

The figure errs on the safe side: a released number of rows that is off makes it smaller, never larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import DiscreteLaplace
from dp_synth_pipeline.privacy.odometer import Odometer

MOST_PAIRS = 200
"""Pairs looked at; of more, so many are taken evenly from their list, whatever the data."""

ROWS = 1 << 17
"""Rows counted at a time."""

SURE = 0.95

Sets = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class ChargedPlan:
    """What is measured and at which cost, fixed from public facts before a row is read.

    Attributes:
        columns: how many columns have codes.
        max_rows: rows of one unit at most.
        epsilon: the pure epsilon of all figures together, when a unit is added or removed.
    """

    columns: int
    max_rows: int
    epsilon: float

    @cached_property
    def ways(self) -> tuple[Sets, ...]:
        """The sets of columns behind each figure: each column, and each pair."""
        pairs = list(combinations(range(self.columns), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[i] for i in np.linspace(0, len(pairs) - 1, MOST_PAIRS).astype(int)]
        ones: Sets = [(i,) for i in range(self.columns)]
        return (ones, pairs) if pairs else (ones,)

    def sensitivity(self, sets: Sets) -> int:
        """Return how far one unit moves the sum over these sets at most, in rows."""
        return self.max_rows * len(sets)

    @property
    def each(self) -> float:
        """The pure epsilon of one figure."""
        return self.epsilon / len(self.ways)

    @property
    def events(self) -> tuple[DiscreteLaplace, ...]:
        """What is charged: one noisy number for each figure, at equal shares of epsilon."""
        return tuple(DiscreteLaplace(self.sensitivity(s) / self.each, self.sensitivity(s)) for s in self.ways)


@dataclass(frozen=True)
class Headline:
    """Released figures, which may be published.

    Attributes:
        one, two: mean agreement of the shares of one and of two columns' cells, 0 to 1; `two` is None with one column.
        one_within, two_within: how far the noise moves them at most, with a probability of 95 %.
        one_best, two_best: what chance would leave if the real rows were drawn from the generator too.
    """

    one: float
    one_within: float
    one_best: float
    two: float | None = None
    two_within: float | None = None
    two_best: float | None = None


def measure(
    codes: np.ndarray,
    drawn: np.ndarray,
    cardinalities: Sequence[int],
    plan: ChargedPlan,
    *,
    rows: int,
    odometer: Odometer,
) -> Headline:
    """Release the figures that `plan` reserved.

    Args:
        codes: private codes, int (rows, columns), rows per unit bounded already; may be memory-mapped.
        drawn: codes drawn from the released generator, int (rows, columns), at least one row.
        cardinalities: codes per column.
        rows: released number of rows, at least 1.
        odometer: of the entry that was charged `plan.events`.

    Raises:
        NotCharged: if a figure was to be released that was not charged.
    """
    figures: list[float] = []
    for sets, event in zip(plan.ways, plan.events, strict=True):
        expected = [_scaled(_count(drawn, s, cardinalities), rows) for s in sets]
        # The exact sum is private: nothing but the mechanism below may see it.
        total = sum(int(np.abs(_count(codes, s, cardinalities) - e).sum()) for s, e in zip(sets, expected, strict=True))
        noisy, _ = mechanisms.noisy_count(total, epsilon=plan.each, sensitivity=event.sensitivity, odometer=odometer)
        whole = 2 * len(sets) * rows
        agreed = min(max(1 - noisy / whole, 0.0), 1.0)
        within = min(event.scale * math.log(1 / (1 - SURE)) / whole, 1.0)
        figures += [agreed, within, _best(expected, rows, len(drawn))]
    return Headline(*figures)


def _count(codes: np.ndarray, columns: tuple[int, ...], cardinalities: Sequence[int]) -> np.ndarray:
    """Count the rows in each joint cell of some columns, int64 (cells,)."""
    size = math.prod(cardinalities[c] for c in columns)
    total = np.zeros(size, dtype=np.int64)
    for start in range(0, len(codes), ROWS):
        block = np.asarray(codes[start : start + ROWS], dtype=np.int64)
        cell = block[:, columns[0]]
        for c in columns[1:]:
            cell = cell * cardinalities[c] + block[:, c]
        total += np.bincount(cell, minlength=size)
    return total


def _scaled(counts: np.ndarray, rows: int) -> np.ndarray:
    return np.rint(counts * (rows / counts.sum())).astype(np.int64)


def _best(expected: Sequence[np.ndarray], rows: int, drawn: int) -> float:
    """Return the agreement to expect of two samples of the drawn shares; of drawn rows only, so it is free."""
    lost = [np.sqrt(p * (1 - p) * (1 / rows + 1 / drawn) / (2 * np.pi)).sum() for p in (e / rows for e in expected)]
    return float(max(0.0, 1 - np.mean(lost)))
