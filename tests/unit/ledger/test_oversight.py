from __future__ import annotations

from dataclasses import replace

import pytest

from dp_synth_pipeline.errors import (
    AccountMismatch,
    BudgetExceeded,
    InvalidInput,
    LedgerCorrupted,
    ReleaseStateError,
    UnknownAccount,
)
from dp_synth_pipeline.ledger import Ledger, costs, export, journal, rows
from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.events import DiscreteGaussian, SubsampledGaussian
from tests.unit.ledger.stores import SMALL, ask, sealed

WORD = {"why": "the board agreed", "who": "A. Officer"}
TRAINING = SubsampledGaussian(8.0, 0.01, 1000)


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_raised_account_admits_what_it_refused_at_the_order_it_was_opened_with(ledger: Ledger, account: str) -> None:
    before = ledger.account(account)
    with pytest.raises(BudgetExceeded):
        ask(ledger, account, "k", epsilon=4.0)
    raised = ledger.raise_account(account, epsilon=6.0, **WORD)
    assert (raised.epsilon, raised.delta, raised.order) == (6.0, before.delta, before.order)
    assert raised.cost_limit - before.cost_limit == pytest.approx(3 * filter.NANO, abs=2)
    assert ledger.account(account) == raised
    assert ask(ledger, account, "k", epsilon=4.0).state == "reserved"
    assert ledger.verify().accounts == 2


def test_the_limit_of_a_raised_filter_is_the_one_of_its_order_and_not_of_the_best(ledger: Ledger) -> None:
    raised = ledger.raise_account("f", epsilon=10.0, delta=2e-5, **WORD)
    assert raised.order == 10.0 != filter.best_order(10.0, 2e-5)
    assert raised.delta_limit == 10**12
    assert raised.cost_limit == filter.budget_units(filter.limit(10.0, 1.9e-5, 10.0))
    ledger.verify()


def test_a_raise_is_on_record_with_its_reason_and_its_name(ledger: Ledger) -> None:
    ledger.raise_account("f", epsilon=4.0, **WORD)
    row = ledger.history("f")[-1]
    assert (row.action, row.facts["note"]) == ("raised", WORD)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"epsilon": 4.0, "delta": 1e-6},
        {"epsilon": 3.0},
        {},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"delta": 1.0},
        {"epsilon": 4.0, "why": ""},
        {"epsilon": 4.0, "who": " "},
    ],
)
def test_what_is_no_raise_is_refused(ledger: Ledger, wrong: dict[str, object]) -> None:
    before = sealed(ledger)
    with pytest.raises(InvalidInput):
        ledger.raise_account("f", **{**WORD, **wrong})  # type: ignore[arg-type]
    with pytest.raises(UnknownAccount):
        ledger.raise_account("nobody", epsilon=4.0, **WORD)
    assert sealed(ledger) == before


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_stopped_training_promises_what_was_planned_and_a_filter_charges_what_ran(
    ledger: Ledger, account: str
) -> None:
    release = ask(ledger, account, "k")
    ledger.start(release.id, "profile", SMALL)
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.mark(entry.id, 300)
    cut = ledger.settle_at_mark(entry.id, **WORD)
    ran = SubsampledGaussian(8.0, 0.01, 300)
    assert (cut.events, cut.steps_paid, cut.state) == ((ran,), 300, "settled")
    assert ledger.balance(account).cost_held == release.reserved_cost
    settled = ledger.settle(release.id)
    planned = accountant.epsilon([*SMALL, TRAINING], 1e-6)
    assert settled.final_epsilon == pytest.approx(planned, rel=1e-6)
    assert settled.charged_cost == ledger.balance(account).cost_spent < release.reserved_cost
    if account == "f":  # a filter adds divergence up as it is spent, so what did not run is left to later releases
        assert settled.charged_cost == pytest.approx(accountant.rdp([*SMALL, ran], 10.0) * 1e9, abs=2)
    else:
        assert settled.charged_cost == costs.share_units(settled.final_epsilon, 10**9)
    assert [e.settled_at for e in ledger.entries(release_id=release.id)][1] == cut.settled_at
    note = next(r for r in ledger.history() if r.action == "settled at mark").facts["note"]
    assert note == {**WORD, "steps_paid": 1000, "steps_charged": 300}
    ledger.verify()


