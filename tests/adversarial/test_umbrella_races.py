"""Processes that race on different members of one umbrella, and are killed at every point: never overspent, never apart."""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from tests.adversarial.test_ledger_races import kill_at
from tests.unit.ledger.stores import ask, in_processes, processes

pytest_plugins = ("tests.unit.ledger.stores",)

STEPS = (SubsampledGaussian(20.0, 0.01, 10),)
WORD = {"why": "why", "who": "A. Officer"}
MEMBERS = [f"m{n}" for n in range(8)]


@pytest.fixture
def clinic(url: str) -> Ledger:
    ledger = Ledger.open(url)
    ledger.open_account("clinic", epsilon=3.0, delta=1e-5, unit="patient_id", umbrella=True)
    for number, name in enumerate(MEMBERS):
        rule: Any = "plan" if number % 2 else "filter"
        ledger.open_account(name, epsilon=3.0, delta=1e-5, max_rows=number + 1, rule=rule, under="clinic")
    return ledger


def reserve(ledger: Ledger, account: str, key: str, **changes: Any) -> Release:
    rows = MEMBERS.index(account) + 1
    return ask(ledger, account, key, **{"unit": "patient_id", "max_rows": rows, "epsilon": 0.8, **changes})


def test_eight_processes_on_eight_members_are_admitted_exactly_as_often_as_the_umbrella_has_room(
    clinic: Ledger,
) -> None:
    # Priced once here, so that the children only race.
    clinic.void(reserve(clinic, "m0", "warm").id, "warm")
    cost = clinic.releases("clinic")[0].reserved_cost
    fits = clinic.balance("clinic").cost_limit // cost
    assert fits == 11
    turns = iter(MEMBERS)

    def grab(account: str) -> None:
        for _ in range(4):
            with suppress(BudgetExceeded):
                reserve(clinic, account, uuid.uuid4().hex)

    together = processes.Barrier(8)

    def child(account: str) -> None:
        together.wait(30)
        grab(account)

    children = [processes.Process(target=child, args=(name,)) for name in turns]
    for one in children:
        one.start()
    for one in children:
        one.join(120)
    assert [one.exitcode for one in children] == [0] * 8
    held = [r for name in MEMBERS for r in clinic.releases(name) if r.state == "reserved"]
    assert len(held) == fits
    left = clinic.balance("clinic")
    assert left.cost_held == fits * cost
    assert 0 <= left.cost_left < cost
    clinic.verify()


def test_processes_that_enter_charges_by_hand_and_reserve_at_once_never_overspend_the_umbrella(clinic: Ledger) -> None:
    clinic.void(reserve(clinic, "m0", "warm").id, "warm")
    clinic.charge_by_hand("m1", [Gaussian(12.0)], delta=1e-7, **WORD)

    def grab() -> None:
        name = random.Random(os.getpid()).choice(MEMBERS)
        for number in range(4):
            with suppress(BudgetExceeded):
                if number % 2:
                    reserve(clinic, name, uuid.uuid4().hex)
                else:
                    clinic.charge_by_hand(name, [Gaussian(8.0)], delta=1e-6, **WORD)

    assert in_processes(6, grab) == [0] * 6
    left = clinic.balance("clinic")
    assert left.cost_left >= 0
    mirrors = clinic.releases("clinic")
    assert left.cost_spent == sum(r.charged_cost or 0 for r in mirrors)
    assert left.cost_held == sum(r.reserved_cost for r in mirrors if r.state == "reserved") > 0
    clinic.verify()


def test_random_kills_never_part_a_release_from_what_its_umbrella_is_charged(clinic: Ledger) -> None:
    def work() -> None:
        name = random.Random(os.getpid()).choice(MEMBERS)
        with suppress(BudgetExceeded):
            while True:
                release = reserve(clinic, name, uuid.uuid4().hex, epsilon=0.1, delta=1e-8)
                entry = clinic.start(release.id, "training", STEPS)
                clinic.mark(entry.id, 5)
                clinic.settle(release.id)

    for _ in range(4):
        children = [processes.Process(target=work) for _ in range(3)]
        for child in children:
            child.start()
        time.sleep(random.uniform(0.05, 0.2))
        for child in children:
            child.kill()
            child.join(30)
    clinic.verify()
    assert clinic.balance("clinic").cost_left >= 0
    assert reserve(clinic, "m3", "after", epsilon=0.001, delta=1e-9).state == "reserved"


@pytest.mark.parametrize(
    "step", ["reserve", "start", "mark", "settle", "void", "settle at mark", "plan", "use", "by hand"]
)
def test_a_kill_at_any_statement_leaves_both_as_before_or_both_as_after(clinic: Ledger, step: str) -> None:
    use = {"plan": "weekly", "epsilon": None, "delta": None, "own_delta": None}
    acts: dict[str, Callable[[str, str], object]] = {
        "reserve": lambda r, e: reserve(clinic, "m1", "the one", epsilon=0.1, delta=1e-8),
        "start": lambda r, e: clinic.start(r, "training", STEPS),
        "mark": lambda r, e: clinic.mark(e, 5),
        "settle": lambda r, e: clinic.settle(r),
        "void": lambda r, e: clinic.void(r, "why"),
        "settle at mark": lambda r, e: clinic.settle_at_mark(e, **WORD),
        "plan": lambda r, e: clinic.declare_plan("m1", name="w", events=STEPS, times=3, share=(1.0, 1e-6), **WORD),
        "use": lambda r, e: reserve(clinic, "m1", "the use", **use),
        "by hand": lambda r, e: clinic.charge_by_hand("m1", STEPS, delta=1e-7, **WORD),
    }
    release = reserve(clinic, "m1", "before", epsilon=0.1, delta=1e-8).id
    entry = clinic.start(release, "profile", STEPS).id if step in ("mark", "settle", "settle at mark") else ""
    if step == "settle at mark":
        clinic.mark(entry, 5)
    if step == "use":
        clinic.declare_plan("m1", name="weekly", events=STEPS, times=3, share=(1.0, 1e-6), **WORD)
    before = clinic.head()
    for statement in (6, 10, 14, 18, 22, 26, None):
        work = partial(kill_at, clinic, statement, partial(acts[step], release, entry))
        assert in_processes(1, work) == [-signal.SIGKILL]
        clinic.verify()
        if clinic.head() != before:
            break  # the kill came after the commit: the step was done, and is done once
    else:
        acts[step](release, entry)
    both = [[(r.action, bool(r.release_id)) for r in clinic.history(name)][1:] for name in ("m1", "clinic")]
    assert both[0] == both[1], "each row of the member's history has its twin in the umbrella's"
    clinic.verify()
