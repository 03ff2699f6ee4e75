"""Numbers that break ledgers: not finite, negative, subnormal, a million tiny ones, ten of a tenth."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger, costs
from dp_synth_pipeline.privacy import filter
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian, Threshold
from tests.unit.ledger.stores import ask, sealed

pytest_plugins = ("tests.unit.ledger.stores",)

BAD = (math.nan, math.inf, -math.inf, -1.0, -5e-324, 0.0)


@pytest.mark.parametrize("account", ["f", "p"])
@pytest.mark.parametrize("field", ["epsilon", "delta", "own_delta"])
def test_a_request_with_a_bad_number_is_refused_and_leaves_no_trace(ledger: Ledger, account: str, field: str) -> None:
    before = sealed(ledger)
    for bad in BAD:
        if (field, bad) == ("own_delta", 0.0):
            continue
        with pytest.raises(InvalidInput):
            ask(ledger, account, "k", **{field: bad})
        with pytest.raises(InvalidInput):
            ledger.preview(account, **{"epsilon": 0.5, "delta": 1e-6, field: bad})
    assert sealed(ledger) == before


@pytest.mark.parametrize("bad", [*BAD, "1", None])
def test_events_with_a_bad_number_cannot_be_made(bad: float) -> None:
    for make in (
        lambda: Gaussian(bad),
        lambda: SubsampledGaussian(1.0, bad, 10),
        lambda: SubsampledGaussian(1.0, 0.1, bad),  # type: ignore[arg-type]
        lambda: Gaussian(1.0, bad),  # type: ignore[arg-type]
        lambda: Threshold(bad),
    ):
        with pytest.raises((InvalidInput, TypeError)):
            make()


def test_charges_that_are_no_amount_are_refused() -> None:
    for bad in (math.nan, math.inf, -math.inf, -1.0, -5e-324, 1e300, 1e10):
        with pytest.raises(InvalidInput):
            filter.charge_units(bad)
    for bad in (math.nan, math.inf, -1.0, 0.0, 1e300):
        with pytest.raises(InvalidInput):
            filter.budget_units(bad)


def test_a_cost_that_outgrows_every_store_is_refused(ledger: Ledger) -> None:
    for account, epsilon in (("p", 1e12), ("p", 1e300), ("f", 1e12)):
        before = sealed(ledger)
        with pytest.raises((InvalidInput, BudgetExceeded)):
            ask(ledger, account, "k", epsilon=epsilon)
        assert sealed(ledger) == before


def test_a_subnormal_charge_still_costs_a_unit() -> None:
    assert filter.charge_units(5e-324) == costs.share_units(5e-324, filter.NANO) == 1


def test_a_million_tiny_charges_never_add_up_to_less_than_they_are() -> None:
    tiny = 1e-15
    assert sum(filter.charge_units(tiny) for _ in range(10**6)) >= Fraction(tiny) * 10**6 * filter.NANO
    total = 0.0
    for _ in range(10**6):  # what a ledger of floats does: the last million charges vanish
        total += 1e-17 if total else 1.0
    assert total == 1.0


def test_ten_of_a_tenth_are_admitted_and_an_eleventh_is_not(ledger: Ledger) -> None:
    ledger.open_account("one", epsilon=1.0, delta=1e-5, rule="plan")
    for number in range(10):
        ask(ledger, "one", str(number), epsilon=0.1, delta=1e-6)
    assert ledger.balance("one").cost_left == 0
    with pytest.raises(BudgetExceeded):
        ask(ledger, "one", "11", epsilon=1e-9, delta=1e-12)


def test_the_smallest_epsilon_that_can_be_written_is_not_free(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=5e-324, delta=5e-324)
    assert (ledger.balance("p").cost_held, ledger.balance("p").delta_held) == (1, 1)
