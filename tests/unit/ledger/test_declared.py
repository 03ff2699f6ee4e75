from __future__ import annotations

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, LedgerCorrupted, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger, Plan, Release, decide, declared, export, tables
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.privacy.odometer import covers
from tests.unit.ledger.stores import ask, sealed

WORD = {"why": "every week", "who": "A. Officer"}
TRAINING = SubsampledGaussian(6.0, 0.01, 100)
DECLARED: list[Event] = [DiscreteLaplace(40.0), DiscreteGaussian(90.0, 1, 6), TRAINING, Threshold(1e-8)]


def declare(ledger: Ledger, account: str, times: int = 4, **more: object) -> Plan:
    return ledger.declare_plan(account, name="weekly", events=DECLARED, times=times, **WORD, **more)  # type: ignore[arg-type]


def use(ledger: Ledger, account: str, key: str) -> Release:
    return ledger.reserve(account, key=key, table="t", run_id="r", code_version="v", plan="weekly")


@pytest.mark.parametrize(
    ("ran", "fits"),
    [
        ([], True),
        (DECLARED, True),
        (DECLARED[::-1], True),
        ([DiscreteLaplace(41.0), Threshold(9e-9)], True),
        ([SubsampledGaussian(6.0, 0.01, 60), SubsampledGaussian(7.0, 0.009, 40)], True),
        ([SubsampledGaussian(6.0, 0.01, 60), SubsampledGaussian(7.0, 0.009, 41)], False),
        ([SubsampledGaussian(5.99, 0.01, 1)], False),
        ([SubsampledGaussian(6.0, 0.011, 1)], False),
        ([DiscreteGaussian(90.0, 1, 7)], False),
        ([DiscreteGaussian(200.0, 2, 1)], False),
        ([DiscreteGaussian(89.0, 1, 1)], False),
        ([DiscreteGaussian(91.0, 1, 1)], False),
        ([DiscreteGaussian(90.0, 1, 2), DiscreteGaussian(90.0, 1, 4)], True),
        ([DiscreteLaplace(40.0)] * 2, False),
        ([DiscreteLaplace(39.0)], False),
        ([Threshold(2e-8)], False),
        ([Gaussian(1e4)], False),
    ],
)
def test_only_what_was_declared_is_covered(ran: list[Event], fits: bool) -> None:
    assert covers(DECLARED, ran) is fits


def test_a_plan_that_is_the_whole_account_leaves_nothing_beside_it(ledger: Ledger) -> None:
    plan = declare(ledger, "p")
    alone = accountant.epsilon(DECLARED, 1e-5)
    assert plan.takes == "account"
    assert alone < plan.epsilon < 3 * alone
    assert ledger.balance("p").epsilon_left == 0
    with pytest.raises(BudgetExceeded):
        ask(ledger, "p", "k", epsilon=0.01, delta=1e-9)
    with pytest.raises(InvalidInput, match="a plan 'weekly'"):
        declare(ledger, "p")
    ledger.verify()


@pytest.mark.parametrize("account", ["p", "f"])
def test_a_plan_takes_a_share_beside_which_other_releases_go_on(ledger: Ledger, account: str) -> None:
    ask(ledger, account, "k")
    before = ledger.balance(account)
    plan = declare(ledger, account, share=(1.0, 2e-7))
    after = ledger.balance(account)
    assert (plan.takes, plan.delta) == ("share", 2e-7)
    assert plan.epsilon <= 1.0
    assert before.cost_left - after.cost_left == NANO
    assert before.delta_left - after.delta_left == pytest.approx(2e-7)
    ask(ledger, account, "l")
    ledger.verify()


def test_a_plan_enters_a_filter_by_its_renyi_divergence(ledger: Ledger) -> None:
    ask(ledger, "f", "k")
    plan = declare(ledger, "f")
    assert plan.takes == "renyi"
    assert plan.cost == pytest.approx(4 * accountant.rdp(DECLARED, 10.0) * NANO, abs=2)
    assert plan.cost_delta == 4 * 10**10
    assert ledger.balance("f").cost_spent == plan.cost
    ledger.verify()


