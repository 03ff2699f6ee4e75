"""Measures for `validation: report_epsilon` DP metrics of the generator's accuracy, charged and so publishable.

Their pure epsilon is a part of the release's, set aside before the profile is planned, like the row count's, and charged
before training, so that training leaves it its part. They are measured between training and settlement, by the attempt
that charged them and by no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import ACCURACY
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.validation import dp_metrics
from dp_synth_pipeline.validation.dp_metrics import ChargedPlan

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

DRAWS = 200_000
"""At most so many rows are drawn to be compared. They are free, like all rows drawn from a released generator."""


class Accuracy(Mechanism[ChargedPlan, dict[str, float]]):
    """Measures how near the generator's draws are to the rows. It is charged before training and runs after it."""

    name = ACCURACY

    def __init__(self, codec: TableCodec, rows: int, generator: GenerativeModel | None = None) -> None:
        self._codec, self._rows, self._generator = codec, max(rows, 1), generator

    def plan(self, release: Release) -> ChargedPlan | None:
        """Return what will be measured; None if nothing is asked for, or an earlier attempt charged it.

        That attempt may have looked at the rows, and one charge buys one look: the metrics are lost then, not their cost.
        """
        charged_before = any(e.mechanism == self.name for e in release.protection.entries(release.id))
        return None if charged_before else release.allocation.accuracy(len(self._codec.cardinalities))

    def events(self, release: Release, plan: ChargedPlan) -> Sequence[Event]:
        return plan.events

    def begin(self, release: Release) -> tuple[ChargedPlan, Odometer] | None:
        """Charge the metrics before training, which then leaves them their part; return what `run` takes."""
        plan = self.plan(release)
        return None if plan is None else (plan, release.charge(self.name, plan.events))

    def run(self, release: Release, plan: ChargedPlan, odometer: Odometer) -> dict[str, float]:
        """Return the released metrics by name."""
        if self._generator is None:
            raise ReleaseStateError("there is no generator to measure yet; train first.")
        synthetic_codes = self._generator.sample(min(self._rows, DRAWS), forbidden=self._codec.forbidden)
        codes, _ = release.codes(self._codec)
        metrics = dp_metrics.measure(
            codes, synthetic_codes, self._codec.cardinalities, plan, rows=self._rows, odometer=odometer
        )
        return {f"accuracy_{name}": round(value, 6) for name, value in asdict(metrics).items() if value is not None}
