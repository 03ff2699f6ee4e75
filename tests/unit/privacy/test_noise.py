"""The Gaussian noise has the distribution of a rounded normal variate, whichever path decides a draw."""

import math
import multiprocessing
import os

import numpy as np
import pytest
from scipy import stats

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import noise

FEWEST = 25
"""Samples that a cell must expect, so that chi-square holds."""


def _fits(samples: np.ndarray, scale: float) -> None:
    """Fail with probability 1e-6 for true samples: a cell that expects none would fail far more often with one."""
    edges = np.unique(np.round(scale * stats.norm.ppf(np.linspace(0, 1, 41)[1:-1]))) + 0.5
    edges = edges[len(samples) * stats.norm.sf(np.abs(edges) / scale) >= FEWEST]
    counted = np.histogram(samples, [-np.inf, *edges, np.inf])[0]
    expected = np.diff(stats.norm.cdf([-np.inf, *edges / scale, np.inf])) * len(samples)
    assert stats.chisquare(counted, expected).pvalue > 1e-6


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.7, 1000.25, 2.0**30, 2.0**40])
def test_it_is_a_normal_variate_rounded_to_the_nearest_whole_number(scale):
    _fits(noise.rounded_gaussian(scale, 200_000), scale)


def _ask_exact_arithmetic_always(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = noise._staircase()
    unsure = steps._replace(surely=np.zeros_like(steps.surely), possibly=(steps.possibly > 0) * np.uint64(2**51))
    monkeypatch.setattr(noise, "_staircase", lambda: unsure)
    monkeypatch.setattr(noise, "DOUBT", 2.0)


@pytest.mark.parametrize("scale", [0.3, 7.7, 2.0**30])
def test_exact_arithmetic_alone_gives_the_same_distribution(monkeypatch, scale):
    _ask_exact_arithmetic_always(monkeypatch)
    _fits(noise.rounded_gaussian(scale, 2_000), scale)


@pytest.mark.parametrize("scale", [0.3, 7.7, 2.0**30, 2.0**40])
def test_double_precision_decides_as_exact_arithmetic_does(monkeypatch, scale):
    """Both see the same bits, and where those leave a doubt, the same further ones."""
    bits = noise.secure_words(2 * 3_000)
    monkeypatch.setattr(noise, "secure_words", lambda count: bits[:count])
    monkeypatch.setattr(noise.os, "urandom", lambda count: b"\1" * count)
    fast = noise._accepted(scale, 3_000)
    _ask_exact_arithmetic_always(monkeypatch)
    assert np.array_equal(fast, noise._accepted(scale, 3_000))


def test_noise_reaches_beyond_what_32_bit_box_muller_can():
    """A bound on the noise is a way to tell who is in the data: beyond it, only one of two tables is possible."""
    samples = np.concatenate([noise.rounded_gaussian(1000.0, 1 << 22) for _ in range(8)])
    beyond = int((np.abs(samples) > 5_000).sum())
    expected = len(samples) * 2 * stats.norm.sf(5.0005)
    assert stats.poisson.sf(beyond - 1, expected) > 1e-6
    assert stats.poisson.cdf(beyond, expected) > 1e-6


def test_the_stairs_lie_above_the_density_and_have_the_areas_that_entries_choose_them_with():
    counts, steps = noise._counts(), [noise._step(entry) for entry in range(noise._beyond())]
    assert sum(counts) <= noise._ENTRIES
    for number, (count, step) in enumerate(zip(counts, sorted(set(steps)), strict=False)):
        assert steps.count(step) == count == step.width * step.height / noise._AREA
        assert step.left == number * noise._WIDTH
        assert math.exp(-(float(step.left) ** 2) / 2) <= float(step.height) * (1 + 1e-15)
    assert float(step.left + step.width) == noise._REACH, "and none is missing"


def test_beyond_the_stairs_intervals_lie_above_the_density_and_are_chosen_by_their_areas(monkeypatch):
    tosses = iter([b"\0\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\4", bytes(8), b"\0\0\0\0\0\0\0\2"])
    monkeypatch.setattr(noise.os, "urandom", lambda count: next(tosses))
    for away in (0, 2, 65):  # heads at once, after two tails, and after 65, which take a second word
        step = noise._step(noise._beyond())
        assert (step.left, step.width) == (noise._REACH + away, 1)
        assert step.height * 2 ** (away + 1) == noise._counts()[-1] * noise._AREA
        assert -((noise._REACH + away) ** 2) / 2 <= math.log(float(step.height))


def test_a_coin_that_accepts_or_rejects_at_once_does_so_rightly():
    steps, coins = noise._staircase(), 2.0**noise._COIN_BITS
    for entry in range(noise._beyond()):
        left, width, height = map(float, noise._step(entry))
        assert steps.surely[entry] / coins == pytest.approx(math.exp(-((left + width) ** 2) / 2) / height, abs=1e-12)
        assert steps.possibly[entry] / coins == pytest.approx(math.exp(-(left**2) / 2) / height, abs=1e-12)
    assert not steps.possibly[noise._beyond() + noise._counts()[-1] :].any(), "entries of no step propose nothing"


def test_magnitudes_beyond_the_stairs_are_as_likely_as_they_should_be(monkeypatch):
    """Only entries that lead there are proposed, with coins that the nearest interval would accept."""
    steps, beyond = noise._staircase(), noise._beyond()
    most = int(steps.possibly[beyond])
    honest = noise.secure_words

    def rare(count: int) -> np.ndarray:
        words = honest(count).copy()
        coins = np.random.default_rng().integers(0, most, count // 2, dtype=np.uint64)
        signs = words[: count // 2] & np.uint64(1 << noise._COIN_BITS)
        words[: count // 2] = np.uint64(beyond << 52) | signs | coins
        return words

    monkeypatch.setattr(noise, "secure_words", rare)
    samples = np.abs(noise.rounded_gaussian(2.0**20, 500)) / 2**20
    edges = [6, 6.05, 6.1, 6.2, 6.3, 6.5, 40]
    expected = np.diff(-stats.norm.sf(edges)) / stats.norm.sf(6) * 500
    assert stats.chisquare(np.histogram(samples, edges)[0], expected).pvalue > 1e-6


def test_two_calls_and_forked_processes_share_no_bits(monkeypatch):
    monkeypatch.setattr(noise, "os", os)
    pool = multiprocessing.get_context("fork").Pool(2)
    streams = [noise.secure_bytes(32), noise.secure_bytes(32), *pool.map(noise.secure_bytes, [32] * 8)]
    pool.close()  # SIGTERM ends no worker where an earlier test left a handler of it, so they are let go
    pool.join()
    assert len(set(streams)) == 10


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**41])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(InvalidInput, match="scale above 0"):
        noise.rounded_gaussian(scale, 1)


def test_no_samples_may_be_asked_for():
    assert noise.rounded_gaussian(3.0, 0).shape == (0,)
