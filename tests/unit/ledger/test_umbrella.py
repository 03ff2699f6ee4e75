"""An umbrella bounds what all its members release of one person: each release charges it too, or is refused by it."""

from __future__ import annotations

from typing import Any

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, UnknownAccount
from dp_synth_pipeline.ledger import Ask, Ledger, Release, costs, export
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.filter import NANO
from tests.unit.ledger.stores import ask, sealed

WORD = {"why": "why", "who": "A. Officer"}
STEPS = (SubsampledGaussian(20.0, 0.01, 10),)
UMBRELLA = {"epsilon": 4.0, "delta": 1e-5, "unit": "patient_id", "umbrella": True}


@pytest.fixture
def clinic(url: str) -> Ledger:
    """A ledger with an umbrella over an account of each rule."""
    return opened(Ledger.open(url))


def opened(ledger: Ledger) -> Ledger:
    ledger.open_account("clinic", **UMBRELLA)  # type: ignore[arg-type]
    ledger.open_account("visits", epsilon=3.0, delta=1e-5, max_rows=30, under="clinic")
    ledger.open_account("drugs", epsilon=3.0, delta=1e-5, max_rows=5, rule="plan", under="clinic")
    return ledger


def reserve(ledger: Ledger, account: str, key: str, **changes: Any) -> Release:
    rows = ledger.account(account).max_rows
    return ask(ledger, account, key, **{"unit": "patient_id", "max_rows": rows, "table": account, **changes})


def fill(ledger: Ledger, leave: int) -> None:
    """Take of the umbrella, by another member, what leaves room for so many releases of epsilon 0.8."""
    ledger.open_account("labs", epsilon=4.0, delta=1e-5, under="clinic")
    once = costs.reservation(ledger.account("clinic"), 0.8, 1e-6, 0.0)[0]
    for number in range(ledger.balance("clinic").cost_left // once - leave):
        reserve(ledger, "labs", f"labs{number}", epsilon=0.8)


def mirror_of(ledger: Ledger, release: Release) -> Release:
    return next(r for r in ledger.releases("clinic") if r.mirrors == release.id)


def test_a_member_takes_its_umbrellas_unit_and_relation(clinic: Ledger) -> None:
    umbrella, member = clinic.account("clinic"), clinic.account("visits")
    assert (member.unit, member.relation, member.under) == ("patient_id", "add-remove", "clinic")
    assert (umbrella.umbrella, umbrella.order, member.order) == (True, 8.0, 10.0)
    assert [(a.name, a.max_rows) for a in clinic.members("clinic")] == [("drugs", 5), ("visits", 30)]
    clinic.open_account("shop", **{**UMBRELLA, "relation": "replace-one"})  # type: ignore[arg-type]
    assert clinic.open_account("carts", epsilon=1.0, delta=1e-5, under="shop").relation == "replace-one"
    assert clinic.verify().accounts == 5


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"unit": "row"}, "needs the column"),
        ({"rule": "plan"}, "needs rule 'filter'"),
        ({"max_rows": 4}, "takes no max_rows"),
        ({"unit_in_one_block": True}, "takes no blocks"),
        ({"under": "clinic"}, "takes no under"),
    ],
)
def test_an_umbrella_that_makes_no_sense_is_refused(clinic: Ledger, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        clinic.open_account("other", **{**UMBRELLA, **wrong})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"unit": "doctor_id"}, "protects unit='patient_id', got unit='doctor_id'"),
        ({"relation": "replace-one"}, "relation"),
        ({"epsilon": 4.5}, "all its members together epsilon=4"),
        ({"delta": 2e-5}, "all its members together delta=1e-05"),
        ({"under": "visits"}, "no umbrella"),
    ],
)
def test_a_member_that_promises_something_else_is_refused(clinic: Ledger, wrong: dict[str, Any], why: str) -> None:
    before = sealed(clinic)
    with pytest.raises(InvalidInput, match=why):
        clinic.open_account("other", **{"epsilon": 1.0, "delta": 1e-5, "under": "clinic", **wrong})
    with pytest.raises(UnknownAccount):
        clinic.open_account("other", epsilon=1.0, delta=1e-5, under="nobody")
    assert sealed(clinic) == before


