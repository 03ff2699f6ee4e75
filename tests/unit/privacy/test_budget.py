from __future__ import annotations

import math

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import Budget, PrivacyUnit, auto_delta


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, "2", None])
def test_an_epsilon_that_is_no_finite_number_above_zero_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon must be a finite number above 0"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -1e-9, math.nan, math.inf, "1e-5", None])
def test_a_delta_outside_zero_to_one_is_refused(delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta must lie strictly between 0 and 1"):
        Budget(1.0, delta)


def test_a_row_is_one_row_and_a_unit_has_at_least_one() -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        PrivacyUnit("patient", max_rows=0)
    with pytest.raises(InvalidInput, match="needs a unit column"):
        PrivacyUnit(max_rows=2)


def test_the_automatic_delta_is_one_over_n_to_the_1_2_between_its_ends() -> None:
    assert auto_delta(10**5, cap=1.0) == pytest.approx(1e-6)
    assert auto_delta(10, cap=1e-5) == 1e-5
    assert auto_delta(10**9, cap=1e-5, floor=1e-8) == 1e-8
    assert auto_delta(10**9, cap=1e-9, floor=1e-8) == 1e-9, "the account's delta wins"
    assert auto_delta(-5, cap=1e-5) == 1e-5, "a noisy count may be negative"


@pytest.mark.parametrize("population", [2, 100, 10**4, 10**7])
def test_the_automatic_delta_is_below_one_over_the_number_of_units(population: int) -> None:
    assert auto_delta(population, cap=1.0) < 1 / population
