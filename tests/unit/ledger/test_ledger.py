from __future__ import annotations

import math
import re
import uuid

import pytest

from dp_synth_pipeline.errors import (
    AccountMismatch,
    BudgetExceeded,
    InvalidInput,
    LedgerCorrupted,
    ReleaseStateError,
    UnknownAccount,
)
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy import accountant, calibration, filter
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from tests.unit.ledger.stores import SMALL, ask, sealed

TRAINING = (SubsampledGaussian(4.0, 0.01, 200),)


def test_an_account_is_kept_as_it_was_opened(url: str) -> None:
    made = Ledger.open(url).open_account("adult", epsilon=3, delta=1e-5, unit="id", max_rows=4, why="a study")
    kept = Ledger.open(url).account("adult")
    assert kept == made
    assert (kept.rule, kept.order, kept.relation, kept.max_rows, kept.why) == (
        "filter",
        10.0,
        "add-remove",
        4,
        "a study",
    )
    assert kept.own_delta == 5e-7


def test_an_account_is_opened_once(ledger: Ledger) -> None:
    before = sealed(ledger)
    what_to_do = (
        r"ledger open f --anew.*ledger show f.*leave this call out: ledger.account\('f'\).*raise f.*another name"
    )
    with pytest.raises(InvalidInput, match=f"exists and its terms are fixed.*{what_to_do}"):
        ledger.open_account("f", epsilon=100.0, delta=1e-5)
    assert sealed(ledger) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 201},
        {"unit": ""},
        {"max_rows": 0},
        {"max_rows": 2},
        {"epsilon": 0},
    ],
)
def test_an_account_that_makes_no_sense_is_refused(ledger: Ledger, wrong: dict[str, object]) -> None:
    good: dict[str, object] = {"name": "n", "epsilon": 1.0, "delta": 1e-5}
    asked = {**good, **wrong}
    with pytest.raises(InvalidInput):
        ledger.open_account(asked.pop("name"), **asked)  # type: ignore[arg-type]


def test_an_unknown_account_is_named_beside_the_known(ledger: Ledger) -> None:
    for attempt in (
        ledger.account,
        ledger.balance,
        lambda n: ask(ledger, n, "k"),
        lambda n: ledger.preview(n, epsilon=1, delta=1e-6),
    ):
        with pytest.raises(UnknownAccount, match=rf"The ledger {re.escape(ledger.place)} has: f, p"):
            attempt("g")


def test_a_fresh_balance_is_the_whole_limit(ledger: Ledger) -> None:
    fresh = ledger.balance("f")
    assert (fresh.spent, fresh.held, fresh.epsilon_spent) == (0, 0, 0)
    assert fresh.left == fresh.limit == pytest.approx(2.0763, abs=1e-4)
    assert fresh.delta_left == 5e-7
    assert 2.5 < fresh.epsilon_left < 3.0
    assert ledger.balance("p").epsilon_left == 3.0


@pytest.mark.parametrize("account", ["f", "p"])
def test_a_release_is_held_then_charged_for_what_ran(ledger: Ledger, account: str) -> None:
    release = ask(ledger, account, "k", own_delta=1e-7)
    held = ledger.balance(account)
    assert held.cost_held == release.reserved_cost
    assert held.delta_held == release.reserved_delta
    assert held.epsilon_spent > 0
    ledger.start(release.id, "profile", [*SMALL, Threshold(1e-7)])
    ledger.start(release.id, "training", TRAINING)
    settled = ledger.settle(release.id)
    after = ledger.balance(account)
    events = [*SMALL, Threshold(1e-7), *TRAINING]
    assert settled.final_epsilon == accountant.epsilon(events, 1e-6) <= release.epsilon
    assert settled.final_delta == 1e-6
    assert (after.cost_held, after.delta_held) == (0, 0)
    assert (after.cost_spent, after.delta_spent) == (settled.charged_cost, settled.charged_delta)
    assert 0 < after.cost_spent < release.reserved_cost
    assert ledger.release(release.id) == settled
    assert ledger.verify().entries == 2


