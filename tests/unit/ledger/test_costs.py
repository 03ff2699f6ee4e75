from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import costs
from dp_synth_pipeline.ledger.entry import Account
from dp_synth_pipeline.privacy import calibration, filter
from dp_synth_pipeline.privacy.filter import ATTO, NANO


def account(rule: str = "filter", epsilon: float = 3.0, delta: float = 1e-5, share: float = 0.05) -> Account:
    fixed = costs.terms(rule, epsilon, delta, share)  # type: ignore[arg-type]
    return Account(
        "a", "row", 1, "add-remove", epsilon, delta, rule, fixed.order, fixed.cost_limit, fixed.delta_limit, "", "", ""
    )  # type: ignore[arg-type]


def test_ten_shares_of_a_tenth_are_exactly_one() -> None:
    assert 10 * costs.share_units(0.1, NANO) == costs.share_units(1.0, NANO) == costs.limit_units(1.0, NANO)


@given(st.floats(1e-12, 1e6))
def test_a_share_is_rounded_up_and_a_limit_down(value: float) -> None:
    written = Fraction(repr(value)) * NANO
    assert costs.limit_units(value, NANO) <= written <= costs.share_units(value, NANO)
    assert costs.share_units(value, NANO) - costs.limit_units(value, NANO) <= 1


@given(st.floats(0, 1e9, allow_subnormal=True))
def test_a_computed_cost_is_never_rounded_down(cost: float) -> None:
    assert filter.charge_units(cost) >= Fraction(cost) * NANO


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_shares_and_limits_refuse_what_is_no_amount(bad: float) -> None:
    for units in (costs.share_units, costs.limit_units):
        with pytest.raises(InvalidInput):
            units(bad, NANO)


def test_rule_f_splits_delta_once_and_keeps_the_filter_below_the_limit_of_the_rest() -> None:
    fixed = costs.terms("filter", 3.0, 1e-5, 0.05)
    assert fixed.order == 10.0
    assert fixed.delta_limit == costs.share_units(5e-7, ATTO)
    assert fixed.cost_limit == filter.budget_units(filter.limit(3.0, 9.5e-6, 10.0))


def test_rule_f_may_set_no_delta_aside() -> None:
    fixed = costs.terms("filter", 3.0, 1e-5, 0.0)
    assert fixed.delta_limit == 0
    assert fixed.cost_limit / NANO == pytest.approx(2.082, abs=5e-4)


def test_rule_p_holds_the_numbers_as_they_were_written() -> None:
    assert costs.terms("plan", 2.5, 1e-5, 0.05) == costs.Terms(None, 2_500_000_000, 10**13)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": math.nan},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"own_delta_share": 1.0},
        {"own_delta_share": -0.1},
        {"own_delta_share": math.nan},
        {"rule": "best"},
        {"rule": "plan", "epsilon": 1e300},
        {"epsilon": 1e300},
    ],
)
def test_terms_refuse_what_is_no_limit(wrong: dict[str, object]) -> None:
    good: dict[str, object] = {"rule": "filter", "epsilon": 3.0, "delta": 1e-5, "own_delta_share": 0.05}
    with pytest.raises(InvalidInput):
        costs.terms(**{**good, **wrong})  # type: ignore[arg-type]


def test_a_release_reserves_what_one_gaussian_of_its_epsilon_costs_at_the_order() -> None:
    noise = calibration.gaussian_noise(0.5, 1e-6)
    cost, delta = costs.reservation(account(), 0.5, 1.1e-6, 1e-7)
    assert cost == pytest.approx(10 / (2 * noise**2) * NANO, rel=1e-2)
    assert cost >= 10 / (2 * calibration.gaussian_noise(0.5, 1.1e-6 - 1e-7) ** 2) * NANO
    assert delta == 10**11


def test_a_share_of_a_plan_is_what_was_asked() -> None:
    assert costs.reservation(account("plan"), 0.1, 1e-6, 0.0) == (10**8, 10**12)


@settings(max_examples=10, deadline=None)
@given(st.integers(10**6, 2 * 10**9))
def test_what_is_said_to_be_left_is_admitted_and_little_more_is_not(cost: int) -> None:
    opened = account()
    fits = costs.epsilon_left(opened, cost, opened.delta_limit, 1e-5)
    assert costs.reservation(opened, fits, 1e-5, 0.0)[0] <= cost
    assert costs.reservation(opened, fits * 1.01, 1e-5, 0.0)[0] > cost


def test_nothing_is_left_of_an_empty_account() -> None:
    opened = account()
    assert costs.epsilon_left(opened, 0, opened.delta_limit, 1e-5) == 0.0
    assert costs.epsilon_left(opened, 10**9, 0, 1e-5, 1e-7) == 0.0
    assert costs.epsilon_left(account("plan"), 10**9, 10**12, 1e-5) == 0.0


def test_a_spent_out_account_has_spent_at_most_its_epsilon() -> None:
    opened = account()
    assert costs.epsilon_spent(opened, 0) == 0.0
    assert 2.99 < costs.epsilon_spent(opened, opened.cost_limit) <= 3.0
    assert costs.epsilon_spent(account("plan"), 10**8) == 0.1