def test_an_account_that_is_there_joins_no_umbrella_since_what_it_released_was_not_bounded(clinic: Ledger) -> None:
    clinic.open_account("old", epsilon=1.0, delta=1e-5, unit="patient_id")
    assert clinic.open_account("old", epsilon=2.0, delta=1e-5, under="clinic", anew=True).under == "clinic"
    clinic.open_account("used", epsilon=1.0, delta=1e-5, unit="patient_id")
    ask(clinic, "used", "k", unit="patient_id")
    for anew in (False, True):
        with pytest.raises(InvalidInput, match=r"joins an umbrella when it is opened and never later.*ledger charge"):
            clinic.open_account("used", epsilon=1.0, delta=1e-5, under="clinic", anew=anew)
    with pytest.raises(InvalidInput, match="exists"):  # its members rely on what it promises
        clinic.open_account("clinic", **{**UMBRELLA, "unit": "doctor_id"}, anew=True)  # type: ignore[arg-type]
    clinic.verify()


@pytest.mark.parametrize("account", ["visits", "drugs"])
def test_a_release_holds_and_is_charged_in_the_umbrella_in_the_umbrellas_own_units(
    clinic: Ledger, account: str
) -> None:
    order = clinic.account("clinic").order
    assert order is not None
    release = reserve(clinic, account, "k", own_delta=1e-8)
    held = clinic.balance("clinic")
    assert held.cost_held == costs.reservation(clinic.account("clinic"), 0.5, 1e-6, 1e-8)[0] == release.umbrella_cost
    assert (held.delta_held, release.umbrella_order) == (10**10, order)
    ran = (DiscreteLaplace(400.0), Threshold(1e-9), *STEPS)
    entry = clinic.start(release.id, "training", ran)
    clinic.mark(entry.id, 4)
    assert mirror_of(clinic, release).state == "started"
    assert [e.steps_started for e in clinic.entries("clinic")] == [4]
    clinic.settle(release.id, ran=ran)
    spent = clinic.balance("clinic")
    assert (spent.cost_held, spent.delta_held, spent.delta_spent) == (0, 0, 10**9)
    assert 0 <= spent.cost_spent - accountant.rdp(ran, order) * NANO <= 2
    assert clinic.verify().releases == 2
    assert clinic.releases() == [clinic.release(release.id)], "a mirror is no release of its own"
    assert [e.id for e in clinic.entries()] == [entry.id]


@pytest.mark.parametrize("account", ["visits", "drugs"])
def test_a_void_gives_both_back_and_a_settlement_at_the_mark_settles_both(clinic: Ledger, account: str) -> None:
    clinic.void(reserve(clinic, account, "k").id, "not needed")
    assert clinic.balance("clinic").cost_held == clinic.balance(account).cost_held == 0
    release = reserve(clinic, account, "l")
    entry = clinic.start(release.id, "training", STEPS)
    clinic.mark(entry.id, 3)
    left = clinic.left_after(release.id, entry.id)
    assert clinic.settle_at_mark(entry.id, **WORD).steps_paid == 3
    clinic.settle(release.id, why="it crashed", who="A. Officer")
    assert [e.steps_paid for e in clinic.entries("clinic")] == [3]
    order = clinic.account("clinic").order
    assert order is not None
    assert clinic.balance("clinic").cost_spent <= accountant.rdp(SubsampledGaussian(20.0, 0.01, 3), order) * NANO + 2
    now = min(
        costs.epsilon_left(a, b.cost_left, b.delta_limit - b.delta_spent - b.delta_held, 1e-6)
        for a, b in ((clinic.account(n), clinic.balance(n)) for n in (account, "clinic"))
    )
    assert left == now
    clinic.verify()


