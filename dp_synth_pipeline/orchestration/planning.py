"""How one release spends its epsilon: row count, profile, marginals, training, each fixed before it reads a row.

1. The row count takes a small pure epsilon of its own; everything later may depend on it (basic composition).
2. The profile takes `profile_share` of the rest, in units of squared signal to noise, in which Gaussian costs add up;
   by default a part between 5 and 25 %, by a rule that knows the noisy count only.
3. Noisy marginals take a part of what is left then, by a rule that knows the noisy count only.
4. Training takes the rest: its noise is the least at which all four together cost at most the epsilon asked by PLD and,
   on a Rule F account, at most the Renyi divergence reserved.

Charged figures (`validation: report_epsilon`) are a pure epsilon, set aside before the profile is planned; they run last.

A step that is left out (a profile that is reused, marginals that are not wanted) leaves its part to those after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Release
from dp_synth_pipeline.model.plan import (
    LooksPlan,
    MarginalsPlan,
    TrainingPlan,
    marginals_share,
    plan_looks,
    plan_marginals,
    plan_training,
    wanted_triples,
)
from dp_synth_pipeline.model.spec import GeneratorSpec
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.privacy import calibration
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget, auto_delta
from dp_synth_pipeline.privacy.events import (
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.tabular.profiling import profile_plan
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
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

    @classmethod
    def of(cls, release: Release) -> Asked:
        """Return what a release has reserved."""
        return cls(release.epsilon, release.delta, release.own_delta)


def ask(settings: TableSettings, account_delta: float) -> Asked:
    """Return what one refresh of this table asks of an account with `account_delta`."""
    delta = account_delta if settings.delta == "auto" else float(settings.delta)
    if settings.delta == "auto" and settings.population is not None:
        delta = auto_delta(settings.population, account_delta)
    return Asked(settings.charge.epsilon, delta, delta * THRESHOLD_SHARE)


LEAST_PROFILE, MOST_PROFILE = 0.05, 0.25
"""Part of the squared signal to noise that a profile takes: enough for `PROFILE_NOISE`, within these."""

PROFILE_NOISE = 1 / 2400
"""Noise of a full histogram's cell, as a part of the units: values held by one unit in 400 then keep their names."""

HISTOGRAMS_A_LOOK = 10
"""Where that noise cannot be kept: full histograms that a closer look must stand beside, so that all of them together raise
the noise of the rest by 28 % at most; and there are none once it is the root of `MOST_BEYOND` times as high."""

MOST_BEYOND = 2.5
"""With more noise than that, closer looks win no more than the other columns lose (Adult at epsilon 0.1 to 0.5)."""


def plan_profile(
    settings: TableSettings,
    asked: Asked,
    schema: TableSchema,
    relation: str = ADD_REMOVE,
    population: int | None = None,
) -> ProfilePlan:
    """Fix the noise of the row count and the profile from public facts and the noisy or declared count.

    Replacing a unit is removing one and adding another: it doubles a pure epsilon and a threshold's delta, and moves a
    histogram by the square root of two.

    Args:
        population: the noisy count, once it is known; the plan's row count does not depend on it.
    """
    moves = 1 if relation == ADD_REMOVE else 2
    count = None if settings.population is not None else COUNT_SHARE * asked.epsilon / moves
    rest = asked.epsilon - moves * (count or 0.0) - (settings.validation.report_epsilon or 0.0)
    whole = calibration.gaussian_noise(rest, asked.delta - asked.own_delta)
    unit, known = settings.privacy_unit, population or settings.population
    share = settings.profile_share
    least, most = (LEAST_PROFILE, MOST_PROFILE) if share == "auto" else (share, share)

    def noise(closer: int) -> float:
        """Return the noise of a full histogram, were all signal the profile's."""
        return whole * unit.max_rows * math.sqrt(moves * profile_plan.weight(schema, unit, closer))

    def wanted(closer: int) -> float:
        return math.inf if known is None else (noise(closer) / PROFILE_NOISE / known) ** 2

    beside = profile_plan.weight(schema, unit) / HISTOGRAMS_A_LOOK
    looks = range(profile_plan.most_refined(schema), -1, -1)
    closer = next(n for n in looks if n == 0 or wanted(n) <= (most if n > beside else MOST_BEYOND * most))
    scale = noise(closer) / math.sqrt(min(max(wanted(closer), least), most))
    return ProfilePlan(count, scale, asked.own_delta / moves, unit, settings.population, closer)


