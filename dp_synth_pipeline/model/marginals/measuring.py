"""Noisy marginals: how often codes occur together in pairs and triples of columns, measured once with Gaussian noise.

One unit with k rows moves each marginal by at most k (L2), so m marginals with noise `s * sqrt(m)` cost what one with
noise s costs. That total is fixed before the first count; how many marginals share it, and which, may depend on released
values only: the profile's codes, and the noisy scores below (the squared ratios of Gaussian mechanisms add up, however
each was chosen after the ones before it: Smith & Thakurta 2022, "Fully Adaptive Composition for Gaussian Differential
Privacy").

When the noise on all pairs would drown them, a part of the total first scores each pair by how far it lies from
independence, and the pairs that stand out share the rest; of very many columns, only as many pairs are scored as the noise
of so many scores lets one tell apart, those of columns that stand near each other in the table. Triples are scored by how
far they lie from what the noisy pairs let one expect, and the plan says how many are measured (the idea of AIM: McKenna et
al. 2022).

Of histories, all rows of a unit count as one together: each has its part of `WHOLE`, and these add up to that at most. So a
unit moves each marginal by at most 1 (L1, and so L2), however many rows it has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dp_synth_pipeline.model.marginals import waves
from dp_synth_pipeline.model.marginals.pairs import nearest_pairs, paired
from dp_synth_pipeline.model.marginals.plan import SCORE_UNIT, MarginalsPlan, candidates, score_sensitivity
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer

ROWS = 1 << 17
"""Rows counted at a time."""

WHOLE = 720_720
"""Parts of a row that are counted, where a unit's rows count as one together: each of up to 16 rows has a whole number."""

Clique = tuple[int, ...]
"""Ascending numbers of one to three columns."""

Expected = Callable[[Clique], np.ndarray]
"""Rows expected in each cell of a clique, from released values alone."""


@dataclass(frozen=True)
class Layout:
    """Where the cells of each measured clique of columns lie in one flat vector, clique after clique, row-major.

    Attributes:
        cardinalities: codes per column.
        cliques: ascending column numbers, one to three each.
    """

    cardinalities: tuple[int, ...]
    cliques: tuple[Clique, ...]

    @cached_property
    def offsets(self) -> np.ndarray:
        """First cell of each clique, and the number of cells; int64 (cliques + 1,)."""
        sizes = [math.prod(self.cardinalities[c] for c in clique) for clique in self.cliques]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return int(self.offsets[-1])

    def places(self) -> Iterator[tuple[Clique, slice]]:
        """Yield each clique with the place of its cells."""
        for clique, start, stop in zip(self.cliques, self.offsets[:-1], self.offsets[1:], strict=True):
            yield clique, slice(int(start), int(stop))

    def within(self, clique: Clique, columns: Any) -> Any:
        """Return the cell of each row among its clique's, from columns of codes (an array or a tensor each)."""
        cell = columns[clique[0]]
        for c in clique[1:]:
            cell = cell * self.cardinalities[c] + columns[c]
        return cell

    def index(self, codes: np.ndarray) -> np.ndarray:
        """Return the flat cell of each row in each clique, int64 (rows, cliques)."""
        columns, found = codes.T.astype(np.int64), np.empty((len(codes), len(self.cliques)), np.int64)
        for number, (clique, place) in enumerate(self.places()):
            found[:, number] = place.start + self.within(clique, columns)
        return found

    def blocks(self, flat: np.ndarray) -> Iterator[tuple[Clique, np.ndarray]]:
        """Yield each clique with its cells, an axis per column."""
        for clique, place in self.places():
            yield clique, flat[place].reshape([self.cardinalities[c] for c in clique])


@dataclass(frozen=True)
class Marginals:
    """Released noisy counts of cliques of columns.

    Attributes:
        layout: which cliques, and where their cells lie.
        counts: noisy counts, float64 (cells,); may be negative.
        scale: standard deviation of each cell's noise, in rows.
        rows: released number of rows behind the counts, at least 1.
    """

    layout: Layout
    counts: np.ndarray
    scale: float
    rows: int


def all_pairs(columns: int) -> list[Clique]:
    """Return every ascending pair of column numbers."""
    return list(itertools.combinations(range(columns), 2))


