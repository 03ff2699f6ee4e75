"""Calibration never ends above the target, and hardly below it."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold

SLACK = 1.01
"""One percent less noise than was found; the search itself ends within a tenth of a percent."""


@settings(max_examples=2)  # each costs a dozen privacy loss distributions
@given(
    epsilon=st.floats(0.3, 1.5),
    delta=st.sampled_from([1e-4, 1e-5, 1e-6]),
    rate=st.floats(0.1, 0.3),
    steps=st.integers(5, 40),
)
def test_the_noise_of_a_whole_release_fits_the_target_and_a_little_less_does_not(
    epsilon: float, delta: float, rate: float, steps: int
) -> None:
    spent = [DiscreteLaplace(50 / epsilon), DiscreteGaussian(60 / epsilon, 1, 9), Threshold(delta / 100)]

    def plan(noise: float) -> list:
        return [*spent, SubsampledGaussian(noise, rate, steps)]

    noise = calibration.least_noise(plan, Budget(epsilon, delta))
    assert accountant.epsilon(plan(noise), delta) <= epsilon
    if noise > calibration.LEAST:
        assert accountant.epsilon(plan(noise / SLACK), delta) > epsilon


@settings(max_examples=4)
@given(epsilon=st.floats(0.05, 12.0), delta=st.sampled_from([1e-3, 1e-5, 1e-8]))
@example(epsilon=2.51, delta=1e-5)
def test_the_noise_of_one_gaussian_fits_the_target_and_a_little_less_does_not(epsilon: float, delta: float) -> None:
    noise = calibration.gaussian_noise(epsilon, delta)
    assert accountant.epsilon(Gaussian(noise), delta) <= epsilon
    # 0.1 percent of search, and what the grid of privacy losses adds to epsilon, at most one cell of 1e-4.
    assert accountant.epsilon(Gaussian(noise / SLACK), delta) > epsilon - 2 * accountant.DISCRETISATION


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.5])
def test_the_noise_obeys_the_renyi_limit_too(limit: float) -> None:
    def plan(noise: float) -> list:
        return [Gaussian(noise)]

    free = calibration.gaussian_noise(8.0, 1e-5)
    bound = calibration.least_noise(plan, Budget(8.0, 1e-5), rdp_limits={6: limit})
    assert accountant.rdp(plan(bound), 6) <= limit
    assert accountant.epsilon(plan(bound), 1e-5) <= 8.0
    assert bound >= free
    assert accountant.rdp(plan(bound / SLACK), 6) > limit, "no more noise than the limit asks for"


def test_the_least_noise_of_a_generous_target_is_the_least_searched() -> None:
    assert calibration.least_noise(lambda s: [Gaussian(s)], Budget(60.0, 1e-3)) == calibration.LEAST


@pytest.mark.parametrize("fixed", [DiscreteLaplace(0.5), Threshold(1e-5)], ids=["count", "threshold"])
def test_a_plan_whose_fixed_parts_alone_cost_too_much_is_refused_with_what_to_do(fixed: object) -> None:
    with pytest.raises(InvalidInput, match=r"no noise makes this plan fit epsilon=1 .* Raise epsilon"):
        calibration.least_noise(lambda s: [fixed, Gaussian(s)], Budget(1.0, 1e-5))  # type: ignore[list-item]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_target_that_is_no_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        calibration.gaussian_noise(epsilon, 1e-5)


@pytest.mark.parametrize("target", [0.5, 2.0, 4.0, 6.0])
def test_a_search_ends_once_what_fits_and_what_does_not_lie_within_its_tolerance(monkeypatch, target: float) -> None:
    """Of the fine grid, which takes nearly all of the time, it asks one noise that fits and one that does not."""
    fine, epsilon = [], accountant.epsilon

    def counted(events, delta, relation, *, interval):
        found = epsilon(events, delta, relation, interval=interval)
        if interval == accountant.DISCRETISATION:
            fine.append((events[0].noise_multiplier, found <= target))
        return found

    monkeypatch.setattr(accountant, "epsilon", counted)
    noise = calibration.least_noise(lambda s: [SubsampledGaussian(s, 0.05, 40), Gaussian(10.0)], Budget(target, 1e-5))
    (least, fits), (less, fits_too) = sorted(fine, reverse=True)
    assert (least, fits, fits_too) == (noise, True, False)
    assert least / less <= 1 + calibration.RELATIVE_TOLERANCE
