"""The attacker of the distinguishing tests: convicts what leaks, and acquits what keeps its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_synth_pipeline.privacy.events import Gaussian
from tests.adversarial import distinguish
from tests.adversarial.distinguish import Claim, Distinguished, check, check_in_turn, findings

RUNS = 20_000


def coins() -> np.random.Generator:
    return np.random.default_rng()


def gaussian(noise: float, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A count of 0 or of 1 with Gaussian noise: the two tables at which the mechanism tells most."""
    a, b = coins().normal(0, noise, (RUNS, 1)), coins().normal(shift, noise, (RUNS, 1))
    return a, b


@pytest.mark.parametrize("noise", [0.7, 2.0, 5.0])
def test_the_right_noise_at_the_strongest_signal_passes(noise: float) -> None:
    found = check(*gaussian(noise), Claim.of(Gaussian(noise)))
    assert [f.delta for f in found] == list(distinguish.DELTAS)


@pytest.mark.parametrize("noise", [0.7, 2.0, 5.0])
def test_half_the_noise_is_caught(noise: float) -> None:
    with pytest.raises(Distinguished, match="tells the tables apart"):
        check(*gaussian(noise / 2), Claim.of(Gaussian(noise)))


def test_an_answer_without_noise_is_caught_even_among_scores_that_say_nothing() -> None:
    silent = [coins().normal(size=(RUNS, 30)) for _ in range(2)]
    first, second = (np.insert(s, 17, i, axis=1) for i, s in enumerate(silent))
    check(*silent, Claim(((0.01, 1e-5),)))
    with pytest.raises(Distinguished, match=r"score 17|score 31"):
        check(first, second, Claim(((3.0, 1e-5),)))


def test_many_scores_that_tell_a_little_each_are_caught_together() -> None:
    scores = coins().normal(0, 1, (2, RUNS, 40))
    scores[1] += 0.1
    claim = Claim.of(Gaussian(5.0))
    check(scores[0][:, :1], scores[1][:, :1], claim)
    with pytest.raises(Distinguished, match="score 40"):  # the blend of all, 0.1 * sqrt(40) = 0.63 deviations apart
        check(scores[0], scores[1], claim)


@pytest.mark.parametrize(("noise", "drawn"), [(0.1, [1000]), (1.0, [1000, 1000])])
def test_a_mutant_that_half_of_the_runs_convict_costs_no_more_runs(noise: float, drawn: list[int]) -> None:
    """A tenth of the noise is beyond doubt at once, and all of it never is."""
    asked: list[int] = []

    def draw(runs: int) -> tuple[np.ndarray, np.ndarray]:
        asked.append(runs)
        first, second = gaussian(noise)
        return first[:runs], second[:runs]

    claim = Claim.of(Gaussian(1.0), (0.01, 0.1, 0.35))
    if drawn == [1000]:
        with pytest.raises(Distinguished):
            check_in_turn(draw, claim, 2000)
    else:
        check_in_turn(draw, claim, 2000)
    assert asked == drawn


def test_a_mutant_that_half_of_the_runs_acquit_is_checked_on_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(distinguish, "check", lambda first, second, claim: sizes.extend([len(first), len(second)]))
    check_in_turn(lambda runs: (np.zeros((runs, 1)), np.ones((runs, 1))), Claim(((1.0, 0.1),)), 7)
    assert sizes == [3, 3, 7, 7]


@pytest.mark.parametrize(("told", "caught"), [(1.0, False), (1.6, True)])
def test_randomised_response_is_bound_by_its_epsilon(told: float, caught: bool) -> None:
    p = math.exp(told) / (1 + math.exp(told))
    first, second = (coins().random((RUNS, 1)) < (p, 1 - p)[i] for i in range(2))
    claim = Claim(((1.0, 1e-6),))
    if caught:
        with pytest.raises(Distinguished):
            check(first.astype(float), second.astype(float), claim)
    else:
        check(first.astype(float), second.astype(float), claim)


@pytest.mark.parametrize(("chance", "caught"), [(0.02, False), (0.05, True)])
def test_a_name_that_shows_more_often_than_delta_is_caught(chance: float, caught: bool) -> None:
    never, sometimes = np.zeros((RUNS, 1)), (coins().random((RUNS, 1)) < chance).astype(float)
    for pair in ((never, sometimes), (sometimes, never)):
        proved = max(f.margin for f in findings(*pair, Claim(((0.0, 0.02),)))) > 0
        assert proved is caught


def test_equal_mechanisms_are_told_apart_no_more_often_than_the_confidence_allows() -> None:
    alpha, trials = 0.05, 60
    convicted = 0
    for _ in range(trials):
        runs = coins().normal(size=(2, 400, 5))
        convicted += max(f.margin for f in findings(runs[0], runs[1], Claim(((0.0, 0.0),)), alpha)) > 0
    # At most 3 are expected; 16 or more have a probability below 1e-8, and the bounds are conservative.
    assert convicted <= 15


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    assert distinguish.upper(0, 100, 0.01) == pytest.approx(1 - 0.01 ** (1 / 100))
    assert distinguish.lower(100, 100, 0.01) == pytest.approx(0.01 ** (1 / 100))
    assert distinguish.lower(0, 100, 0.01) == 0
    assert distinguish.upper(100, 100, 0.01) == 1
