"""The trade-off on a card: never below what an attacker reaches, and close to it where that is known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import RELATIONS
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.privacy.tradeoff import (
    BELIEFS,
    FALSE_POSITIVES,
    TradeOff,
    gaussian_delta,
    gaussian_true_positive,
)

pytestmark = pytest.mark.slow

DELTA = 1e-5
RATES = [0.0, 1e-6, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0]


def of(*events, relation="add-remove", delta=DELTA, fixed=False) -> TradeOff:
    at = accountant.epsilon(events, delta, relation, fixed=fixed)
    return TradeOff.of(events, at, relation, fixed=fixed)


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0, 20.0])
def test_of_a_gaussian_it_is_its_own_closed_form_and_never_under_it(noise: float) -> None:
    curve, mu = of(Gaussian(noise)), 1 / noise
    exact = norm.cdf(norm.ppf(RATES) + mu)
    shown = np.array([curve.true_positive(x) for x in RATES])
    assert (shown >= exact - 1e-12).all()
    assert shown == pytest.approx(exact, abs=DELTA + 1e-3 * mu)
    assert curve.right_guess == pytest.approx(norm.cdf(mu / 2), abs=1e-6)
    assert curve.right_guess >= norm.cdf(mu / 2) - 1e-12


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0, 20.0])
def test_mu_of_a_gaussian_is_one_over_its_noise(noise: float) -> None:
    assert 1 / noise * (1 - 1e-3) <= of(Gaussian(noise)).mu(DELTA) <= 1 / noise * 1.01


@pytest.mark.parametrize("relation", RELATIONS)
def test_mu_and_its_slack_bound_every_rate_of_a_whole_release(relation: str) -> None:
    events = [
        DiscreteLaplace(20.0), DiscreteGaussian(20.0, 1, 21), Threshold(5e-9), SubsampledGaussian(2.78, 0.0466, 644),
    ]  # fmt: skip
    curve = of(*events, relation=relation)
    mu = curve.mu(DELTA)
    rates = np.concatenate([np.logspace(-9, -1, 400), np.linspace(0, 1, 501)])
    shown = np.array([curve.true_positive(x) for x in rates])
    assert (shown <= gaussian_true_positive(rates, mu, DELTA) + 1e-12).all()
    less = gaussian_true_positive(rates, 0.97 * mu, DELTA)
    assert (shown > less).any(), "mu is not larger than it must be"


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(0.01, 8), delta=st.floats(0, 0.1), x=st.floats(0, 1))
def test_of_one_epsilon_and_delta_it_is_the_known_bound(epsilon: float, delta: float, x: float) -> None:
    curve = TradeOff(np.array([epsilon]), np.array([delta]))
    known = min(1.0, math.exp(epsilon) * x + delta, 1 - math.exp(-epsilon) * (1 - delta - x))
    assert curve.true_positive(x) == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize("pure", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("fixed", [False, True])
def test_of_a_pure_epsilon_it_is_that_of_randomised_response(pure: float, fixed: bool) -> None:
    curve = of(DiscreteLaplace(1 / pure), fixed=fixed, delta=1e-12)
    assert curve.right_guess == pytest.approx(math.exp(pure) / (1 + math.exp(pure)), abs=1e-3)
    for x in (0.0, 0.001, 0.1, 0.5):
        assert curve.true_positive(x) >= min(math.exp(pure) * x, 1 - math.exp(-pure) * (1 - x)) * (1 - 1e-9)
        assert curve.true_positive(x) <= math.exp(pure + 2e-3) * x + 1e-3


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("belief", BELIEFS)
def test_how_sure_somebody_becomes_is_never_understated(noise: float, belief: float) -> None:
    mu, loss = 1 / noise, math.log(belief / (1 - belief))
    exact = norm.sf((loss - mu**2 / 2) / mu)  # the privacy loss of a Gaussian is a Gaussian
    bound = of(Gaussian(noise)).surer_than(belief)
    assert exact <= bound <= 1
    assert bound <= 8 * exact + 2 * DELTA, "a bound that says something"


def test_a_loss_above_epsilon_is_likelier_than_delta() -> None:
    """The old wording: 'at most a factor e^epsilon, except with a probability of about delta'."""
    mu, at = 1 / 3.0, accountant.epsilon(Gaussian(3.0), DELTA)
    assert norm.sf((at - mu**2 / 2) / mu) > 8 * DELTA


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fixed", [False, True])
def test_deltas_are_epsilons_read_the_other_way_round(relation: str, fixed: bool) -> None:
    events = [DiscreteLaplace(30.0), Threshold(1e-9), SubsampledGaussian(2.0, 0.02, 200)]
    for delta in (1e-7, 1e-5, 1e-3):
        at = accountant.epsilon(events, delta, relation, fixed=fixed)
        (back,) = accountant.deltas(events, [at], relation, fixed=fixed)
        assert back == pytest.approx(delta, rel=1e-6)
    falling = accountant.deltas(events, [0.0, 0.5, 1.0, 50.0], relation, fixed=fixed)
    assert (np.diff(falling) <= 0).all()
    assert falling[-1] >= accountant.own_delta(events, relation), "a threshold's own delta never goes away"


def test_next_to_no_noise_hides_nothing() -> None:
    for relation in RELATIONS:
        assert accountant.deltas(Gaussian(0.01), [1.0], relation).tolist() == [1.0]
    assert accountant.deltas(SubsampledGaussian(0.01, 0.1, 10), [1.0], "replace-one").tolist() == [1.0]


def test_nothing_released_is_a_mere_guess() -> None:
    curve = TradeOff.of([], 0.0)
    assert curve.right_guess == 0.5
    assert curve.true_positive(0.25) == pytest.approx(0.25, abs=1e-3)


def test_figures_are_plain_json_and_grow_with_the_rate() -> None:
    figures = of(Gaussian(2.0)).figures(DELTA)
    assert [r["false_positive"] for r in figures["rates"]] == list(FALSE_POSITIVES)
    reached = [r["true_positive"] for r in figures["rates"]]
    assert reached == sorted(reached)
    chances = [s["chance"] for s in figures["surer"]]
    assert chances == sorted(chances, reverse=True)
    assert all(type(v) is float for v in (figures["mu"], figures["slack"], figures["right_guess"], *reached, *chances))


def test_the_gaussians_delta_is_balle_and_wangs() -> None:
    at = accountant.epsilon(Gaussian(2.0), DELTA)
    assert float(gaussian_delta(np.array(at), np.array(0.5))) == pytest.approx(DELTA, rel=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.true_positive(1.5),
        lambda c: c.surer_than(0.5),
        lambda c: c.mu(1e-12),
        lambda c: TradeOff.of(Gaussian(1.0), math.inf),
    ],
)
def test_what_is_no_question_is_refused(wrong) -> None:
    with pytest.raises(InvalidInput, match="got"):
        wrong(of(Gaussian(1.0)))
