"""Divides a release's epsilon over row count, profile, marginals and training. Each share is fixed before it reads a row.

1. The row count takes a small pure epsilon of its own. Everything later may depend on it (basic composition).
2. The profile takes `profile_share` of the rest, in units of squared signal to noise, in which Gaussian costs add up.
   By default it is a part between 5 and 25 %, by a rule that knows the noisy count only. Where the types of a CSV's columns
   are measured, that takes a small part of the profile's.
3. Text columns, if any are declared, take a fixed part of what is left then: counts first, then a language model or votes
   for what one writes.
4. Noisy marginals take a part of what is left, by a rule that knows the noisy count only.
5. Training takes the rest: its noise is the least at which all together cost at most the epsilon asked by PLD and,
   under a Rényi filter, at most the Rényi divergence reserved.

Charged figures (`validation: report_epsilon`) are a pure epsilon, set aside before the profile is planned; they run last.

A step that is left out (a profile that is reused, marginals that are not wanted) leaves its part to those after it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model.autoregressive.plan import marginals_share, wanted_triples
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method
from dp_synth_pipeline.model.dpsgd.plan import (
    LossQueriesPlan,
    StudyPlan,
    TrainingPlan,
    plan_loss_queries,
    plan_study,
    plan_training,
)
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.marginals.plan import MarginalsPlan, plan_again, plan_marginals
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget, auto_delta
from dp_synth_pipeline.privacy.events import Event, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.odometer import ROUNDING
from dp_synth_pipeline.relations.static_columns import Candidates, StaticPlan
from dp_synth_pipeline.synthesis.release_plan import PROFILE, ReleasePlan
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.profiling import formulas, ordered_dates, profile_plan, types
from dp_synth_pipeline.tabular.profiling.formulas import FormulasPlan
from dp_synth_pipeline.tabular.profiling.ordered_dates import DatesPlan, Pairs
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.profiling.types import TypesPlan
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.texts.plan import ROUNDS, TextPlan, VotesPlan
from dp_synth_pipeline.validation.dp_metrics import ChargedPlan

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Layout

COUNT_SHARE = 0.02
"""Part of epsilon that the row count takes; at epsilon 1 its noise has a standard deviation of 71 units."""


THRESHOLD_SHARE = 1 / 2000
"""Part of delta for thresholds: small, so that an account's 5 % for them lasts 100 releases; a threshold grows only like
the root of its logarithm."""


@dataclass(frozen=True)
class BudgetRequest:
    """What a release asks of its account, known before anything is read.

    Attributes:
        epsilon: the most it may cost.
        delta: the largest delta it may end with.
        own_delta: the part of delta that thresholds take; small, since a threshold grows only like its logarithm.
        share: part of the squared signal to noise that may be planned with, where tables share a release.
        purpose: what it is for, as the table says; an account may have a quota for that.
    """

    epsilon: float
    delta: float
    own_delta: float
    share: float = 1.0
    purpose: str = ""

    def costs(self) -> dict[str, Any]:
        """Return what is asked of the ledger."""
        return {"epsilon": self.epsilon, "delta": self.delta, "own_delta": self.own_delta, "purpose": self.purpose}

    @classmethod
    def of(cls, settings: ReleaseSettings, account_delta: float, *, goes_on: bool = False) -> BudgetRequest:
        """Return what one refresh of a table asks of an account with `account_delta`.

        Args:
            goes_on: it remembers earlier releases, and goes on from the last one.
        """
        delta = account_delta if settings.delta == "auto" else float(settings.delta)
        if settings.delta == "auto" and settings.population is not None:
            delta = auto_delta(settings.population, account_delta)
        epsilon = (settings.refresh.epsilon if goes_on else None) or settings.charge.epsilon
        return cls(epsilon, delta, delta * THRESHOLD_SHARE, purpose=settings.intended_use or "")

    @classmethod
    def reserved(cls, release: LedgerRelease) -> BudgetRequest:
        """Return what a release has reserved."""
        return cls(release.epsilon, release.delta, release.own_delta)


LEAST_PROFILE, MOST_PROFILE = 0.05, 0.25
"""Part of the squared signal to noise that a profile takes: enough for `PROFILE_NOISE`, within these where rows are many."""

SCARCE, MORE, MOST_SCARCE = 20.0, 0.25, 0.9
"""Where `PROFILE_NOISE` would take over so many times all signal, a profile takes more, by `MORE` for each ten times, and
`MOST_SCARCE` at most: what is hidden by noise is lost, with all that marginals and training could tell of it."""

PROFILE_NOISE = 1 / 2400
"""Noise of a base histogram's cell, as a part of the units: values held by one unit in 400 then keep their names."""

