"""Costs of replacing one unit, against brute force on tables that differ in one unit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import REPLACE_ONE, Budget
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
    Threshold,
    repeated,
)

ORDERS = [1.25, 2, 5, 10, 32]


def divergence(p: np.ndarray, q: np.ndarray, order: float, step: float = 1.0) -> float:
    return float(np.log(np.sum(np.exp(order * np.log(p) + (1 - order) * np.log(q))) * step)) / (order - 1)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.clip(p - math.exp(epsilon) * q, 0, None).sum())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.01), (2.0, 0.05), (1.0, 0.5), (4.0, 1.0)])
def test_dp_sgd_costs_at_least_what_two_opposite_gradients_show(noise: float, rate: float, order: float) -> None:
    """The unit's clipped gradient is +1 before and -1 after it is replaced; no two differ more."""
    x = np.arange(-14 * noise - 1, 14 * noise + 1, noise / 400)
    quiet, plus, minus = (norm.pdf(x, m, noise) for m in (0, 1, -1))
    shown = divergence((1 - rate) * quiet + rate * plus, (1 - rate) * quiet + rate * minus, order, noise / 400)
    bound = accountant.rdp(SubsampledGaussian(noise, rate, 1), order, REPLACE_ONE)
    assert bound >= shown * (1 - 1e-9)
    assert bound <= max(10 * shown, 4 * order / (2 * noise**2))


@pytest.mark.parametrize("order", ORDERS)
def test_a_histogram_costs_what_a_row_that_moves_to_another_cell_shows(order: float) -> None:
    scale, x = 3.0, np.arange(-60, 61)
    here = np.exp(-(x**2) / (2 * scale**2))
    there = np.exp(-((x - 1) ** 2) / (2 * scale**2))
    here, there = here / here.sum(), there / there.sum()
    shown = divergence(here, there, order) + divergence(there, here, order)
    bound = accountant.rdp(DiscreteGaussian(scale), order, REPLACE_ONE)
    assert shown * (1 - 1e-9) <= bound == pytest.approx(shown, rel=0.02)


def test_a_histogram_is_as_private_as_a_row_that_moves_shows() -> None:
    scale, x = 3.0, np.arange(-40, 41)
    here, there = (np.exp(-((x - m) ** 2) / (2 * scale**2)) for m in (0, 1))
    before = np.outer(here, there) / (here.sum() * there.sum())
    after = np.outer(there, here) / (here.sum() * there.sum())
    epsilon = accountant.epsilon(DiscreteGaussian(scale), 1e-4, REPLACE_ONE)
    assert hockey_stick(before, after, epsilon) <= 1e-4 * (1 + 1e-6)
    assert hockey_stick(before, after, epsilon * 0.97) > 1e-4


@pytest.mark.parametrize("event", [Gaussian(3.0), Gaussian(5.0, 2)])
def test_a_sum_moves_by_twice_its_sensitivity(event: Gaussian) -> None:
    half = Gaussian(event.noise_multiplier / 2, event.count)
    assert accountant.epsilon(event, 1e-5, REPLACE_ONE) == accountant.epsilon(half, 1e-5)
    for order in ORDERS:
        assert accountant.rdp(event, order, REPLACE_ONE) == accountant.rdp(half, order)


def test_a_count_costs_twice_and_a_threshold_takes_twice_its_delta() -> None:
    count = DiscreteLaplace(10.0)
    assert accountant.epsilon(count, 1e-5, REPLACE_ONE) == pytest.approx(0.2)
    assert accountant.rdp(count, 4, REPLACE_ONE) == accountant.rdp(DiscreteLaplace(10.0, 2), 4)
    assert accountant.own_delta([Threshold(1e-6)] * 2, REPLACE_ONE) == pytest.approx(4e-6)
    assert accountant.epsilon([Gaussian(5.0), Threshold(5e-6)], 1e-5, REPLACE_ONE) == math.inf


EVERY: list[Event] = [
    DiscreteLaplace(20.0),
    DiscreteGaussian(60.0, 2, 5),
    Gaussian(9.0),
    SubsampledGaussian(2.0, 0.01, 200),
    Threshold(1e-8),
]


@pytest.mark.parametrize("event", EVERY)
def test_replacing_costs_at_least_what_adding_or_removing_does_and_at_most_what_doing_both_does(event: Event) -> None:
    for order in ORDERS:
        more = accountant.rdp(event, order, REPLACE_ONE)
        both = (order - 0.5) / (order - 1) * accountant.rdp(event, 2 * order) + accountant.rdp(event, 2 * order - 1)
        assert accountant.rdp(event, order) <= more <= both * (1 + 1e-9)
    assert accountant.epsilon(EVERY, 1e-5) < accountant.epsilon(EVERY, 1e-5, REPLACE_ONE) < math.inf


def test_noise_is_calibrated_under_the_relation_asked() -> None:
    budget = Budget(1.0, 1e-5)
    twice = calibration.least_noise(lambda n: [Gaussian(n)], budget, relation=REPLACE_ONE)
    assert accountant.epsilon(Gaussian(twice), 1e-5, REPLACE_ONE) <= 1.0
    assert twice == pytest.approx(2 * calibration.gaussian_noise(1.0, 1e-5), rel=0.01)


def test_another_relation_is_refused() -> None:
    for attempt in (accountant.epsilon, accountant.rdp):
        with pytest.raises(InvalidInput, match="add-remove, replace-one"):
            attempt(Gaussian(2.0), 0.1, "swap")


def test_counts_in_a_plan_that_was_fixed_before_compose_like_the_rest() -> None:
    """Fifty row counts as pure epsilons cost fifty times one; bounded beforehand, they cost about the root of it."""
    weekly = repeated([DiscreteLaplace(50.0), Gaussian(60.0)], 52)
    loose, tight = accountant.epsilon(weekly, 1e-5), accountant.epsilon(weekly, 1e-5, fixed=True)
    assert loose > 52 / 50
    assert tight < 0.8 * loose


@pytest.mark.parametrize("event", EVERY)
def test_repeated_events_cost_what_that_many_of_them_cost(event: Event) -> None:
    assert accountant.rdp(repeated([event], 7), 5) == pytest.approx(7 * accountant.rdp(event, 5))
    assert accountant.own_delta(repeated([event], 7)) == pytest.approx(7 * event.own_delta)