def test_settling_at_a_mark_twice_changes_nothing(ledger: Ledger) -> None:
    entry = ledger.start(ask(ledger, "f", "k").id, "training", [TRAINING])
    ledger.mark(entry.id, 300)
    cut, before = ledger.settle_at_mark(entry.id, **WORD), ledger.head()
    assert ledger.settle_at_mark(entry.id, **WORD) == cut
    assert ledger.head() == before


def test_a_worker_that_was_only_thought_dead_may_run_no_further(ledger: Ledger) -> None:
    entry = ledger.start(ask(ledger, "f", "k").id, "training", [TRAINING])
    ledger.mark(entry.id, 300)
    ledger.settle_at_mark(entry.id, **WORD)
    for steps in (300, 400):
        with pytest.raises(ReleaseStateError, match="is settled"):
            ledger.mark(entry.id, steps)


@pytest.mark.parametrize(
    "events",
    [SMALL, (*SMALL, TRAINING), (TRAINING, SubsampledGaussian(9.0, 0.01, 10))],
    ids=["no steps", "no mark", "two"],
)
def test_what_has_no_mark_to_settle_at_stays_charged_in_full(ledger: Ledger, events: tuple) -> None:
    entry = ledger.start(ask(ledger, "f", "k").id, "training", events)
    if isinstance(events[0], SubsampledGaussian):
        ledger.mark(entry.id, 300)
    before = sealed(ledger)
    with pytest.raises(ReleaseStateError, match="cannot be settled at a mark"):
        ledger.settle_at_mark(entry.id, **WORD)
    for wrong in ({"why": ""}, {"who": ""}):
        with pytest.raises(InvalidInput, match="on record"):
            ledger.settle_at_mark(entry.id, **{**WORD, **wrong})
    assert sealed(ledger) == before


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_training_that_died_before_its_first_mark_is_charged_nothing(ledger: Ledger, account: str) -> None:
    release = ask(ledger, account, "k")
    ledger.start(release.id, "profile", SMALL)
    entry = ledger.start(release.id, "training", [TRAINING])
    cut = ledger.settle_at_mark(entry.id, **WORD)
    assert (cut.events, cut.cost, cut.steps_started, cut.steps_paid, cut.state) == ((), 0, 0, 0, "settled")
    head = ledger.head()
    assert ledger.settle_at_mark(entry.id, **WORD) == cut
    assert ledger.head() == head
    with pytest.raises(ReleaseStateError, match="is settled"):
        ledger.mark(entry.id, 1)  # a worker that was only thought dead runs no step
    resumed = ledger.start(release.id, "training again", [TRAINING])
    ledger.verify()
    ledger.mark(resumed.id, 1000)
    settled = ledger.settle(release.id, ran=[*SMALL, TRAINING])
    assert settled.final_epsilon == accountant.epsilon([*SMALL, TRAINING], 1e-6)
    assert ledger.verify().entries == 3
    assert export.to_csv(ledger).count(release.id) == 3
    assert [e["events"] for e in export.statement(ledger)["entries"]][1] == []


def test_no_share_of_an_account_of_plans_comes_back_when_a_training_is_stopped(ledger: Ledger) -> None:
    """The case of the audit: 4.4 reserved, stopped at 100 of 2,000 steps, and more than three quarters given back."""
    ledger.open_account("shares", epsilon=4.4, delta=1e-5, rule="plan")
    plan = SubsampledGaussian(1.15, 0.02, 2000)
    reserved = accountant.epsilon(plan, 1e-5)
    release = ask(ledger, "shares", "k", epsilon=4.4, delta=1e-5)
    assert 4.0 < reserved <= 4.4
    entry = ledger.start(release.id, "training", [plan])
    ledger.mark(entry.id, 100)
    ledger.settle_at_mark(entry.id, **WORD)
    settled = ledger.settle(release.id)
    assert settled.final_epsilon == pytest.approx(reserved, rel=1e-6)
    assert ledger.balance("shares").cost_left == pytest.approx((4.4 - reserved) * 1e9, abs=10**4)
    ledger.verify()


