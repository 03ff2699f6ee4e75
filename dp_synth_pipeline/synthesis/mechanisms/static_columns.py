"""Finds, for a row that others hang on, which of their columns are the same in all of them; before its own profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import static_columns
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.static_columns import StaticPlan
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import STATIC


class StaticColumns(Mechanism[StaticPlan, dict[str, tuple[str, ...]]]):
    """Counts the persons in whose rows a column varies, for each column of the tables below of which nobody said whether it
    is static."""

    name = STATIC

    def __init__(self, columns: Mapping[str, tuple[str, ...]], rows: Mapping[str, RelatedRows]) -> None:
        self._columns, self._rows = {name: c for name, c in columns.items() if c}, rows

    def plan(self, release: Release) -> StaticPlan | None:
        return release.allocation.static(self._columns) if self._columns else None

    def events(self, release: Release, plan: StaticPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: StaticPlan, odometer: Odometer) -> dict[str, tuple[str, ...]]:
        return static_columns.measure(self._rows, plan, odometer)