HISTOGRAMS_A_REFINEMENT = 10
"""Where that noise cannot be kept: base histograms that a refinement must stand beside, so that all of them together raise
the noise of the rest by 22 % at most."""

MOST_BEYOND = 2.5
"""Once that noise is the root of so many times as high, numbers need what a refinement costs as much as names do: columns
are refined that lost much, and numbers have the rest."""


BESIDE_TEXT = 2 / 3
"""Squared signal to noise that marginals and training have beside a text column, as a part of what that column has."""

NOTE_WORDS_SHARE = 1 / 5
"""Part that counting words takes of what a column has that a language model writes; the model's training takes the rest."""

TYPES_NOISE = 1 / 400
"""Noise of a cell of a histogram of classes, as a part of the units: classes of one cell in a hundred are then seen."""

MOST_TYPES = 0.4
"""Part of the profile's that types take at most: where rows are few, a type that is missed costs its column most values."""


DATES_SHARE = 0.04
"""Part of the squared signal to noise that takes to find how dates hang on each other, at most."""

FORMULAS_SHARE = 0.04
"""Part of the squared signal to noise that takes to find which numbers others give, at most."""

TRAINING = SubsampledGaussian(calibration.MOST, 1.0, 1)
"""A training that costs next to nothing."""


def _to_come(relation: str, *, trained: bool) -> tuple[Event, ...]:
    """Return what stands for a release's training in the plans of what comes before it.

    It costs nothing there, and has all converted as the whole release will be, where that costs more.
    """
    return (TRAINING,) if trained and accountant.from_curves(TRAINING, relation) else ()


def _trained(settings: ReleaseSettings) -> bool:
    """Say whether a network is trained on rows: one that draws them, or one that writes notes."""
    return Method(settings.training.method).trains or bool(settings.tuned_columns)


def whole_noise(settings: ReleaseSettings, request: BudgetRequest, relation: str) -> float:
    """Return the noise of one histogram of units that would cost all of its share that is left after the row count."""
    count = 0.0 if settings.population is not None else COUNT_SHARE * request.epsilon
    remaining_epsilon = request.epsilon - count - (settings.validation.report_epsilon or 0.0)
    delta, to_come = request.delta - request.own_delta, _to_come(relation, trained=_trained(settings))
    if to_come:
        noise = RemainingBudget((), Budget(remaining_epsilon, delta), relation=relation).whole(to_come)
    else:
        noise = calibration.gaussian_noise(remaining_epsilon, delta) * (1 if relation == ADD_REMOVE else 2)
    return noise * settings.privacy_unit.max_rows / math.sqrt(request.share)


def _profile_shares(settings: ReleaseSettings) -> tuple[float, float]:
    """Return the least and the largest part of the squared signal to noise that profile and types take together."""
    share = settings.profile_share
    return (LEAST_PROFILE, MOST_PROFILE) if share == "auto" else (share, share)


def plan_types(
    settings: ReleaseSettings,
    request: BudgetRequest,
    columns: int,
    relation: str = ADD_REMOVE,
    population: int | None = None,
) -> TypesPlan:
    """Fix the noise of the types of so many columns from public facts and the noisy or declared count."""
    noise = whole_noise(settings, request, relation) * math.sqrt(types.weight(columns))
    share = MOST_TYPES * _profile_shares(settings)[1]
    unit_count = population or settings.population
    if unit_count is not None:
        share = min(share, (noise / TYPES_NOISE / unit_count) ** 2)
    return TypesPlan(noise / math.sqrt(share), columns, settings.privacy_unit)