def test_a_whole_account_cannot_be_declared_once_something_of_it_is_in_use(ledger: Ledger) -> None:
    ask(ledger, "p", "k")
    before = sealed(ledger)
    with pytest.raises(InvalidInput, match="in use"):
        declare(ledger, "p")
    assert sealed(ledger) == before


@pytest.mark.parametrize("account", ["p", "f"])
def test_a_plan_that_does_not_fit_is_refused_and_leaves_no_trace(ledger: Ledger, account: str) -> None:
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded, match="refused"):
        declare(ledger, account, times=2000)
    with pytest.raises(BudgetExceeded, match=r"at most [0-9]+ fit|not one"):
        declare(ledger, account, times=400, share=(0.5, 2e-7))
    with pytest.raises(BudgetExceeded, match="smaller share"):
        declare(ledger, account, share=(4.0, 2e-7))
    for wrong in ({"times": 0}, {"times": 1.5}, {"share": (1.0, 0.0)}, {"why": ""}):
        with pytest.raises(InvalidInput):
            ledger.declare_plan(account, **{"name": "n", "events": DECLARED, "times": 1, **WORD, **wrong})  # type: ignore[arg-type]
    assert sealed(ledger) == before


@pytest.mark.parametrize("account", ["p", "f"])
def test_uses_interleave_stop_short_and_are_charged_once_in_all(ledger: Ledger, account: str) -> None:
    plan, spent = declare(ledger, account), ledger.balance(account)
    one, two = use(ledger, account, "1"), use(ledger, account, "2")
    for release in (one, two):
        assert (release.plan, release.order, release.reserved_cost) == (plan.id, None, 0)
        ledger.start(release.id, "count", DECLARED[:1])
    ledger.start(two.id, "training", [TRAINING])
    ledger.start(one.id, "profile", DECLARED[1:2])
    for release in (one, two):
        settled = ledger.settle(release.id)
        assert (settled.charged_cost, settled.charged_delta) == (0, 0)
        assert settled.final_epsilon is not None
        assert settled.final_epsilon <= release.epsilon
    assert ledger.balance(account) == spent
    assert ledger.plans(account)[0].used == 2
    ledger.verify()


def test_a_plan_runs_as_often_as_declared_and_a_voided_use_comes_back(ledger: Ledger) -> None:
    declare(ledger, "p", times=2)
    first, second = use(ledger, "p", "1"), use(ledger, "p", "2")
    assert use(ledger, "p", "2") == second
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded, match="2 times, and all of them are taken"):
        use(ledger, "p", "3")
    assert sealed(ledger) == before
    ledger.void(first.id, "no source")
    with pytest.raises(ReleaseStateError):
        ledger.void(first.id, "again")
    assert use(ledger, "p", "3").state == "reserved"
    with pytest.raises(BudgetExceeded):
        use(ledger, "p", "4")
    ledger.verify()


@pytest.mark.parametrize(
    "event",
    [SubsampledGaussian(5.0, 0.005, 10), SubsampledGaussian(6.0, 0.02, 10), Gaussian(80.0), DiscreteGaussian(90.0, 2)],
)
def test_a_use_starts_nothing_that_was_not_declared(ledger: Ledger, event: Event) -> None:
    declare(ledger, "p")
    release = use(ledger, "p", "1")
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded, match=r"accounted for other events|reserved"):
        ledger.start(release.id, "training", [event])
    assert sealed(ledger) == before
    assert ledger.start(release.id, "training", [TRAINING]).state == "started"


def test_the_steps_of_a_use_are_shared_by_all_its_mechanisms(ledger: Ledger) -> None:
    declare(ledger, "p")
    release = use(ledger, "p", "1")
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.mark(entry.id, 70)
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training, resumed", [SubsampledGaussian(6.0, 0.01, 30)])
    ledger.settle_at_mark(entry.id, **WORD)
    with pytest.raises(BudgetExceeded):
        ledger.start(release.id, "training, resumed", [SubsampledGaussian(6.0, 0.01, 31)])
    ledger.start(release.id, "training, resumed", [SubsampledGaussian(6.0, 0.01, 30)])
    ledger.settle(release.id)
    ledger.verify()