def test_the_umbrella_refuses_by_name_what_its_member_alone_would_admit_and_nothing_is_changed(clinic: Ledger) -> None:
    fill(clinic, 3)
    before = sealed(clinic)
    assert clinic.balance("drugs").cost_held == 0
    with pytest.raises(BudgetExceeded, match="Umbrella 'clinic' refuses this release of its member 'drugs'") as caught:
        reserve(clinic, "drugs", "b", epsilon=2.5)
    assert "Nothing was read and nothing was changed" in str(caught.value)
    assert (caught.value.facts["account"], caught.value.facts["member"]) == ("clinic", "drugs")
    assert sealed(clinic) == before
    fits = caught.value.facts["epsilon_that_fits"]
    assert 0.5 < fits < 2.5
    with pytest.raises(BudgetExceeded, match="clinic"):
        clinic.preview("drugs", epsilon=fits * 1.002, delta=1e-6)
    clinic.preview("drugs", epsilon=fits, delta=1e-6)
    assert reserve(clinic, "drugs", "c", epsilon=fits).state == "reserved"
    reserve(clinic, "visits", "d", epsilon=clinic.balance("visits").epsilon_left, delta=1e-5)
    assert clinic.balance("drugs").epsilon_left == clinic.balance("visits").epsilon_left == 0.0
    assert clinic.share("drugs").used == 1, "nothing fits any more, whatever the member itself has left"
    assert clinic.capacity("drugs", epsilon=0.5, delta=1e-6) == 0


def test_a_mechanism_over_what_was_reserved_of_the_umbrella_is_refused_and_what_was_calibrated_fits(
    clinic: Ledger,
) -> None:
    clinic.open_account("wide", epsilon=10.0, delta=1e-5, unit="patient_id", umbrella=True)
    clinic.open_account("narrow", epsilon=1.0, delta=1e-5, under="wide")
    assert clinic.account("narrow").order != clinic.account("wide").order
    release = reserve(clinic, "narrow", "k")
    assert set(release.rdp_limits) == {clinic.account(n).order for n in ("narrow", "wide")}

    def plan(noise: float) -> list[SubsampledGaussian]:
        return [SubsampledGaussian(noise, 0.01, 300)]

    own = {o: limit for o, limit in release.rdp_limits.items() if o == release.order}
    alone = calibration.least_noise(plan, Budget(0.5, 1e-6), rdp_limits=own)
    both = calibration.least_noise(plan, Budget(0.5, 1e-6), rdp_limits=release.rdp_limits)
    assert both >= alone
    clinic.start(release.id, "training", plan(both))
    gaussian = calibration.gaussian_noise(0.5, 1e-6)
    with pytest.raises(BudgetExceeded):
        clinic.start(reserve(clinic, "narrow", "l").id, "training", [Gaussian(gaussian / 2)])
    clinic.settle(release.id)
    clinic.verify()


def test_a_mechanism_that_fits_its_own_account_and_not_what_the_umbrella_holds_is_refused_by_name(
    clinic: Ledger,
) -> None:
    release = reserve(clinic, "drugs", "k")
    pure = DiscreteLaplace(2.0)  # its epsilon is the 0.5 reserved, and its divergence is far above a Gaussian's of 0.5
    assert accountant.epsilon(pure, release.delta) <= release.epsilon
    before = sealed(clinic)
    with pytest.raises(BudgetExceeded, match="in umbrella 'clinic'") as caught:
        clinic.start(release.id, "count", [pure])
    assert release.id in str(caught.value)
    assert sealed(clinic) == before


