"""How one release spends its epsilon: row count, then profile, then training, each fixed before it reads a row.

1. The row count takes a small pure epsilon of its own; everything later may depend on it (basic composition).
2. The profile takes `profile_share` of the rest, in units of squared signal to noise, in which Gaussian costs add up.
3. Training takes what is left: its noise is the least at which count, profile and training together cost at most the
   epsilon asked by PLD and, on a Rule F account, at most the Renyi divergence reserved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.spec import GeneratorSpec, TrainingPlan, plan_training
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.privacy import calibration
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget, auto_delta
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, SubsampledGaussian, Threshold
from dp_synth_pipeline.tabular.measure import ProfilePlan, weight
from dp_synth_pipeline.tabular.schema import TableSchema

COUNT_SHARE = 0.02
"""Part of epsilon that the row count takes; at epsilon 1 its noise has a standard deviation of 71 units."""


THRESHOLD_SHARE = 1 / 2000
"""Part of delta for thresholds: small, so that an account's 5 % for them lasts 100 releases; a threshold grows only like
the root of its logarithm."""


@dataclass(frozen=True)
class Asked:
    """What a release asks of its account, known before anything is read.

    Attributes:
        epsilon: the most it may cost.
        delta: the largest delta it may end with.
        own_delta: the part of delta that thresholds take; small, since a threshold grows only like its logarithm.
    """

    epsilon: float
    delta: float
    own_delta: float


def ask(settings: TableSettings, account_delta: float) -> Asked:
    """Return what one refresh of this table asks of an account with `account_delta`."""
    delta = account_delta if settings.delta == "auto" else float(settings.delta)
    if settings.delta == "auto" and settings.population is not None:
        delta = auto_delta(settings.population, account_delta)
    return Asked(settings.epsilon, delta, delta * THRESHOLD_SHARE)


def plan_profile(settings: TableSettings, asked: Asked, schema: TableSchema, relation: str = ADD_REMOVE) -> ProfilePlan:
    """Fix the noise of the row count and the profile from public facts.

    Replacing a unit is removing one and adding another: it doubles a pure epsilon and a threshold's delta, and moves a
    histogram by the square root of two.
    """
    moves = 1 if relation == ADD_REMOVE else 2
    count = None if settings.population is not None else COUNT_SHARE * asked.epsilon / moves
    rest = asked.epsilon - moves * (count or 0.0)
    whole = calibration.gaussian_noise(rest, asked.delta - asked.own_delta)
    unit = settings.privacy_unit
    scale = whole / math.sqrt(settings.profile_share) * unit.max_rows * math.sqrt(moves * weight(schema, unit))
    return ProfilePlan(count, scale, asked.own_delta / moves, unit, settings.population)


def declared_profile(settings: TableSettings, declared: Sequence[Event]) -> ProfilePlan:
    """Return the profile that a declared plan allows: its count, its finest histogram noise, its threshold."""
    scales = [e.scale for e in declared if isinstance(e, DiscreteGaussian)]
    counts = [1 / e.scale for e in declared if isinstance(e, DiscreteLaplace)]
    thresholds = [e.delta for e in declared if isinstance(e, Threshold)]
    if not scales or not thresholds or not (counts or settings.population):
        raise InvalidInput(
            "the declared plan has no profile: it needs discrete_gaussian and threshold events, and a discrete_laplace "
            "event for the row count unless the population is declared."
        )
    count = None if settings.population is not None else counts[0]
    return ProfilePlan(count, min(scales), thresholds[0], settings.privacy_unit, settings.population)


def declared_training(population: int, declared: Sequence[Event]) -> TrainingPlan:
    """Return the training that a declared plan allows, its noise included."""
    for event in declared:
        if isinstance(event, SubsampledGaussian):
            batch = max(1.0, event.sample_rate * population)
            return TrainingPlan(event.sample_rate, event.steps, batch, event.noise_multiplier)
    raise InvalidInput("the declared plan has no training: it needs a subsampled_gaussian event.")


def final_delta(settings: TableSettings, asked: Asked, population: int) -> float:
    """Return the delta the release ends with: the one given, or 1 / N^1.2 from the noisy or declared count."""
    if settings.delta != "auto":
        return asked.delta
    return auto_delta(population, asked.delta, floor=2 * asked.own_delta)


def calibrate(
    plan: TrainingPlan,
    spent: Sequence[Event],
    budget: Budget,
    *,
    order: float | None,
    rdp_limit: float | None,
    relation: str = ADD_REMOVE,
) -> TrainingPlan:
    """Return the plan with the least noise at which the whole release fits."""
    noise = calibration.least_noise(
        lambda sigma: [*spent, replace(plan, noise_multiplier=sigma).event],
        budget,
        order=order,
        rdp_limit=rdp_limit,
        relation=relation,
    )
    return replace(plan, noise_multiplier=noise)


def training_plan(population: int, spec: GeneratorSpec) -> TrainingPlan:
    """Return steps and sampling rate for a population that is public or privately counted."""
    return plan_training(population, spec)
