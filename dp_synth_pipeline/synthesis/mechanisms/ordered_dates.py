"""Finds dates that are the same as others of their row, or never before them; after the row count, before the profile."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import ORDERED_DATES
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.ordered_dates import DatesPlan


class OrderedDates(Mechanism[DatesPlan, dict[str, dict[str, str]]]):
    """Measures a histogram of the days between each two dates, where a person left open how they hang together."""

    name = ORDERED_DATES

    def __init__(self, population: int) -> None:
        self._population = population

    def plan(self, release: Release) -> DatesPlan | None:
        pairs = ordered_dates.pairs(release.dated, release.may_hang)
        return release.allocation.ordered_dates(pairs, self._population) if pairs else None

    def events(self, release: Release, plan: DatesPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: DatesPlan, odometer: Odometer) -> dict[str, dict[str, str]]:
        rows, able = release.dated_rows(), release.may_hang
        return ordered_dates.measure(rows, release.dated, able, plan, odometer, release.begins)