def plan_dates(
    settings: ReleaseSettings, request: BudgetRequest, pairs: Pairs, relation: str, population: int
) -> DatesPlan | None:
    """Fix the noise of how pairs of dates hang together; None if it would hide even what holds in all rows."""
    noise = whole_noise(settings, request, relation) * math.sqrt(len(pairs))
    share = min(DATES_SHARE, (noise / ordered_dates.NOISE / population) ** 2)
    plan = DatesPlan(pairs, noise / math.sqrt(share), settings.privacy_unit)
    return plan if ordered_dates.finds_any(plan.scale, population) else None


def plan_formulas(
    settings: ReleaseSettings, request: BudgetRequest, columns: Sequence[str], relation: str, population: int
) -> FormulasPlan | None:
    """Fix among which numbers formulas are looked for: as many of the first ones as noise lets be told, if three of them."""
    whole, rate = whole_noise(settings, request, relation), formulas.rate(population)
    rows = rate * population
    for taken, spread in formulas.looked_for(columns):
        plan = FormulasPlan(taken, 1.0, rate, settings.privacy_unit, spread)
        noise = whole * math.sqrt(plan.weight)
        share = min(FORMULAS_SHARE, (noise / formulas.NOISE / rows) ** 2)
        if formulas.finds_any(noise / math.sqrt(share), rows):
            return replace(plan, scale=noise / math.sqrt(share))
    return None


def _types_share(
    settings: ReleaseSettings, request: BudgetRequest, relation: str, population: int | None, columns: int
) -> float:
    """Return the part of the squared signal to noise that the types of so many columns take."""
    plan = plan_types(settings, request, columns, relation, population)
    return (whole_noise(settings, request, relation) / plan.scale) ** 2 * types.weight(columns)


def plan_profile(
    settings: ReleaseSettings,
    request: BudgetRequest,
    schema: TableSchema,
    relation: str = ADD_REMOVE,
    population: int | None = None,
    typed: int = 0,
    named: int = 0,
) -> ProfilePlan:
    """Fix the noise of the row count and the profile from public facts and the noisy or declared count.

    Replacing a unit is removing one and adding another: it doubles a pure epsilon, a threshold's delta, a histogram's move.

    Args:
        population: the noisy count, once it is known; the plan's row count does not depend on it.
        typed: how many columns' types were measured, out of the profile's part.
        named: how many columns have categories named by all rows of each person.
    """
    moves = 1 if relation == ADD_REMOVE else 2
    count = None if settings.population is not None else COUNT_SHARE * request.epsilon / moves
    whole, unit = whole_noise(settings, request, relation), settings.privacy_unit
    unit_count, (least_share, most_share) = population or settings.population, _profile_shares(settings)
    if typed:
        most_share -= _types_share(settings, request, relation, population, typed)
        least_share = min(least_share, most_share)

    def noise(refined: int) -> float:  # of a base histogram, were all signal the profile's
        return whole * math.sqrt(profile_plan.weight(schema, unit, refined, named))

    def needed_share(refined: int) -> float:
        return math.inf if unit_count is None else (noise(refined) / PROFILE_NOISE / unit_count) ** 2

    bases = int(profile_plan.weight(schema, unit, named=named) / HISTOGRAMS_A_REFINEMENT)
    refined, scarce = _refined(profile_plan.most_refined(schema), bases, needed_share, most_share)
    most_share += _more_where_scarce(settings, request, needed_share(0))
    scale = noise(refined) / math.sqrt(min(max(needed_share(refined), least_share), most_share))
    delta, population = _own_delta(settings, request) / moves, settings.population
    return ProfilePlan(count, scale, delta, unit, population, refined, named=named, sparing=scarce)


def _refined(most: int, beside: int, needed_share: Callable[[int], float], most_share: float) -> tuple[int, bool]:
    """Return how many columns are refined, and whether only those that lost much.

    Args:
        most: the columns that may be refined.
        beside: the refinements for which there are enough base histograms.
        needed_share: the part of the squared signal to noise that keeps `PROFILE_NOISE` beside so many refinements.
    """
    few = range(min(most, beside) + 1)
    enough = [n for n in range(most + 1) if needed_share(n) <= most_share * (MOST_BEYOND if n in few else 1)]
    scarce = not enough and needed_share(0) < math.inf
    return max([*enough, few[-1] if scarce else 0]), scarce


