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


def test_intervals_hold_what_is_known_of_noisy_values_and_have_no_width_without_noise() -> None:
    rng, axes = np.random.default_rng(2), ("a", "b", "c", "d", "e")
    sizes = (3, 3, 3, 4, 4)
    exact = np.add.outer(np.zeros((3, 3, 3)), np.add.outer(np.arange(4.0), 2 * np.arange(4.0)))
    for low, high in variance.intervals(exact, axes).values():
        assert high - low < 1e-9
    noisy = exact + rng.normal(0, 0.5, sizes)
    found = variance.intervals(noisy, axes)
    again = variance.shares(exact + rng.normal(0, 0.5, sizes), axes)
    for effect, (low, high) in found.items():
        assert low - 0.01 < again[effect] < high + 0.01, effect
    assert found[("e",)][1] - found[("e",)][0] > 0.005
