"""Finds numbers that one to three others of their row give; after the ordered dates, before the profile."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import FORMULAS
from dp_synth_pipeline.tabular.profiling import formulas
from dp_synth_pipeline.tabular.profiling.formulas import FormulasPlan


class Formulas(Mechanism[FormulasPlan, tuple[str, ...]]):
    """Counts rows by the formulas that they keep, where a person left open which numbers others give."""

    name = FORMULAS

    def __init__(self, population: int) -> None:
        self._population = population

    def plan(self, release: Release) -> FormulasPlan | None:
        columns = release.may_be_computed[: formulas.MOST_COLUMNS]
        return release.allocation.formulas(columns, self._population) if len(columns) > 2 else None

    def events(self, release: Release, plan: FormulasPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: FormulasPlan, odometer: Odometer) -> tuple[str, ...]:
        return formulas.measure(release.state.path("snapshot"), plan, odometer, release.computed)