def _more_where_scarce(settings: ReleaseSettings, request: BudgetRequest, needed: float) -> float:
    """Return by how much more than `MOST_PROFILE` a profile may take that would need so many times all signal.

    A study needs what is left for its trainings, and so do tables that share a release, whose rows training alone tells of
    each other. Where nothing was counted yet, nothing is known to be scarce.
    """
    kept = settings.profile_share != "auto" or settings.training.tune is not None or request.share < 1
    if kept or math.isinf(needed):
        return 0.0
    return min(MORE * max(math.log10(needed / SCARCE), 0.0), MOST_SCARCE - MOST_PROFILE)


def _own_delta(settings: ReleaseSettings, request: BudgetRequest) -> float:
    """Return the delta of the profile's thresholds; where texts are declared, theirs is the other half."""
    return request.own_delta / 2 if settings.text_columns else request.own_delta


def texts(budget: RemainingBudget, settings: ReleaseSettings, own_delta: float, columns: int) -> TextPlan:
    """Return what so many text columns take of what is left: three fifths for one, and more for several.

    Args:
        own_delta: of their thresholds, under the account's relation.
    """
    part = columns / (columns + len(settings.note_columns) + BESIDE_TEXT)
    whole = budget.whole([Threshold(own_delta), *_to_come(budget.relation, trained=_trained(settings))])
    return TextPlan(whole / math.sqrt(part) * (1 + ROUNDING), own_delta, columns, settings.privacy_unit.max_rows)


def note_words(budget: RemainingBudget, max_rows: int) -> TextPlan:
    """Return how words are counted that a language model's texts lean to: a part of what one text column takes."""
    whole = budget.whole(_to_come(budget.relation, trained=True))
    part = NOTE_WORDS_SHARE / (1 + BESIDE_TEXT)
    return TextPlan(whole / math.sqrt(part) * (1 + ROUNDING), 0.0, 1, max_rows)


def notes(budget: RemainingBudget, spec: TrainingSpec, population: int) -> TrainingPlan:
    """Return the training of a language model that takes three fifths of what is left, as one text column does.

    Its words were counted before, and took their part of the three fifths. It has the least noise at which it fits beside
    one Gaussian mechanism of the other two.
    """
    beside = BESIDE_TEXT / (1 - NOTE_WORDS_SHARE)
    later = Gaussian(budget.whole(_to_come(budget.relation, trained=True)) * math.sqrt((1 + beside) / beside))
    plan = plan_training(population, spec)
    noise = budget.least_noise(lambda sigma: [later, replace(plan, noise_multiplier=sigma).event])
    return replace(plan, noise_multiplier=noise)


def votes(budget: RemainingBudget, settings: ReleaseSettings, population: int) -> VotesPlan:
    """Return the rounds of votes that take three fifths of what is left, as one text column does."""
    whole = budget.whole(_to_come(budget.relation, trained=_trained(settings)))
    return VotesPlan(whole * math.sqrt(ROUNDS * (1 + BESIDE_TEXT)) * (1 + ROUNDING), ROUNDS, population)


def _declared(event: SubsampledGaussian, population: int) -> TrainingPlan:
    """Return the training that a declared plan pays for."""
    batch = max(1.0, event.sample_rate * population)
    return TrainingPlan(event.sample_rate, event.steps, batch, event.noise_multiplier)


def final_delta(settings: ReleaseSettings, request: BudgetRequest, population: int) -> float:
    """Return the delta the release ends with: the one given, or 1 / N^1.2 from the noisy or declared count."""
    if settings.delta != "auto":
        return request.delta
    return auto_delta(population, request.delta, floor=2 * request.own_delta)


