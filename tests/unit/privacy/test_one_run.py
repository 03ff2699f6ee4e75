"""The bound of epsilon from one training: published values, soundness, and what no mechanism could have hidden."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_synth_pipeline.privacy.one_run import LARGEST, bound, one_run_epsilon, p_value


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "delta", "published"),
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
    ids=["appendix D", "section 7"],
)
def test_it_gives_the_papers_own_numbers(
    canaries: int, guesses: int, correct: int, delta: float, published: float
) -> None:
    assert one_run_epsilon(canaries, guesses, correct, delta, 0.95) == pytest.approx(published, abs=1e-3)


def test_without_delta_it_is_the_binomial_tail_of_randomized_response() -> None:
    found = one_run_epsilon(100, 100, 90, 0.0, 0.95)
    assert p_value(found, 100, 100, 90, 0.0) <= 0.05 < p_value(found + 1e-6, 100, 100, 90, 0.0)
    all_right = one_run_epsilon(64, 64, 64, 0.0, 0.95)
    share = 0.05 ** (1 / 64)
    assert all_right == pytest.approx(math.log(share / (1 - share)), abs=1e-6)


def test_guesses_no_better_than_a_coin_prove_nothing() -> None:
    assert one_run_epsilon(100, 100, 50, 1e-5, 0.95) == 0.0
    assert one_run_epsilon(100, 0, 0, 1e-5, 0.95) == 0.0
    assert one_run_epsilon(10**6, 10**6, 10**6, 0.0, 0.5) < LARGEST


def test_more_right_guesses_prove_more_and_a_larger_delta_less() -> None:
    by_correct = [one_run_epsilon(200, 100, v, 1e-5, 0.95) for v in range(50, 101, 5)]
    by_delta = [one_run_epsilon(200, 100, 90, d, 0.95) for d in (0.0, 1e-6, 1e-4, 1e-2)]
    assert by_correct == sorted(by_correct)
    assert by_delta == sorted(by_delta, reverse=True)


@pytest.mark.parametrize("wrong", [(10, 11, 5), (10, 5, 6)])
def test_impossible_counts_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        one_run_epsilon(*wrong, 1e-5, 0.95)


@pytest.mark.parametrize("epsilon", [0.0, 3.0])
def test_it_hardly_ever_exceeds_the_epsilon_of_randomized_response(epsilon: float) -> None:
    """Randomized response is the mechanism about which one can guess best."""
    rng = np.random.default_rng()
    share = 1 / (1 + math.exp(-epsilon))
    wrong = 0
    for _ in range(100):
        included = rng.random(200) < 0.5
        told = np.where(rng.random(200) < share, included, ~included)
        wrong += bound(told + 1e-3 * rng.random(200), included, 0.0, 0.95).epsilon > epsilon
    assert wrong <= 14, "at most 5 of 100 are expected; 15 or more have a probability of 1e-4"


def test_a_mechanism_that_hides_nothing_is_proved_to_hide_nothing() -> None:
    included = np.random.default_rng().random(1000) < 0.5
    found = bound(included + 0.0, included, 1e-6, 0.999)
    assert found.epsilon > 4
    assert found.correct == found.guesses


def test_a_mechanism_that_hides_all_proves_nothing_much() -> None:
    rng = np.random.default_rng()
    assert bound(rng.random(1000), rng.random(1000) < 0.5, 1e-6, 1 - 1e-6).epsilon < 0.5
