"""The Rényi filter's order and limit, and what neither may be."""

from __future__ import annotations

import math

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import filter


@pytest.mark.parametrize(("epsilon", "order", "limit"), [(3, 10, 2.082), (6, 5, 3.747), (10, 3.5, 6.232)])
def test_the_reference_orders_and_limits_at_delta_1e_minus_5_hold(epsilon: float, order: float, limit: float) -> None:
    assert filter.best_order(epsilon, 1e-5) == order
    assert filter.limit(epsilon, 1e-5, order) == pytest.approx(limit, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2.51, 3, 6, 10, 20])
@pytest.mark.parametrize("delta", [1e-4, 1e-5, 1e-6, 1e-9])
def test_the_order_chosen_admits_most_of_the_runs_that_any_order_would(epsilon: float, delta: float) -> None:
    # For Gaussian-like runs the cost at order a grows like a, so limit / a counts the runs that fit.
    runs = {a: filter.limit(epsilon, delta, a) / a for a in filter.ORDERS}
    assert runs[filter.best_order(epsilon, delta)] >= (0.9 if epsilon >= 1 else 0.65) * max(runs.values())


def test_the_pinned_orders_ascend_and_lie_above_one() -> None:
    assert list(filter.ORDERS) == sorted(set(filter.ORDERS))
    assert filter.ORDERS[0] > 1


def test_an_epsilon_too_small_for_any_order_is_refused() -> None:
    with pytest.raises(InvalidInput, match="raise epsilon"):
        filter.best_order(1e-4, 1e-9)


@pytest.mark.parametrize("scale", [filter.NANO, filter.ATTO])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-300, -1.0])
def test_a_cost_that_is_not_finite_or_negative_is_refused(bad: float, scale: int) -> None:
    with pytest.raises(InvalidInput, match="finite and not negative"):
        filter.charge_units(bad, scale)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0])
def test_a_budget_that_is_not_finite_or_not_above_zero_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="finite and above 0"):
        filter.budget_units(bad)


@pytest.mark.parametrize("tiny", [5e-324, 2.2e-308, 1e-30, 1e-9])
def test_a_tiny_cost_is_never_rounded_to_nothing(tiny: float) -> None:
    assert filter.charge_units(tiny) in (1, 2)
    assert filter.budget_units(tiny) == 0


@pytest.mark.parametrize("huge", [9.3e9, 1e18, 1.7e308])
def test_what_no_store_can_hold_is_refused(huge: float) -> None:
    with pytest.raises(InvalidInput, match="too large to store"):
        filter.charge_units(huge)
    with pytest.raises(InvalidInput, match="too large to store"):
        filter.budget_units(huge)


def test_ten_charges_of_a_tenth_never_fit_a_budget_of_one() -> None:
    assert 10 * filter.charge_units(0.1) > filter.budget_units(1.0)
    assert 9 * filter.charge_units(0.1) <= filter.budget_units(1.0)
