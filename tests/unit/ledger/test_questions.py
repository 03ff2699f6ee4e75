from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import AccountMismatch, BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import ask, sealed


@pytest.mark.parametrize("account", ["f", "p"])
@pytest.mark.parametrize(("delta", "own"), [(1e-6, 0.0), (4e-6, 1.5e-7)])
def test_as_many_releases_are_admitted_as_capacity_says(ledger: Ledger, account: str, delta: float, own: float) -> None:
    ask(ledger, account, "k")
    before = sealed(ledger)
    fits = ledger.capacity(account, epsilon=0.9, delta=delta, own_delta=own)
    assert sealed(ledger) == before
    for number in range(fits):
        assert ledger.capacity(account, epsilon=0.9, delta=delta, own_delta=own) == fits - number
        ask(ledger, account, str(number), epsilon=0.9, delta=delta, own_delta=own)
    with pytest.raises(BudgetExceeded):
        ask(ledger, account, "more", epsilon=0.9, delta=delta, own_delta=own)
    assert fits > 0


@pytest.mark.parametrize("account", ["f", "p"])
def test_as_many_releases_fit_as_were_said_to_be_affordable_and_little_more_does_not(
    ledger: Ledger, account: str
) -> None:
    ask(ledger, account, "k")
    each = ledger.affordable(account, times=7, delta=1e-6, own_delta=1e-8)
    assert ledger.capacity(account, epsilon=each, delta=1e-6, own_delta=1e-8) == 7
    assert ledger.capacity(account, epsilon=1.01 * each, delta=1e-6, own_delta=1e-8) < 7


def test_without_a_delta_a_plan_shares_what_is_left_of_it(ledger: Ledger) -> None:
    each = ledger.affordable("p", times=3)
    for number in range(3):
        ask(ledger, "p", str(number), epsilon=each, delta=ledger.account("p").delta / 3 * (1 - 1e-9))
    assert ledger.affordable("p", times=1) < 1e-3
    assert ledger.capacity("p", epsilon=0.1) == 0


def test_nothing_is_affordable_where_nothing_is_left(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=3.0, delta=1e-5)
    assert ledger.affordable("p", times=1) == 0.0
    assert ledger.affordable("p", times=10, delta=1e-7) == 0.0
    for wrong in ({"times": 0}, {"times": 1, "delta": 0.0}, {"times": 1, "delta": 2e-5}):
        with pytest.raises(InvalidInput):
            ledger.affordable("f", **wrong)  # type: ignore[arg-type]
    with pytest.raises(AccountMismatch):
        ledger.capacity("f", epsilon=0.1, delta=1e-4)
