"""Processes that race at the boundary, and processes that are killed at every point: never overspent, never stuck."""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from tests.unit.ledger.stores import SMALL, ask, in_processes, processes

pytest_plugins = ("tests.unit.ledger.stores",)

STEPS = (SubsampledGaussian(20.0, 0.01, 10),)
WORD = {"why": "why", "who": "A. Officer"}


@pytest.mark.parametrize(("account", "epsilon"), [("tenth", 0.1), ("f", 0.8)])
def test_eight_processes_at_the_boundary_are_admitted_exactly_as_often_as_it_fits(
    ledger: Ledger, account: str, epsilon: float
) -> None:
    ledger.open_account("tenth", epsilon=1.0, delta=1e-4, rule="plan")
    # Priced once here, so that the children only race.
    cost = ledger.void(ask(ledger, account, "warm", epsilon=epsilon).id, "warm").reserved_cost
    fits = ledger.balance(account).cost_limit // cost
    assert fits == {"tenth": 10, "f": 11}[account]

    def grab() -> None:
        for _ in range(4):
            with suppress(BudgetExceeded):
                ask(ledger, account, uuid.uuid4().hex, epsilon=epsilon)

    assert in_processes(8, grab) == [0] * 8
    held = [r for r in ledger.releases(account) if r.state == "reserved"]
    left = ledger.balance(account)
    assert len(held) == fits
    assert 0 <= left.cost_left < cost
    assert left.cost_held == fits * cost
    ledger.verify()


def test_processes_at_the_end_of_a_plan_take_exactly_the_uses_that_are_left(ledger: Ledger) -> None:
    ledger.declare_plan("p", name="weekly", events=STEPS, times=5, **WORD)

    def use() -> None:
        for _ in range(3):
            with suppress(BudgetExceeded):
                ledger.reserve("p", key=uuid.uuid4().hex, table="t", run_id="r", code_version="v", plan="weekly")

    assert in_processes(4, use) == [0] * 4
    assert len(ledger.releases("p")) == ledger.plans("p")[0].used == 5
    ledger.verify()


def test_processes_over_blocks_fill_every_block_exactly(ledger: Ledger) -> None:
    names = ["jan", "feb", "mar"]
    ledger.open_account("b", epsilon=1.0, delta=1e-5, rule="plan", blocks=names, unit_in_one_block=True)

    def grab() -> None:
        rng = random.Random(os.getpid())
        for _ in range(12):
            with suppress(BudgetExceeded):
                ask(ledger, "b", uuid.uuid4().hex, epsilon=0.25, blocks=rng.sample(names, rng.choice([1, 1, 2])))

    assert in_processes(6, grab) == [0] * 6
    for name in names:
        held = sum(name in r.blocks for r in ledger.releases("b"))
        assert ledger.balance("b", name).cost_left == 10**9 - held * 25 * 10**7 >= 0
    ledger.verify()


def test_processes_that_raise_and_spend_at_once_lose_neither(ledger: Ledger) -> None:
    def work() -> None:
        for number in range(2):
            ask(ledger, "p", uuid.uuid4().hex, epsilon=0.1, delta=1e-8)
            with suppress(InvalidInput):  # another one raised it higher already
                ledger.raise_account("p", epsilon=3.0 + random.Random(os.getpid() + number).random(), **WORD)

    assert in_processes(4, work) == [0] * 4
    ledger.verify()
    limits = [r.facts["account"]["epsilon"] for r in ledger.history("p") if r.action == "raised"]
    assert limits == sorted(limits) != []
    assert ledger.balance("p").cost_held == 8 * 10**8


def test_processes_that_start_in_one_release_stay_within_what_it_reserved(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")

    def start() -> None:
        for number in range(3):
            with suppress(BudgetExceeded):
                ledger.start(release.id, f"{os.getpid()}-{number}", [Gaussian(20.0)])

    assert in_processes(4, start) == [0] * 4
    started = ledger.entries(release_id=release.id)
    assert 1 < len(started) < 12
    assert [e.position for e in started] == list(range(len(started)))
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "one more", [Gaussian(20.0)])
    assert sum(e.cost for e in started) <= release.reserved_cost
    ledger.verify()


