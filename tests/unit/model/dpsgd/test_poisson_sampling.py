"""The sampler is Poisson: each unit by itself, with one probability. Tolerances of 6 deviations: 2e-9 a comparison."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

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


def test_samplers_are_never_alike_and_take_no_seed() -> None:
    np.random.seed(5)
    first = PoissonSampler(10**6, 0.001).draw()
    np.random.seed(5)
    second = PoissonSampler(10**6, 0.001).draw()
    assert len(np.intersect1d(first, second)) < 50, "about 1 of 1,000 is shared"
    assert not {"seed", "rng", "generator"} & set(inspect.signature(PoissonSampler).parameters)
