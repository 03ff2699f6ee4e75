"""What an attack proves: never more than is true but with the stated probability, and nearly all of it with many trials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.lower_bound import Point, epsilon_alone, epsilon_of_kind, points, refutes

DELTA = 1e-5


def attacked(noise: float, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a Gaussian mechanism: what it answers about somebody who is out, and in."""
    rng = np.random.default_rng()
    return rng.normal(0, noise, trials), 1 + rng.normal(0, noise, trials)


@pytest.mark.parametrize("scale", ["as they are", "rounded"])
def test_all_points_lie_on_or_under_the_true_trade_off_together_as_often_as_is_said(scale: str) -> None:
    wrong = 0
    for _ in range(400):
        scores = [x.round() if scale == "rounded" else x for x in attacked(1.0, 500)]
        claimed = [norm.cdf(norm.ppf(p.false_positives) + 1) for p in points(*scores, 0.9)]
        wrong += any(p.true_positives > most for p, most in zip(points(*scores, 0.9), claimed, strict=True))
    assert wrong <= binom.isf(1e-7, 400, 0.1), "at most 40 are expected, and with a probability of 1e-7 more than 74"


def test_both_bounds_stay_under_the_claim_and_the_one_of_its_kind_comes_close() -> None:
    claim = Gaussian(1.0)
    claimed = accountant.epsilon(claim, DELTA)
    found = points(*attacked(1.0, 100_000), 1 - 1e-6)
    alone, kind = epsilon_alone(found, DELTA), epsilon_of_kind(found, claim, DELTA)
    assert not refutes(found, claim)
    assert 0.45 * claimed < alone < kind
    assert 0.9 * claimed < kind <= claimed


def test_nine_tenths_of_the_noise_refute_the_claim() -> None:
    claim = Gaussian(1.0)
    found = points(*attacked(0.9, 100_000), 1 - 1e-6)
    assert refutes(found, claim)
    assert epsilon_of_kind(found, claim, DELTA) > accountant.epsilon(claim, DELTA)
    assert not refutes(found, Gaussian(0.9))


def test_a_claim_is_refuted_from_either_side() -> None:
    """A mechanism that sometimes says "surely not in" is caught by that alone."""
    rng = np.random.default_rng()
    out, inside = rng.normal(size=50_000), rng.normal(size=50_000)
    out[rng.random(50_000) < 0.7] = -50.0
    found = points(out, inside, 1 - 1e-6)
    assert refutes(found, Gaussian(2.0))
    assert epsilon_alone(found, DELTA) > 0.3


def test_scores_that_tell_nothing_prove_nothing() -> None:
    rng = np.random.default_rng()
    found = points(rng.random(5000), rng.random(5000), 1 - 1e-6)
    assert epsilon_alone(found, DELTA) == 0.0
    assert epsilon_of_kind(found, SubsampledGaussian(1.0, 0.1, 10), DELTA) < 0.5
    assert epsilon_alone(points(np.zeros(9), np.zeros(9), 0.95), DELTA) == 0.0


def test_a_mechanism_that_hides_nothing_is_proved_to_cost_what_half_the_noise_costs_at_least() -> None:
    claim = SubsampledGaussian(2.0, 0.1, 10)
    found = points(np.zeros(5000), np.ones(5000), 0.95)
    assert epsilon_of_kind(found, claim, DELTA) == accountant.epsilon(claim.with_noise(1.0), DELTA)
    assert epsilon_alone(found, DELTA) > 6


def test_a_point_and_its_mirror_ask_the_two_questions() -> None:
    assert Point(0.25, 0.5).mirrored == Point(0.5, 0.75)
    assert epsilon_alone([Point(0.25, 0.5)], 0.0) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("out", "inside", "confidence"),
    [([], [1.0], 0.95), ([1.0], [], 0.95), ([np.nan], [1.0], 0.95), ([1.0], [np.nan], 0.95), ([0.0], [1.0], 1.0)],
)
def test_scores_that_are_none_are_refused(out: list[float], inside: list[float], confidence: float) -> None:
    with pytest.raises(ValueError, match="expected scores"):
        points(np.array(out), np.array(inside), confidence)


def test_a_claim_without_a_trade_off_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        refutes([Point(0.1, 0.2)], Threshold(1e-6))
