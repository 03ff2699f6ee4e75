"""Whatever is done in whatever order, an account is never overspent and never charged less than what ran."""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Event, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.filter import ATTO, NANO

EVENTS: list[tuple[Event, ...]] = [
    (Gaussian(30.0),),
    (Gaussian(12.0),),
    (DiscreteLaplace(10.0), Threshold(1e-7)),
    (DiscreteLaplace(2.5),),
    (SubsampledGaussian(8.0, 0.01, 40),),
    (SubsampledGaussian(3.0, 0.02, 10), Threshold(3e-7)),
]
ACCOUNTS = {"f": "filter", "p": "plan"}


class Sequences(RuleBasedStateMachine):
    """Requests, crashes and repeats in any order, on a real SQLite ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = self.reopened()
        for name, kind in ACCOUNTS.items():
            self.ledger.open_account(name, epsilon=1.5, delta=4e-6, rule=kind, own_delta_share=0.2)  # type: ignore[arg-type]
        self.releases: list[Release] = []
        self.ran: dict[str, dict[str, tuple[Event, ...]]] = {}

    def reopened(self) -> Ledger:
        return Ledger.open(str(Path(self.folder.name) / "ledger.db"))

    def executed(self, release: str) -> list[Event]:
        return [event for events in self.ran.get(release, {}).values() for event in events]

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.releases[-3:])).id

    @rule(
        account=st.sampled_from(sorted(ACCOUNTS)),
        epsilon=st.sampled_from([0.3, 0.5, 0.9]),
        delta=st.sampled_from([1e-6, 2e-6]),
        own=st.sampled_from([0.0, 3e-7]),
        repeat=st.sampled_from([False, False, False, True]),
    )
    def reserve(self, account: str, epsilon: float, delta: float, own: float, repeat: bool) -> None:
        key = f"k{len(self.releases) - int(repeat)}"
        with suppress(DpSynthError):
            made = self.ledger.reserve(
                account, key=key, epsilon=epsilon, delta=delta, own_delta=own, table="t", run_id="r", code_version="v"
            )
            if made.id not in {r.id for r in self.releases}:
                self.releases.append(made)

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), batch=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3), name=st.sampled_from("abc"))
    def start(self, data: st.DataObject, batch: list[tuple[Event, ...]], name: str) -> None:
        release = self.pick(data)
        for number, events in enumerate(batch):
            with suppress(DpSynthError):
                entry = self.ledger.start(release, f"{name}{number}", events)
                self.ran.setdefault(release, {})[entry.id] = events  # from here on, it may have touched the data

    @precondition(lambda self: self.ran)
    @rule(data=st.data(), steps=st.integers(-1, 60))
    def mark(self, data: st.DataObject, steps: int) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries()))
        with suppress(DpSynthError):
            self.ledger.mark(entry.id, steps)
            assert entry.steps_started <= steps <= entry.steps_paid

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), delta=st.sampled_from([None, 1e-6, 5e-7]))
    def settle(self, data: st.DataObject, delta: float | None) -> None:
        with suppress(DpSynthError):
            assert self.ledger.settle(self.pick(data), delta=delta).state == "settled"

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), sure=st.sampled_from([False, False, False, True]))
    def void(self, data: st.DataObject, sure: bool) -> None:
        release = self.pick(data)
        if not sure:  # few of them, or little is left to start
            return
        with suppress(DpSynthError):
            self.ledger.void(release, "why")
            assert release not in self.ran

    @precondition(lambda self: self.ran)
    @rule(data=st.data())
    def settle_at_mark(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries()))
        with suppress(DpSynthError):
            cut = self.ledger.settle_at_mark(entry.id, why="it crashed", who="A. Officer")
            assert cut.steps_paid == cut.steps_started == entry.steps_started
            # Only the steps that were marked as started can have run.
            self.ran[entry.release_id][entry.id] = tuple(
                replace(e, steps=entry.steps_started) if isinstance(e, SubsampledGaussian) else e
                for e in self.ran[entry.release_id][entry.id]
                if entry.steps_started or not isinstance(e, SubsampledGaussian)
            )

    @rule(account=st.sampled_from(sorted(ACCOUNTS)), more=st.sampled_from([-0.5, 0.0, 0.1, 0.2]))
    def raise_account(self, account: str, more: float) -> None:
        before = self.ledger.account(account)
        with suppress(DpSynthError):
            raised = self.ledger.raise_account(account, epsilon=before.epsilon + more, why="more", who="A. Officer")
            assert raised.cost_limit > before.cost_limit
            assert raised.order == before.order

    @rule()
    def crash(self) -> None:
        self.ledger = self.reopened()

    @invariant()
    def never_overspent_and_never_undercharged(self) -> None:
        for name in ACCOUNTS:
            account, state = self.ledger.account(name), self.ledger._store
            releases = self.ledger.releases(name)
            with state.read() as conn:
                spent, held, delta_spent, delta_held = conn.exec_driver_sql(
                    "SELECT cost_spent, cost_held, delta_spent, delta_held FROM dp_account WHERE name = ?", (name,)
                ).one()
            assert 0 <= spent + held <= account.cost_limit
            assert 0 <= delta_spent + delta_held <= account.delta_limit
            ran = [self.executed(r.id) for r in releases]
            own = math.fsum(e.own_delta for events in ran for e in events)
            assert delta_spent + delta_held >= Fraction(own) * ATTO * (1 - Fraction(1, 10**12))
            if account.order is not None:
                executed = sum(Fraction(accountant.rdp(events, account.order)) for events in ran)
                assert spent + held >= executed * NANO * (1 - Fraction(1, 10**12))

    def teardown(self) -> None:
        verified = self.ledger.verify()
        assert verified.releases == len(self.releases)
        for release in self.ledger.releases():
            ran = self.executed(release.id)
            assert accountant.epsilon(ran, release.delta) <= release.epsilon
            if release.state == "settled" and release.order is None:
                assert release.charged_cost is not None
                assert release.charged_cost >= accountant.epsilon(ran, release.final_delta or 0) * NANO * (1 - 1e-12)
        self.folder.cleanup()


TestSequences = Sequences.TestCase
TestSequences.settings = settings(
    max_examples=12, stateful_step_count=35, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