def declared_profile(settings: TableSettings, declared: Sequence[Event]) -> ProfilePlan:
    """Return the profile that a declared plan allows: its count, its histograms' noise, its threshold."""
    noise = profile_plan.declared_noise(declared)
    counts = [1 / e.scale for e in declared if isinstance(e, DiscreteLaplace)]
    thresholds = [e.delta for e in declared if isinstance(e, Threshold)]
    if noise is None or not thresholds or not (counts or settings.population):
        raise InvalidInput(
            "the declared plan has no profile: it needs discrete_gaussian and threshold events, and a discrete_laplace "
            "event for the row count unless the population is declared."
        )
    count = None if settings.population is not None else counts[0]
    scale, closer = noise
    return ProfilePlan(count, scale, thresholds[0], settings.privacy_unit, settings.population, closer)


def declared_marginals(
    cardinalities: Sequence[int], rows: int, declared: Sequence[Event], max_rows: int
) -> MarginalsPlan | None:
    """Return the marginals that a declared plan allows: its `gaussian` event; None if it has none."""
    for event in declared:
        if isinstance(event, Gaussian):
            return plan_marginals(tuple(cardinalities), rows, event.noise_multiplier, max_rows)
    return None


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


@dataclass(frozen=True)
class Room:
    """What a release may still spend.

    Attributes:
        spent: events that have started.
        budget: the (epsilon, delta) of the whole release.
        order, rdp_limit: on a Rule F account, the Renyi divergence reserved, and its order.
    """

    spent: tuple[Event, ...]
    budget: Budget
    order: float | None = None
    rdp_limit: float | None = None
    relation: str = ADD_REMOVE

    @classmethod
    def of(cls, release: Release, spent: Sequence[Event], delta: float) -> Room:
        """Return the room of a release that ends with `delta`."""
        budget = Budget(release.epsilon, delta)
        return cls(tuple(spent), budget, release.order, release.rdp_limit, release.relation)

    def least_noise(self, events: Callable[[float], Sequence[Event]]) -> float:
        """Return the least noise at which `events(noise)` fit into the room."""
        return calibration.least_noise(
            lambda noise: [*self.spent, *events(noise)],
            self.budget,
            order=self.order,
            rdp_limit=self.rdp_limit,
            relation=self.relation,
        )

    def most_steps(self, events: Callable[[int], Sequence[Event]], most: int) -> int:
        """Return the most steps, up to `most`, at which `events(steps)` fit into the room."""
        return calibration.most_steps(
            lambda steps: [*self.spent, *events(steps)],
            most,
            self.budget,
            order=self.order,
            rdp_limit=self.rdp_limit,
            relation=self.relation,
        )

    def whole(self) -> float:
        """Return the noise multiplier of one Gaussian mechanism that would spend all that is left."""
        return self.least_noise(lambda noise: [Gaussian(noise)])


def marginals(
    room: Room, spec: GeneratorSpec, cardinalities: Sequence[int], population: int, rows: int, max_rows: int
) -> MarginalsPlan:
    """Return which marginals to measure and with which noise; their cost is fixed by the room and the noisy count."""
    whole = room.whole()
    noise = whole / math.sqrt(marginals_share(population, whole, spec))
    return plan_marginals(tuple(cardinalities), rows, noise, max_rows, wanted_triples(population, whole, spec))


def training(room: Room, spec: GeneratorSpec, population: int) -> tuple[TrainingPlan, LooksPlan | None]:
    """Return the training with the least noise at which the whole release fits, and its looks at the loss."""
    looks = plan_looks(population, room.whole(), spec) if spec.looks else None
    ahead = [] if looks is None else [looks.event]
    plan = plan_training(population, spec)
    if spec.noise_multiplier is not None:
        plan = replace(plan, noise_multiplier=spec.noise_multiplier)
        steps = room.most_steps(lambda steps: [*ahead, replace(plan, steps=steps).event], plan.steps)
        return replace(plan, steps=steps), looks
    noise = room.least_noise(lambda sigma: [*ahead, replace(plan, noise_multiplier=sigma).event])
    return replace(plan, noise_multiplier=noise), looks
