"""Whatever is done in whatever order, an umbrella bounds the sum of what its members ran, and is never charged less."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Event, SubsampledGaussian
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from tests.property.test_ledger_sequences import EVENTS

MEMBERS: dict[str, dict[str, Any]] = {
    "visits": {"max_rows": 30},
    "drugs": {"max_rows": 5, "rule": "plan"},
    "months": {"max_rows": 3, "blocks": ["jan", "feb"], "unit_in_one_block": True},
}
WORD = {"why": "why", "who": "A. Officer"}
DOWN = 1 - Fraction(1, 10**12)


class Members(RuleBasedStateMachine):
    """Requests, plans, charges by hand, crashes and repeats on the members of one umbrella."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = self.reopened()
        umbrella = {"unit": "patient_id", "umbrella": True, "own_delta_share": 0.2}
        self.ledger.open_account("clinic", epsilon=1.9, delta=4e-6, **umbrella)  # type: ignore[arg-type]
        for name, terms in MEMBERS.items():
            self.ledger.open_account(name, epsilon=1.5, delta=4e-6, own_delta_share=0.2, under="clinic", **terms)
        self.releases: list[Release] = []
        self.ran: dict[str, dict[str, tuple[Event, ...]]] = {}
        self.declared: list[tuple[tuple[Event, ...], int]] = []

    def reopened(self) -> Ledger:
        return Ledger.open(str(Path(self.folder.name) / "ledger.db"))

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.releases[-3:])).id

    @rule(
        data=st.data(),
        account=st.sampled_from(sorted(MEMBERS)),
        epsilon=st.sampled_from([0.3, 0.5, 0.9]),
        own=st.sampled_from([0.0, 3e-7]),
    )
    def reserve(self, data: st.DataObject, account: str, epsilon: float, own: float) -> None:
        fits = self.ledger.capacity(account, epsilon=epsilon, delta=1e-6, own_delta=own)
        blocks = data.draw(st.sampled_from([(), ("jan",), ("jan", "feb")])) if account == "months" else ()
        key, rows = f"k{len(self.releases)}", MEMBERS[account]["max_rows"]
        words = {"table": "t", "run_id": "r", "code_version": "v", "unit": "patient_id", "max_rows": rows}
        asked = {"epsilon": epsilon, "delta": 1e-6, "own_delta": own, "blocks": blocks}
        try:
            self.releases.append(self.ledger.reserve(account, key=key, **words, **asked))
        except DpSynthError:
            assert not fits
        else:
            assert fits or blocks

    @rule(account=st.sampled_from(sorted(MEMBERS)), events=st.sampled_from(EVENTS), times=st.integers(1, 3))
    def declare(self, account: str, events: tuple[Event, ...], times: int) -> None:
        share = (0.9, 1e-6) if account == "drugs" else None
        with suppress(DpSynthError):
            name = f"p{len(self.declared)}"
            self.ledger.declare_plan(account, name=name, events=events, times=times, share=share, **WORD)
            self.declared.append((events, times))

    @rule(account=st.sampled_from(["clinic", *sorted(MEMBERS)]), events=st.sampled_from(EVENTS))
    def charge_by_hand(self, account: str, events: tuple[Event, ...]) -> None:
        with suppress(DpSynthError):
            self.ledger.charge_by_hand(account, events, delta=1e-6, **WORD)
            self.declared.append((events, 1))

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), events=st.sampled_from(EVENTS), name=st.sampled_from("abc"))
    def start(self, data: st.DataObject, events: tuple[Event, ...], name: str) -> None:
        release = self.pick(data)
        with suppress(DpSynthError):
            entry = self.ledger.start(release, name, events)
            self.ran.setdefault(release, {})[entry.id] = events  # from here on, it may have touched the data

    @precondition(lambda self: self.ran)
    @rule(data=st.data(), steps=st.integers(-1, 60))
    def mark(self, data: st.DataObject, steps: int) -> None:
        with suppress(DpSynthError):
            self.ledger.mark(data.draw(st.sampled_from(self.ledger.entries())).id, steps)

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), why=st.sampled_from(["", "it crashed"]))
    def settle(self, data: st.DataObject, why: str) -> None:
        with suppress(DpSynthError):
            self.ledger.settle(self.pick(data), why=why)

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), sure=st.sampled_from([False, False, True]))
    def void(self, data: st.DataObject, sure: bool) -> None:
        with suppress(DpSynthError):
            if sure:  # few of them, or little is left to start
                self.ledger.void(self.pick(data), "why")

    @precondition(lambda self: self.ran)
    @rule(data=st.data())
    def settle_at_mark(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries()))
        with suppress(DpSynthError):
            self.ledger.settle_at_mark(entry.id, **WORD)
            marked = entry.steps_started
            ran = self.ran[entry.release_id][entry.id]
            cut = [replace(e, steps=marked) if isinstance(e, SubsampledGaussian) else e for e in ran]
            self.ran[entry.release_id][entry.id] = tuple(
                e for e in cut if marked or not isinstance(e, SubsampledGaussian)
            )

    @rule()
    def crash(self) -> None:
        self.ledger = self.reopened()

    @invariant()
    def the_umbrella_bounds_the_sum_over_its_members_and_is_charged_no_less(self) -> None:
        umbrella, balance = self.ledger.account("clinic"), self.ledger.balance("clinic")
        assert umbrella.order is not None
        assert 0 <= balance.cost_spent + balance.cost_held <= umbrella.cost_limit
        assert 0 <= balance.delta_spent + balance.delta_held <= umbrella.delta_limit
        ran = [events for entries in self.ran.values() for events in entries.values()]
        ran += [events for events, times in self.declared for _ in range(times)]
        executed = sum(Fraction(accountant.rdp(events, umbrella.order)) for events in ran)
        assert balance.cost_spent + balance.cost_held >= executed * NANO * DOWN
        own = sum(Fraction(e.own_delta) for events in ran for e in events)
        assert balance.delta_spent + balance.delta_held >= own * ATTO * DOWN

    def teardown(self) -> None:
        verified = self.ledger.verify()
        assert verified.releases == len(self.ledger.releases()) + len(self.ledger.releases("clinic")) - sum(
            r.mirrors is None for r in self.ledger.releases("clinic")
        )
        self.folder.cleanup()


TestMembers = Members.TestCase
TestMembers.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
