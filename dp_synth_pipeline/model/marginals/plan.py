"""What marginals and training will do and spend, fixed before they start by public facts and the noisy count alone."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method
from dp_synth_pipeline.model.marginals.pairs import ORDINARY, paired
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian

SCORE_SHARE = 0.1
"""Part of the marginals' cost that scores take, when not all pairs are measured, or when triples are."""

SCORE_UNIT = 0.01
"""Scores are whole hundredths of a row: rounding moves them by one of these."""

LEAST_SCALE = 2.0
"""Rows of noise per cell, at least: from here on the discrete Gaussian costs what the continuous one does (the difference is
under exp(-2 pi^2 scale^2), Canonne, Kamath & Steinke 2020); under it, it costs more."""

NOISE_LIMIT = 0.3
"""Mean distance that noise alone may put between a measured pair and the truth before fewer pairs are measured."""

MOST_MEASURED = 20_000
"""Pairs that are measured at most, all of those of 200 columns: what a fit can follow in minutes."""


def score_sensitivity(max_rows: int) -> int:
    """Return by how many whole score units a unit of `max_rows` rows moves one pair's score, rounding included.

    The L1 distance of counts from fixed expectations moves by a row for each row. Both ends are then rounded.
    """
    return round(max_rows / SCORE_UNIT) + 1


@dataclass(frozen=True)
class TrainingPlan:
    """What training will do.

    Attributes:
        sample_rate: probability with which each unit joins each step.
        steps: number of noisy steps.
        expected_batch: the divisor of every noisy sum; never the size of a batch that was drawn.
        noise_multiplier: noise per unit of sensitivity; 0 before calibration.
    """

    sample_rate: float
    steps: int
    expected_batch: float
    noise_multiplier: float = 0.0

    @property
    def event(self) -> SubsampledGaussian:
        """What the whole plan costs."""
        return SubsampledGaussian(self.noise_multiplier, self.sample_rate, self.steps)


@dataclass(frozen=True)
class LooksPlan:
    """What looking at the loss will do.

    Attributes:
        count: most looks taken.
        sample_rate: probability with which each unit is in a look.
        noise_multiplier: noise per unit of the bound on one unit's loss.
    """

    count: int
    sample_rate: float
    noise_multiplier: float

    @property
    def event(self) -> SubsampledGaussian:
        """What all looks cost."""
        return SubsampledGaussian(self.noise_multiplier, self.sample_rate, self.count)


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

    @property
    def event(self) -> Gaussian:
        """What the whole step costs."""
        return Gaussian(self.noise_multiplier)


def plan_training(population: int, spec: GeneratorSpec) -> TrainingPlan:
    """Return sampling rate, steps and divisor for `population` units; noise is calibrated afterwards.

    Example:
        >>> plan_training(43958, GeneratorSpec(max_epochs=40))
        TrainingPlan(sample_rate=0.0465899267482597, steps=859, expected_batch=2048.0, noise_multiplier=0.0)
    """
    wanted = min(max(population * spec.batch_share, 1), spec.max_batch)
    batch = min(2 ** round(math.log2(wanted)), population)
    rate = batch / population
    return TrainingPlan(rate, max(1, math.ceil(spec.max_epochs / rate)), float(batch))


RATES = {"adam": 0.012, "sgd": 0.75}
"""Learning rates, times the clipping norm for SGD, that did best in `USUAL_STEPS` under `USUAL_NOISE`."""

USUAL_STEPS, USUAL_NOISE = 640, 0.00136
"""Steps, and noise of a step's mean gradient in clipping norms: the Adult census at epsilon 2.5."""

QUIETEST, STRETCH = 1.5, 2.0
"""Bounds on what little noise, and few or many steps, change the rate by."""