def test_under_rule_f_the_charge_is_the_renyi_divergence_of_what_ran(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k", own_delta=1e-7)
    ledger.start(release.id, "profile", [*SMALL, Threshold(1e-7)])
    ledger.start(release.id, "training", TRAINING)
    settled = ledger.settle(release.id, delta=8e-7)
    assert settled.charged_cost == sum(filter.charge_units(accountant.rdp(e, 10.0)) for e in (SMALL, TRAINING))
    assert settled.charged_delta == 10**11


def test_under_rule_p_the_charge_is_the_epsilon_and_delta_of_what_ran(ledger: Ledger) -> None:
    release = ask(ledger, "p", "k")
    ledger.start(release.id, "training", TRAINING)
    settled = ledger.settle(release.id, delta=5e-7)
    exact = accountant.epsilon(TRAINING, 5e-7)
    assert settled.charged_cost == math.ceil(exact * 1e9)
    assert settled.charged_delta == 5 * 10**11
    assert ledger.balance("p").epsilon_left == pytest.approx(3 - exact, abs=1e-8)


def test_settling_twice_charges_once(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "profile", SMALL)
    settled, before = ledger.settle(release.id), sealed(ledger)
    assert ledger.settle(release.id) == ledger.settle(release.id, delta=1e-6) == settled
    assert sealed(ledger) == before
    with pytest.raises(ReleaseStateError, match="a charge is final"):
        ledger.settle(release.id, delta=1e-7)


def test_nothing_started_is_voided_and_costs_nothing(ledger: Ledger) -> None:
    fresh, release = ledger.balance("f"), ask(ledger, "f", "k")
    with pytest.raises(ReleaseStateError, match="start a mechanism first, or void"):
        ledger.settle(release.id)
    voided = ledger.void(release.id, "the source is not there")
    assert (voided.state, voided.charged_cost, voided.why) == ("voided", 0, "the source is not there")
    assert ledger.balance("f") == fresh
    for attempt in (lambda: ledger.void(release.id, "again"), lambda: ledger.settle(release.id)):
        with pytest.raises(ReleaseStateError, match="is voided"):
            attempt()


def test_what_started_cannot_be_voided(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "profile", SMALL)
    with pytest.raises(ReleaseStateError, match="is charged"):
        ledger.void(release.id, "I changed my mind")
    assert ledger.release(release.id).state == "started"


@pytest.mark.parametrize("end", ["settled", "voided"])
def test_a_release_that_is_over_starts_nothing(ledger: Ledger, end: str) -> None:
    release = ask(ledger, "f", "k")
    if end == "voided":
        ledger.void(release.id, "")
    else:
        ledger.start(release.id, "profile", SMALL)
        ledger.settle(release.id)
    before = sealed(ledger)
    with pytest.raises(ReleaseStateError, match="new release is a new charge"):
        ledger.start(release.id, "training", TRAINING)
    assert sealed(ledger) == before


def test_a_mechanism_runs_once_in_a_release(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "training", SMALL)
    with pytest.raises(ReleaseStateError, match="already started"):
        ledger.start(release.id, "training", SMALL)
    assert len(ledger.entries(release_id=release.id)) == 1


def test_a_lost_reply_can_be_asked_for_again_by_the_same_attempt_only(ledger: Ledger) -> None:
    release, attempt = ask(ledger, "f", "k"), uuid.uuid4().hex
    entry = ledger.start(release.id, "training", SMALL, key=attempt)
    assert ledger.start(release.id, "training", SMALL, key=attempt) == entry
    for other in ({"key": "another"}, {"key": None}, {"key": attempt, "events": TRAINING}):
        with pytest.raises(ReleaseStateError, match="already started"):
            ledger.start(release.id, "training", **{"events": SMALL, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize("account", ["f", "p"])
@pytest.mark.parametrize("events", [(Gaussian(2.0),), (Gaussian(1e-3),), (Threshold(1e-7),), (Threshold(2e-6),)])
def test_a_mechanism_that_was_not_reserved_never_starts(ledger: Ledger, account: str, events: tuple) -> None:
    release = ask(ledger, account, "k")
    ledger.start(release.id, "profile", SMALL)
    before = sealed(ledger)
    with pytest.raises((BudgetExceeded, InvalidInput)):
        ledger.start(release.id, "training", events)
    assert sealed(ledger) == before


def test_a_mechanism_within_its_epsilon_but_over_its_renyi_divergence_never_starts_under_rule_f(ledger: Ledger) -> None:
    flat = (DiscreteLaplace(1 / 0.45),)  # epsilon 0.45 of 0.5, and four times the divergence of a Gaussian of 0.5
    filtered, planned = ask(ledger, "f", "k"), ask(ledger, "p", "l")
    with pytest.raises(BudgetExceeded, match="Rényi units"):
        ledger.start(filtered.id, "count", flat)
    assert ledger.start(planned.id, "count", flat).state == "started"


@pytest.mark.parametrize("account", ["f", "p"])
def test_many_small_mechanisms_do_not_add_up_to_more_than_was_reserved(ledger: Ledger, account: str) -> None:
    release = ask(ledger, account, "k")
    part = (Gaussian(20.0),)

    def all_of_them() -> None:
        for number in range(20):
            ledger.start(release.id, f"part {number}", part)

    with pytest.raises(BudgetExceeded, match="reserved"):
        all_of_them()
    started = ledger.entries(release_id=release.id)
    assert 1 < len(started) < 20
    assert accountant.epsilon([e.events[0] for e in started], 1e-6) <= 0.5
    if account == "f":
        assert sum(e.cost for e in started) <= release.reserved_cost


def test_what_was_calibrated_within_the_rdp_limit_starts_mechanism_by_mechanism(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k", epsilon=0.05)

    def plan(noise: float) -> list[Gaussian]:
        return [Gaussian(noise)] * 8

    budget = Budget(release.epsilon, release.delta)
    noise = calibration.least_noise(plan, budget, rdp_limits=release.rdp_limits)
    for number, event in enumerate(plan(noise)):
        ledger.start(release.id, f"part {number}", [event])
    assert ledger.settle(release.id).state == "settled"


def test_events_are_needed_and_nothing_else_is_taken(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    for wrong in ([], ["gaussian"], [None]):
        with pytest.raises(InvalidInput, match="at least one privacy event"):
            ledger.start(release.id, "training", wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="needs a name"):
        ledger.start(release.id, "", SMALL)


def test_the_mark_is_kept_and_never_goes_back(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    entry = ledger.start(release.id, "training", TRAINING)
    for steps in (50, 100, 100, 200):
        ledger.mark(entry.id, steps)
    assert ledger.entries()[0].steps_started == 200
    assert [r.action for r in ledger.history("f")].count("marked") == 3
    for wrong, why in ((150, "Replayed"), (201, "pays for 200"), (-1, "Replayed"), (math.nan, "pays for 200")):
        with pytest.raises(ReleaseStateError, match=why):
            ledger.mark(entry.id, wrong)  # type: ignore[arg-type]
    ledger.settle(release.id)
    with pytest.raises(ReleaseStateError, match="is settled"):
        ledger.mark(entry.id, 200)


def test_the_final_delta_is_at_most_the_reserved_and_large_enough_for_the_epsilon(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k", own_delta=1e-7)
    ledger.start(release.id, "training", [Gaussian(11.0), Threshold(1e-7)])
    for wrong in (2e-6, 1e-7, 1e-30, 0.0, math.nan):
        with pytest.raises(InvalidInput):
            ledger.settle(release.id, delta=wrong)
    assert ledger.release(release.id).state == "started"
    assert ledger.settle(release.id, delta=9e-7).final_delta == 9e-7


def test_another_privacy_unit_is_another_promise(ledger: Ledger) -> None:
    ledger.open_account("users", epsilon=3.0, delta=1e-5, unit="user_id", max_rows=4)
    for wrong in ({}, {"unit": "user_id"}, {"unit": "user_id", "max_rows": 5}, {"unit": "id", "max_rows": 4}):
        with pytest.raises(AccountMismatch, match="protects"):
            ask(ledger, "users", "k", **wrong)
    with pytest.raises(AccountMismatch, match="delta"):
        ask(ledger, "f", "k", delta=2e-5)
    assert ask(ledger, "users", "k", unit="user_id", max_rows=4).state == "reserved"


def test_releases_and_entries_are_listed_by_account_and_in_order(ledger: Ledger) -> None:
    first, second, other = ask(ledger, "f", "1"), ask(ledger, "f", "2"), ask(ledger, "p", "3")
    names = ["count", "profile", "marginals", "training"]
    for name in names:
        ledger.start(second.id, name, [Gaussian(200.0)])
    assert [r.id for r in ledger.releases("f")] == [first.id, second.id]
    assert {r.id for r in ledger.releases()} == {first.id, second.id, other.id}
    assert [e.mechanism for e in ledger.entries(release_id=second.id)] == names
    assert [e.mechanism for e in ledger.entries(account="f")] == names
    assert ledger.entries(account="p") == []


def test_an_unknown_release_or_entry_is_refused(ledger: Ledger) -> None:
    for attempt in (ledger.release, ledger.settle, lambda i: ledger.void(i, ""), lambda i: ledger.start(i, "m", SMALL)):
        with pytest.raises(InvalidInput, match="no release"):
            attempt("nowhere")
    with pytest.raises(InvalidInput, match="no entry"):
        ledger.mark("nowhere", 1)


def test_one_release_fills_an_account_opened_for_it(ledger: Ledger) -> None:
    ledger.open_account("once", epsilon=2.51, delta=1e-5, rule="plan")
    ask(ledger, "once", "k", epsilon=2.51, delta=1e-5, own_delta=5e-7)
    left = ledger.balance("once")
    assert (left.cost_left, left.delta_left, left.epsilon_left) == (0, 0, 0)
    with pytest.raises(BudgetExceeded):
        ask(ledger, "once", "l", epsilon=0.01, delta=1e-9)


def test_an_account_of_a_large_epsilon_pays_for_a_small_training(url: str) -> None:
    ledger = Ledger.open(url)
    account = ledger.open_account("large", epsilon=80, delta=1e-5)
    assert account.order is not None
    assert account.order < 2
    release = ask(ledger, "large", "small", epsilon=0.5, delta=1e-6)
    ledger.start(release.id, mechanism="training", events=(SubsampledGaussian(50.0, 0.06, 352),))
    ledger.settle(release.id)
    assert ledger.verify().entries == 1


@pytest.mark.parametrize(("epsilon", "kept"), [(60.0, True), (3.0, False)])
def test_what_a_version_before_charged_too_much_at_orders_below_two_verifies(url, monkeypatch, epsilon, kept) -> None:
    ledger = Ledger.open(url)
    ledger.open_account("large", epsilon=epsilon, delta=1e-5)
    with monkeypatch.context() as before:
        honest = accountant.rdp
        before.setattr(accountant, "rdp", lambda *asked: 1.5 * honest(*asked))
        release = ask(ledger, "large", "r", epsilon=0.5, delta=1e-6)
        ledger.start(release.id, mechanism="training", events=(SubsampledGaussian(50.0, 0.01, 352),))
    if kept:
        assert ledger.verify().entries == 1
        return
    with pytest.raises(LedgerCorrupted, match="a cost of"):
        ledger.verify()