def test_how_often_and_how_much_still_fits_is_what_both_admit(clinic: Ledger) -> None:
    asked = {"epsilon": 0.8, "delta": 1e-6}
    once = costs.reservation(clinic.account("clinic"), 0.8, 1e-6, 0.0)[0]
    fits = clinic.balance("clinic").cost_limit // once
    assert clinic.capacity("drugs", **asked) == 3 < fits, "by itself, 3 times 0.8 of 3"
    fill(clinic, 2)
    assert clinic.capacity("drugs", **asked) == clinic.capacity("visits", **asked) == 2
    assert clinic.share("labs").more == 2
    assert clinic.admitted("drugs", **asked, each=[(), (), ()]) == [True, True, False]
    mixed = [Ask(**asked, account="visits"), Ask(**asked), Ask(**asked, account="visits")]
    assert clinic.foretold("drugs", mixed) == [True, True, False], "a member pays in the umbrella for another"
    assert clinic.foretold("clinic", [Ask(**asked, account=a) for a in ("visits", "drugs", "drugs")]) == [
        True,
        True,
        False,
    ]
    each = clinic.affordable("drugs", times=3, delta=1e-6)
    assert each < clinic.affordable("drugs", times=1, delta=1e-6) < 3
    for number in range(3):
        reserve(clinic, "drugs", f"d{number}", epsilon=each)
    with pytest.raises(BudgetExceeded, match="clinic"):
        reserve(clinic, "visits", "one more", epsilon=each)


def test_raising_the_umbrella_lets_its_members_go_on_and_a_member_never_rises_above_it(clinic: Ledger) -> None:
    fill(clinic, 1)
    with pytest.raises(BudgetExceeded):
        reserve(clinic, "drugs", "b", epsilon=2.9, delta=1e-6)
    for look in (clinic.if_raised, lambda n, e, d: clinic.raise_account(n, epsilon=e, delta=d, **WORD)):
        with pytest.raises(InvalidInput, match="cannot be under 'clinic'"):
            look("visits", 4.5, None)
    assert clinic.if_raised("drugs", 4.0, None)[0].epsilon_left == clinic.balance("drugs").epsilon_left
    promised = clinic.if_raised("clinic", 8.0, None)[0]
    clinic.raise_account("clinic", epsilon=8.0, **WORD)
    assert clinic.balance("clinic").epsilon_left == promised.epsilon_left
    reserve(clinic, "drugs", "b", epsilon=2.9, delta=1e-6)
    clinic.raise_account("visits", epsilon=6.0, **WORD)
    clinic.verify()


def test_blocks_of_a_member_charge_the_umbrellas_own_row_each(clinic: Ledger) -> None:
    clinic.open_account(
        "months", epsilon=1.0, delta=1e-5, under="clinic", blocks=["jan", "feb"], unit_in_one_block=True
    )
    once = costs.reservation(clinic.account("clinic"), 0.5, 1e-6, 0.0)[0]
    for block in ("jan", "feb"):
        reserve(clinic, "months", block, blocks=[block])
    assert clinic.balance("clinic").cost_held == 2 * once
    assert clinic.balance("months", "jan").cost_held == clinic.balance("months", "feb").cost_held
    assert clinic.fresh_balance("months").epsilon_left <= clinic.balance("clinic").epsilon_left
    assert clinic.blocks("clinic") == []
    clinic.verify()


@pytest.mark.parametrize(("account", "terms"), [("visits", {}), ("drugs", {"share": (2.0, 1e-6)}), ("drugs", {})])
def test_a_plan_charges_the_umbrella_its_renyi_curve_when_it_is_declared_and_its_uses_nothing_more(
    clinic: Ledger, account: str, terms: dict[str, Any]
) -> None:
    order = clinic.account("clinic").order
    assert order is not None
    plan = clinic.declare_plan(account, name="weekly", events=STEPS, times=4, **terms, **WORD)
    spent = clinic.balance("clinic").cost_spent
    assert 0 <= spent - 4 * accountant.rdp(STEPS, order) * NANO <= 2
    use = {"epsilon": None, "delta": None, "own_delta": None, "plan": "weekly"}
    releases = [reserve(clinic, account, f"u{n}", **use) for n in range(4)]
    with pytest.raises(BudgetExceeded, match="all of them are taken"):
        reserve(clinic, account, "u4", **use)
    clinic.start(releases[0].id, "training", STEPS)
    clinic.settle(releases[0].id)
    clinic.void(releases[1].id, "not needed")
    assert clinic.balance("clinic").cost_spent == spent
    assert [p.used for p in (*clinic.plans(account), *clinic.plans("clinic"))] == [3, 3]
    assert [p.id for p in clinic.plans()] == [plan.id]
    assert clinic.taken("clinic")[account] == spent / clinic.account("clinic").cost_limit
    assert clinic.verify().releases == 8