def test_a_plan_that_nobody_declared_is_named_beside_those_that_were(ledger: Ledger) -> None:
    declare(ledger, "p")
    with pytest.raises(InvalidInput, match="declared: weekly"):
        ask(ledger, "p", "k", plan="daily")
    with pytest.raises(InvalidInput, match="epsilon and a delta"):
        ledger.reserve("f", key="k", table="t", run_id="r", code_version="v")


TAGS = ["row count", "profile", "training", "profile"]


@pytest.mark.parametrize(
    ("ran", "fits"),
    [
        ([("row count", DECLARED[0]), ("profile", DECLARED[1]), ("training", TRAINING)], True),
        ([("training, resumed at 60", SubsampledGaussian(6.0, 0.01, 40)), ("training", TRAINING.with_steps(60))], True),
        ([("other training", TRAINING)], False),
        ([("training", TRAINING), ("other training", TRAINING.with_steps(1))], False),
        (DECLARED, True),
    ],
)
def test_what_ran_under_a_mechanism_takes_only_from_what_was_declared_for_it(ran: list, fits: bool) -> None:
    assert covers(zip(TAGS, DECLARED, strict=True), ran) is fits
    if fits:
        assert covers(DECLARED, ran)


def test_two_trainings_of_one_plan_never_take_each_others_steps() -> None:
    louder = SubsampledGaussian(9.0, 0.01, 100)
    plan = [("table", TRAINING), ("text", louder)]
    assert covers(plan, [("table", TRAINING), ("text", louder)])
    assert covers([e for _, e in plan], [("table", louder), ("text", TRAINING)])
    assert not covers(plan, [("table", louder), ("text", TRAINING)])
    assert not covers(plan, [("table", TRAINING), ("table", louder)])


def test_a_plan_keeps_the_mechanism_of_every_event(ledger: Ledger) -> None:
    plan = declare(ledger, "p", mechanisms=TAGS)
    assert plan.mechanisms == tuple(TAGS)
    assert [t.mechanism for t in ledger.plans("p")[0].tagged] == TAGS
    assert ledger.plans("p") == [plan]
    assert export.statement(ledger)["accounts"][1]["plans"][0]["mechanisms"] == TAGS
    ledger.verify()


def test_a_use_of_a_tagged_plan_starts_only_what_was_declared_for_that_mechanism(ledger: Ledger) -> None:
    declare(ledger, "p", mechanisms=TAGS)
    release = use(ledger, "p", "1")
    before = sealed(ledger)
    for mechanism in ("profile", "other training"):
        with pytest.raises(BudgetExceeded, match="accounted for other events"):
            ledger.start(release.id, mechanism, [TRAINING])
    assert sealed(ledger) == before
    ledger.start(release.id, "training", [TRAINING])
    ledger.start(release.id, "profile", [DECLARED[1], DECLARED[3]])
    ledger.settle(release.id, ran=[("training", TRAINING), ("profile", DECLARED[1]), DECLARED[3]])
    ledger.verify()


def test_a_resumed_mechanism_of_a_tagged_plan_takes_from_the_same_events(ledger: Ledger) -> None:
    declare(ledger, "p", mechanisms=TAGS)
    release = use(ledger, "p", "1")
    entry = ledger.start(release.id, "training", [TRAINING])
    ledger.mark(entry.id, 70)
    ledger.settle_at_mark(entry.id, **WORD)
    rest = TRAINING.with_steps(30)
    ledger.start(release.id, "training, resumed at 70", [rest])
    ledger.settle(release.id, ran=[("training", TRAINING.with_steps(70)), ("training, resumed at 70", rest)])
    ledger.verify()