@pytest.mark.parametrize("marked", [0, 100])
def test_a_release_that_a_person_ends_takes_all_of_the_share_that_it_reserved(ledger: Ledger, marked: int) -> None:
    release = ask(ledger, "p", "k")
    ledger.start(release.id, "profile", SMALL)
    entry = ledger.start(release.id, "training", [TRAINING])
    if marked:
        ledger.mark(entry.id, marked)
        ledger.settle_at_mark(entry.id, **WORD)
    preview = ledger.left_after(release.id)
    settled = ledger.settle(release.id, **WORD)
    assert (settled.final_epsilon, settled.final_delta) == (release.epsilon, release.delta)
    assert (settled.charged_cost, settled.charged_delta) == (release.reserved_cost, release.reserved_delta)
    assert preview == ledger.balance("p").epsilon_left == 2.5
    ledger.verify()


def test_what_a_resumed_training_plans_beyond_the_steps_that_are_left_counts_beside_them(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k", epsilon=0.5)
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.mark(entry.id, 300)
    cut = ledger.settle_at_mark(entry.id, **WORD)
    assert cut.planned == (TRAINING,)
    for steps, total in ((700, 1000), (200, 1000), (800, 1100)):
        again = replace(entry, id=f"{steps}", events=(TRAINING.with_steps(steps),))
        events = costs.planned_events([cut, again])
        assert sum(e.size for e in events) == total, "a plan that is left unrun still counts, and once"


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_release_of_which_no_step_ran_is_settled_for_nothing(ledger: Ledger, account: str) -> None:
    before = ledger.balance(account)
    release = ask(ledger, account, "k")
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.settle_at_mark(entry.id, **WORD)
    settled = ledger.settle(release.id, **WORD)
    assert (settled.charged_cost, settled.charged_delta, settled.final_epsilon) == (0, 0, 0.0)
    assert ledger.balance(account) == before
    ledger.verify()


def test_an_account_of_which_nothing_was_charged_is_opened_anew_on_record(ledger: Ledger) -> None:
    ledger.void(ask(ledger, "f", "k").id, "bad input")
    again = ledger.open_account("f", epsilon=5.0, delta=1e-6, rule="plan", unit="id", max_rows=3, anew=True, why="w")
    assert ledger.account("f") == again
    assert [r.action for r in ledger.history("f")] == ["opened", "reserved", "voided", "opened"]
    assert ask(ledger, "f", "k2", epsilon=4.9, delta=1e-6, unit="id", max_rows=3).reserved_cost == 4_900_000_000
    ledger.verify()
    export.to_csv(ledger)
    fresh = ledger.open_account("new", epsilon=1.0, delta=1e-6, anew=True)
    assert ledger.account("new") == fresh


@pytest.mark.parametrize("use", ["reserved", "settled", "settled for nothing", "planned", "blocks"])
def test_an_account_in_use_is_not_opened_anew(ledger: Ledger, use: str) -> None:
    ledger.open_account("a", epsilon=3.0, delta=1e-5, unit_in_one_block=True)
    if use == "planned":
        ledger.declare_plan("a", name="weekly", events=SMALL, times=2, **WORD)
    elif use == "blocks":
        ledger.add_blocks("a", ["jan"], **WORD)
    else:
        release = ask(ledger, "a", "k")
        if use != "reserved":
            entry = ledger.start(release.id, "training", [TRAINING])
            if use == "settled for nothing":
                ledger.settle_at_mark(entry.id, **WORD)
            ledger.settle(release.id)
    before = sealed(ledger)
    for anew in (False, True):
        with pytest.raises(InvalidInput, match="its terms are fixed") as caught:
            ledger.open_account("a", epsilon=30.0, delta=1e-5, anew=anew)
        assert "--anew" not in str(caught.value)
    assert sealed(ledger) == before


@pytest.mark.parametrize("unit", ["row", "patient_id"])
def test_whoever_opens_an_account_again_is_told_of_another_unit_and_how_to_replace_its_terms(
    ledger: Ledger, unit: str
) -> None:
    ledger.void(ask(ledger, "f", "k").id, "bad input")
    with pytest.raises(
        InvalidInput, match="dp-synth ledger open f --anew, with all of its terms, replaces them"
    ) as caught:
        ledger.open_account("f", epsilon=3.0, delta=1e-5, unit=unit)
    told = "It protects one row, and one patient_id was asked for." in str(caught.value)
    assert told is (unit != "row")
    assert ("It protects" in str(caught.value)) is told


def test_a_forged_reopening_of_an_account_in_use_is_noticed(ledger: Ledger) -> None:
    ask(ledger, "p", "k")
    again = replace(ledger.account("p"), epsilon=30.0, cost_limit=30 * 10**9)
    with ledger._store.write() as conn:
        rows.put_account(conn, again)
        journal.append(conn, "opened", again)
    with pytest.raises(LedgerCorrupted, match="opened anew"):
        ledger.verify()


def test_a_release_that_was_priced_before_its_account_was_opened_anew_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit = ledger._admit

    def late(*arguments: object) -> object:
        ledger.open_account("f", epsilon=1.0, delta=1e-5, rule="plan", anew=True)
        return admit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger, "_admit", late)
    with pytest.raises(AccountMismatch, match="Ask again"):
        ask(ledger, "f", "k")
    assert ledger.releases("f") == []


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        ([*SMALL, *SMALL, TRAINING], "something ran more often"),
        ([*SMALL, SubsampledGaussian(7.0, 0.01, 1000)], "noise_multiplier=7.0"),
        ([*SMALL, SubsampledGaussian(8.0, 0.01, 1001)], "steps=1001"),
        ([*SMALL, DiscreteGaussian(80.0, 1), TRAINING], "scale=80.0"),
    ],
)
def test_a_settlement_of_more_than_was_charged_is_refused(ledger: Ledger, ran: list, told: str) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "profile", SMALL)
    ledger.start(release.id, "training", [TRAINING])
    before = sealed(ledger)
    with pytest.raises(ReleaseStateError, match=told):
        ledger.settle(release.id, ran=ran)
    assert sealed(ledger) == before
    assert ledger.settle(release.id, ran=[SubsampledGaussian(8.5, 0.01, 900), *SMALL]).state == "settled"


