"""Finds, before a row's profile, which columns of those that hang on it are the same in all of them, or never fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import static_columns
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.static_columns import Candidates, Found, StaticPlan
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import STATIC


class StaticColumns(Mechanism[StaticPlan, dict[str, Found]]):
    """Counts the persons in whose rows a column varies, and a number falls, of the columns below of which nobody said so."""

    name = STATIC

    def __init__(
        self, candidates: Mapping[str, Candidates], rows: Mapping[str, RelatedRows], above: RelatedRows
    ) -> None:
        self._above = above
        self._candidates = {name: found for name, found in candidates.items() if found.columns or found.bounds}
        self._rows = rows

    def plan(self, release: Release) -> StaticPlan | None:
        return release.allocation.static(self._candidates) if self._candidates else None

    def events(self, release: Release, plan: StaticPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: StaticPlan, odometer: Odometer) -> dict[str, Found]:
        return static_columns.measure(self._rows, plan, odometer, self._above)