def learning_rate(plan: TrainingPlan, spec: GeneratorSpec) -> float:
    """Return the learning rate: what `spec` says, else one that walks as far in few steps as in many, and less in noise.

    Rate times steps is kept, and the rate falls with the cube root of the noise in a step's mean gradient: found on Adult
    at epsilon 0.5, 2.5 and 16, and on tables of prices and of flights. Public facts alone.

    Example:
        >>> adult = TrainingPlan(sample_rate=0.0466, steps=644, expected_batch=2048.0, noise_multiplier=2.78)
        >>> round(learning_rate(adult, GeneratorSpec()), 3), learning_rate(adult, GeneratorSpec(learning_rate=0.05))
        (0.012, 0.05)
    """
    if spec.learning_rate is not None:
        return spec.learning_rate
    noise = plan.noise_multiplier / plan.expected_batch
    if spec.microbatch > 1:  # twice the sensitivity, and so many times fewer groups
        noise *= 2 * spec.microbatch
    quieter = min((USUAL_NOISE / noise) ** (1 / 3), QUIETEST) if noise > 0 else QUIETEST
    longer = min(max(USUAL_STEPS / plan.steps, 1 / STRETCH), STRETCH)
    return RATES[spec.optimizer] * quieter * longer


LOOK_UNITS = 1 << 17
"""Units expected in a look, at most."""


def plan_looks(population: int, noise_multiplier: float, spec: GeneratorSpec) -> LooksPlan | None:
    """Return the looks that `spec` asks for, at a cost of `look_share` of what `noise_multiplier` would spend at most."""
    if spec.looks == 0:
        return None
    noise = noise_multiplier * math.sqrt(spec.looks / spec.look_share)
    return LooksPlan(spec.looks, min(1.0, LOOK_UNITS / population), noise)


def marginals_share(population: int, noise_multiplier: float, spec: GeneratorSpec) -> float:
    """Return the part of the cost left after the profile that marginals take, in squared signal to noise.

    With much signal (units per unit of noise) a network learns more from the rest than marginals could tell it; with
    little, marginals are all that can be learnt.

    Args:
        noise_multiplier: of one Gaussian mechanism that would spend all that is left.
    """
    if spec.method == Method.MARGINALS:
        return 1.0
    if spec.marginals_share is not None:
        return spec.marginals_share
    return min(max(0.25 * (SIGNAL * noise_multiplier / population) ** 0.5, 0.1), 0.8)


SIGNAL = 26_000
"""Units per unit of noise at which marginals take a quarter: the Adult census at epsilon 2.5."""


TRIPLE_CELLS = 8000
"""Most cells of a triple that may be measured: what a fit can follow in seconds."""


CANDIDATES = 600
"""Most triples that are scored: each is counted over all rows."""

TRIPLES = 10
"""Triples measured where there is signal enough; found on the Adult census, where 3 and 30 did about as well."""