def parts_of(units: np.ndarray) -> np.ndarray:
    """Return the part of `WHOLE` that each row counts, int64 (rows,): those of a unit are equal, and at most that together.

    Args:
        units: number of the unit of each row, int (rows,), from 0.
    """
    return (WHOLE // np.maximum(np.bincount(units), 1))[units] if len(units) else np.zeros(0, np.int64)


def count(codes: np.ndarray, layout: Layout, parts: np.ndarray | None = None) -> np.ndarray:
    """Count rows in each cell, or parts of `WHOLE`, int64 (cells,): exact, so private until noised.

    Args:
        parts: what each row counts, from `parts_of`; by default each is a row.
    """
    total = np.zeros(layout.cells, dtype=np.int64)
    for start in range(0, len(codes), ROWS):
        some = slice(start, start + ROWS)
        columns, each = np.asarray(codes[some], dtype=np.int64).T, None if parts is None else parts[some]
        for clique, place in layout.places():
            found = np.bincount(layout.within(clique, columns), each, minlength=place.stop - place.start)
            total[place] += found.astype(np.int64)  # of parts it is a float, in which such whole numbers are exact
    return total


def measure(
    codes: np.ndarray,
    shares: Sequence[np.ndarray],
    plan: MarginalsPlan,
    *,
    rows: int,
    odometer: Odometer,
    parts: np.ndarray | None = None,
    orders: Sequence[Sequence[int]] = (),
) -> Marginals:
    """Measure pairs and triples of columns with the noise that `plan` fixed.

    Args:
        codes: int (rows, columns), rows per unit bounded already; may be memory-mapped.
        shares: released 1-way probabilities of each column's codes.
        plan: what was reserved for this step, from `plan.plan_marginals`.
        rows: released number of rows.
        odometer: of the entry that was charged `plan.event`.
        parts: what each row counts, from `parts_of`; a unit has one row then, in all.
        orders: for each column its codes that have an order, in that order; none: no column has codes in an order.

    Raises:
        NotCharged: if a marginal or a score was to be released that was not charged.
    """
    how: dict[str, Any] = {"rows": rows, "odometer": odometer, "parts": parts}
    cards = tuple(len(share) for share in shares)
    pairs = nearest_pairs(paired(cards), plan.scored or plan.pairs, plan.given)
    if plan.chosen < plan.pairs:
        layout, ordered = Layout(cards, tuple(pairs)), orders or [()] * len(cards)
        pairs = choose(codes, layout, apart(shares, rows), plan, odometer=odometer, parts=parts, orders=ordered)
    measured = measure_cliques(codes, Layout(cards, tuple(pairs)), plan, **how)
    if plan.triples == 0:
        return measured
    triples = choose_triples(codes, measured, shares, plan, odometer=odometer, parts=parts)
    more = measure_cliques(codes, Layout(cards, tuple(triples)), plan, **how)
    both = Layout(cards, (*measured.layout.cliques, *more.layout.cliques))
    return Marginals(both, np.concatenate([measured.counts, more.counts]), plan.scale, rows)


def measure_cliques(
    codes: np.ndarray,
    layout: Layout,
    plan: MarginalsPlan,
    *,
    rows: int,
    odometer: Odometer,
    parts: np.ndarray | None = None,
) -> Marginals:
    """Measure these cliques, such as those that an earlier release measured, with the noise that `plan` fixed.

    Args:
        codes: int (rows, columns), rows per unit bounded already; may be memory-mapped.
        plan: what was reserved for this step, from `plan.plan_again` or as for `measure`.
        rows: released number of rows.
        odometer: of the entry that was charged `plan.event`.
        parts: as for `measure`.

    Raises:
        NotCharged: if they were to be released without that charge.
    """
    one = 1 if parts is None else WHOLE
    (noisy,), _ = mechanisms.noisy_histograms(
        [count(codes, layout, parts)],
        scale=plan.scale * one,
        sensitivity=plan.max_rows * math.sqrt(len(layout.cliques)) * one,  # a row stands in one cell of each clique
        odometer=odometer,
    )
    return Marginals(layout, noisy / one, plan.scale, rows)


def apart(shares: Sequence[np.ndarray], rows: int) -> Expected:
    """Return what is expected of pairs of columns that have nothing to do with each other, of so many rows."""
    return lambda pair: rows * np.outer(shares[pair[0]], shares[pair[1]])


def scores(codes: np.ndarray, layout: Layout, expected: Expected, parts: np.ndarray | None = None) -> np.ndarray:
    """Return each clique's score in whole `SCORE_UNIT`s, int64 (cliques,): exact, so private until noised.

    A score is the L1 distance, in rows, between a clique's counts and what is `expected` of them from released values
    alone, so one unit of k rows moves each by at most `score_sensitivity(k)`.
    """
    exact = count(codes, layout, parts) / (1 if parts is None else WHOLE)
    distance = [np.abs(cells - expected(clique)).sum() for clique, cells in layout.blocks(exact)]
    return np.round(np.array(distance) / SCORE_UNIT).astype(np.int64)


def _gains(exact: np.ndarray, cells: np.ndarray, plan: MarginalsPlan, scale: float, odometer: Odometer) -> np.ndarray:
    """Return the noisy scores in rows, less what noise of `plan.scale` would add to them.

    Args:
        cells: how many cells' noise a fit takes over of each clique, (cliques,).
    """
    (noisy,), _ = mechanisms.noisy_histograms(
        [exact],
        scale=scale / SCORE_UNIT,
        sensitivity=score_sensitivity(plan.max_rows) * math.sqrt(len(exact)),
        odometer=odometer,
    )
    return noisy * SCORE_UNIT - math.sqrt(2 / math.pi) * plan.scale * cells


def choose(
    codes: np.ndarray,
    layout: Layout,
    expected: Expected,
    plan: MarginalsPlan,
    *,
    odometer: Odometer,
    orders: Sequence[Sequence[int]],
    parts: np.ndarray | None = None,
) -> list[Clique]:
    """Return the `plan.chosen` pairs that gain most from being measured, by noisy scores against what is `expected`.

    Every column is in a pair, if as many are chosen: first a spanning tree of the highest scores, then the rest in order.
    Codes in an order take over less of the noise than others, since a fit weighs what they say together.
    """
    told = [waves.told(size, order) for size, order in zip(layout.cardinalities, orders, strict=True)]
    cells = np.array([told[a] * told[b] for a, b in layout.cliques])
    gain = _gains(scores(codes, layout, expected, parts), cells, plan, plan.score_scale, odometer)
    order = [layout.cliques[p] for p in np.argsort(-gain)]
    tree = _spanning(order, len(layout.cardinalities))[: plan.chosen]
    joining = set(tree)
    rest = [pair for pair in order if pair not in joining]
    return sorted(tree + rest[: plan.chosen - len(tree)])


def choose_triples(
    codes: np.ndarray,
    pairs: Marginals,
    shares: Sequence[np.ndarray],
    plan: MarginalsPlan,
    *,
    odometer: Odometer,
    parts: np.ndarray | None = None,
) -> list[Clique]:
    """Return the `plan.triples` triples that gain most from being measured, by noisy scores against the noisy pairs.

    What the pairs let one expect is Kirkwood's superposition, `p(ab) p(bc) p(ac) / (p(a) p(b) p(c))`, brought to the
    number of rows: exact where the three columns have no interaction of the third order beyond their pairs.
    """
    cards = pairs.layout.cardinalities
    layout = Layout(cards, tuple(candidates(cards)))
    known = {clique: np.maximum(cells, 0.0) for clique, cells in pairs.layout.blocks(pairs.counts)}

    def superposed(triple: Clique) -> np.ndarray:
        a, b, c = triple
        ab, bc, ac = known[a, b], known[b, c], known[a, c]
        joint = ab[:, :, None] * bc[None, :, :] * ac[:, None, :]
        for axis, column in enumerate(triple):
            inverse = 1 / np.maximum(shares[column], 1 / pairs.rows)
            joint = joint * inverse.reshape([-1 if a == axis else 1 for a in range(3)])
        return joint * (pairs.rows / max(joint.sum(), 1e-300))

    exact, cells = scores(codes, layout, superposed, parts), np.diff(layout.offsets)
    gain = _gains(exact, cells, plan, plan.triple_score_scale, odometer)
    return sorted(layout.cliques[p] for p in np.argsort(-gain)[: plan.triples])


def _spanning(order: Sequence[Clique], columns: int) -> list[Clique]:
    """Return the first pairs of `order` that join columns not joined before (Kruskal's algorithm)."""
    group, tree = list(range(columns)), []
    for i, j in order:
        if group[i] != group[j]:
            old, new = group[j], group[i]
            group = [new if g == old else g for g in group]
            tree.append((i, j))
    return tree
