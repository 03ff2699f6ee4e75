"""Counts pairs and triples of columns with noise. The network starts from these counts, and its draws are raked to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.model.marginals.plan import MarginalsPlan
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.no_protection import sampled
from dp_synth_pipeline.synthesis.release import Columns, Release
from dp_synth_pipeline.synthesis.release_plan import MARGINALS
from dp_synth_pipeline.tabular.profiling.profile import TableProfile

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Layout
    from dp_synth_pipeline.model.marginals.measuring import Marginals as Measured


class Marginals(Mechanism[MarginalsPlan, "Measured"]):
    """Measures the sets of columns that the plan has room for, or those that an earlier release measured."""

    name = MARGINALS

    def __init__(self, columns: Columns, profile: TableProfile, again: Layout | None = None) -> None:
        self._columns, self._profile, self._again = columns, profile, again

    def plan(self, release: Release) -> MarginalsPlan | None:
        profile, cardinalities, given = self._profile, self._columns.cardinalities, self._columns.given
        if self._again is not None:
            return release.allocation.marginals_again(self._again, profile.population, release.spent, given)
        plan = release.allocation.marginals(cardinalities, profile.population, profile.rows, release.spent, given)
        return plan if plan is not None and plan.chosen else None

    def events(self, release: Release, plan: MarginalsPlan) -> Sequence[Event]:
        return (plan.event,)

    def run(self, release: Release, plan: MarginalsPlan, odometer: Odometer) -> Measured:
        from dp_synth_pipeline.model.marginals import measuring

        codes, parts = release.counted()
        how: dict[str, Any] = {"rows": self._profile.rows, "odometer": odometer, "parts": parts}
        if self._again is not None:
            return measuring.measure_cliques(codes, self._again, plan, **how)
        measurements = measuring.measure(codes, self._columns.shares, plan, orders=self._columns.orders, **how)
        return measurements if release.protection.guaranteed else sampled(measurements)
