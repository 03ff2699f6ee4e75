"""Stored costs only ever over-report, and stored budgets only ever under-report."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.privacy import filter

COSTS = st.floats(0, 9e9, allow_nan=False, allow_subnormal=True)
SMALL = st.floats(0, 1, exclude_min=True, exclude_max=True, allow_subnormal=True)


@given(COSTS)
def test_a_stored_cost_is_at_least_the_cost_and_at_most_two_units_and_a_rounding_more(cost: float) -> None:
    stored = filter.charge_units(cost)
    exact = Fraction(cost) * filter.NANO
    assert exact <= stored <= exact * (1 + Fraction(1, 2**51)) + 2


@given(st.floats(0, 9e9, exclude_min=True, allow_subnormal=True))
def test_a_stored_budget_is_at_most_the_budget_and_hardly_less(value: float) -> None:
    stored = filter.budget_units(value)
    exact = Fraction(value) * filter.NANO
    assert exact * (1 - Fraction(1, 2**51)) - 2 <= stored <= exact


@given(SMALL)
def test_deltas_are_stored_by_the_same_rule(delta: float) -> None:
    assert filter.charge_units(delta, filter.ATTO) >= Fraction(delta) * filter.ATTO
    assert filter.budget_units(delta, filter.ATTO) <= Fraction(delta) * filter.ATTO


@given(st.lists(st.floats(1e-12, 0.3), min_size=1, max_size=60))
def test_charges_that_were_admitted_one_by_one_never_sum_to_more_than_the_budget(costs: list[float]) -> None:
    limit = filter.budget_units(1.0)
    spent, admitted = 0, []
    for cost in costs:
        units = filter.charge_units(cost)
        if spent + units <= limit:
            spent += units
            admitted.append(Fraction(cost))
    assert sum(admitted) <= 1
