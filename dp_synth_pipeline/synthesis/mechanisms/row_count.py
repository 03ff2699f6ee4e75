"""Counts privacy units with noise. This comes first, since everything later may depend on it."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import ROW_COUNT
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan


class RowCount(Mechanism[ProfilePlan, int]):
    """Counts the units with a small pure epsilon of its own, unless their number is declared."""

    name = ROW_COUNT

    def plan(self, release: Release) -> ProfilePlan:
        return release.allocation.profile(release.profiled)

    def events(self, release: Release, plan: ProfilePlan) -> Sequence[Event]:
        return plan.count_events()

    def run(self, release: Release, plan: ProfilePlan, odometer: Odometer) -> int:
        return measure.measure_population(release.state.units, plan, odometer)
