"""What a profile measures and what that costs, fixed from public facts and the noisy row count before the first histogram.

Three kinds of histograms: *full* ones, of values and of cells; *steering* ones, of where values lie and how precise they
are, at twice the noise; *closer* ones, of the columns that the full ones hid most of, at 0.4 of the noise. How many of
each there are depends on the rows by their noisy count alone; which columns are looked at closer, by what was noised
already.
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

STEER, CLOSER = 2.0, 0.4
"""Noise of a steering and of a closer histogram, in units of a full one's."""

MOST_CLOSER = 3
"""Columns that are looked at closer, at most."""


@dataclass(frozen=True)
class ProfilePlan:
    """The noise of a profile, fixed from public facts and the noisy row count.

    Attributes:
        count_epsilon: pure epsilon of the row count; None if the population is declared.
        scale: discrete Gaussian parameter of a full histogram's cells, in rows.
        threshold_delta: chance, in all, that a value held by one unit alone is named.
        unit: the privacy unit, whose rows are bounded already.
        population: declared number of units, public; None to count them.
        closer: how many of the columns whose names are found, not declared, are counted once more with less noise: those
            of which the full histograms hid most.
    """

    count_epsilon: float | None
    scale: float
    threshold_delta: float
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    population: int | None = None
    closer: int = 0

    def count_events(self) -> tuple[Event, ...]:
        """What the row count costs."""
        return () if self.count_epsilon is None else (DiscreteLaplace(1 / self.count_epsilon, 1),)

    def histogram_events(self, schema: TableSchema) -> tuple[Event, ...]:
        """What the histograms cost; the same whatever the rows are."""
        full, steering = _histograms(schema, self.unit)
        counts = ((1.0, full), (CLOSER, self.closer), (STEER, steering))
        events: list[Event] = [DiscreteGaussian(by * self.scale, self.unit.max_rows, n) for by, n in counts if n]
        if any(thresholded(c) for c in schema.learned):
            events.append(Threshold(self.threshold_delta))
        return tuple(events)

    def keys(self, schema: TableSchema) -> int:
        """Return how many cells that need a threshold one unit can bring into being, closer looks counted again."""
        return (self.closer + sum(thresholded(c) for c in schema.learned)) * self.unit.max_rows


def weight(schema: TableSchema, unit: PrivacyUnit, closer: int = 0) -> float:
    """Return how many full histograms a profile of `schema` costs; a steering one costs 1/4, a closer one 6.25."""
    full, steering = _histograms(schema, unit)
    return full + steering / STEER**2 + closer / CLOSER**2


def most_closer(schema: TableSchema) -> int:
    """Return how many columns may be looked at closer: those whose names must be found, at most `MOST_CLOSER`."""
    return min(sum(unnamed(c) for c in schema.learned), MOST_CLOSER)


def declared_noise(events: Sequence[Event]) -> tuple[float, int] | None:
    """Return the least noise of a full histogram, and the number of closer ones, that declared events pay for.

    None if they pay for no histogram. The finest event is a closer look if the next has over twice its noise, which a
    steering one has not. Declared figures may be rounded: the noise is such that no kind of histogram falls below its own.
    """
    found = sorted((e for e in events if isinstance(e, DiscreteGaussian)), key=lambda e: e.scale)
    if not found:
        return None
    closer = len(found) > 1 and found[0].scale < math.sqrt(CLOSER / STEER) * found[1].scale
    full = found[1:] if closer else found
    scale = max(full[0].scale, full[-1].scale / STEER if len(full) > 1 else 0.0)
    while closer and CLOSER * scale < found[0].scale:
        scale = max(found[0].scale / CLOSER, math.nextafter(scale, math.inf))
    return scale, found[0].count if closer else 0


def unnamed(column: Column) -> bool:
    """Whether this is a category or an ordinal whose names must be found in the rows."""
    return column.kind.named and column.categories is None


def thresholded(column: Column) -> bool:
    """Whether values of this column are named if many units hold them."""
    return column.kind.numeric or unnamed(column)


def counts_rows(schema: TableSchema, unit: PrivacyUnit) -> bool:
    """Whether rows are not units, or some are left out, so that how many remain must be measured too."""
    return unit.column is not None or any(c.nulls is NullPolicy.DROP for c in schema.learned)


def _histograms(schema: TableSchema, unit: PrivacyUnit) -> tuple[int, int]:
    """Count full and steering histograms: values and cells; where values lie (ever finer), nulls, precision."""
    full = sum(2 if c.kind.numeric else 1 for c in schema.learned) + int(counts_rows(schema, unit))
    steering = sum(1 + c.kind.rounds + int(c.kind.measures_precision(c)) for c in schema.learned if c.kind.numeric)
    return full, steering
