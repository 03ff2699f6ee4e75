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
