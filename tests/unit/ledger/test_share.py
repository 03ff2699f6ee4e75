"""How often the last release is said to fit again is how often it is then admitted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import SMALL, ask, sealed

TERMS: dict[str, tuple[str, dict[str, Any]]] = {
    "by divergence": ("f", {"epsilon": 0.7, "delta": 1e-5, "own_delta": 5e-9}),
    "by the delta of thresholds": ("f", {"epsilon": 0.1, "delta": 1e-5, "own_delta": 1.1e-7}),
    "by shares of epsilon": ("p", {"epsilon": 0.7, "delta": 1e-6}),
    "by shares of delta": ("p", {"epsilon": 0.01, "delta": 3e-6}),
}


@pytest.mark.parametrize("case", TERMS)
def test_as_many_more_are_admitted_as_are_said_to_fit_and_the_next_is_refused(ledger: Ledger, case: str) -> None:
    account, terms = TERMS[case]
    ask(ledger, account, "first", **terms)
    said = ledger.share(account)
    assert said.more
    shares = [said.used]
    for n in range(said.more):
        ask(ledger, account, f"more {n}", **terms)
        shares.append(ledger.share(account).used)
    assert shares == sorted(shares)
    assert ledger.share(account).more == 0
    before = sealed(ledger)
    with pytest.raises(BudgetExceeded):
        ask(ledger, account, "one too many", **terms)
    assert sealed(ledger) == before
    assert ledger.capacity(account, **terms) == 0


def test_an_account_says_in_one_sentence_how_much_is_used_and_what_fits(ledger: Ledger) -> None:
    assert str(ledger.share("p")) == "0 % used; nothing was released yet"
    ask(ledger, "p", "k", epsilon=1.0, delta=1e-6)
    assert str(ledger.share("p")) == "34 % used; fits 2 more like the last (ε 1)"
    ask(ledger, "p", "l", epsilon=1.5, delta=1e-6)
    assert str(ledger.share("p")) == "84 % used; fits no other like the last (ε 1.5)"
    ask(ledger, "p", "m", epsilon=0.5, delta=1e-6)
    assert str(ledger.share("p")) == "100 % used; nothing fits any more"


def test_what_was_given_back_is_not_used_and_is_not_the_last(ledger: Ledger) -> None:
    ledger.void(ask(ledger, "p", "k", epsilon=1.0).id, "a mistake")
    assert ledger.share("p").last is None
    assert ledger.share("p").used == 0


def test_a_use_of_a_plan_fits_as_often_as_uses_are_left(ledger: Ledger) -> None:
    ledger.declare_plan("p", name="weekly", events=SMALL, times=4, why="each week", who="Ada")
    assert str(ledger.share("p")) == "0 % used, 100 % set aside for declared plans; nothing was released yet"
    for n in range(4):
        ledger.reserve("p", key=f"k{n}", table="t", run_id="r", code_version="v", plan="weekly")
        share = ledger.share("p")
        assert (share.used, share.more) == ((n + 1) / 4, 3 - n)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("p", key="k4", table="t", run_id="r", code_version="v", plan="weekly")


def test_each_block_has_a_share_and_the_account_that_of_its_fullest(ledger: Ledger) -> None:
    ledger.open_account("b", epsilon=2, delta=1e-5, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True)
    ask(ledger, "b", "k", epsilon=0.5, blocks=["jan"])
    assert [ledger.share("b", b).used for b in ("jan", "feb")] == [0.25, 0.0]
    assert ledger.share("b").used == 0.25
    assert str(ledger.share("b")) == "25 % used; fits 3 more like the last (ε 0.5) over the same block"
    assert ledger.share("b", "feb").more == 4


def test_a_raise_is_tried_before_it_is_made_and_changes_nothing(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=3.0, delta=1e-6)
    before = sealed(ledger)
    balance, share = ledger.if_raised("p", 6.0, None)
    assert (balance.epsilon_left, share.used, share.more) == (3.0, 0.5, 1)
    with pytest.raises(InvalidInput, match="only rises"):
        ledger.if_raised("p", 1.0, None)
    assert sealed(ledger) == before
    ledger.raise_account("p", epsilon=6.0, why="more people agreed", who="Ada")
    assert asdict(ledger.balance("p")) == asdict(balance)
    assert ledger.share("p") == share