@dataclass(frozen=True)
class RemainingBudget:
    """What a release may still spend.

    Attributes:
        spent: events that have started.
        budget: the (epsilon, delta) of the whole release.
        rdp_limits: by order, the Rényi divergences reserved: under the account's Rényi filter, and under its umbrella's.
    """

    spent: tuple[Event, ...]
    budget: Budget
    rdp_limits: Mapping[float, float] = field(default_factory=dict)
    relation: str = ADD_REMOVE

    @classmethod
    def of(cls, release: LedgerRelease, spent: Sequence[Event], delta: float) -> RemainingBudget:
        """Return what is left of a release that ends with `delta`."""
        budget = Budget(release.epsilon, delta)
        return cls(tuple(spent), budget, release.rdp_limits, release.relation)

    def least_noise(self, events: Callable[[float], Sequence[Event]]) -> float:
        """Return the least noise at which `events(noise)` fit into it."""
        return calibration.least_noise(
            lambda noise: [*self.spent, *events(noise)],
            self.budget,
            rdp_limits=self.rdp_limits,
            relation=self.relation,
        )

    def most_steps(self, events: Callable[[int], Sequence[Event]], most: int) -> int:
        """Return the most steps, up to `most`, at which `events(steps)` fit into it."""
        return calibration.most_steps(
            lambda steps: [*self.spent, *events(steps)],
            most,
            self.budget,
            rdp_limits=self.rdp_limits,
            relation=self.relation,
        )

    def whole(self, beside: Sequence[Event] = ()) -> float:
        """Return the noise multiplier of one Gaussian mechanism that would spend all that is left beside other events."""
        return self.least_noise(lambda noise: [Gaussian(noise), *beside])


def marginals(
    budget: RemainingBudget,
    spec: GeneratorSpec,
    cardinalities: Sequence[int],
    population: int,
    rows: int,
    max_rows: int,
    given: int = 0,
) -> MarginalsPlan:
    """Return which marginals to measure and with which noise; their cost is fixed by what is left and the noisy count."""
    whole = budget.whole(_to_come(budget.relation, trained=Method(spec.method).trains))
    noise = whole / math.sqrt(marginals_share(population, whole, spec))
    return plan_marginals(tuple(cardinalities), rows, noise, max_rows, wanted_triples(population, whole, spec), given)


def training(
    budget: RemainingBudget, spec: GeneratorSpec, population: int
) -> tuple[TrainingPlan, LossQueriesPlan | None]:
    """Return the training with the least noise at which the whole release fits, and its looks at the loss."""
    looks = None
    if spec.looks:
        looks = plan_loss_queries(population, budget.whole(_to_come(budget.relation, trained=True)), spec)
    ahead = [] if looks is None else [looks.event]
    plan = plan_training(population, spec)
    if spec.noise_multiplier is not None:
        plan = replace(plan, noise_multiplier=spec.noise_multiplier)
        steps = budget.most_steps(lambda steps: [*ahead, replace(plan, steps=steps).event], plan.steps)
        return replace(plan, steps=steps), looks
    noise = budget.least_noise(lambda sigma: [*ahead, replace(plan, noise_multiplier=sigma).event])
    return replace(plan, noise_multiplier=noise), looks


def study(budget: RemainingBudget, spec: GeneratorSpec, population: int, trials: float) -> StudyPlan:
    """Return the study whose trainings have the least noise at which the whole release fits.

    Raises:
        InvalidInput: if none fits, since what a selection costs by itself is more than what is left.
    """
    draft = plan_study(population, budget.whole(), spec, trials)
    noise = budget.least_noise(lambda sigma: [draft.with_noise(sigma).event])
    return draft.with_noise(noise)


USUAL_POPULATION = 10_000
"""Units of a table of which nobody knows the number yet, where only something like it must be assumed."""


def check_study(settings: ReleaseSettings, release: LedgerRelease) -> None:
    """Refuse a study that would find nothing left beside a profile and marginals, before a row is read for them.

    Raises:
        InvalidInput: if its release cannot pay for it, or nobody knows its cost.
    """
    tune, spec = settings.training.tune, settings.training.spec()
    if tune is None:
        return
    instead = "tune on a released table, which is free: dp-synth tune --on-released TABLE"
    if release.relation != ADD_REMOVE:
        raise InvalidInput(
            f"training: tune: its cost is known for adding or removing a unit, and this account's relation is "
            f"{release.relation}. Use an account of the relation {ADD_REMOVE}; or {instead}."
        )
    population = settings.population or USUAL_POPULATION
    whole = calibration.gaussian_noise(release.epsilon, release.delta)
    before = 1 - (1 - LEAST_PROFILE) * (1 - marginals_share(population, whole, spec))
    least = plan_study(population, whole / math.sqrt(1 - before), spec, tune.trials).with_noise(calibration.MOST)
    events, budget = [Gaussian(whole / math.sqrt(before)), least.event], Budget(release.epsilon, release.delta)
    if not calibration.fits(events, budget, release.rdp_limits):
        raise InvalidInput(
            f"training: tune: epsilon {release.epsilon:g} pays for no study of {tune.trials:g} trials beside what is "
            f"measured before it, whatever its noise. Raise epsilon, or lower trials; or {instead}."
        )


