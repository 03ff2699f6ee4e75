"""Measures the types of a CSV's columns, of which no schema says anything; after the row count, before the profile."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import TYPES
from dp_synth_pipeline.tabular.profiling import types
from dp_synth_pipeline.tabular.profiling.types import TypesPlan
from dp_synth_pipeline.tabular.sources.csv import declared


class Types(Mechanism[TypesPlan, types.Types]):
    """Measures a histogram of classes for each column whose type nobody declared, and the formats of dates and times."""

    name = TYPES

    def __init__(self, population: int) -> None:
        self._population = population

    def plan(self, release: Release) -> TypesPlan | None:
        columns = len(release.state.untyped)
        return release.allocation.types(columns, self._population) if columns else None

    def events(self, release: Release, plan: TypesPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: TypesPlan, odometer: Odometer) -> types.Types:
        state, facts = release.state, release.settings.columns
        columns = [c for n in state.untyped if isinstance(c := declared.cell_type(n, facts.get(n)), declared.Untyped)]
        return types.measure(state.path("snapshot"), columns, plan, odometer, state.set_aside)