def candidates(cardinalities: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the triples of columns that may be measured: of at most `TRIPLE_CELLS` cells, and those with the fewest."""

    def cells(triple: tuple[int, ...]) -> int:
        return math.prod(cardinalities[c] for c in triple)

    fitting = (t for t in itertools.combinations(paired(cardinalities), 3) if cells(t) <= TRIPLE_CELLS)
    return sorted(heapq.nsmallest(CANDIDATES, fitting, key=cells))


def wanted_triples(population: int, noise_multiplier: float, spec: GeneratorSpec) -> int:
    """Return how many triples to ask for: what `spec` says, else `TRIPLES` unless noise would drown them.

    Args:
        noise_multiplier: of one Gaussian mechanism that would spend all that is left.
    """
    if spec.triples is not None:
        return spec.triples
    return TRIPLES if population >= SIGNAL * noise_multiplier / 2 else 0


LEAST_HIDDEN, MOST_HIDDEN = 16, 64

MOST_WEIGHTS = 6_000_000
"""Weights between columns, of which each pair has hidden units times embedding: what teaching and training can follow in
minutes. They are reached by 150 columns with the most hidden units, and by 300 with the least."""


def capacity(population: int, noise_multiplier: float, columns: int, embedding: int = GeneratorSpec.embedding) -> int:
    """Return how many hidden units a column gets: few where noise would drown more, from public facts alone.

    Args:
        population: released or declared number of units.
        noise_multiplier: of one Gaussian mechanism that costs as much as the whole release; 0 without privacy.
        columns: how many are learned; many leave less than `LEAST_HIDDEN` to each, so that wide tables take no hours.
        embedding: numbers that describe one earlier value.

    Example:
        >>> capacity(43958, 1.69, 15), capacity(43958, 0.37, 15), capacity(1_000_000, 1.69, 15), capacity(2_000, 0.0, 15)
        (16, 32, 64, 64)
        >>> capacity(200, 4.0, 300), capacity(200, 4.0, 1000)
        (16, 1)
    """
    wanted = MOST_HIDDEN
    if noise_multiplier > 0:
        ideal = LEAST_HIDDEN * math.sqrt(population / noise_multiplier / SIGNAL)
        wanted = int(min(max(8 * round(ideal / 8), LEAST_HIDDEN), MOST_HIDDEN))
    pairs = max(columns * (columns - 1) // 2, 1)
    return max(1, min(wanted, MOST_WEIGHTS // (pairs * embedding)))


def worth_scoring(columns: int, rows: int, noise_multiplier: float, max_rows: int = 1) -> int:
    """Return how many pairs are scored: all up to `ORDINARY` columns; of more, as many as their noise lets one tell apart.

    The more are scored, the more noise each score has. No score is higher than twice the rows, so that with noise of as
    many rows as there are it would be chance that chooses.
    """
    deviation = noise_multiplier * SCORE_UNIT * score_sensitivity(max_rows)  # of a score that takes all
    told = SCORE_SHARE * (rows / deviation) ** 2
    return int(min(max(told, math.comb(ORDINARY, 2), columns - 1), math.comb(columns, 2)))


def plan_marginals(
    cardinalities: tuple[int, ...], rows: int, noise_multiplier: float, max_rows: int = 1, triples: int = 0
) -> MarginalsPlan:
    """Return how many pairs and triples to measure and with which noise, at a fixed total cost.

    Triples are measured only where all pairs are: where noise drowns pairs, it drowns triples first.

    Args:
        cardinalities: codes per column, released by the profile.
        rows: released number of rows.
        noise_multiplier: of one Gaussian mechanism that costs as much as this whole step.
        max_rows: rows per unit.
        triples: how many triples are wanted, at most.
    """
    kept = [cardinalities[i] for i in paired(cardinalities)]
    columns, pairs = len(kept), math.comb(len(kept), 2)
    if pairs == 0:
        return MarginalsPlan(noise_multiplier, 0.0, 0, 0, max_rows=max_rows)
    total, one = sum(kept), noise_multiplier * max_rows
    cells = (total**2 - sum(c * c for c in kept)) / 2 / pairs
    drowned = math.sqrt(2 / math.pi) * one * math.sqrt(pairs) * cells / (2 * rows)
    fewer = max(min(columns, ORDINARY) - 1, math.floor(pairs * min(1.0, NOISE_LIMIT / drowned) ** 2))
    if pairs <= min(fewer, MOST_MEASURED):
        asked = len(candidates(cardinalities)) if triples else 0
        wanted = min(triples, asked)
        left = 1 - SCORE_SHARE if wanted else 1.0
        scale = max(one * math.sqrt((pairs + wanted) / left), LEAST_SCALE)
        score = noise_multiplier * SCORE_UNIT * score_sensitivity(max_rows) * math.sqrt(asked / SCORE_SHARE)
        return MarginalsPlan(
            noise_multiplier,
            scale,
            pairs,
            pairs,
            max_rows=max_rows,
            triples=wanted,
            triple_score_scale=score if wanted else 0.0,
        )
    scored = worth_scoring(columns, rows, noise_multiplier, max_rows)
    fewer = min(fewer, scored, MOST_MEASURED)
    scale = max(one * math.sqrt(fewer / (1 - SCORE_SHARE)), LEAST_SCALE)
    score = noise_multiplier * SCORE_UNIT * score_sensitivity(max_rows) * math.sqrt(scored / SCORE_SHARE)
    return MarginalsPlan(noise_multiplier, scale, fewer, pairs, score, max_rows, scored=scored)
