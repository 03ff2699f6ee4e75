"""One requester, or one purpose, takes at most its quota of an account, in whatever order it asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, costs, export, quota, tables
from dp_synth_pipeline.ledger.entry import Quota
from dp_synth_pipeline.ledger.preflight import Ask
from dp_synth_pipeline.privacy.events import Gaussian
from tests.unit.ledger.stores import SMALL, ask, in_processes, sealed

WORD = {"why": "decided by the board", "who": "Ana"}


def as_user(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let what follows be asked for by this user of the operating system."""
    monkeypatch.setenv("LOGNAME", name)


@pytest.fixture
def shared(url: str, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger with an account of which ana may take a quarter, anybody else a tenth, and tests a half."""
    as_user(monkeypatch, "ana")
    ledger = Ledger.open(url)
    quotas = ["requester=ana:0.25", "requester=*:0.1", "purpose=testing:0.5"]
    ledger.open_account("f", epsilon=3.0, delta=1e-5, quotas=quotas)
    return ledger


def until_refused(ledger: Ledger, account: str = "f", most: int = 100, **asked: Any) -> tuple[int, BudgetExceeded]:
    """Reserve releases until one is refused; return how many there were, and the refusal."""
    for number in range(most):
        try:
            ask(ledger, account, f"{account}{number}{len(ledger.releases())}", **asked)
        except BudgetExceeded as error:
            return number, error
    raise AssertionError("nothing was refused")


def part(ledger: Ledger, account: str, wanted: Callable[..., bool]) -> float:
    """Return which part of an account some of its releases took."""
    releases = [r for r in ledger.releases(account) if wanted(r)]
    taken = sum(r.reserved_cost if r.charged_cost is None else r.charged_cost for r in releases)
    return taken / ledger.account(account).cost_limit


def test_a_requester_takes_its_quota_and_no_more_and_the_refusal_says_whose_it_is(shared: Ledger) -> None:
    count, error = until_refused(shared)
    one = shared.releases()[0].reserved_cost / shared.account("f").cost_limit
    assert count * one <= 0.25 < (count + 1) * one
    assert str(error).startswith(
        f"Quota requester=ana:0.25 of account 'f' refuses this: ana may take at most 25 % of it and has "
        f"{100 * count * one:.3g} %, and ana asks for {100 * one:.3g} % more.\nWhat fits now: epsilon <= "
    )
    assert "dp-synth ledger amend f --quota 'requester=ana:SHARE' --why REASON. Nothing was read" in str(error)
    assert (error.facts["quota"], error.facts["who"]) == ("requester=ana:0.25", "ana")
    assert shared.verify().releases == count


def test_a_refusal_for_delta_alone_says_so(shared: Ledger) -> None:
    own = shared.account("f").own_delta
    with pytest.raises(
        BudgetExceeded, match=r"ana may take at most 25 % of its delta and has 0 %, and ana asks for 30 % more"
    ):
        ask(shared, "f", "deltas", epsilon=0.1, own_delta=0.3 * own)


def test_what_a_refusal_says_would_fit_fits_and_it_leaves_no_trace(shared: Ledger) -> None:
    _, error = until_refused(shared)
    before = sealed(shared)
    with pytest.raises(BudgetExceeded):
        ask(shared, "f", "again")
    with pytest.raises(BudgetExceeded, match="Quota"):
        shared.preview("f", epsilon=0.5, delta=1e-6)
    assert sealed(shared) == before
    fits = float(str(error).partition("epsilon <= ")[2].partition(" ")[0])
    shared.preview("f", epsilon=fits, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        shared.preview("f", epsilon=1.01 * fits, delta=1e-6)
    assert ask(shared, "f", "fits", epsilon=fits).state == "reserved"


def test_whoever_has_no_quota_has_that_of_each(shared: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("bob", "cem"):
        as_user(monkeypatch, user)
        count, error = until_refused(shared, epsilon=0.3)
        assert "Quota requester=*:0.1" in str(error)
        assert f"{user} may take at most 10 %" in str(error)
        assert f"--quota 'requester={user}:SHARE'" in str(error)
        assert count > 0
        assert 0 < part(shared, "f", lambda r, user=user: r.who == user) <= 0.1
    as_user(monkeypatch, " ANA ")
    assert ask(shared, "f", "ana", epsilon=1.0).state == "reserved", "her own, however her name is written"


def test_a_purpose_takes_its_quota_whoever_asks_for_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(url)
    ledger.open_account("f", epsilon=3.0, delta=1e-5, quotas=["purpose=Testing:0.2", "purpose=*:0.1"])
    count = 0
    for user in ("bob", "cem"):
        as_user(monkeypatch, user)
        more, error = until_refused(ledger, purpose=" testing", most=100)
        count += more
    assert "what is for ' testing' may take at most 20 %" in str(error)
    assert "and cem asks for" in str(error)
    assert 0.15 < part(ledger, "f", lambda r: "testing" in r.purpose) <= 0.2
    _, error = until_refused(ledger)
    assert "what names no purpose may take at most 10 %" in str(error)
    assert 0.05 < part(ledger, "f", lambda r: not r.purpose) <= 0.1
    assert ledger.verify().releases == len(ledger.releases()) > count


def test_what_is_given_back_may_be_taken_again(shared: Ledger) -> None:
    until_refused(shared)
    first, second, *_ = shared.releases()
    shared.void(first.id, "nothing was read")
    shared.start(second.id, "marginals", SMALL)
    shared.settle(second.id)
    assert until_refused(shared)[0] >= 1
    assert part(shared, "f", lambda r: True) <= 0.25
    shared.verify()


def test_plans_and_charges_by_hand_count_for_whoever_decided_them(shared: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match=r"Quota requester=ana:0\.25"):
        shared.declare_plan("f", name="weekly", events=(Gaussian(3.0),), times=1, **WORD)
    shared.declare_plan("f", name="weekly", events=(Gaussian(6.0),), times=3, **WORD)
    with pytest.raises(BudgetExceeded, match=r"Quota requester=ana:0\.25"):
        shared.charge_by_hand("f", (Gaussian(3.0),), **WORD)
    shared.charge_by_hand("f", SMALL, **WORD)
    use = shared.reserve("f", key="use", table="t", run_id="r", code_version="v", plan="weekly")
    assert use.reserved_cost == 0, "a use was counted with its plan"
    assert until_refused(shared)[0] < 5
    shared.amend_account("f", quotas=["requester=ana:0.01"], **WORD)
    shared.reserve("f", key="use 2", table="t", run_id="r", code_version="v", plan="weekly")
    with pytest.raises(BudgetExceeded, match=r"has 2[0-9.]* %"):
        shared.charge_by_hand("f", SMALL, **WORD)
    testing = {"why": "testing", "who": "Dan"}
    shared.amend_account("f", quotas=["requester=dan:1", "purpose=testing:0.01"], **WORD)
    with pytest.raises(BudgetExceeded, match="Quota purpose=testing"):
        shared.charge_by_hand("f", (Gaussian(3.0),), **testing)
    assert shared.verify().releases == len(shared.releases())


def test_a_quota_counts_the_fullest_block_as_its_account_does(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, "ana")
    ledger = Ledger.open(url)
    blocks = {"blocks": ["jan", "feb"], "unit_in_one_block": True}
    ledger.open_account("b", epsilon=1.0, delta=1e-5, rule="plan", quotas=["requester=*:0.5"], **blocks)
    ask(ledger, "b", "jan", epsilon=0.4, blocks=["jan"])
    ask(ledger, "b", "feb", epsilon=0.4, blocks=["feb"])
    with pytest.raises(BudgetExceeded, match="Quota requester"):
        ask(ledger, "b", "more", epsilon=0.2, blocks=["jan"])
    with pytest.raises(BudgetExceeded, match="Quota requester"):
        ask(ledger, "b", "all", epsilon=0.2)
    ask(ledger, "b", "every row", epsilon=0.1)
    with pytest.raises(BudgetExceeded, match="Quota requester"):
        ask(ledger, "b", "feb again", epsilon=0.01, blocks=["feb"])
    assert ledger.verify().releases == 3


def test_an_umbrella_has_quotas_for_all_its_members(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, "ana")
    ledger = Ledger.open(url)
    ledger.open_account(
        "clinic", epsilon=4.0, delta=1e-5, unit="patient_id", umbrella=True, quotas=["requester=ana:0.2"]
    )
    unit = {"unit": "patient_id"}
    for member in ("visits", "drugs"):
        ledger.open_account(member, epsilon=3.0, delta=1e-5, under="clinic")
        _, error = until_refused(ledger, member, **unit)
        assert "of umbrella 'clinic'" in str(error)
    assert 0.15 < part(ledger, "clinic", lambda r: True) <= 0.2
    assert ledger.capacity("drugs", epsilon=0.5, delta=1e-6) == 0
    assert ledger.verify().releases == 2 * len(ledger.releases())


def test_quotas_are_amended_as_approvals_are(url: str) -> None:
    ledger = Ledger.open(url)
    ledger.open_account("g", epsilon=3.0, delta=1e-5, approve_above=0.9, quotas=["requester=*:0.2"])
    ledger.amend_account("g", quotas=["requester=bob:0.1"], **WORD)  # to tighten them needs nobody
    for looser in (["requester=bob:0.15"], ["requester=*:1"], ["requester=cem:0.3"]):
        with pytest.raises(ApprovalNeeded, match="loosens the terms"):
            ledger.amend_account("g", quotas=looser, **WORD)
    assert ledger.account("g").quotas == (Quota("requester", "*", 0.2), Quota("requester", "bob", 0.1))
    asked = ledger.requests()[-1]
    assert asked.facts["quotas"] == ["requester=*:0.2", "requester=bob:0.1", "requester=cem:0.3"]
    ledger.approve(asked.id, why="w", who="Officer")
    with pytest.raises(ApprovalNeeded):
        ledger.amend_account("g", quotas=["requester=cem:0.4"], **WORD)
    ledger.amend_account("g", quotas=["requester=cem:0.3"], **WORD)
    with pytest.raises(InvalidInput, match="nothing would change"):
        ledger.amend_account("g", quotas=["requester=cem:0.3"], **WORD)
    with pytest.raises(InvalidInput, match="a reason"):
        ledger.amend_account("g", quotas=["requester=cem:0.1"], why=" ", who="Ana")
    ledger.open_account("alone", epsilon=3.0, delta=1e-5, quotas=["requester=*:0.2"])
    ledger.amend_account("alone", quotas=["requester=*:1"], **WORD)  # nobody wanted a second person here
    assert ledger.verify().accounts == 2


@pytest.mark.parametrize(
    "wrong", ["ana:0.2", "requester=ana", "requester=ana:2", "requester=ana:-1", "requester=ana:nan", "requester=:0.2",
              "table=t:0.2", "requester=ana:much", ""],
)  # fmt: skip
def test_what_is_no_quota_is_refused_by_name(ledger: Ledger, wrong: str) -> None:
    with pytest.raises(InvalidInput, match="a quota is requester=NAME:SHARE"):
        ledger.amend_account("f", quotas=[wrong], **WORD)
    with pytest.raises(InvalidInput, match="a quota is"):
        ledger.amend_account("f", quotas="requester=ana:0.2", **WORD)
    with pytest.raises(InvalidInput, match="of one name"):
        ledger.open_account("g", epsilon=1.0, delta=1e-5, quotas=["requester=ana:0.2", "requester=Ana:0.3"])


def test_a_quota_is_read_back_as_it_was_written(ledger: Ledger) -> None:
    texts = ["purpose=a = b: c:0.1234567890123", "requester=ana:1e-09"]
    quotas = ledger.amend_account("f", quotas=texts, **WORD).quotas
    assert quotas == (Quota("purpose", "a = b: c", 0.1234567890123), Quota("requester", "ana", 1e-9))
    assert ledger.account("f").quotas == quotas
    assert [str(q) for q in quotas] == texts


def test_questions_answer_within_the_quota_of_whoever_asks(shared: Ledger) -> None:
    asked = {"epsilon": 0.5, "delta": 1e-6}
    ask(shared, "f", "one")
    fits, foretold = shared.capacity("f", **asked), shared.admitted("f", **asked, each=[()] * 20)
    each = shared.affordable("f", times=2, delta=1e-6)
    more, by_purpose = shared.share("f").more, shared.foretold("f", [Ask(0.9, 1e-6, purpose="testing")] * 20)
    assert shared.capacity("f", epsilon=1.01 * each, delta=1e-6) < 2 <= shared.capacity("f", epsilon=each, delta=1e-6)
    assert until_refused(shared)[0] == fits == sum(foretold) == more > 0
    assert sum(by_purpose) < 20
    assert not any(shared.foretold("f", [Ask(0.5, 1e-6)]))
    shared.amend_account("f", quotas=["requester=ana:1", "purpose=testing:0"], **WORD)
    assert shared.foretold("f", [Ask(0.5, 1e-6), Ask(0.5, 1e-6, purpose="testing")]) == [True, False]
    assert shared.capacity("f", **asked, purpose="testing") == 0 < shared.capacity("f", **asked)
    with pytest.raises(BudgetExceeded, match="Quota purpose"):
        shared.preview("f", **asked, purpose="testing")


def test_what_is_foretold_of_several_purposes_counts_for_one_requester(shared: Ledger) -> None:
    asks = [Ask(0.5, 1e-6, purpose=purpose) for purpose in ("testing", "other", " Testing ", "") * 5]
    foretold = shared.foretold("f", asks)
    happened = []
    for number, one in enumerate(asks):
        try:
            ask(shared, "f", f"k{number}", purpose=one.purpose)
            happened.append(True)
        except BudgetExceeded:
            happened.append(False)
    assert foretold == happened
    assert not all(happened)


def test_a_larger_limit_makes_the_quota_larger_and_says_how_much_then_fits(shared: Ledger) -> None:
    until_refused(shared)
    assert shared.if_raised("f", 6.0, None)[1].more == until_raised(shared) > 0


def until_raised(ledger: Ledger) -> int:
    ledger.raise_account("f", epsilon=6.0, **WORD)
    return until_refused(ledger)[0]


def test_what_exceeds_a_quota_asks_no_second_person(url: str) -> None:
    ledger = Ledger.open(url)
    ledger.open_account("f", epsilon=3.0, delta=1e-5, approve_above=0.2, quotas=["requester=*:0.3"])
    big: dict[str, Any] = {"epsilon": 2.0}
    with pytest.raises(BudgetExceeded, match="Quota"):
        ask(ledger, "f", "k", **big)
    more = {"table": "t", "run_id": "r", "code_version": "v", "delta": 1e-6}
    with pytest.raises(BudgetExceeded, match="Quota"):
        ledger.ask("f", key="k", **big, **more)
    assert ledger.requests() == []


def test_processes_that_race_for_one_quota_never_exceed_it(shared: Ledger, url: str) -> None:
    def run() -> None:
        for number in range(4):
            try:
                ask(Ledger.open(url), "f", f"{os.getpid()}-{number}", epsilon=0.7)
            except BudgetExceeded:
                return

    assert in_processes(4, run) == [0] * 4
    one = shared.releases()[0].reserved_cost / shared.account("f").cost_limit
    assert part(shared, "f", lambda r: True) <= 0.25 < part(shared, "f", lambda r: True) + one
    assert shared.verify().releases == len(shared.releases())


def test_an_edited_quota_stops_the_ledger(shared: Ledger) -> None:
    ask(shared, "f", "one")
    with shared._store._writer.begin() as conn:
        conn.execute(sa.update(tables.account).values(quotas='["requester=ana:1.0"]'))
    with pytest.raises(LedgerCorrupted, match="another quotas"):
        ask(shared, "f", "two")
    with pytest.raises(LedgerCorrupted, match="another quotas"):
        shared.verify()


def test_a_charge_that_a_program_admitted_above_a_quota_does_not_verify(
    shared: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, _ = until_refused(shared)
    with monkeypatch.context() as without:
        without.setattr(quota, "exceeded", lambda *_: None)
        ask(shared, "f", "more")
        assert shared.verify().releases == count + 1
    said = rf"journal row {count + 2}: expected a charge within quota requester=ana:0\.25 of account f"
    with pytest.raises(LedgerCorrupted, match=said):
        shared.verify()


def test_the_export_says_the_quotas_and_the_purpose_of_each_release(shared: Ledger) -> None:
    ask(shared, "f", "one", purpose="testing")
    told = export.statement(shared)
    share, limit = part(shared, "f", lambda r: True), shared.account("f").cost_limit
    quotas = told["accounts"][0]["quotas"]
    assert [(q["quota"], q["share"], q["taken"]) for q in quotas] == [
        ("purpose=testing:0.5", 0.5, {"testing": share}),
        ("requester=*:0.1", 0.1, {}),
        ("requester=ana:0.25", 0.25, {"ana": share}),
    ]
    assert quotas[2]["epsilon"] == costs.epsilon_spent(shared.account("f"), limit // 4)
    assert told["releases"][0]["purpose"] == "testing"
