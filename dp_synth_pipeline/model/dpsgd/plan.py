"""What a training will do and spend, fixed before it starts by public facts and the noisy count alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.privacy.events import SelectedTraining, SubsampledGaussian

RATES = {"adam": 0.012, "sgd": 0.75}
"""Learning rates, times the clipping norm for SGD, that did best in `USUAL_STEPS` under `USUAL_NOISE`."""

USUAL_STEPS, USUAL_NOISE = 640, 0.00136
"""Steps, and noise of a step's mean gradient in clipping norms: the Adult census at epsilon 2.5."""

QUIETEST, STRETCH = 1.5, 2.0
"""Bounds on what little noise, and few or many steps, change the rate by."""

QUERY_UNITS = 1 << 17
"""Units expected in a query, at most."""

TOLD = 1e-6
"""Probability with which more trainings of a study count than run in any case, so that its time tells how many."""


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
class LossQueriesPlan:
    """What asking for the loss will do.

    Attributes:
        count: most queries made.
        sample_rate: probability with which each unit is in a query.
        noise_multiplier: noise per unit of the bound on one unit's loss.
        at_end: the loss is that of the weights which training ends with, so that no answer ends it early.
    """

    count: int
    sample_rate: float
    noise_multiplier: float
    at_end: bool = False

    @property
    def event(self) -> SubsampledGaussian:
        """What all queries cost."""
        return SubsampledGaussian(self.noise_multiplier, self.sample_rate, self.count)


@dataclass(frozen=True)
class StudyPlan:
    """What the best of several trainings will do: each runs as `training` says, and `score` judges it.

    How many of them count is drawn from a Poisson distribution and stays secret. So that neither time nor progress tells it,
    `trainings` of them run whatever was drawn, and those beyond it are thrown away.

    Attributes:
        trials: how many count, on average.
    """

    training: TrainingPlan
    score: LossQueriesPlan
    trials: float

    @property
    def event(self) -> SelectedTraining:
        """What the whole study costs."""
        own, score = self.training, self.score
        return SelectedTraining(
            own.noise_multiplier, own.sample_rate, own.steps, score.noise_multiplier, score.sample_rate, self.trials
        )

    @property
    def trainings(self) -> int:
        """How many run: with a probability of at least 1 - `TOLD` that is as many as count, or more."""
        from scipy.stats import poisson

        return int(poisson.isf(TOLD, self.trials))

    def with_noise(self, noise_multiplier: float) -> StudyPlan:
        """Return the study whose trainings have this noise."""
        return replace(self, training=replace(self.training, noise_multiplier=noise_multiplier))


class Look(NamedTuple):
    """A noisy answer of the loss: charged before it was asked, so it may be shown.

    Attributes:
        step: how many steps had run.
        loss: mean clipped loss of a unit, in nats a row.
        deviation: of the noise in it.
    """

    step: int
    loss: float
    deviation: float


def plan_training(population: int, spec: TrainingSpec) -> TrainingPlan:
    """Return sampling rate, steps and divisor for `population` units; noise is calibrated afterwards.

    Example:
        >>> plan_training(43958, TrainingSpec(max_epochs=40))
        TrainingPlan(sample_rate=0.0465899267482597, steps=859, expected_batch=2048.0, noise_multiplier=0.0)
    """
    wanted = min(max(population * spec.batch_share, 1), spec.max_batch)
    batch = min(2 ** round(math.log2(wanted)), population)
    rate = batch / population
    return TrainingPlan(rate, max(1, math.ceil(spec.max_epochs / rate)), float(batch))


def learning_rate(plan: TrainingPlan, spec: TrainingSpec) -> float:
    """Return the learning rate: what `spec` says, else one that walks as far in few steps as in many, and less in noise.

    Rate times steps is kept, and the rate falls with the cube root of the noise in a step's mean gradient: found on Adult
    at epsilon 0.5, 2.5 and 16, and on tables of prices and of flights. Public facts alone.

    Example:
        >>> adult = TrainingPlan(sample_rate=0.0466, steps=644, expected_batch=2048.0, noise_multiplier=2.78)
        >>> round(learning_rate(adult, TrainingSpec()), 3), learning_rate(adult, TrainingSpec(learning_rate=0.05))
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


def plan_loss_queries(population: int, noise_multiplier: float, spec: TrainingSpec) -> LossQueriesPlan | None:
    """Return the loss queries that `spec.looks` asks for, at a cost of `look_share` of what `noise_multiplier` spends."""
    if spec.looks == 0:
        return None
    noise = noise_multiplier * math.sqrt(spec.looks / spec.look_share)
    return LossQueriesPlan(spec.looks, min(1.0, QUERY_UNITS / population), noise)


def plan_study(population: int, noise_multiplier: float, spec: TrainingSpec, trials: float) -> StudyPlan:
    """Return a study of `trials` expected trainings for `population` units; the trainings' noise is calibrated afterwards.

    Args:
        noise_multiplier: of one Gaussian mechanism that would spend all that is left. A loss costs `look_share` of it.
    """
    noise = noise_multiplier / math.sqrt(spec.look_share)
    score = LossQueriesPlan(1, min(1.0, QUERY_UNITS / population), noise, at_end=True)
    return StudyPlan(plan_training(population, spec), score, trials)
