"""Measures the noisy 1-way histograms from which bounds, categories, null rates and precision are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import PROFILE
from dp_synth_pipeline.tabular.encoding.axis import worth_coding, worth_separating
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan


class Profile(Mechanism[ProfilePlan, TableProfile]):
    """Measures one histogram or more of each column, at a noise that follows from the noisy number of units."""

    name = PROFILE

    def __init__(self, population: int) -> None:
        self._population = population

    def plan(self, release: Release) -> ProfilePlan:
        return release.allocation.profile(release.profiled, self._population, len(release.state.untyped))

    def events(self, release: Release, plan: ProfilePlan) -> Sequence[Event]:
        return plan.histogram_events(release.profiled)

    def run(self, release: Release, plan: ProfilePlan, odometer: Odometer) -> TableProfile:
        rows, histories = release.measured_rows(), release.history_values
        profile = measure.measure(rows, release.profiled, plan, self._population, odometer, histories)
        noise = release.allocation.noise(self._population) * plan.unit.max_rows
        codes = worth_coding(profile.rows, noise, len(profile.columns))
        # Rows of histories are learnt upon those before them, so that more codes cost more there.
        apart = histories is None
        columns = (replace(c, most_codes=codes, separate=apart and worth_separating(c, codes)) for c in profile.columns)
        profile = replace(profile, columns=tuple(columns))
        return profile if release.protection.guaranteed else replace(profile, events=())
