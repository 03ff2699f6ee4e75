"""What another tool releases is entered by hand: priced by the same accountant, refused if it does not fit, on record."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import AccountMismatch, BudgetExceeded, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger, costs, export
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from tests.unit.ledger.stores import ask, sealed

QUERY = (Gaussian(8.0), DiscreteLaplace(20.0), Threshold(1e-9))
WORD = {"why": "OpenDP query, 3 May", "who": "Ana"}
UMBRELLA = {"epsilon": 3.0, "delta": 1e-5, "unit": "patient_id", "umbrella": True}


def test_a_charge_by_hand_costs_what_the_accountant_says_of_its_events(ledger: Ledger) -> None:
    charge = ledger.charge_by_hand("f", QUERY, **WORD)
    balance = ledger.balance("f")
    assert 0 <= balance.cost_spent - accountant.rdp(QUERY, 10.0) * NANO <= 2
    assert str(ledger.share("f")).endswith("% used; no release of its own yet")
    assert (balance.cost_held, balance.delta_spent) == (0, 10**9)
    assert charge.final_epsilon == accountant.epsilon(QUERY, 1e-5)
    assert (charge.state, charge.released, charge.by_hand) == ("settled", False, True)
    assert ledger.verify().entries == 1


def test_under_declared_plans_it_takes_a_share_of_epsilon_and_the_delta_that_is_said(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="say which part of 1e-05 this charge takes"):
        ledger.charge_by_hand("p", QUERY, **WORD)
    ledger.charge_by_hand("p", QUERY, delta=1e-6, **WORD)
    balance = ledger.balance("p")
    assert balance.cost_spent == costs.share_units(accountant.epsilon(QUERY, 1e-6), NANO)
    assert balance.delta_spent == costs.share_units(1e-6, ATTO)
    ledger.verify()


@pytest.mark.parametrize("account", ["f", "p"])
def test_what_does_not_fit_is_refused_with_what_to_do_and_changes_nothing(ledger: Ledger, account: str) -> None:
    ledger.charge_by_hand(account, [Gaussian(2.5)], delta=1e-6, **WORD)
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded, match="This charge by hand is refused") as caught:
        ledger.charge_by_hand(account, [Gaussian(1.2)], delta=1e-6, **WORD)
    assert f"account '{account}'" in str(caught.value)
    assert f"dp-synth ledger raise {account}" in str(caught.value)
    assert sealed(ledger) == before


@pytest.mark.parametrize(
    ("events", "terms", "why"),
    [
        ([], {}, "at least one privacy event"),
        ([Gaussian(0.01)], {}, "no finite epsilon"),
        ([Threshold(1e-4)], {}, "no finite epsilon"),
        (QUERY, {"delta": 1e-3}, "promises delta"),
        (QUERY, {"why": " "}, "reason"),
        (QUERY, {"who": ""}, "name"),
    ],
)
def test_a_charge_that_makes_no_sense_is_refused(ledger: Ledger, events: list, terms: dict, why: str) -> None:
    before = sealed(ledger)
    with pytest.raises((InvalidInput, AccountMismatch), match=why):
        ledger.charge_by_hand("f", events, **{**WORD, **terms})
    assert sealed(ledger) == before


def test_it_is_on_record_in_history_and_export_and_no_release_of_a_table(ledger: Ledger) -> None:
    release = ask(ledger, "f", "k")
    charge = ledger.charge_by_hand("f", [SubsampledGaussian(4.0, 0.01, 50)], **WORD)
    row = ledger.history("f")[-1]
    assert (row.action, row.facts["note"]) == ("charged by hand", WORD)
    facts = export.statement(ledger, "f")
    assert [r["by_hand"] for r in facts["releases"]] == [False, True]
    assert facts["releases"][1]["why"] == WORD["why"]
    assert "by hand" in export.to_csv(ledger, "f").splitlines()[-1]
    assert ledger.share("f").last == release, "how often it fits again is asked of releases"
    for act in (lambda: ledger.settle(charge.id, delta=1e-7), lambda: ledger.void(charge.id, "w")):
        with pytest.raises(ReleaseStateError):
            act()
    ledger.verify()


def test_a_block_has_room_for_less_after_a_charge_by_hand_since_it_is_charged_to_all_rows(ledger: Ledger) -> None:
    ledger.open_account("b", epsilon=1.0, delta=1e-5, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True)
    ask(ledger, "b", "k", epsilon=0.6, blocks=["jan"])
    charge = ledger.charge_by_hand("b", [Gaussian(16.0)], delta=1e-6, **WORD)
    assert charge.blocks == ()
    for block in ("jan", "feb"):
        assert ledger.balance("b", block).cost_spent == charge.charged_cost
    with pytest.raises(BudgetExceeded):  # it would fit February alone
        ledger.charge_by_hand("b", [Gaussian(12.0)], delta=1e-6, **WORD)
    ledger.verify()


@pytest.mark.parametrize("rule", ["filter", "plan"])
def test_a_members_charge_by_hand_charges_the_umbrella_as_well_and_is_refused_by_it_by_name(
    ledger: Ledger, rule: str
) -> None:
    ledger.open_account("clinic", **UMBRELLA)  # type: ignore[arg-type]
    ledger.open_account("visits", epsilon=3.0, delta=1e-5, rule=rule, under="clinic")  # type: ignore[arg-type]
    ledger.open_account("drugs", epsilon=3.0, delta=1e-5, under="clinic")
    ledger.charge_by_hand("visits", QUERY, delta=1e-6, **WORD)
    order = ledger.account("clinic").order
    assert order is not None
    assert 0 <= ledger.balance("clinic").cost_spent - accountant.rdp(QUERY, order) * NANO <= 2
    assert ledger.history("clinic")[-1].action == "charged by hand"
    ledger.charge_by_hand("clinic", [Gaussian(1.8)], **WORD)
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded, match="of umbrella 'clinic'"):
        ledger.charge_by_hand("drugs", [Gaussian(2.0)], **WORD)
    assert sealed(ledger) == before
    assert ledger.verify().releases == 3
    assert [r.account for r in ledger.releases()] == ["visits", "clinic"]
    assert sum(ledger.taken("clinic").values()) < ledger.share("clinic").used, (
        "the umbrella's own charge is no member's"
    )
