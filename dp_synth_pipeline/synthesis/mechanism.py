"""Every mechanism plans from public facts, charges, and then touches rows, in this order and no other.

A new mechanism is one file under `mechanisms/`: a name, a plan, the plan's privacy events, and a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.release import Release

Plan = TypeVar("Plan")
Outcome = TypeVar("Outcome")


class Mechanism(ABC, Generic[Plan, Outcome]):
    """One look at a table's rows, for a charge that is fixed and durable before it."""

    name: str
    """Its entry's name in the ledger."""

    @abstractmethod
    def plan(self, release: Release) -> Plan | None:
        """Return what will run, from public and released facts alone; None if there is nothing to run."""

    @abstractmethod
    def events(self, release: Release, plan: Plan) -> Sequence[Event]:
        """Return what that costs at most, whatever the rows are."""

    @abstractmethod
    def run(self, release: Release, plan: Plan, odometer: Odometer) -> Outcome:
        """Look at the rows, and return what is released.

        Args:
            odometer: of what was charged for it, which refuses whatever is beyond.
        """

    def perform(self, release: Release) -> Outcome | None:
        """Plan, charge and run; return what is released, or None if there was nothing to run."""
        plan = self.plan(release)
        if plan is None:
            return None
        odometer = release.charge(self.name, self.events(release, plan))
        return self.run(release, plan, odometer)