def test_what_runs_beside_the_steps_stays_charged(ledger: Ledger) -> None:
    beside = DiscreteGaussian(80.0, 1, 2)
    entry = ledger.start(ask(ledger, "f", "k").id, "training", [beside, TRAINING])
    ledger.mark(entry.id, 1)
    assert ledger.settle_at_mark(entry.id, **WORD).events == (beside, SubsampledGaussian(8.0, 0.01, 1))


def test_a_source_is_on_record_before_the_release_ends(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    noted = ledger.note_source(release.id, "digest")
    assert noted.fingerprint not in (None, "digest", ledger.seal("digest"))
    head = ledger.head()
    assert ledger.note_source(release.id, "digest") == noted
    assert ledger.head() == head
    assert ledger.history()[-1].action == "source"
    with pytest.raises(ReleaseStateError, match="another source"):
        ledger.note_source(release.id, "other")
    ledger.start(release.id, "profile", SMALL)
    assert ledger.settle(release.id).fingerprint == noted.fingerprint
    ledger.verify()


def test_a_data_set_under_a_second_name_is_found_by_its_content(ledger: Ledger) -> None:
    for account in ("f", "p"):
        ledger.note_source(ask(ledger, account, account).id, "digest")
    ledger.note_source(ask(ledger, "f", "other").id, "other")
    ask(ledger, "p", "never read")
    ids = {r.key: r.id for r in ledger.releases()}
    groups = ledger.same_content({r.id: r.fingerprint for r in ledger.releases()})
    assert sorted(map(sorted, groups)) == sorted([sorted([ids["f"], ids["p"]]), [ids["other"]], [ids["never read"]]])


def test_a_fingerprint_that_an_earlier_version_kept_in_the_open_is_found_again(ledger: Ledger) -> None:
    before = ledger.seal("digest")  # what versions before kept
    groups = ledger.same_content({"old": before, "new": ledger.encrypted_fingerprint("digest"), "other": "0" * 64})
    assert groups == [["old", "new"], ["other"]]