def test_a_plan_that_the_umbrella_cannot_hold_is_refused_with_its_name(clinic: Ledger) -> None:
    fill(clinic, 1)
    before = sealed(clinic)
    with pytest.raises(BudgetExceeded, match=r"Plan 'weekly' is refused: 60 releases take .* of umbrella 'clinic'"):
        clinic.declare_plan("drugs", name="weekly", events=[Gaussian(30.0)], times=60, **WORD)
    assert sealed(clinic) == before
    with pytest.raises(InvalidInput, match="is an umbrella"):
        clinic.declare_plan("clinic", name="weekly", events=STEPS, times=1, **WORD)


def test_an_umbrella_has_no_releases_of_its_own_and_nobody_ends_a_mirror_by_itself(clinic: Ledger) -> None:
    with pytest.raises(InvalidInput, match="is an umbrella"):
        ask(clinic, "clinic", "k", unit="patient_id", max_rows=0)
    release = reserve(clinic, "visits", "k")
    entry = clinic.start(release.id, "training", STEPS)
    mirror, (copy,) = mirror_of(clinic, release), clinic.entries("clinic")
    attempts = (
        lambda: clinic.start(mirror.id, "more", STEPS),
        lambda: clinic.settle(mirror.id),
        lambda: clinic.void(mirror.id, "why"),
        lambda: clinic.note_source(mirror.id, "digest"),
        lambda: clinic.mark(copy.id, 4),
        lambda: clinic.settle_at_mark(copy.id, **WORD),
        lambda: clinic.left_after(mirror.id),
    )
    before = sealed(clinic)
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=f"charged for release {release.id}"):
            attempt()
    assert sealed(clinic) == before
    assert clinic.start(release.id, "another", STEPS).position == entry.position + 1


def test_the_same_key_holds_the_umbrella_once_and_a_waiting_release_is_named_by_its_own_id(clinic: Ledger) -> None:
    assert reserve(clinic, "visits", "k", epsilon=2.8) == reserve(clinic, "visits", "k", epsilon=2.8)
    fill(clinic, 0)
    (release,) = clinic.releases("visits")
    assert clinic.waiting("clinic")[0] == release
    with pytest.raises(BudgetExceeded, match=f"dp-synth ledger void {release.id[:12]}"):
        reserve(clinic, "drugs", "l", epsilon=2.8)


def test_an_export_tells_both_and_what_each_member_took(clinic: Ledger) -> None:
    release = reserve(clinic, "visits", "k")
    clinic.start(release.id, "training", STEPS)
    clinic.settle(release.id)
    reserve(clinic, "drugs", "l")
    told = {a["name"]: a for a in export.statement(clinic)["accounts"]}
    assert told["visits"]["under"] == "clinic"
    assert told["clinic"]["members"] == clinic.taken("clinic")
    used = (told["clinic"]["balance"]["cost_spent"] + told["clinic"]["balance"]["cost_held"]) / told["clinic"][
        "cost_limit"
    ]
    assert sum(told["clinic"]["members"].values()) == pytest.approx(used, abs=1e-12)
    own = export.statement(clinic, "clinic")
    assert [r["table"] for r in own["releases"]] == ["visits", "drugs"]
    (line,) = (r for r in export.to_csv(clinic, "clinic").splitlines()[1:])
    assert ",clinic," in line
