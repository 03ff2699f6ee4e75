"""A charge above a share of its account waits for a second person, who approves exactly it, for once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, Release, approval, export, tables
from dp_synth_pipeline.ledger.entry import Request
from dp_synth_pipeline.privacy.events import Gaussian
from tests.unit.ledger.stores import ask, in_processes, sealed

ANA = {"why": "the board agreed", "who": "Ana"}
BOB = {"why": "planned", "who": "Bob"}
BIG = {"epsilon": 2.0, "purpose": "waiting times"}


@pytest.fixture
def guarded(url: str) -> Ledger:
    """A ledger with an account of which one person decides a quarter at a time; epsilon 2 takes about half of it."""
    ledger = Ledger.open(url)
    ledger.open_account("f", epsilon=3.0, delta=1e-5, approve_above=0.25)
    return ledger


def waits(act: Callable[[], Any]) -> ApprovalNeeded:
    with pytest.raises(ApprovalNeeded) as refused:
        act()
    return refused.value


def big(ledger: Ledger, key: str = "big", **changes: Any) -> Release:
    return ask(ledger, "f", key, **{**BIG, **changes})


def approve_all(ledger: Ledger) -> list[Request]:
    return [ledger.approve(r.id, **ANA) for r in ledger.requests() if r.state == "waiting"]


def test_what_one_person_may_decide_asks_nobody(guarded: Ledger) -> None:
    assert ask(guarded, "f", "small").state == "reserved"
    assert guarded.requests(used=True) == []
    assert "request" not in "".join(row.body for row in guarded.history())


def test_a_larger_release_waits_charges_nothing_and_is_on_record_once(guarded: Ledger) -> None:
    before = guarded.balance("f"), guarded.releases()
    told = waits(lambda: big(guarded))
    waits(lambda: big(guarded, "again", run_id="run-2"))
    assert (guarded.balance("f"), guarded.releases()) == before
    (asked,) = guarded.requests()
    assert (asked.state, asked.act, asked.why, asked.facts["table"]) == (
        "waiting",
        "reserved",
        "waiting times",
        "adult",
    )
    assert asked.facts["epsilon"] == 2.0
    assert told.facts == {"account": "f", "request": asked.id, "share": asked.share, "approve_above": 0.25}
    assert asked.share == pytest.approx(0.484, abs=1e-3)
    assert str(told).startswith(f"Request {asked.id[:12]} waits for a second person: it takes 48.4 % of account 'f'")
    assert [row.action for row in guarded.history()] == ["opened", "requested"]
    assert guarded.verify().releases == 0


def test_the_one_who_asks_cannot_approve_it_however_the_name_is_written(guarded: Ledger) -> None:
    waits(lambda: big(guarded))
    (asked,) = guarded.requests()
    for name in (asked.who, f" {asked.who.upper()} "):
        with pytest.raises(InvalidInput, match="needs a second person"):
            guarded.approve(asked.id, why="w", who=name)
    with pytest.raises(InvalidInput, match="a reason"):
        guarded.approve(asked.id, why=" ", who="Ana")
    with pytest.raises(InvalidInput, match="has no request"):
        guarded.approve("none", **ANA)
    waits(lambda: big(guarded))


def test_an_approval_lets_the_very_release_through_once(guarded: Ledger) -> None:
    waits(lambda: big(guarded))
    (approved,) = approve_all(guarded)
    assert (approved.state, approved.approved_by, approved.approved_why) == ("approved", "Ana", "the board agreed")
    with pytest.raises(InvalidInput, match="approved before, by Ana"):
        guarded.approve(approved.id, why="w", who="Cem")
    release = big(guarded)
    assert big(guarded).id == release.id, "the same key is the same request"
    (used,) = guarded.requests(used=True)
    assert (used.state, guarded.requests()) == ("used", [])
    assert guarded.verify().releases == 1
    guarded.void(release.id, "nothing was read")
    waits(lambda: big(guarded, "next"))
    assert len(guarded.requests(used=True)) == 2
    assert [r["state"] for r in export.statement(guarded)["requests"]] == ["used", "waiting"]


@pytest.mark.parametrize(
    "other", [{"epsilon": 1.9}, {"epsilon": 2.1}, {"delta": 2e-6}, {"own_delta": 1e-9}, {"table": "other"},
              {"code_version": "v2"}, {"purpose": "marketing"}],
    ids=str,
)  # fmt: skip
def test_an_approval_is_for_exactly_its_terms(guarded: Ledger, other: dict[str, Any]) -> None:
    waits(lambda: big(guarded))
    approve_all(guarded)
    waits(lambda: big(guarded, **other))
    assert sorted(r.state for r in guarded.requests()) == ["approved", "waiting"]


def test_an_approval_admits_nothing_that_does_not_fit_and_is_not_used_by_a_refusal(guarded: Ledger) -> None:
    waits(lambda: big(guarded))
    approve_all(guarded)
    for number in range(50):
        try:
            ask(guarded, "f", f"small{number}", epsilon=0.6)
        except BudgetExceeded:
            break
    before = sealed(guarded), guarded.requests()
    with pytest.raises(BudgetExceeded, match="refuses this release") as refused:
        big(guarded)
    assert type(refused.value) is BudgetExceeded
    with pytest.raises(BudgetExceeded, match="refuses this release"):
        big(guarded, table="other")
    assert (sealed(guarded), guarded.requests()) == before, "what does not fit asks nobody either"


def test_one_approval_lets_one_of_many_processes_through(guarded: Ledger, url: str) -> None:
    waits(lambda: big(guarded, epsilon=1.6))
    approve_all(guarded)

    def run() -> None:
        import os

        big(Ledger.open(url), f"k{os.getpid()}", epsilon=1.6)

    assert sorted(map(bool, in_processes(4, run))) == [False, True, True, True]
    assert len(guarded.releases()) == 1
    assert guarded.verify().releases == 1


def test_an_umbrella_may_want_a_second_person_and_blocks_and_a_share_of_0_do(url: str) -> None:
    ledger = Ledger.open(url)
    ledger.open_account("clinic", epsilon=4.0, delta=1e-5, unit="patient_id", umbrella=True, approve_above=0.2)
    ledger.open_account("visits", epsilon=3.0, delta=1e-5, max_rows=30, under="clinic")
    unit = {"unit": "patient_id", "max_rows": 30}
    assert waits(lambda: ask(ledger, "visits", "v", epsilon=2.0, **unit)).facts["account"] == "clinic"
    approve_all(ledger)
    assert ask(ledger, "visits", "v", epsilon=2.0, **unit).state == "reserved"
    ledger.open_account(
        "b", epsilon=1.0, delta=1e-5, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True, approve_above=0.0
    )
    waits(lambda: ask(ledger, "b", "jan", epsilon=0.1, blocks=["jan"]))
    approve_all(ledger)
    waits(lambda: ask(ledger, "b", "feb", epsilon=0.1, blocks=["feb"]))
    assert ask(ledger, "b", "jan", epsilon=0.1, blocks=["jan"]).blocks == ("jan",)
    assert ledger.verify().releases == 3


def test_plans_and_charges_by_hand_wait_as_releases_do_and_uses_of_a_plan_were_approved_with_it(
    guarded: Ledger,
) -> None:
    plan: dict[str, Any] = {"name": "weekly", "events": (Gaussian(3.0),), "times": 1}
    waits(lambda: guarded.declare_plan("f", **plan, **BOB))
    assert guarded.plans() == []
    approve_all(guarded)
    assert guarded.declare_plan("f", **plan, **BOB).times == 1
    use = guarded.reserve("f", key="use", table="t", run_id="r", code_version="v", plan="weekly")
    assert use.state == "reserved"
    hand: dict[str, Any] = {"events": (Gaussian(3.0),), **BOB}
    waits(lambda: guarded.charge_by_hand("f", **hand))
    with pytest.raises(InvalidInput, match="Bob's own"):
        guarded.approve(guarded.requests()[0].id, why="w", who="bob")
    approve_all(guarded)
    assert guarded.charge_by_hand("f", **hand).by_hand
    assert guarded.verify().releases == 2


def test_whoever_could_loosen_the_terms_alone_would_need_nobody(guarded: Ledger) -> None:
    guarded.amend_account("f", approve_above=0.2, **BOB)  # to tighten them needs nobody
    for loosen in (
        lambda: guarded.amend_account("f", approve_above=1, **BOB),
        lambda: guarded.amend_account("f", approve_above=0.3, **BOB),
        lambda: guarded.raise_account("f", epsilon=30.0, **BOB),
    ):
        assert "it loosens the terms of account 'f'" in str(waits(loosen))
    for anew in (False, True):
        with pytest.raises(InvalidInput, match="exists") as caught:
            guarded.open_account("f", epsilon=30.0, delta=1e-5, anew=anew)
        assert "--anew" not in str(caught.value)
    assert guarded.account("f").approve_above == 0.2
    approve_all(guarded)
    guarded.raise_account("f", epsilon=30.0, **BOB)
    waits(lambda: guarded.amend_account("f", approve_above=1, **BOB))  # approved for the limit that was
    approve_all(guarded)
    guarded.amend_account("f", approve_above=1, **BOB)
    assert big(guarded).state == "reserved"
    assert guarded.verify().releases == 1


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True, "0.5"])
def test_a_share_that_is_none_is_refused(guarded: Ledger, share: Any) -> None:
    with pytest.raises(InvalidInput, match="a share of the account"):
        guarded.amend_account("f", approve_above=share, **BOB)
    with pytest.raises(InvalidInput, match="a share of the account"):
        guarded.open_account("g", epsilon=3.0, delta=1e-5, approve_above=share)


def test_an_account_without_a_share_is_amended_and_to_the_same_is_refused(guarded: Ledger) -> None:
    guarded.open_account("g", epsilon=3.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="nothing would change"):
        guarded.amend_account("g", approve_above=1, **BOB)
    assert guarded.amend_account("g", approve_above=0.1, **BOB).approve_above == 0.1
    waits(lambda: ask(guarded, "g", "k", epsilon=1.0))


def test_a_question_ahead_of_a_run_asks_once_and_holds_nothing(guarded: Ledger) -> None:
    request: dict[str, Any] = {
        "table": "adult",
        "run_id": "tick",
        "code_version": "v1",
        "delta": 1e-6,
        "own_delta": 0.0,
    }
    waits(lambda: guarded.ask("f", key="tick", **BIG, **request))
    waits(lambda: guarded.ask("f", key="tock", **BIG, **request))
    approve_all(guarded)
    before = sealed(guarded)
    guarded.ask("f", key="tick", **BIG, **request)
    guarded.ask("f", key="tick", epsilon=0.2, **request)
    with pytest.raises(BudgetExceeded, match="refuses"):
        guarded.ask("f", key="tick", epsilon=9.0, **request)
    assert sealed(guarded) == before
    assert big(guarded).state == "reserved"


def test_a_charge_that_nobody_approved_or_with_other_terms_does_not_verify(
    guarded: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as forger:
        forger.setattr(approval, "is_guarded", lambda account: False)
        big(guarded)
    with pytest.raises(LedgerCorrupted, match="the approval of a second person, which account f wants, got none"):
        guarded.verify()


def test_an_approval_of_ones_own_or_for_something_else_does_not_verify(
    guarded: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(lambda: big(guarded))
    with monkeypatch.context() as forger:
        forger.setattr(approval, "same_person", lambda one, other: False)
        guarded.approve(guarded.requests()[0].id, why="w", who=guarded.requests()[0].who)
    with pytest.raises(LedgerCorrupted, match="a second person approved, got one that its own person did"):
        guarded.verify()


def test_terms_that_differ_from_what_was_approved_do_not_verify(
    guarded: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(lambda: big(guarded))
    approve_all(guarded)
    terms = guarded.requests()[0].terms
    with monkeypatch.context() as forger:
        forger.setattr(approval, "terms", lambda *_: terms)
        big(guarded, epsilon=2.5)
    with pytest.raises(LedgerCorrupted, match="what a second person approved, got something else"):
        guarded.verify()


def test_a_request_that_was_edited_in_its_table_stops_every_decision(guarded: Ledger) -> None:
    waits(lambda: big(guarded))
    with guarded._store.locked() as conn:
        conn.execute(sa.update(tables.request).values(state="approved", approved_by="Ana"))
    with pytest.raises(LedgerCorrupted, match=r"request .* is not what its journal says"):
        big(guarded)
    with pytest.raises(LedgerCorrupted):
        guarded.verify()
