"""The attempts of one release at one training, by the ledger's entries: the next goes on where one was cut short.

The steps that earlier attempts started stay charged; those that are left are charged anew, always with fresh noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Entry
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.privacy.events import Event, SubsampledGaussian
from dp_synth_pipeline.synthesis import idempotency
from dp_synth_pipeline.synthesis.protection import OPEN
from dp_synth_pipeline.synthesis.release import Release


class CutShort(NamedTuple):
    """What earlier attempts at a training left to do.

    Attributes:
        steps_done: steps that they started.
        plan: of the whole training.
        events: what they are charged for.
    """

    steps_done: int
    plan: TrainingPlan
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Attempts:
    """The attempts of a release at one training.

    Attributes:
        release: whose training it is.
        mechanism: the training's name; later attempts say from where they resume.
    """

    release: Release
    mechanism: str

    @property
    def entries(self) -> list[Entry]:
        """Their entries in the ledger, oldest first."""
        release = self.release
        return [e for e in release.protection.entries(release.id) if self._is_attempt(e.mechanism)]

    def _is_attempt(self, mechanism: str) -> bool:
        """Say whether an entry is an attempt: the first is called as the training, a resumed one says from where."""
        return mechanism == self.mechanism or mechanism.startswith(f"{self.mechanism}, ")

    def take_over(self, population: int) -> CutShort | None:
        """Charge what earlier attempts started, which shuts them out; return what they left, or None if this is the first.

        Args:
            population: the released number of units.

        Raises:
            ReleaseStateError: if the release is over, or this attempt began the training before: it was delivered twice.
        """
        state = self.release.record.state
        if state not in OPEN:
            raise ReleaseStateError(
                f"the release behind these rows is {state}, so nothing more may be learnt from them. Materialize the table "
                f"again from `ingested`: a new release is a new charge."
            )
        entries = self.entries
        idempotency.check_first_training(self.release.attempt, entries)
        return self._left_by(entries, population) if entries else None

    def _left_by(self, entries: list[Entry], population: int) -> CutShort:
        *earlier_entries, last_entry = entries
        if last_entry.state != "started":
            raise ReleaseStateError(
                "this training was settled at its mark, so its steps are over. Settle the release, and materialize the "
                "table again from `ingested`: a new release is a new charge."
            )
        (first_event,) = (e for e in last_entry.events if isinstance(e, SubsampledGaussian))
        earlier_steps = sum(e.steps_started for e in earlier_entries)
        steps = earlier_steps + last_entry.steps_paid
        cut = self.release.protection.ledger.settle_at_mark(
            last_entry.id, who=f"release {self.release.id}", why="training resumes from its last checkpoint"
        )
        batch = max(1.0, round(first_event.sample_rate * population))
        plan = TrainingPlan(first_event.sample_rate, steps, batch, first_event.noise_multiplier)
        events = tuple(event for entry in (*earlier_entries, cut) for event in entry.events)
        return CutShort(earlier_steps + cut.steps_started, plan, events)

    def charge(self, plan: TrainingPlan, steps_done: int) -> Entry | None:
        """Charge the steps that are left; none are if an earlier attempt died between its last step and its end."""
        if steps_done == plan.steps:
            return None
        release, left = self.release, replace(plan, steps=plan.steps - steps_done)
        key = idempotency.entry_key(release.attempt)
        return release.protection.charge(release.id, self._next_name(steps_done), [left.event], key, release.upon)

    def _next_name(self, steps_done: int) -> str:
        """Name the next attempt, as no earlier one was named."""
        earlier = [entry.mechanism for entry in self.entries]
        if not earlier:
            return self.mechanism
        name = f"{self.mechanism}, resumed at {steps_done}"
        return f"{name}, attempt {len(earlier) + 1}" if name in earlier else name
