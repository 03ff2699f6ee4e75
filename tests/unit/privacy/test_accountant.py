"""Costs against brute force; the comparison with other libraries is in tests/golden/test_accounting.py."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)

DELTA = 1e-5


def discrete_gaussian(scale: float, centre: int, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1)
    p = np.exp(-((x - centre) ** 2) / (2 * scale**2))
    return p / p.sum()


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.clip(p - math.exp(epsilon) * q, 0, None).sum())


def geometric(scale: float, centre: int, reach: int) -> np.ndarray:
    p = np.exp(-np.abs(np.arange(-reach, reach + 1) - centre) / scale)
    return p / p.sum()


@pytest.mark.parametrize("order", [1.25, 2, 3.5, 10, 64])
@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_the_geometric_mechanism_costs_what_its_two_neighbours_show(scale: float, order: float) -> None:
    p, q = geometric(scale, 0, 2000), geometric(scale, 1, 2000)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where((p > 0) & (q > 0), order * np.log(p) + (1 - order) * np.log(q), -np.inf)
    exact = float(np.logaddexp.reduce(logs)) / (order - 1)
    assert accountant.rdp(DiscreteLaplace(scale), order) == pytest.approx(exact, rel=1e-6)


def test_the_geometric_mechanism_of_a_larger_sensitivity_is_bounded_from_above() -> None:
    p, q = geometric(6.0, 0, 500), geometric(6.0, 3, 500)
    exact = math.log((p**4 * q**-3.0).sum()) / 3
    assert accountant.rdp(DiscreteLaplace(6.0, 3), 4) >= exact


@pytest.mark.parametrize(("scale", "sensitivity", "count"), [(1.5, 1, 1), (1.5, 1, 2), (2.5, 2, 2), (0.8, 1, 3)])
def test_the_epsilon_of_discrete_gaussians_is_never_below_exact_composition(
    scale: float, sensitivity: int, count: int
) -> None:
    p, q = discrete_gaussian(scale, 0, 30), discrete_gaussian(scale, sensitivity, 30)
    both, other = p, q
    for _ in range(count - 1):
        both, other = np.outer(both, p).ravel(), np.outer(other, q).ravel()
    claimed = accountant.epsilon(DiscreteGaussian(scale, sensitivity, count), DELTA)
    # Mass beyond 30 = 12 deviations or more is below 1e-30, so the truncation does not matter.
    assert hockey_stick(both, other, claimed) <= DELTA
    assert hockey_stick(other, both, claimed) <= DELTA
    assert hockey_stick(both, other, claimed * 0.98) > DELTA, "the bound is tight to 2 percent"


def test_renyi_costs_add_up() -> None:
    events = [Gaussian(2.0, 3), SubsampledGaussian(1.0, 0.01, 100), DiscreteGaussian(50.0, 2, 9), DiscreteLaplace(40.0)]
    assert accountant.rdp(events, 8) == pytest.approx(sum(accountant.rdp(e, 8) for e in events))
    assert accountant.rdp([], 8) == 0


def renyi(order: float, noise: float, rate: float) -> float:
    """The larger of both divergences of one step of DP-SGD, by quadrature."""
    x = np.linspace(-14 * noise, 14 * noise, 400_001)
    without = np.exp(-((x / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi))
    ratio = 1 - rate + rate * np.exp((2 * x - 1) / (2 * noise**2))
    moments = [np.trapezoid(without * ratio**power, x) for power in (order, 1 - order)]
    return float(max(math.log(m) for m in moments) / (order - 1))


@pytest.mark.parametrize("order", [1.25, 1.5, 1.75, 2.25, 3])
@pytest.mark.parametrize("noise", [1.0, 5.0, 50.0])
def test_steps_cost_no_less_than_their_divergence_and_at_orders_below_two_little_more(order, noise) -> None:
    cost = accountant.rdp(SubsampledGaussian(noise, 0.01, 1000), order) / 1000
    true = renyi(order, noise, 0.01)
    assert true * (1 - 1e-3) < cost < 1.7 * true, "the library alone says 3 to 100 times as much below 2"


def test_thresholds_cost_delta_only() -> None:
    assert accountant.rdp(Threshold(1e-6), 8) == 0
    assert accountant.epsilon([Threshold(1e-6)], DELTA) == 0


def test_own_deltas_are_subtracted_before_the_rest_is_converted() -> None:
    noise = Gaussian(2.0)
    with_threshold = accountant.epsilon([noise, Threshold(6e-6), Threshold(3e-6)], DELTA)
    assert with_threshold == pytest.approx(accountant.epsilon(noise, 1e-6), rel=1e-9)
    assert with_threshold > accountant.epsilon(noise, DELTA)


@pytest.mark.parametrize("own", [(1e-5,), (6e-6, 6e-6), (0.5,)])
def test_thresholds_that_use_up_delta_leave_no_finite_epsilon(own: tuple[float, ...]) -> None:
    assert accountant.epsilon([Gaussian(100.0), *map(Threshold, own)], DELTA) == math.inf


def test_the_row_count_adds_its_pure_epsilon() -> None:
    rest = [Gaussian(2.0)]
    assert accountant.epsilon([DiscreteLaplace(20.0), *rest], DELTA) == pytest.approx(
        0.05 + accountant.epsilon(rest, DELTA), rel=1e-12
    )


def test_next_to_no_noise_costs_an_infinite_epsilon_instead_of_all_memory() -> None:
    for event in (Gaussian(0.01), SubsampledGaussian(0.01, 0.5, 10), DiscreteGaussian(1.0, 40), Gaussian(1.0, 10**6)):
        assert accountant.epsilon(event, DELTA) == math.inf


def test_the_order_of_events_does_not_change_the_cost() -> None:
    events = [SubsampledGaussian(2.0, 0.05, 50), DiscreteGaussian(30.0, 1, 5), Threshold(1e-7), DiscreteLaplace(50.0)]
    costs = Counter(round(accountant.epsilon(e, DELTA), 6) for e in (events, events[::-1]))
    assert len(costs) == 1