class Allocation(ABC):
    """How a release divides what it may spend: every plan is fixed before a row is read for it.

    Attributes:
        settings: the release's own terms.
    """

    def __init__(self, settings: ReleaseSettings) -> None:
        self.settings = settings

    @property
    def pays_profile(self) -> bool:
        """Whether a profile is paid for already, so that an earlier one need not be reused."""
        return False

    @abstractmethod
    def delta(self, population: int) -> float:
        """Return the delta that the release ends with."""

    @abstractmethod
    def noise(self, population: int) -> float:
        """Return the noise multiplier of one Gaussian mechanism that costs as much as the release; 0 without privacy."""

    @abstractmethod
    def types(self, columns: int, population: int | None = None) -> TypesPlan:
        """Return the types of so many columns; `population` is the noisy count, once it is known.

        Raises:
            InvalidInput: if a declared plan does not pay for them.
        """

    def ordered_dates(self, pairs: Pairs, population: int) -> DatesPlan | None:
        """Return the histograms of the days between dates; None if nothing pays for them, or noise would hide all."""
        return None

    def formulas(self, columns: Sequence[str], population: int) -> FormulasPlan | None:
        """Return the counts that tell formulas of numbers; None if nothing pays for them, or noise would hide all."""
        return None

    @abstractmethod
    def profile(self, schema: TableSchema, population: int | None = None, typed: int = 0) -> ProfilePlan:
        """Return the row count and the profile.

        Args:
            population: the noisy count, once it is known.
            typed: how many columns' types were measured.
        """

    @abstractmethod
    def texts(self, columns: int, population: int, spent: Sequence[Event]) -> TextPlan:
        """Return the counts of so many text columns.

        Raises:
            InvalidInput: if a declared plan does not pay for them.
        """

    @abstractmethod
    def note_words(self, population: int, spent: Sequence[Event]) -> TextPlan | None:
        """Return how words are counted that a model's texts lean to; None if a declared plan does not pay for that."""

    @abstractmethod
    def notes(self, spec: TrainingSpec, population: int, spent: Sequence[Event]) -> TrainingPlan:
        """Return the training of the language model that writes a text column.

        Raises:
            InvalidInput: if a declared plan does not pay for it.
        """

    @abstractmethod
    def votes(self, population: int, spent: Sequence[Event]) -> VotesPlan:
        """Return the rounds in which the texts of a column vote.

        Raises:
            InvalidInput: if a declared plan does not pay for them.
        """

    @abstractmethod
    def marginals(
        self, cardinalities: Sequence[int], population: int, rows: int, spent: Sequence[Event], given: int = 0
    ) -> MarginalsPlan | None:
        """Return the marginals to measure; None if there are none to measure, or nothing pays for them.

        Args:
            given: how many of the first columns are given with each row.
        """

    @abstractmethod
    def training(
        self, spec: GeneratorSpec, population: int, spent: Sequence[Event]
    ) -> tuple[TrainingPlan, LossQueriesPlan | None]:
        """Return the training and its queries of the loss."""

    def static(self, candidates: Mapping[str, Candidates]) -> StaticPlan:
        """Return the counts that tell which of some tables' columns are static; by table, the columns."""
        raise ReleaseStateError("only rows of related tables have static columns.")

    def history_counts(self, population: int, spent: Sequence[Event]) -> float:
        """Return the noise multiplier at which the codes of all rows of a table below others are counted."""
        raise ReleaseStateError("only rows of related tables are counted together.")

    def study(self, spec: GeneratorSpec, population: int, spent: Sequence[Event], trials: float) -> StudyPlan:
        """Return the study of so many expected trainings, of which the best is released."""
        raise ReleaseStateError("only a release that reserved an epsilon selects among trainings.")

    def marginals_again(self, layout: Layout, population: int, spent: Sequence[Event], given: int = 0) -> MarginalsPlan:
        """Return the plan of measuring remembered marginals again, with all that is left: nothing is trained after."""
        raise ReleaseStateError("only a release that reserved an epsilon goes on from earlier ones.")

    def accuracy(self, columns: int) -> ChargedPlan | None:
        """Return the DP metrics of the generator's accuracy; None unless they are asked for."""
        return None


