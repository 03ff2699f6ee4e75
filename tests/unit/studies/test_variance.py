"""The analysis of variance against functions whose effects are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies import variance

A, B = np.array([-1.0, 1.0]), np.array([-1.0, 0.0, 1.0])
AXES = ("a", "b", "c")


def function(a: float, b: float, ab: float, abc: float) -> np.ndarray:
    """Return a value for each of 2 x 3 x 2 settings, from contrasts that are orthogonal."""
    x, y, z = np.meshgrid(A, B, A, indexing="ij")
    return 7 + a * x + b * y + ab * x * y + abc * x * y * z


def test_shares_are_those_of_a_function_whose_effects_are_known() -> None:
    found = variance.shares(function(2.0, 3.0, 1.0, 0.5), AXES)
    whole = 4 + 9 * 2 / 3 + 2 / 3 + 0.25 * 2 / 3
    assert found[("a",)] == pytest.approx(4 / whole)
    assert found[("b",)] == pytest.approx(6 / whole)
    assert found[("a", "b")] == pytest.approx(2 / 3 / whole)
    assert found[variance.HIGHER] == pytest.approx(0.25 * 2 / 3 / whole)
    assert found[("c",)] == pytest.approx(0, abs=1e-12)
    assert sum(found.values()) == pytest.approx(1)


def test_a_product_alone_is_an_interaction_alone() -> None:
    found = variance.shares(function(0, 0, 1.0, 0), AXES)
    assert found[("a", "b")] == pytest.approx(1)


def test_components_add_up_to_the_values() -> None:
    values = np.random.default_rng(1).normal(size=(2, 3, 4))
    assert sum(variance.components(values, AXES, order=3).values()) == pytest.approx(values)


def test_intervals_hold_what_two_equal_runs_say_and_widen_when_runs_differ() -> None:
    values = function(2.0, 3.0, 1.0, 0.5)
    equal = variance.intervals(np.stack([values, values]), AXES)
    assert equal[("a",)] == pytest.approx((variance.shares(values, AXES)[("a",)],) * 2)
    noisy = values + np.random.default_rng(2).normal(0, 1, (2, *values.shape))
    low, high = variance.intervals(noisy, AXES)[("a",)]
    assert high - low > 0.01
