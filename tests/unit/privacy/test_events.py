from __future__ import annotations

import json
import math

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
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
    assert [e.own_delta for e in ALL] == [0, 0, 0, 0, 1e-7]


def test_an_event_knows_how_many_steps_or_releases_it_consists_of() -> None:
    assert [e.size for e in ALL] == [1, 24, 7, 640, 1]
    assert [e.in_steps for e in ALL] == [False, False, False, True, False]


@pytest.mark.parametrize("event", ALL, ids=lambda e: e.kind)
def test_a_repeated_event_is_as_large_as_its_repetitions_and_dominates_like_it(event: Event) -> None:
    again = repeated([event], 3)
    assert sum(e.size for e in again) == 3 * event.size
    assert all(e.dominates(event) and event.dominates(e) for e in again)


@pytest.mark.parametrize("event", ALL, ids=lambda e: e.kind)
def test_an_event_dominates_noisier_ones_of_its_kind_and_nothing_else(event: Event) -> None:
    louder = event.with_noise(event.noise * 1.5)
    assert event.dominates(louder)
    assert louder.dominates(event) is (louder == event)
    assert not any(event.dominates(other) for other in ALL if other is not event)


def test_more_sensitivity_or_a_larger_sample_is_not_dominated() -> None:
    assert not DiscreteLaplace(40.0).dominates(DiscreteLaplace(80.0, 2))
    assert not DiscreteGaussian(40.0).dominates(DiscreteGaussian(80.0, 2))
    assert not SubsampledGaussian(2.0, 0.01, 5).dominates(SubsampledGaussian(3.0, 0.011, 5))
    assert SubsampledGaussian(2.0, 0.01, 5).dominates(SubsampledGaussian(2.0, 0.009, 500))


def test_only_what_runs_in_steps_takes_another_number_of_them() -> None:
    assert [e.with_steps(9).size for e in ALL] == [1, 24, 7, 9, 1]
    assert all(e.with_steps(9) is e for e in ALL if not e.in_steps)