class Calibrated(Allocation):
    """Divides what a release reserved: each mechanism gets its share, and training takes what is left."""

    def __init__(self, settings: ReleaseSettings, release: LedgerRelease) -> None:
        super().__init__(settings)
        self._release, self._request = release, BudgetRequest.reserved(release)

    def delta(self, population: int) -> float:
        return final_delta(self.settings, self._request, population)

    def noise(self, population: int) -> float:
        return calibration.gaussian_noise(self._release.epsilon, self.delta(population))

    def types(self, columns: int, population: int | None = None) -> TypesPlan:
        return plan_types(self.settings, self._request, columns, self._release.relation, population)

    def ordered_dates(self, pairs: Pairs, population: int) -> DatesPlan | None:
        return plan_dates(self.settings, self._request, pairs, self._release.relation, population)

    def formulas(self, columns: Sequence[str], population: int) -> FormulasPlan | None:
        return plan_formulas(self.settings, self._request, columns, self._release.relation, population)

    def profile(self, schema: TableSchema, population: int | None = None, typed: int = 0) -> ProfilePlan:
        named = self._named(schema)
        return plan_profile(self.settings, self._request, schema, self._release.relation, population, typed, named)

    def _named(self, schema: TableSchema) -> int:
        """Return how many columns have categories named by all rows of each person; none of a table by itself."""
        return 0

    def texts(self, columns: int, population: int, spent: Sequence[Event]) -> TextPlan:
        later = self.accuracy(len(self.settings.columns))
        moves = 1 if self._release.relation == ADD_REMOVE else 2
        own_delta = _own_delta(self.settings, self._request) / moves
        budget = self._budget([*spent, *(later.events if later else ())], population)
        return texts(budget, self.settings, own_delta, columns)

    def note_words(self, population: int, spent: Sequence[Event]) -> TextPlan | None:
        budget = self._before_figures(len(self.settings.columns), population, spent)
        return note_words(budget, self.settings.privacy_unit.max_rows)

    def notes(self, spec: TrainingSpec, population: int, spent: Sequence[Event]) -> TrainingPlan:
        return notes(self._before_figures(len(self.settings.columns), population, spent), spec, population)

    def votes(self, population: int, spent: Sequence[Event]) -> VotesPlan:
        budget = self._before_figures(len(self.settings.columns), population, spent)
        return votes(budget, self.settings, population)

    def marginals(
        self, cardinalities: Sequence[int], population: int, rows: int, spent: Sequence[Event], given: int = 0
    ) -> MarginalsPlan | None:
        if len(cardinalities) < 2:
            return None
        budget = self._before_figures(len(cardinalities), population, spent)
        spec, max_rows = self.settings.training.spec(), self.settings.privacy_unit.max_rows
        return marginals(budget, spec, cardinalities, population, rows, max_rows, given)

    def marginals_again(self, layout: Layout, population: int, spent: Sequence[Event], given: int = 0) -> MarginalsPlan:
        noise = self._before_figures(len(layout.cardinalities), population, spent).whole()
        return plan_again(layout.cliques, layout.cardinalities, noise, self.settings.privacy_unit.max_rows, given)

    def _before_figures(self, columns: int, population: int, spent: Sequence[Event]) -> RemainingBudget:
        """Return what is left for marginals and training, once the charged figures have their part."""
        later = self.accuracy(columns)
        return self._budget([*spent, *(later.events if later else ())], population)

    def training(
        self, spec: GeneratorSpec, population: int, spent: Sequence[Event]
    ) -> tuple[TrainingPlan, LossQueriesPlan | None]:
        return training(self._budget(spent, population), spec, population)

    def study(self, spec: GeneratorSpec, population: int, spent: Sequence[Event], trials: float) -> StudyPlan:
        return study(self._budget(spent, population), spec, population, trials)

    def accuracy(self, columns: int) -> ChargedPlan | None:
        epsilon = self.settings.validation.report_epsilon
        if epsilon is None or columns < 1:
            return None
        moves = 1 if self._release.relation == ADD_REMOVE else 2  # replacing a unit doubles a pure epsilon
        return ChargedPlan(columns, self.settings.privacy_unit.max_rows, epsilon / moves)

    def _budget(self, spent: Sequence[Event], population: int) -> RemainingBudget:
        return RemainingBudget.of(self._release, spent, self.delta(population))


