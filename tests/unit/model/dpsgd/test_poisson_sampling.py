"""The sampler is Poisson: each unit by itself, with one probability. Tolerances of 6 deviations: 2e-9 a comparison."""

from __future__ import annotations

import inspect
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from dp_synth_pipeline.model.dpsgd import poisson_sampling
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler

UNITS, RATE, DRAWS = 400, 0.05, 3000


@pytest.fixture(scope="module")
def samples() -> list[np.ndarray]:
    sampler = PoissonSampler(UNITS, RATE)
    return [sampler.draw() for _ in range(DRAWS)]


def test_a_sample_holds_different_units_of_the_table(samples: list[np.ndarray]) -> None:
    for s in samples:
        assert s.dtype == np.int64
        assert len(np.unique(s)) == len(s)
    assert min(s.min() for s in samples if len(s)) >= 0
    assert max(s.max() for s in samples if len(s)) < UNITS


def test_each_unit_joins_with_the_same_probability(samples: list[np.ndarray]) -> None:
    joined = np.bincount(np.concatenate(samples), minlength=UNITS) / DRAWS
    # 400 comparisons, each beyond 7 deviations with 3e-12.
    assert np.abs(joined - RATE).max() < 7 * math.sqrt(RATE * (1 - RATE) / DRAWS)
    assert joined.mean() == pytest.approx(RATE, abs=6 * math.sqrt(RATE * (1 - RATE) / DRAWS / UNITS))


def test_sizes_vary_as_a_binomial_does_and_not_as_fixed_batches_would(samples: list[np.ndarray]) -> None:
    sizes = np.array([len(s) for s in samples])
    variance = UNITS * RATE * (1 - RATE)
    assert sizes.var() == pytest.approx(variance, rel=6 * math.sqrt(2 / DRAWS))


def test_two_units_join_independently(samples: list[np.ndarray]) -> None:
    first = np.array([(s < UNITS // 2).sum() for s in samples], dtype=float)
    second = np.array([(s >= UNITS // 2).sum() for s in samples], dtype=float)
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(DRAWS)


def test_one_step_says_nothing_about_the_next(samples: list[np.ndarray]) -> None:
    here, there = samples[:-1], samples[1:]
    shared = sum(len(np.intersect1d(a, b)) for a, b in zip(here, there, strict=True))
    mean = (DRAWS - 1) * UNITS * RATE**2
    assert shared == pytest.approx(mean, abs=6.5 * math.sqrt(mean)), "shuffled epochs would share nothing"


def test_small_rates_often_give_nobody_and_a_rate_of_one_gives_everybody() -> None:
    rare = PoissonSampler(10, 0.001)
    assert sum(len(rare.draw()) == 0 for _ in range(50)) > 25
    assert sorted(PoissonSampler(10, 1.0).draw()) == list(range(10))
    assert PoissonSampler(0, 0.5).draw().tolist() == []


class Digits:
    """Random digits that are given: first all first ones, then 64 at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: list[int], later: list[list[int]]) -> None:
        self.later = list(later)
        monkeypatch.setattr(poisson_sampling, "secure_bytes", lambda count: bytes(first[:count]))
        monkeypatch.setattr(poisson_sampling, "secure_words", self.words)

    def words(self, count: int) -> np.ndarray:
        found = self.later.pop(0)
        assert len(found) == count, "digits are drawn for ties alone"
        return np.array(found, dtype=np.uint64)


def test_a_unit_joins_if_its_uniform_number_lies_below_the_rate_to_the_last_digit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rate is 3 / 256 + 5 / 2**72 + 2**-74, which is no double: the arithmetic is tested on a Fraction."""
    rate = Fraction(3, 256) + Fraction(5, 2**72) + Fraction(1, 2**74)
    sampler = PoissonSampler(8, rate)  # type: ignore[arg-type]
    quarter = 2**62
    digits = Digits(monkeypatch, [0, 2, 3, 3, 3, 3, 4, 255], [[4, 5, 5, 6], [quarter - 1, quarter]])
    assert sampler.draw().tolist() == [0, 1, 2, 3], "unit 4 drew the very rate, which is not below it"
    assert digits.later == []


@pytest.mark.parametrize("rate", [0.0466, 1 / 3, 5e-324, 2.0**-60, 1 - 2.0**-53, 0.25])
def test_the_chance_to_join_is_the_rate_exactly(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """Count all uniform numbers below the rate, digit by digit, where the code says which words join."""
    exact, chance, weight = Fraction(rate), Fraction(0), Fraction(1, 256)
    scaled = exact * 256
    chance += int(scaled) * weight
    rest = scaled - int(scaled)
    while rest:
        whole = int(rest * 2**64)
        monkeypatch.setattr(
            poisson_sampling,
            "secure_words",
            lambda count, whole=whole: np.array([max(whole - 1, 0), whole, whole + 1], dtype=np.uint64)[:count],
        )
        joined = poisson_sampling._below(Fraction(whole, 2**64), 3).tolist()
        assert joined == [whole > 0, False, False]
        weight /= 2**64
        chance += whole * weight
        rest = rest * 2**64 - whole
    assert chance == exact


def test_three_million_units_are_sampled_in_a_moment() -> None:
    sampler = PoissonSampler(3_000_000, 4096 / 3_000_000)
    began = time.process_time()
    sizes = [len(sampler.draw()) for _ in range(10)]
    assert (time.process_time() - began) / 10 < 0.1
    assert np.mean(sizes) == pytest.approx(4096, rel=0.05)


def test_samplers_are_never_alike_and_take_no_seed() -> None:
    np.random.seed(5)
    first = PoissonSampler(10**6, 0.001).draw()
    np.random.seed(5)
    second = PoissonSampler(10**6, 0.001).draw()
    assert len(np.intersect1d(first, second)) < 50, "about 1 of 1,000 is shared"
    assert not {"seed", "rng", "generator"} & set(inspect.signature(PoissonSampler).parameters)
