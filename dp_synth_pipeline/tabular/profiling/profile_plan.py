"""What a profile measures and what that costs, fixed from public facts and the noisy row count before the first histogram.

There are four kinds of histograms. *Base* histograms count values and cells. *Range-finding* histograms, at twice the
noise, find where values lie and how precise they are. *Rounding* histograms, at four times the noise, find to which steps
numbers of known digits are rounded, and on which weekdays, days of a month and hours dates fall. *Refinement*
histograms, at 0.45 of the noise, re-measure the columns that lost most categories to thresholding. Of a table below others,
further base histograms name more of these columns' categories, by all rows of each person and not by one. How many of each
there are at most depends on the rows by their noisy count alone. Which columns are refined depends on what was noised
already. Where noise hides much, refinements that none needs pay for less noise of the histograms of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Threshold
from dp_synth_pipeline.privacy.odometer import ROUNDING
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.policies import NullPolicy

RANGE_FINDING, REFINEMENT, ROUNDED = 2.0, 0.45, 4.0
"""Noise of a range-finding, a refinement and a rounding histogram, in units of the noise of a base histogram."""

MOST_REFINED = 3
"""Columns that are refined, at most."""


@dataclass(frozen=True)
class ProfilePlan:
    """The noise of a profile, fixed from public facts and the noisy row count.

    Attributes:
        count_epsilon: pure epsilon of the row count; None if the population is declared.
        scale: standard deviation of the noise of a base histogram's cells, in rows.
        threshold_delta: chance, in all, that a value held by one unit alone is released.
        unit: the privacy unit, whose rows are bounded already.
        population: declared number of units, public; None to count them.
        refined: how many of the columns whose categories are found, not declared, are re-measured with less noise, at
            most: those that lost most categories to thresholding.
        named: of a table below others, how many of these columns have more categories named by all rows of each person.
        sparing: whether only columns are refined that lost much, and numbers have the rest.
        discrete: by factor, the scales of discrete Gaussian noise that a plan of an earlier version declared; such a
            profile draws that. Empty for others.
    """

    count_epsilon: float | None
    scale: float
    threshold_delta: float
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    population: int | None = None
    refined: int = 0
    discrete: Mapping[float, float] = field(default_factory=dict)
    named: int = 0
    sparing: bool = False

    def noise(self, factor: float = 1.0) -> float:
        """Return the noise in rows of a histogram with `factor` times that of a base one."""
        return self.discrete.get(factor, factor * self.scale)

    def count_events(self) -> tuple[Event, ...]:
        """What the row count costs."""
        return () if self.count_epsilon is None else (DiscreteLaplace(1 / self.count_epsilon, 1),)

    def histogram_events(self, schema: TableSchema) -> tuple[Event, ...]:
        """What the histograms cost; the same whatever the rows are."""
        schema = self.paid(schema)
        base, range_finding = _histograms(schema, self.unit)
        counts = (
            (1.0, base + self.named),
            (REFINEMENT, self.refined),
            (RANGE_FINDING, range_finding),
            (ROUNDED, self.rounded(schema)),
        )
        events = [self._event(self.noise(factor), n) for factor, n in counts if n]
        thresholds = [Threshold(self.threshold_delta)] if any(thresholded(c) for c in _columns(schema)) else []
        return (*events, *thresholds)

    def _event(self, scale: float, count: int) -> Event:
        if self.discrete:
            return DiscreteGaussian(scale, self.unit.max_rows, count)
        return Gaussian(scale / self.unit.max_rows, count)

    def paid(self, schema: TableSchema) -> TableSchema:
        """Return what is measured of a schema; a plan of an earlier version with discrete noise pays for no times."""
        return replace(schema, order=None) if self.discrete else schema

    def rounded(self, schema: TableSchema) -> int:
        """Return how many rounding histograms there are; a plan of an earlier version pays for none."""
        return 0 if self.discrete else _rounding(schema)

    def of_numbers(self, schema: TableSchema, spare: int) -> ProfilePlan:
        """Return the plan of numbers, with as much less noise as `spare` refinements pay for that no column needs.

        Gaussian amounts may be divided at will, also in view of what was released before: see `privacy.odometer`.
        """
        numbers = sum(map(_weight, (c for c in schema.learned if c.kind.numeric)))
        if not (spare and numbers and self.sparing):
            return self
        return replace(self, scale=self.scale * math.sqrt(numbers / (numbers + spare / REFINEMENT**2)) * (1 + ROUNDING))

    def delta(self, schema: TableSchema) -> float:
        """Return each thresholded histogram's part of `threshold_delta`; refined columns have two, and so on."""
        histograms = self.refined + self.named + sum(thresholded(c) for c in _columns(self.paid(schema)))
        return self.threshold_delta / max(histograms, 1) * (1 - ROUNDING)


