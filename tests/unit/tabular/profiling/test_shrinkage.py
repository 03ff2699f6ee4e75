"""Noisy counts of many categories come nearer to the true ones, and those of few stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.tabular.profiling.grid import to_probabilities
from dp_synth_pipeline.tabular.profiling.shrinkage import FEW, LARGE, shrunk

SCALE = 17.0
"""Deviation of the noise, in rows, as of a table of forty thousand rows at epsilon 2.51."""


def apart(counts: np.ndarray, true: np.ndarray) -> float:
    return float(0.5 * np.abs(to_probabilities(counts, true.sum()) - true / true.sum()).sum())


@pytest.mark.parametrize(("size", "slope", "gain"), [(500, 1.1, 0.85), (2000, 1.1, 0.8), (5000, 0.8, 0.8)])
def test_a_long_tail_comes_nearer_to_the_truth_than_by_projection(size: int, slope: float, gain: float) -> None:
    g = np.random.default_rng(5)
    shares = np.arange(1, size + 1) ** -slope
    true = g.multinomial(40_000, shares / shares.sum())
    noisy = np.rint(true + g.normal(0, SCALE, size))
    assert apart(shrunk(noisy, 40_000, SCALE), true) < gain * apart(noisy, true)


def test_few_categories_and_large_counts_stay_as_they_are() -> None:
    few = np.array([-5, 3, *[1000] * 100])
    assert (shrunk(few, few.sum(), SCALE) == few).all()
    many = np.array([*[0] * FEW, 5000, 7000])
    assert (shrunk(many, 12_000, SCALE)[-2:] == [5000, 7000]).all()


def test_small_counts_share_what_large_ones_leave_in_their_order() -> None:
    noisy = np.array([*range(-60, 60), 4000])
    found = shrunk(noisy, 4300, SCALE)
    assert found.sum() == pytest.approx(4300)
    assert (np.diff(found[:-1]) >= 0).all()
    assert found.min() >= 0
    assert noisy[-1] > LARGE * SCALE


@pytest.mark.parametrize("total", [0, 10, 10**9])
def test_any_counts_give_finite_estimates(total: float) -> None:
    noisy = np.array([-(10**9), -500, *[0] * 30, 100, 10**9])
    found = shrunk(noisy, total, 1e-3)
    assert np.isfinite(found).all()
    assert (shrunk(np.full(50, -(10**6)), total, SCALE) >= 0).all()
