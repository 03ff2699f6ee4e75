"""Crash at step 700, resume at 500: 900 steps are charged for 700 kept, and never fewer."""

from __future__ import annotations

import os
import signal

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.unit.ledger.stores import ask, in_processes

pytest_plugins = ("tests.unit.ledger.stores",)

WORD = {"why": "the node lost its power", "who": "A. Officer"}


def steps(count: int) -> list[SubsampledGaussian]:
    return [SubsampledGaussian(4.0, 0.01, count)]


def crash_at(ledger: Ledger, release: str, step: int, of: int = 1000) -> str:
    """Train in another process, which marks every hundred steps before they run, and dies at `step`."""

    def train() -> None:
        entry = ledger.start(release, "training", steps(of))
        for end in range(100, of + 100, 100):
            ledger.mark(entry.id, end)
            if end >= step:
                os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(1, train) == [-signal.SIGKILL]
    return ledger.entries(release_id=release)[0].id


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_crash_at_700_resumed_at_500_is_charged_900_steps_for_700_kept(ledger: Ledger, account: str) -> None:
    release = ask(ledger, account, "k", epsilon=0.8)
    entry = crash_at(ledger, release.id, 700, of=700)
    assert ledger.balance(account).cost_held == release.reserved_cost
    ledger.settle_at_mark(entry, **WORD)
    again = ledger.start(release.id, "training, resumed", steps(200))
    ledger.mark(again.id, 200)
    settled = ledger.settle(release.id)
    assert settled.final_epsilon == pytest.approx(accountant.epsilon(steps(900), 1e-6), rel=1e-6)
    assert settled.final_epsilon > accountant.epsilon(steps(700), 1e-6) * 1.05
    if account == "f":
        assert settled.charged_cost == pytest.approx(accountant.rdp(steps(900), 10.0) * filter.NANO, abs=2)
    ledger.verify()


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_resume_that_the_crash_left_no_room_for_is_refused_and_changes_nothing(ledger: Ledger, account: str) -> None:
    fits = accountant.epsilon(steps(1000), 1e-6) * 1.25
    release = ask(ledger, account, "k", epsilon=fits)
    entry = crash_at(ledger, release.id, 900)
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training, resumed", steps(1000))
    ledger.settle_at_mark(entry, **WORD)
    head = ledger.head()
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training, resumed", steps(1000))
    assert ledger.head() == head


def test_before_an_operator_speaks_all_steps_are_taken_to_have_run(ledger: Ledger) -> None:
    release = ask(ledger, "p", "k", epsilon=accountant.epsilon(steps(1000), 1e-6) * 1.001)
    entry = crash_at(ledger, release.id, 100)
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training, resumed", steps(100))
    with pytest.raises(ReleaseStateError, match="already started"):
        ledger.start(release.id, "training", steps(1000))
    ledger.settle_at_mark(entry, **WORD)
    assert ledger.start(release.id, "training, resumed", steps(850)).steps_paid == 850


def test_a_release_that_was_settled_cannot_be_cut_any_more(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k", epsilon=0.9)
    entry = crash_at(ledger, release.id, 300)
    ledger.settle(release.id)
    with pytest.raises(ReleaseStateError):
        ledger.settle_at_mark(entry, **WORD)
    ledger.verify()
