"""Counts how many rows of all persons have each code, with noise: the counts of one person are clipped together in L2.

A profile is of one row of each person, so that a person moves each of its histograms by one. Yet those who have many rows
may have others than those who have few. So all rows are counted, in all columns. Where the counts of one person are longer
than a bound, as one vector over all columns, each of that person's rows counts for as much less. So one person moves all
counts together by at most the bound in L2, and a Gaussian mechanism pays for that. A few pairs of columns are counted with
them, in the same vector, since they tell which values go together, and that one column may determine another.

The bound follows from released facts alone. Drawn histories are clipped as well before their shares are compared with the
released ones, so what clipping does to long histories does not show as a difference.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.model.marginals.dependencies import frequencies
from dp_synth_pipeline.model.marginals.measuring import WHOLE, Clique, Layout, Marginals, count
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import ROUNDING, Odometer

MOST_CELLS = 1 << 18
"""Cells of a pair that is counted, at most: of more, noise hides which are empty."""

CLEAR = 0.6
"""Noise of a cell, as a part of the rows that a cell has on an average, up to which it tells something.

Found on a bank's payments, which such pairs bring nearer, and on seasons of batting, which pairs of more cells do not. Each
pair adds to the noise of all counts.
"""


AGREEING = 0.5
"""How likely two rows of a person agree with others in the same way: about as likely as not."""


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


def pairs_of(shares: Sequence[np.ndarray], columns: Sequence[int]) -> list[Clique]:
    """Return which pairs of columns are worth counting, as one may determine the other: as many as there are columns.

    First come those of which one would tell much about the other, and that stand near each other, as codes and names do.

    Args:
        shares: probability of each code of each column of the table.
        columns: numbers of those whose codes may determine others, ascending.
    """
    told = _told(shares, columns, MOST_CELLS)
    first = sorted(told, key=lambda pair: -told[pair] / (pair[1] - pair[0]))
    return sorted(first[: len(shares)])


def clear_pairs(shares: Sequence[np.ndarray], columns: Sequence[int], noise: float) -> list[Clique]:
    """Return which pairs of columns noise leaves to be told cell by cell: twice as many as there are columns, at most.

    First come those of which one could tell much about the other, wherever they stand.

    Args:
        shares: probability of each code of each column of the table.
        columns: numbers of those that are looked at, ascending.
        noise: standard deviation of a cell, as a share of all rows.
    """
    told = _told(shares, columns, MOST_CELLS if noise * MOST_CELLS <= CLEAR else CLEAR / noise)
    return sorted(sorted(told, key=lambda pair: -told[pair])[: 2 * len(shares)])


def _told(shares: Sequence[np.ndarray], columns: Sequence[int], most: float) -> dict[Clique, float]:
    """Return how much one column could tell of the other at most, in nats, of each pair of so many cells at most."""
    bits = {c: _entropy(shares[c]) for c in columns}
    pairs = itertools.combinations(columns, 2)
    return {(a, b): min(bits[a], bits[b]) for a, b in pairs if len(shares[a]) * len(shares[b]) <= most}


def _entropy(shares: np.ndarray) -> float:
    held = shares[shares > 0]
    return -float((held * np.log(held)).sum())


def layout_of(cardinalities: Sequence[int], pairs: Sequence[Clique], agreements: Sequence[int] = ()) -> Layout:
    """Return what is counted of a table: the codes of each column, some pairs of columns, and how rows agree with others.

    Args:
        agreements: codes of each column that says so; they come after the table's own.
    """
    codes = (*cardinalities, *agreements)
    return Layout(codes, (*((c,) for c in range(len(codes))), *pairs))


def bound_of(shares: Sequence[np.ndarray], rows: float, layout: Layout) -> float:
    """Return how long the counts of a person with so many rows are, as a vector, if each row is drawn by itself.

    Of a pair, one column is taken to determine the other: counts are longest then.

    Args:
        shares: probability of each code of each column; of what says how rows agree, after these, none is known.
        rows: of such a person, at least 1.
        layout: what is counted.
    """
    alike = [float((np.asarray(p) ** 2).sum()) for p in shares]
    alike += [AGREEING] * (len(layout.cardinalities) - len(alike))
    again = sum(min(alike[c] for c in clique) for clique in layout.cliques)
    return math.sqrt(rows * len(layout.cliques) + rows * (rows - 1) * again)


def parts_of(codes: np.ndarray, units: np.ndarray, layout: Layout, bound: float) -> np.ndarray:
    """Return the part of `WHOLE` that each row counts, int64 (rows,): a unit's counts are at most `bound` long together.

    Args:
        codes: int (rows, columns).
        units: number of the unit of each row, int64 (rows,), from 0.
        layout: what is counted.
    """
    if not len(codes):
        return np.zeros(0, np.int64)
    columns, squares = codes.T.astype(np.int64), np.zeros(int(units.max()) + 1)
    for clique, place in layout.places():
        size = place.stop - place.start
        cells, counts = np.unique(units * size + layout.within(clique, columns), return_counts=True)  # in 64 bits
        squares += np.bincount(cells // size, counts.astype(np.float64) ** 2, minlength=len(squares))
    longest = np.maximum(np.sqrt(squares), bound)
    return np.floor(WHOLE * (bound / longest) * (1 - ROUNDING)).astype(np.int64)[units]


def measure(
    codes: np.ndarray, units: np.ndarray, layout: Layout, plan: HistoryCountsPlan, odometer: Odometer
) -> Marginals:
    """Measure how many rows have each code of each column, and of some pairs, with the noise that `plan` fixed.

    Args:
        codes: int (rows, columns); units: number of the unit of each row, int (rows,), from 0.
        layout: what is counted, from `layout_of`.
        odometer: of the entry that was charged `plan.event`.

    Raises:
        NotCharged: if they were to be released without that charge.
    """
    (noisy,), _ = mechanisms.noisy_histograms(
        [count(codes, layout, parts_of(codes, units, layout, plan.bound))],
        scale=plan.scale * WHOLE,
        sensitivity=plan.bound * WHOLE,
        odometer=odometer,
    )
    counts = noisy / WHOLE
    rows = max(round(float(counts.sum()) / len(layout.cliques)), 1)  # each row is counted once in each of them
    return Marginals(layout, counts, plan.scale, rows)


def shares_of(measured: Marginals) -> list[np.ndarray]:
    """Return the share of rows that have each code, of each column that was counted: by all counts that it is in."""
    least, known = measured.scale / 10, frequencies(measured)
    held = [np.maximum(known[column].counts, least) for column in range(len(measured.layout.cardinalities))]
    return [cells / cells.sum() for cells in held]
