"""What measuring marginals will do and spend, fixed before it starts by public facts and the noisy count alone."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_synth_pipeline.model.marginals.pairs import ORDINARY, number_of_pairs, paired
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import ROUNDING

SCORE_SHARE = 0.1
"""Part of the marginals' cost that scores take, when not all pairs are measured, or when triples are."""

SCORE_UNIT = 0.01
"""Scores are whole hundredths of a row: rounding moves them by one of these."""

NOISE_LIMIT = 0.3
"""Mean distance that noise alone may put between a measured pair and the truth before fewer pairs are measured."""

MOST_MEASURED = 20_000
"""Pairs that are measured at most, all of those of 200 columns: what a fit can follow in minutes."""

TRIPLE_CELLS = 8000
"""Most cells of a triple that may be measured: what a fit can follow in seconds."""

CANDIDATES = 600
"""Most triples that are scored: each is counted over all rows."""


def score_sensitivity(max_rows: int) -> int:
    """Return by how many whole score units a unit of `max_rows` rows moves one pair's score, rounding included.

    The L1 distance of counts from fixed expectations moves by a row for each row. Both ends are then rounded.
    """
    return round(max_rows / SCORE_UNIT) + 1


@dataclass(frozen=True)
class MarginalsPlan:
    """What measuring noisy marginals will do.

    The squared ratios of sensitivity to noise of all that is measured add up to at most `1 / noise_multiplier ** 2`.

    Attributes:
        noise_multiplier: of one Gaussian mechanism that costs as much as the whole step.
        scale: standard deviation of the noise of each cell, in rows.
        chosen: how many pairs of columns are measured.
        pairs: how many there are, of the columns that `paired` names.
        score_scale: standard deviation of the noise of each pair's score, in rows; 0 when all pairs are measured.
        scored: how many pairs are scored, those of `nearest_pairs`; 0 when all are measured.
        max_rows: rows per unit.
        triples: how many triples of columns are measured, with the same noise per cell as pairs.
        triple_score_scale: standard deviation of the noise of each candidate triple's score, in rows.
        given: how many of the first columns are given with each row, so that pairs of two of them are not measured.
    """

    noise_multiplier: float
    scale: float
    chosen: int
    pairs: int
    score_scale: float = 0.0
    max_rows: int = 1
    triples: int = 0
    triple_score_scale: float = 0.0
    scored: int = 0
    given: int = 0

    @property
    def event(self) -> Gaussian:
        """What the whole step costs."""
        return Gaussian(self.noise_multiplier)


