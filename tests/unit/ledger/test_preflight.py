from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ask, Ledger
from tests.unit.ledger.stores import ask, sealed

ASKED = {"epsilon": 0.5, "delta": 1e-6}


@pytest.mark.parametrize(
    "each",
    [
        [["jan"], ["jan"], ["jan"], ["feb"]],
        [["jan"], ["jan", "feb"], ["feb"], ["jan"]],
        [[], ["jan"], ["feb"], ["jan"]],
        [["jan"], [], ["feb"], []],
        [["jan"], ["jan"], [], ["feb"]],
    ],
)
def test_what_is_foretold_is_what_reserving_one_after_the_other_comes_to(parted: Ledger, each) -> None:
    before = sealed(parted)
    foretold = parted.admitted("b", **ASKED, each=each)
    assert sealed(parted) == before
    happened = []
    for number, blocks in enumerate(each):
        try:
            ask(parted, "b", str(number), blocks=blocks, **ASKED)
            happened.append(True)
        except BudgetExceeded:
            happened.append(False)
    assert foretold == happened


def test_a_block_that_is_still_to_be_added_has_spent_nothing_but_the_accounts_own_row_counts(parted: Ledger) -> None:
    assert parted.admitted("b", **ASKED, each=[["mar"], ["mar"], ["mar"]]) == [True, True, False]
    ask(parted, "b", "0", epsilon=0.6, delta=1e-6)
    assert parted.admitted("b", **ASKED, each=[["mar"]]) == [False]
    assert parted.admitted("b", epsilon=0.4, delta=1e-6, each=[["mar"], ["apr"]]) == [True, True]


def test_releases_of_different_costs_are_foretold_in_their_order_and_a_smaller_one_may_fit_after_a_refusal(
    parted: Ledger,
) -> None:
    asks = [
        Ask(e, 1e-6, blocks=b) for e, b in [(0.7, ("jan",)), (0.4, ()), (0.3, ()), (0.7, ("feb",)), (0.6, ("feb",))]
    ]
    foretold = parted.foretold("b", asks)
    assert foretold == [True, False, True, True, False]
    for number, (one, fits) in enumerate(zip(asks, foretold, strict=True)):
        if fits:
            ask(parted, "b", str(number), epsilon=one.epsilon, blocks=one.blocks)
            continue
        with pytest.raises(BudgetExceeded):
            ask(parted, "b", str(number), epsilon=one.epsilon, blocks=one.blocks)


def test_a_block_that_is_still_to_be_added_has_left_what_all_rows_left(parted: Ledger) -> None:
    ask(parted, "b", "0", epsilon=0.6, blocks=["jan"])
    assert parted.fresh_balance("b").epsilon_left == 1.0
    ask(parted, "b", "1", epsilon=0.3)
    assert parted.fresh_balance("b").epsilon_left == pytest.approx(0.7)
    assert parted.balance("b", "jan").epsilon_left == pytest.approx(0.1)