def test_what_ran_under_another_mechanism_than_it_was_charged_for_is_refused(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    ledger.start(release.id, "training", [Gaussian(60.0)])
    before = sealed(ledger)
    with pytest.raises(ReleaseStateError, match=r"not what was charged.*text: Gaussian"):
        ledger.settle(release.id, ran=[("text", Gaussian(60.0))])
    assert sealed(ledger) == before
    assert ledger.settle(release.id, ran=[("training", Gaussian(60.0))]).state == "settled"


@pytest.mark.parametrize(
    "mechanisms",
    [["training"], ["a", "b", "c", ""], ["a", "b", "c", "d, e"], ["a", "b", "c", 1], "abcd", ["x" * 101] * 4],
)
def test_mechanisms_are_plain_words_one_beside_each_event(ledger: Ledger, mechanisms: object) -> None:
    before = sealed(ledger)
    with pytest.raises(InvalidInput, match="mechanism"):
        declare(ledger, "p", mechanisms=mechanisms)
    assert sealed(ledger) == before


def test_an_untagged_plan_is_written_as_it_was_before_there_were_tags(ledger: Ledger) -> None:
    plan = declare(ledger, "p")
    assert plan.mechanisms == ()
    assert "mechanisms" not in plan.to_record()
    assert "mechanisms" not in ledger.history("p")[-1].body
    assert Plan.from_record(plan.to_record()) == plan


@pytest.mark.parametrize(("mechanisms", "edited"), [((), '["a", "b", "c", "d"]'), (TAGS, "[]"), (TAGS, '["training"]')])
def test_tags_that_were_edited_in_the_store_are_noticed(ledger: Ledger, mechanisms: list[str], edited: str) -> None:
    declare(ledger, "p", mechanisms=mechanisms)
    with ledger._store.locked() as conn:
        conn.execute(sa.update(tables.plan).values(mechanisms=edited))
    with pytest.raises(LedgerCorrupted, match="mechanisms"):
        ledger.verify()
    with pytest.raises(LedgerCorrupted, match="mechanisms"):
        ask(ledger, "f", "k")


SEVERAL: list[Event] = [DiscreteGaussian(90.0, 3, 6), TRAINING]


@pytest.mark.parametrize("share", [None, (1.5, 4e-7)])
def test_discrete_noise_for_several_rows_of_a_unit_is_refused_where_loss_distributions_price_it(
    ledger: Ledger, share: tuple[float, float] | None
) -> None:
    account = "p" if share is None else "f"
    terms = {"name": "weekly", "times": 2, "share": share, **WORD}
    with pytest.raises(InvalidInput, match=r"proved for one row alone.*noise_multiplier = scale / sensitivity"):
        ledger.declare_plan(account, events=SEVERAL, **terms)
    anew = [SEVERAL[0].as_gaussian(), TRAINING]
    ledger.declare_plan(account, events=anew, **terms)
    release = use(ledger, account, "k")
    ledger.start(release.id, "profile", anew[:1])
    ledger.verify()


def test_a_plan_of_an_earlier_version_that_was_priced_so_is_refused_before_anything_is_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(declared, "check_noise", lambda plan: None)
        ledger.declare_plan("p", name="weekly", events=SEVERAL, times=2, **WORD)
        begun = use(ledger, "p", "begun")
    with pytest.raises(InvalidInput, match="proved for one row alone"):
        use(ledger, "p", "k")
    with pytest.raises(InvalidInput, match="proved for one row alone"):
        ledger.start(begun.id, "profile", SEVERAL[:1])
    ledger.verify()


def test_a_renyi_filter_pays_for_discrete_noise_of_several_rows_too(ledger: Ledger) -> None:
    ledger.declare_plan("f", name="weekly", events=SEVERAL, times=2, **WORD)
    ledger.start(use(ledger, "f", "k").id, "profile", SEVERAL[:1])
    ledger.verify()


def test_a_use_that_an_earlier_version_admitted_with_more_discrete_noise_still_verifies(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(ledger, "p")
    release, louder = use(ledger, "p", "k"), [DiscreteGaussian(90.5, 1, 6)]
    with pytest.raises(BudgetExceeded, match="accounted for other events"):
        ledger.start(release.id, "profile", louder)
    with monkeypatch.context() as earlier:
        earlier.setattr(decide, "covers", lambda allowed, ran: True)
        ledger.start(release.id, "profile", louder)
    ledger.verify()
    with monkeypatch.context() as forged:
        forged.setattr(decide, "covers", lambda allowed, ran: True)
        ledger.start(use(ledger, "p", "k2").id, "profile", [DiscreteGaussian(89.5, 1, 6)])
    with pytest.raises(LedgerCorrupted, match="declared"):
        ledger.verify()
