"""What a profile measures and what that costs, fixed from public facts and the noisy row count before the first histogram.

There are three kinds of histograms. *Base* histograms count values and cells. *Range-finding* histograms, at twice the
noise, find where values lie and how precise they are. *Refinement* histograms, at 0.4 of the noise, re-measure the columns
that lost most categories to thresholding. How many of each there are depends on the rows by their noisy count alone. Which
columns are refined depends on what was noised already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, Threshold
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.policies import NullPolicy

RANGE_FINDING, REFINEMENT = 2.0, 0.4
"""Noise of a range-finding and of a refinement histogram, in units of the noise of a base histogram."""

MOST_REFINED = 3
"""Columns that are refined, at most."""


@dataclass(frozen=True)
class ProfilePlan:
    """The noise of a profile, fixed from public facts and the noisy row count.

    Attributes:
        count_epsilon: pure epsilon of the row count; None if the population is declared.
        scale: discrete Gaussian parameter of a base histogram's cells, in rows.
        threshold_delta: chance, in all, that a value held by one unit alone is released.
        unit: the privacy unit, whose rows are bounded already.
        population: declared number of units, public; None to count them.
        refined: how many of the columns whose categories are found, not declared, are re-measured with less noise: those
            that lost most categories to thresholding.
    """

    count_epsilon: float | None
    scale: float
    threshold_delta: float
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    population: int | None = None
    refined: int = 0

    def count_events(self) -> tuple[Event, ...]:
        """What the row count costs."""
        return () if self.count_epsilon is None else (DiscreteLaplace(1 / self.count_epsilon, 1),)

    def histogram_events(self, schema: TableSchema) -> tuple[Event, ...]:
        """What the histograms cost; the same whatever the rows are."""
        base, range_finding = _histograms(schema, self.unit)
        counts = ((1.0, base), (REFINEMENT, self.refined), (RANGE_FINDING, range_finding))
        events: list[Event] = [DiscreteGaussian(by * self.scale, self.unit.max_rows, n) for by, n in counts if n]
        if any(thresholded(c) for c in schema.learned):
            events.append(Threshold(self.threshold_delta))
        return tuple(events)

    def keys(self, schema: TableSchema) -> int:
        """Return how many cells that need a threshold one unit can bring into being, refined columns counted again."""
        return (self.refined + sum(thresholded(c) for c in schema.learned)) * self.unit.max_rows


def weight(schema: TableSchema, unit: PrivacyUnit, refined: int = 0) -> float:
    """Return how many base histograms a profile of `schema` costs; a range-finding one costs 1/4, a refinement one 6.25."""
    base, range_finding = _histograms(schema, unit)
    return base + range_finding / RANGE_FINDING**2 + refined / REFINEMENT**2


def most_refined(schema: TableSchema) -> int:
    """Return how many columns may be refined: those whose categories must be found, at most `MOST_REFINED`."""
    return min(sum(finds_categories(c) for c in schema.learned), MOST_REFINED)


def declared_noise(events: Sequence[Event]) -> tuple[float, int] | None:
    """Return the least noise of a base histogram, and the number of refinement ones, that declared events pay for.

    None if they pay for no histogram. The finest event is a refinement if the next has over twice its noise, which a
    range-finding one has not. Declared figures may be rounded: the noise is such that no kind of
    histogram falls below its own.
    """
    gaussians = sorted((e for e in events if isinstance(e, DiscreteGaussian)), key=lambda e: e.scale)
    if not gaussians:
        return None
    refined = len(gaussians) > 1 and gaussians[0].scale < math.sqrt(REFINEMENT / RANGE_FINDING) * gaussians[1].scale
    base = gaussians[1:] if refined else gaussians
    scale = max(base[0].scale, base[-1].scale / RANGE_FINDING if len(base) > 1 else 0.0)
    while refined and REFINEMENT * scale < gaussians[0].scale:
        scale = max(gaussians[0].scale / REFINEMENT, math.nextafter(scale, math.inf))
    return scale, gaussians[0].count if refined else 0


def finds_categories(column: Column) -> bool:
    """Whether this is a category or an ordinal whose categories must be found in the rows."""
    return column.kind.categorical and column.categories is None


def thresholded(column: Column) -> bool:
    """Whether values of this column are released if many units hold them."""
    return column.kind.numeric or finds_categories(column)


def counts_rows(schema: TableSchema, unit: PrivacyUnit) -> bool:
    """Whether rows are not units, or some are left out, so that how many remain must be measured too."""
    return unit.column is not None or any(c.nulls is NullPolicy.DROP for c in schema.learned)


def _histograms(schema: TableSchema, unit: PrivacyUnit) -> tuple[int, int]:
    """Count base and range-finding histograms: values and cells; where values lie (ever finer), nulls, precision."""
    base = sum(2 if c.kind.numeric else 1 for c in schema.learned) + int(counts_rows(schema, unit))
    range_finding = sum(1 + c.kind.rounds + int(c.kind.measures_precision(c)) for c in schema.learned if c.kind.numeric)
    return base, range_finding