def candidates(cardinalities: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the triples of columns that may be measured: of at most `TRIPLE_CELLS` cells, and those with the fewest."""

    def cells(triple: tuple[int, ...]) -> int:
        return math.prod(cardinalities[c] for c in triple)

    fitting = (t for t in itertools.combinations(paired(cardinalities), 3) if cells(t) <= TRIPLE_CELLS)
    return sorted(heapq.nsmallest(CANDIDATES, fitting, key=cells))


def worth_scoring(columns: int, rows: int, noise_multiplier: float, max_rows: int = 1) -> int:
    """Return how many pairs are scored: all up to `ORDINARY` columns; of more, as many as their noise lets one tell apart.

    The more are scored, the more noise each score has. No score is higher than twice the rows, so that with noise of as
    many rows as there are it would be chance that chooses.
    """
    deviation = _score_noise(noise_multiplier, max_rows)  # of a score that takes all
    told = SCORE_SHARE * (rows / deviation) ** 2
    return int(min(max(told, math.comb(ORDINARY, 2), columns - 1), math.comb(columns, 2)))


def plan_marginals(
    cardinalities: tuple[int, ...],
    rows: int,
    noise_multiplier: float,
    max_rows: int = 1,
    triples: int = 0,
    given: int = 0,
) -> MarginalsPlan:
    """Return how many pairs and triples to measure and with which noise, at a fixed total cost.

    Triples are measured only where all pairs are: where noise drowns pairs, it drowns triples first.

    Args:
        cardinalities: codes per column, released by the profile.
        rows: released number of rows.
        noise_multiplier: of one Gaussian mechanism that costs as much as this whole step.
        max_rows: rows per unit.
        triples: how many triples are wanted, at most; none where columns are given.
        given: how many of the first columns are given with each row; pairs of two of them are not measured.
    """
    kept = paired(cardinalities)
    columns, pairs = len(kept), number_of_pairs(kept, given)
    if pairs == 0:
        return MarginalsPlan(noise_multiplier, 0.0, 0, 0, max_rows=max_rows, given=given)
    one = noise_multiplier * max_rows * (1 + ROUNDING)
    fewer = _above_noise(cardinalities, given, rows, one)
    if pairs <= min(fewer, MOST_MEASURED):
        asked = len(candidates(cardinalities)) if triples and not given else 0
        wanted = min(triples, asked)
        left = 1 - SCORE_SHARE if wanted else 1.0
        scale = one * math.sqrt((pairs + wanted) / left)
        score = _score_noise(noise_multiplier, max_rows) * math.sqrt(asked / SCORE_SHARE) if wanted else 0.0
        return MarginalsPlan(noise_multiplier, scale, pairs, pairs, 0.0, max_rows, wanted, score, given=given)
    scored = min(worth_scoring(columns, rows, noise_multiplier, max_rows), pairs)
    fewer = min(fewer, scored, MOST_MEASURED)
    scale = one * math.sqrt(fewer / (1 - SCORE_SHARE))
    score = _score_noise(noise_multiplier, max_rows) * math.sqrt(scored / SCORE_SHARE)
    return MarginalsPlan(noise_multiplier, scale, fewer, pairs, score, max_rows, scored=scored, given=given)


def plan_again(
    cliques: Sequence[tuple[int, ...]],
    cardinalities: tuple[int, ...],
    noise_multiplier: float,
    max_rows: int = 1,
    given: int = 0,
) -> MarginalsPlan:
    """Return the plan of measuring the same cliques as an earlier release, all of them, at a fixed total cost.

    None of it is spent on scores: which cliques those are was released before.

    Args:
        cliques: two or three columns each.
        cardinalities: codes per column, released by the profile.
        noise_multiplier: of one Gaussian mechanism that costs as much as this whole step.
        max_rows: rows per unit.
        given: how many of the first columns are given with each row.
    """
    pairs = number_of_pairs(paired(cardinalities), given)
    scale = noise_multiplier * max_rows * (1 + ROUNDING) * math.sqrt(len(cliques))
    triples = sum(len(clique) > 2 for clique in cliques)
    chosen = len(cliques) - triples
    return MarginalsPlan(noise_multiplier, scale, chosen, pairs, max_rows=max_rows, triples=triples, given=given)


def _score_noise(noise_multiplier: float, max_rows: int) -> float:
    """Return the rows of noise of a score, were it all that is measured."""
    return noise_multiplier * SCORE_UNIT * score_sensitivity(max_rows) * (1 + ROUNDING)


def _above_noise(cardinalities: tuple[int, ...], given: int, rows: int, noise: float) -> int:
    """Return how many pairs of columns noise does not drown; at least as many as join all columns of an ordinary table.

    Args:
        noise: rows of noise in each cell, were a single pair measured.
    """
    kept = paired(cardinalities)
    columns, pairs = len(kept), number_of_pairs(kept, given)
    cells = (_cells([cardinalities[c] for c in kept]) - _cells([cardinalities[c] for c in kept if c < given])) / pairs
    drowned = math.sqrt(2 / math.pi) * noise * math.sqrt(pairs) * cells / (2 * rows)
    return max(min(columns, ORDINARY) - 1, math.floor(pairs * min(1.0, NOISE_LIMIT / drowned) ** 2))


def _cells(cardinalities: list[int]) -> float:
    """Return how many cells all pairs of these columns have together."""
    return (sum(cardinalities) ** 2 - sum(c * c for c in cardinalities)) / 2