def test_one_mechanism_is_started_by_one_of_the_processes_that_try(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")

    def start() -> None:
        try:
            ledger.start(release.id, "training", SMALL)
        except ReleaseStateError:
            os._exit(7)

    assert sorted(in_processes(4, start)) == [0, 7, 7, 7]  # type: ignore[type-var]
    ledger.verify()


def test_processes_that_settle_one_release_charge_it_once(ledger: Ledger) -> None:
    release = ask(ledger, "p", "k")
    entry = ledger.start(release.id, "training", STEPS)
    ledger.mark(entry.id, 10)
    assert in_processes(4, lambda: ledger.settle(release.id)) == [0] * 4
    assert ledger.balance("p").cost_spent == ledger.release(release.id).charged_cost
    assert [r.action for r in ledger.history()].count("settled") == 1


def test_random_kills_never_overspend_lose_a_charge_or_block_those_who_come_after(ledger: Ledger) -> None:
    def work() -> None:
        with suppress(BudgetExceeded):
            while True:
                release = ask(ledger, "p", uuid.uuid4().hex, epsilon=0.1, delta=1e-8)
                entry = ledger.start(release.id, "training", STEPS)
                ledger.mark(entry.id, 5)
                ledger.settle(release.id)

    for _ in range(6):
        children = [processes.Process(target=work) for _ in range(3)]
        for child in children:
            child.start()
        time.sleep(random.uniform(0.02, 0.12))
        for child in children:
            child.kill()
            child.join(30)
    ledger.verify()
    left = ledger.balance("p")
    assert left.cost_left >= 0
    assert ask(ledger, "p", "after", epsilon=0.001, delta=1e-9).state == "reserved"


def kill_at(ledger: Ledger, statement: int | None, act: Callable[[], object]) -> None:
    """Do `act`, and die without a word at the given statement of it, or right before the commit, or right after."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    def commit(connection: sa.Connection) -> None:
        if statement is None and connection.get_execution_options().get("dp_write"):
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(ledger._store.engine, "before_cursor_execute", count)
    sa.event.listen(ledger._store.engine, "commit", commit)
    act()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "step", ["reserve", "start", "mark", "settle", "void", "settle at mark", "raise", "plan", "use", "source"]
)
def test_a_kill_at_any_statement_leaves_the_state_before_or_the_state_after(ledger: Ledger, step: str) -> None:
    ledger.open_account("big", epsilon=50.0, delta=1e-4, rule="plan")

    def reserve() -> str:
        return ask(ledger, "big", uuid.uuid4().hex, epsilon=0.1, delta=1e-8).id

    acts: dict[str, Callable[[str, str], object]] = {
        "reserve": lambda r, e: ask(ledger, "big", "the one", epsilon=0.1, delta=1e-8),
        "start": lambda r, e: ledger.start(r, "training", STEPS),
        "mark": lambda r, e: ledger.mark(e, 5),
        "settle": lambda r, e: ledger.settle(r),
        "void": lambda r, e: ledger.void(r, "why"),
        "settle at mark": lambda r, e: ledger.settle_at_mark(e, **WORD),
        "raise": lambda r, e: ledger.raise_account("big", epsilon=60.0, **WORD),
        "plan": lambda r, e: ledger.declare_plan("big", name="w", events=STEPS, times=3, share=(1.0, 1e-6), **WORD),
        "use": lambda r, e: ask(ledger, "big", "the use", plan="weekly", epsilon=None, delta=None, own_delta=None),
        "source": lambda r, e: ledger.note_source(r, "digest"),
    }
    release = reserve()
    entry = ledger.start(release, "profile", STEPS).id if step in ("mark", "settle", "settle at mark") else ""
    if step == "settle at mark":
        ledger.mark(entry, 5)
    if step == "use":
        ledger.declare_plan("big", name="weekly", events=STEPS, times=3, share=(1.0, 1e-6), **WORD)
    before = ledger.head()
    for statement in (2, 4, 6, 8, 10, 12, 14, None):
        work = partial(kill_at, ledger, statement, partial(acts[step], release, entry))
        assert in_processes(1, work) == [-signal.SIGKILL]
        ledger.verify()
        if ledger.head() != before:
            break  # the kill came after the commit: the step was done, and is done once
    else:
        # All kills came before the commit, and none of them left a trace; now the step is done.
        acts[step](release, entry)
    rows = {"reserve": "reserved", "start": "started", "mark": "marked", "settle": "settled", "void": "voided"}
    rows |= {"settle at mark": "settled at mark", "raise": "raised", "plan": "planned", "use": "reserved"}
    done = [r.action for r in ledger.history("big")].count(rows.get(step, step))
    assert done == {"reserve": 2, "use": 2}.get(step, 1)
    ledger.verify()


def test_a_reservation_whose_reply_was_lost_is_found_again_by_its_key(ledger: Ledger) -> None:
    def lost() -> None:
        ask(ledger, "p", "the one")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(1, lost) == [-signal.SIGKILL]
    held = ledger.balance("p").cost_held
    assert held == 500_000_000
    assert ask(ledger, "p", "the one").id == ledger.releases("p")[0].id
    assert ledger.balance("p").cost_held == held


def test_a_crash_holds_the_reservation_until_someone_settles_it(ledger: Ledger) -> None:
    def crash() -> None:
        release = ask(ledger, "f", "k")
        ledger.mark(ledger.start(release.id, "training", STEPS).id, 7)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(1, crash) == [-signal.SIGKILL]
    release = ledger.releases("f")[0]
    assert ledger.balance("f").cost_held == release.reserved_cost
    assert ledger.entries()[0].steps_started == 7
    with pytest.raises(ReleaseStateError, match="already started"):
        ledger.start(release.id, "training", STEPS)
    assert ledger.settle(release.id).charged_cost == ledger.entries()[0].cost
