from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SelectedTraining,
    SubsampledGaussian,
    Threshold,
    from_dict,
    repeated,
)

ALL = (
    DiscreteLaplace(40.0, 2),
    DiscreteGaussian(62.5, 4, 24),
    Gaussian(3.0, 7),
    SubsampledGaussian(3.2, 0.01, 640),
    SelectedTraining(6.0, 0.05, 600, 20.0, 1.0, 4.0),
    Threshold(1e-7),
)


@pytest.mark.parametrize("event", ALL, ids=lambda e: e.kind)
def test_an_event_survives_json_unchanged(event: Event) -> None:
    assert from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_an_event_of_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"'shuffle'; known: .*subsampled_gaussian"):
        from_dict({"kind": "shuffle", "steps": 3})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_noise_that_is_no_finite_number_above_zero_is_refused(bad: float) -> None:
    for make in (DiscreteLaplace, DiscreteGaussian, Gaussian, lambda x: SubsampledGaussian(x, 0.1, 1)):
        with pytest.raises(InvalidInput, match="finite and above 0"):
            make(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan])
def test_counts_and_steps_must_be_whole_and_at_least_one(bad: float) -> None:
    for make in (
        lambda n: SubsampledGaussian(1.0, 0.1, n),
        lambda n: Gaussian(1.0, n),
        lambda n: DiscreteGaussian(1.0, 1, n),
        lambda n: DiscreteGaussian(1.0, n, 1),
        lambda n: DiscreteLaplace(1.0, n),
    ):
        with pytest.raises(InvalidInput, match="whole number of at least 1"):
            make(bad)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.0001, math.nan, math.inf])
def test_a_sampling_rate_outside_zero_to_one_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="sample_rate"):
        SubsampledGaussian(1.0, bad, 10)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-9, math.nan])
def test_a_threshold_delta_outside_zero_to_one_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        Threshold(bad)


def test_only_thresholds_have_a_delta_of_their_own() -> None:
    assert [e.own_delta for e in ALL] == [0, 0, 0, 0, 0, 1e-7]


def test_an_event_knows_how_many_steps_or_releases_it_consists_of() -> None:
    assert [e.size for e in ALL] == [1, 24, 7, 640, 1, 1]
    assert [e.in_steps for e in ALL] == [False, False, False, True, False, False]


@pytest.mark.parametrize("event", ALL, ids=lambda e: e.kind)
def test_a_repeated_event_amounts_to_its_repetitions_and_pays_for_them(event: Event) -> None:
    again = repeated([event], 3)
    assert sum(e.size for e in again) == 3 * event.size
    assert sum(e.amount for e in again) == 3 * event.amount
    assert all(e.pays_for(event) and event.pays_for(e) for e in again)


@pytest.mark.parametrize("event", [e for e in ALL if type(e) in (DiscreteLaplace, SubsampledGaussian)], ids=str)
def test_an_event_pays_for_noisier_ones_of_its_kind(event: Event) -> None:
    louder = event.with_noise(event.noise * 1.5)
    assert event.pays_for(louder)
    assert louder.amount == event.amount
    assert not louder.pays_for(event)


def test_discrete_noise_pays_for_the_very_same_noise_alone_since_more_of_it_may_cost_more() -> None:
    assert exact_delta(2.02, 2.6) > 1.04 * exact_delta(2.01, 2.6), "more noise, and a larger delta"
    for scale in (61.0, 62.0, 62.6, 90.0):
        assert DiscreteGaussian(62.5).pays_for(DiscreteGaussian(scale)) is False
    assert DiscreteGaussian(62.5, 1, 2).pays_for(DiscreteGaussian(62.5, 1, 9)), "its amount is how many there are"


def exact_delta(scale: float, epsilon: float) -> float:
    """Return the exact delta of discrete Gaussian noise on a count that one unit moves by 1."""
    x = np.arange(-60, 61)
    mass = np.exp(-(x.astype(float) ** 2) / (2 * scale**2))
    mass /= mass.sum()
    return float(np.maximum(mass[:-1] - math.exp(epsilon) * mass[1:], 0).sum())


def test_more_gaussian_noise_is_a_smaller_amount() -> None:
    assert Gaussian(2.0).pays_for(Gaussian(2.5)) is Gaussian(2.5).pays_for(Gaussian(2.0)) is True
    assert Gaussian(2.5).amount < Gaussian(2.0).amount == Gaussian(4.0, 4).amount
    assert Threshold(1e-9).amount < Threshold(1e-8).amount


@pytest.mark.parametrize("event", ALL, ids=lambda e: e.kind)
def test_no_event_pays_for_one_of_another_kind(event: Event) -> None:
    assert not any(event.pays_for(other) for other in ALL if other is not event)


def test_an_event_does_not_pay_for_more_sensitivity_or_a_larger_sample() -> None:
    assert not DiscreteLaplace(40.0).pays_for(DiscreteLaplace(80.0, 2))
    assert not DiscreteGaussian(40.0).pays_for(DiscreteGaussian(40.0, 2))
    assert not SubsampledGaussian(2.0, 0.01, 5).pays_for(SubsampledGaussian(3.0, 0.011, 5))
    assert SubsampledGaussian(2.0, 0.01, 5).pays_for(SubsampledGaussian(2.0, 0.009, 500))


@given(st.floats(1e-3, 1e6), st.integers(1, 50), st.integers(1, 1000))
def test_amounts_are_exact(noise: float, count: int, times: int) -> None:
    assert Gaussian(noise, count).amount == Fraction(count) / Fraction(noise) ** 2
    assert sum([Gaussian(noise).amount] * times) == Gaussian(noise, times).amount


def test_only_what_runs_in_steps_takes_another_number_of_them() -> None:
    assert [e.with_steps(9).size for e in ALL] == [1, 24, 7, 9, 1, 1]
    assert all(e.with_steps(9) is e for e in ALL if not e.in_steps)
