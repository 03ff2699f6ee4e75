"""What a noisy histogram most likely says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.profiling.smoothing import EMPTY, FIRST, FITTED, LEAST, MOST, ROUNDS, smooth

ROUGH = np.exp(np.random.default_rng().normal(0, 0.5, 120))
SHAPES = {
    "a bell": np.exp(-(np.linspace(-4, 4, 120) ** 2) / 2),
    "a decay": np.exp(-np.arange(120) / 25),
    "steps": np.repeat([1.0, 5, 2, 9, 1], 24),
    "an island": np.repeat([0.0, 1, 0], 40),
    "spikes on a bell": np.exp(-(np.linspace(-4, 4, 120) ** 2) / 2) * np.where(np.arange(120) % 12, 1, 8),
}


def off(shape: np.ndarray, rows: int, scale: float) -> tuple[float, float]:
    """Return the mean distance from the true counts, in rows, of noisy cells cut at 0 and of smooth ones."""
    rng, both = np.random.default_rng(), []
    for _ in range(30):
        true = rng.multinomial(rows, shape / shape.sum())
        noisy = true + rng.normal(0, scale, len(true))
        found = smooth(noisy, np.ones(len(true)), scale)
        both.append((np.abs(np.maximum(noisy, 0) - true).sum(), np.abs(found - true).sum()))
    cut, even = np.mean(both, axis=0)
    return cut, even


@pytest.mark.parametrize("name", SHAPES)
def test_noise_is_averaged_out_between_cells(name: str) -> None:
    cut, even = off(SHAPES[name], 5_000, 16.0)
    assert even < 0.8 * cut  # 0.35 to 0.65 of it


def test_a_rough_histogram_comes_to_no_harm() -> None:
    cut, even = off(ROUGH, 20_000, 20.0)
    assert even < 1.1 * cut  # all but as it is


def test_a_spike_that_noise_does_not_explain_stays() -> None:
    off = []
    for _ in range(20):
        noisy = np.random.default_rng().normal(50, 5, 60)
        noisy[20] = 1000.0
        found = smooth(noisy, np.ones(60), 5.0)
        assert found[20] == pytest.approx(1000, abs=1)
        off.append(np.abs(np.delete(found, 20) - 50).mean())
    assert np.mean(off) < 2.5, "1.1 with a deviation of 0.1; noise alone: 4.0 with 0.1"


def test_wide_cells_hold_more() -> None:
    widths = np.array([1.0, 4, 2, 8, 1, 1, 4, 3])
    noisy = 25 * widths + np.random.default_rng().normal(0, 5, 8)
    assert smooth(noisy, widths, 5.0) == pytest.approx(25 * widths, abs=30)
    even = smooth(25 * widths, widths, 5.0)
    assert even == pytest.approx(25 * widths, rel=0.05)


def brute(noisy: np.ndarray, widths: np.ndarray, scale: float) -> np.ndarray:
    """Average over every way to cut the cells into runs, each with a density or empty, one by one."""
    n, ends = len(noisy), FIRST
    for _ in range(ROUNDS + 1):
        total, runs, weighed, price = 0.0, 0.0, np.zeros(n), math.log((1 - ends) / ends)
        for size in range(n):
            for cuts in itertools.combinations(range(1, n), size):
                for held in itertools.product([True, False], repeat=size + 1):
                    found, log = np.zeros(n), 0.0
                    for (i, j), full in zip(itertools.pairwise([0, *cuts, n]), held, strict=True):
                        x, w = noisy[i:j], widths[i:j]
                        density = max((w * x).sum() / (w * w).sum(), 0.0) if full else 0.0
                        found[i:j] = density * w
                        log -= ((x - density * w) ** 2).sum() / (2 * scale**2) + (FITTED if full else EMPTY) + price
                    total += math.exp(log)
                    runs += math.exp(log) * (size + 1)
                    weighed += math.exp(log) * found
        ends = min(max((runs / total - 0.5) / n, LEAST), MOST)
    return weighed / total


@given(st.lists(st.tuples(st.floats(-30, 90), st.floats(0.1, 5)), min_size=2, max_size=5), st.floats(8, 30))
def test_it_is_the_mean_over_all_ways_to_cut(cells: list[tuple[float, float]], scale: float) -> None:
    noisy, widths = (np.array(part) for part in zip(*cells, strict=True))
    assert smooth(noisy, widths, scale) == pytest.approx(brute(noisy, widths, scale), abs=1e-6)


@given(
    st.lists(st.tuples(st.floats(-1e7, 1e9), st.sampled_from([1e-300, 1e-9, 1.0, 3.0, 1e300])), max_size=40),
    st.sampled_from([2.0, 50.0]),
)
def test_counts_are_numbers_of_at_least_nothing(cells: list[tuple[float, float]], scale: float) -> None:
    noisy, widths = np.array([c for c, _ in cells]), np.array([w for _, w in cells])
    found = smooth(noisy, widths, scale)
    assert found.shape == noisy.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
