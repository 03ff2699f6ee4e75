"""Counts pairs and triples of columns with noise. The network starts from these counts, and its draws are raked to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_synth_pipeline.model.marginals.plan import MarginalsPlan
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.no_protection import sampled
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import MARGINALS
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Layout
    from dp_synth_pipeline.model.marginals.measuring import Marginals as Measured


class Marginals(Mechanism[MarginalsPlan, "Measured"]):
    """Measures the sets of columns that the plan has room for, or those that an earlier release measured."""

    name = MARGINALS

    def __init__(self, codec: TableCodec, profile: TableProfile, again: Layout | None = None) -> None:
        self._codec, self._profile, self._again = codec, profile, again

    def plan(self, release: Release) -> MarginalsPlan | None:
        profile = self._profile
        if self._again is not None:
            return release.allocation.marginals_again(self._again, profile.population, release.spent)
        plan = release.allocation.marginals(self._codec.cardinalities, profile.population, profile.rows, release.spent)
        return plan if plan is not None and plan.chosen else None

    def events(self, release: Release, plan: MarginalsPlan) -> Sequence[Event]:
        return (plan.event,)

    def run(self, release: Release, plan: MarginalsPlan, odometer: Odometer) -> Measured:
        from dp_synth_pipeline.model.marginals import measuring

        codec = self._codec
        codes, _ = release.codes(codec)
        if self._again is not None:
            return measuring.measure_again(codes, self._again, plan, rows=self._profile.rows, odometer=odometer)
        measurements = measuring.measure(
            codes, codec.cardinalities, codec.marginals(), plan, rows=self._profile.rows, odometer=odometer
        )
        return measurements if release.protection.guaranteed else sampled(measurements)