def weight(schema: TableSchema, unit: PrivacyUnit, refined: int = 0, named: int = 0) -> float:
    """Return how many base histograms a profile of `schema` costs.

    A range-finding one costs 1/4, a refinement one 4.9 and a rounding one 1/16.
    """
    base, range_finding = _histograms(schema, unit)
    return base + named + range_finding / RANGE_FINDING**2 + refined / REFINEMENT**2 + _rounding(schema) / ROUNDED**2


def most_refined(schema: TableSchema) -> int:
    """Return how many columns may be refined: those whose categories must be found, at most `MOST_REFINED`."""
    return min(sum(finds_categories(c) for c in schema.learned), MOST_REFINED)


def declared(plan: ProfilePlan, events: Sequence[Event], schema: TableSchema) -> ProfilePlan | None:
    """Return `plan` with the noise that declared events pay for; None if they pay for no histogram.

    The finest event is one of refinements if the next has 2.1 to 3 times its noise, as no other two kinds have. What
    Gaussian events amount to is divided over the histograms that `schema` needs. Discrete noise stays what was declared.
    """
    histograms = sorted((e for e in events if isinstance(e, (Gaussian, DiscreteGaussian))), key=lambda e: e.noise)
    if not histograms:
        return None
    first, *others = histograms
    closer = bool(others) and 2.1 < others[0].noise / first.noise < 3  # 2.2, or 2.5 in versions before this one
    plan = replace(plan, refined=first.count if closer else 0)
    if isinstance(first, DiscreteGaussian):
        factors = (REFINEMENT, 1.0, RANGE_FINDING) if closer else (1.0, RANGE_FINDING)
        discrete = dict(zip(factors, (e.noise for e in histograms), strict=False))
        return replace(plan, scale=discrete[1.0], discrete=discrete, sparing=False)
    multiplier = math.sqrt(weight(schema, plan.unit, plan.refined) / float(sum(e.amount for e in histograms)))
    return replace(plan, scale=plan.unit.max_rows * multiplier * (1 + ROUNDING))


def finds_categories(column: Column) -> bool:
    """Whether this is a category or an ordinal whose categories must be found in the rows."""
    return column.kind.categorical and column.categories is None


def thresholded(column: Column) -> bool:
    """Whether values of this column are released if many units hold them."""
    return column.kind.numeric or finds_categories(column)


def finds_rounding(column: Column) -> bool:
    """Whether the steps that values are rounded to must be found by a histogram of their own; else precision tells them."""
    return bool(column.kind.ladder) and not column.kind.measures_precision(column)


def _rounding(schema: TableSchema) -> int:
    """Count rounding histograms: one of a column's steps, and one of each calendar effect, of histories' times as well."""
    of_times = () if schema.order is None else schema.order.kind.effects
    return sum(finds_rounding(c) + len(c.kind.effects) for c in schema.learned) + len(of_times)


def counts_rows(schema: TableSchema, unit: PrivacyUnit) -> bool:
    """Whether rows are not units, or some are left out, so that how many remain must be measured too."""
    return unit.column is not None or any(c.nulls is NullPolicy.DROP for c in schema.learned)


def _columns(schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns that are measured: those that are learned, and where histories end."""
    return schema.learned if schema.last is None else (*schema.learned, schema.last)


def _weight(number: Column) -> float:
    """Return how many base histograms a number costs."""
    kind = number.kind
    range_finding = 1 + kind.rounds + kind.measures_precision(number)
    return 2 + range_finding / RANGE_FINDING**2 + (finds_rounding(number) + len(kind.effects)) / ROUNDED**2


def _histograms(schema: TableSchema, unit: PrivacyUnit) -> tuple[int, int]:
    """Count base and range-finding histograms: values and cells; where values lie (ever finer), nulls, precision."""
    base = sum(2 if c.kind.numeric else 1 for c in _columns(schema)) + int(counts_rows(schema, unit))
    range_finding = sum(1 + c.kind.rounds for c in _columns(schema) if c.kind.numeric)
    return base, range_finding + sum(c.kind.measures_precision(c) for c in schema.learned if c.kind.numeric)