class Declared(Allocation):
    """Takes each mechanism from a declared plan, noise and steps included."""

    def __init__(self, settings: ReleaseSettings, plan: ReleasePlan, epsilon: float, delta: float) -> None:
        super().__init__(settings)
        self._plan, self._epsilon, self._delta = plan, epsilon, delta

    @property
    def pays_profile(self) -> bool:
        return bool(self._plan.threshold_deltas)

    def delta(self, population: int) -> float:
        return self._delta  # a use of a plan ends at the plan's, at which its epsilon was priced

    def noise(self, population: int) -> float:
        return calibration.gaussian_noise(self._epsilon, self._delta)

    def types(self, columns: int, population: int | None = None) -> TypesPlan:
        noise = self._plan.types_noise
        if noise is None or noise.count < columns:
            raise InvalidInput(
                f"this CSV leaves the types of {columns} columns open, and the declared plan pays for those of "
                f"{0 if noise is None else noise.count}; declare the kind of each column, and the format of dates, or have "
                f"a person declare a plan with types."
            )
        return TypesPlan(
            noise.noise_multiplier * self.settings.privacy_unit.max_rows, columns, self.settings.privacy_unit
        )

    def profile(self, schema: TableSchema, population: int | None = None, typed: int = 0) -> ProfilePlan:
        deltas, counts, public = self._plan.threshold_deltas, self._plan.count_epsilons, self.settings.population
        found = None
        if deltas and (counts or public):
            count = None if public is not None else counts[0]
            draft = ProfilePlan(count, 0.0, deltas[0], self.settings.privacy_unit, public)
            found = profile_plan.declared(draft, self._plan.events(PROFILE), schema)
        if found is None:
            raise InvalidInput(
                "the declared plan has no profile: it needs gaussian and threshold events with mechanism=profile, and a "
                "discrete_laplace event for the row count unless the population is declared."
            )
        return found

    def texts(self, columns: int, population: int, spent: Sequence[Event]) -> TextPlan:
        found = self._plan.texts
        if found is None:
            raise InvalidInput(
                "the declared plan has no text: it needs gaussian and threshold events with mechanism=text for columns of "
                "kind text; declare another plan, or leave these columns out (kind: excluded)."
            )
        return TextPlan(*found, columns, self.settings.privacy_unit.max_rows)

    def note_words(self, population: int, spent: Sequence[Event]) -> TextPlan | None:
        noise = self._plan.note_words_noise
        return None if noise is None else TextPlan(noise, 0.0, 1, self.settings.privacy_unit.max_rows)

    def notes(self, spec: TrainingSpec, population: int, spent: Sequence[Event]) -> TrainingPlan:
        event = self._plan.notes
        if event is None:
            raise InvalidInput(
                "the declared plan has no notes: it needs a subsampled_gaussian event with mechanism=notes for a text "
                "column with a model; declare another plan, or leave the column out (kind: excluded)."
            )
        return _declared(event, population)

    def votes(self, population: int, spent: Sequence[Event]) -> VotesPlan:
        event = self._plan.votes
        if event is None:
            raise InvalidInput(
                "the declared plan has no votes: it needs a gaussian event with mechanism=votes, whose count is the number "
                "of rounds, for a text column with a prompt; declare another plan, or leave the column out (kind: excluded)."
            )
        return VotesPlan(event.noise_multiplier, event.count, population)

    def marginals(
        self, cardinalities: Sequence[int], population: int, rows: int, spent: Sequence[Event], given: int = 0
    ) -> MarginalsPlan | None:
        noise = self._plan.marginals_noise
        if noise is None:
            return None
        return plan_marginals(tuple(cardinalities), rows, noise, self.settings.privacy_unit.max_rows, given=given)

    def training(
        self, spec: GeneratorSpec, population: int, spent: Sequence[Event]
    ) -> tuple[TrainingPlan, LossQueriesPlan | None]:
        event = self._plan.training
        if event is None:
            raise InvalidInput("the declared plan has no training: it needs a subsampled_gaussian event.")
        return _declared(event, population), None
