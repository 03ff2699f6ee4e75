"""The noise that is really added. Nothing here can be seeded, so tolerances are chosen for false alarms under 1e-6."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.accountant import rdp
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace

CELLS = 20_000
# A sample variance of n normals has relative deviation sqrt(2 / n) = 0.01 at n = 20,000; 6 of them are 0.06, and a
# normal exceeds 6 deviations with probability 2e-9. The factor 0.94 rules out noise of 0.9 sigma, whose variance is 0.81.
VARIANCE_TOLERANCE = 0.06


def discrete_tail(scale: float, least: int) -> float:
    """P[discrete Gaussian >= least], summed exactly."""
    x = np.arange(-int(40 * scale) - 40, int(40 * scale) + 41)
    p = np.exp(-(x.astype(float) ** 2) / (2 * scale**2))
    return float(p[x >= least].sum() / p.sum())


@pytest.mark.parametrize("scale", [0.7, 5.0, 300.0])
def test_the_noise_of_a_histogram_has_the_deviation_that_its_event_says(scale: float) -> None:
    counts = np.full(CELLS, 1000)
    (noisy,), event = mechanisms.noisy_histograms([counts], scale=scale)
    assert event == DiscreteGaussian(scale, 1, 1)
    noise = noisy - counts
    x = np.arange(-50, 51)
    weights = np.exp(-(x**2) / (2 * scale**2)) if scale < 5 else None
    variance = float((x**2 * weights).sum() / weights.sum()) if weights is not None else scale**2
    assert abs(noise.mean()) < 6 * math.sqrt(variance / CELLS)
    # The discrete Gaussian has no heavier tails than the continuous one, so its sample variance is as precise.
    assert np.mean(noise.astype(float) ** 2) == pytest.approx(variance, rel=VARIANCE_TOLERANCE)


def test_the_noise_of_a_count_has_the_deviation_of_the_geometric_mechanism() -> None:
    runs = [mechanisms.noisy_count(10**6, epsilon=0.2) for _ in range(8000)]
    assert {e for _, e in runs} == {DiscreteLaplace(5.0, 1)}
    noise = np.array([n for n, _ in runs], dtype=float) - 10**6
    a = math.exp(-0.2)
    variance = 2 * a / (1 - a) ** 2
    # A Laplace variable has a kurtosis of 6: relative deviation of the variance sqrt(5 / 8000) = 0.025; 6 of them.
    assert abs(noise.mean()) < 6 * math.sqrt(variance / len(noise))
    assert np.mean(noise**2) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.1, 1), (0.3, 1), (1.7, 3), (0.05, 4)])
def test_a_count_costs_what_was_asked(epsilon: float, sensitivity: int) -> None:
    _, event = mechanisms.noisy_count(10, epsilon=epsilon, sensitivity=sensitivity)
    assert event.pure_epsilon == pytest.approx(epsilon, rel=1e-12)


def test_several_histograms_keep_their_shapes_and_make_one_event_that_counts_them() -> None:
    parts = [np.zeros(3), np.zeros(1), np.zeros(7, dtype=np.int32)]
    noisy, event = mechanisms.noisy_histograms(parts, scale=10.0, sensitivity=4)
    assert [len(n) for n in noisy] == [3, 1, 7]
    assert all(n.dtype == np.int64 for n in noisy)
    assert event == DiscreteGaussian(10.0, 4, 3)
    assert rdp(event, 5) == pytest.approx(3 * 5 * 16 / (2 * 100))


def test_two_calls_never_share_noise() -> None:
    # Two vectors of 64 cells with deviation 1000 agree by chance with a probability far under 1e-100.
    calls = [mechanisms.noisy_histograms([np.zeros(64)], scale=1000.0)[0][0] for _ in range(5)]
    assert len({c.tobytes() for c in calls}) == 5
    correlations = np.corrcoef(calls)[np.triu_indices(5, 1)]
    assert np.abs(correlations).max() < 6.5 / math.sqrt(64), "10 pairs, each beyond 6.5 deviations with 1e-10"


def test_numpy_and_python_seeds_do_not_touch_the_noise() -> None:
    import random

    released = []
    for _ in range(2):
        np.random.seed(7)
        random.seed(7)
        released.append(mechanisms.noisy_histograms([np.zeros(64)], scale=1000.0)[0][0].tobytes())
    assert released[0] != released[1]


def test_no_mechanism_takes_a_seed() -> None:
    for function in (mechanisms.noisy_count, mechanisms.noisy_histograms, mechanisms.threshold):
        assert not {"seed", "rng", "generator"} & set(inspect.signature(function).parameters)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-8])
@pytest.mark.parametrize("scale", [0.6, 2.0, 12.5, 180.0])
@pytest.mark.parametrize(("keys", "sensitivity"), [(1, 1), (7, 1), (12, 3)])
def test_all_keys_of_one_unit_stay_hidden_but_with_probability_delta(
    scale: float, delta: float, keys: int, sensitivity: int
) -> None:
    least = math.ceil(mechanisms.threshold(scale, delta, keys=keys, sensitivity=sensitivity))
    # A cell that one unit alone fills holds at most `sensitivity`; it shows if its noise reaches the rest. Tails this far
    # out are summed exactly, which beats a hundred thousand runs.
    assert keys * discrete_tail(scale, least - sensitivity) <= delta


def test_the_threshold_is_not_needlessly_high() -> None:
    high = mechanisms.threshold(50.0, 1e-6, keys=5)
    assert high == pytest.approx(2 + 50 * norm.isf(1e-6 / 5))
    assert 5 * discrete_tail(50.0, math.ceil(high) - 6) > 1e-6


def test_a_key_held_by_one_unit_is_shown_as_rarely_as_promised() -> None:
    delta, trials, scale = 0.05, 40_000, 3.0
    least = mechanisms.threshold(scale, delta, keys=1)
    (noisy,), _ = mechanisms.noisy_histograms([np.ones(trials)], scale=scale)
    shown = int((noisy >= least).sum())
    # The number shown is binomial with probability at most delta; it exceeds this quantile with probability 1e-7.
    assert shown <= binom.isf(1e-7, trials, delta)
    assert shown > 0, "the test can fail: the exact probability is above 0.02, so nothing shown has e^-800"


def test_the_noise_has_the_shape_of_a_discrete_gaussian() -> None:
    (noise,), _ = mechanisms.noisy_histograms([np.zeros(CELLS)], scale=2.0)
    x = np.arange(-6, 7)
    p = np.exp(-(x**2) / 8.0)
    p /= np.exp(-(np.arange(-80, 81) ** 2) / 8.0).sum()
    seen = np.array([(noise == v).sum() for v in x])
    expected = CELLS * np.append(p, 1 - p.sum())
    statistic = ((np.append(seen, CELLS - seen.sum()) - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-7, len(x))
