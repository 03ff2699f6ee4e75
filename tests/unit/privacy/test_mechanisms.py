"""The noise that is really added. Nothing here can be seeded, so tolerances are chosen for false alarms under 1e-6."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.accountant import rdp
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, Threshold
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered

CELLS = 20_000
# A sample variance of n normals has relative deviation sqrt(2 / n) = 0.01 at n = 20,000; 6 of them are 0.06, and a
# normal exceeds 6 deviations with probability 2e-9. The factor 0.94 rules out noise of 0.9 sigma, whose variance is 0.81.
VARIANCE_TOLERANCE = 0.06


FREE = Unmetered()


def rounded_tail(scale: float, least: int) -> float:
    """P[round(N) >= least] for a normal variate of deviation `scale`."""
    return float(norm.sf((least - 0.5) / scale))


def discrete_tail(scale: float, least: int) -> float:
    """P[discrete Gaussian >= least], summed exactly."""
    x = np.arange(-int(40 * scale) - 40, int(40 * scale) + 41)
    p = np.exp(-(x.astype(float) ** 2) / (2 * scale**2))
    return float(p[x >= least].sum() / p.sum())


def discrete(scale: float, sensitivity: int = 1, count: int = 1) -> Odometer:
    """Return the odometer of an entry of a plan that an earlier version declared."""
    return Odometer([DiscreteGaussian(scale, sensitivity, count), Threshold(0.5)])


@pytest.mark.parametrize("scale", [0.7, 5.0, 300.0])
def test_the_noise_of_a_histogram_has_the_deviation_that_its_event_says(scale: float) -> None:
    counts = np.full(CELLS, 1000)
    odometer = Odometer([Gaussian(scale)])
    (noisy,), event = mechanisms.noisy_histograms([counts], scale=scale, sensitivity=1, odometer=odometer)
    assert (event, odometer.used) == (Gaussian(scale), (Gaussian(scale),))
    noise = noisy - counts
    x = np.arange(-50, 51)
    mass = norm.cdf((x + 0.5) / scale) - norm.cdf((x - 0.5) / scale)
    variance = float((x**2 * mass).sum()) if scale < 5 else scale**2 + 1 / 12
    assert abs(noise.mean()) < 6 * math.sqrt(variance / CELLS)
    # Rounding makes no tail heavier by more than half a row, so the sample variance is as precise.
    assert np.mean(noise.astype(float) ** 2) == pytest.approx(variance, rel=VARIANCE_TOLERANCE)


def test_the_noise_of_a_count_has_the_deviation_of_the_geometric_mechanism() -> None:
    runs = [mechanisms.noisy_count(10**6, epsilon=0.2, odometer=FREE) for _ in range(8000)]
    assert {e for _, e in runs} == {DiscreteLaplace(5.0, 1)}
    noise = np.array([n for n, _ in runs], dtype=float) - 10**6
    a = math.exp(-0.2)
    variance = 2 * a / (1 - a) ** 2
    # A Laplace variable has a kurtosis of 6: relative deviation of the variance sqrt(5 / 8000) = 0.025; 6 of them.
    assert abs(noise.mean()) < 6 * math.sqrt(variance / len(noise))
    assert np.mean(noise**2) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.1, 1), (0.3, 1), (1.7, 3), (0.05, 4)])
def test_a_count_costs_what_was_asked(epsilon: float, sensitivity: int) -> None:
    odometer = Odometer([DiscreteLaplace(sensitivity / epsilon, sensitivity)])
    _, event = mechanisms.noisy_count(10, epsilon=epsilon, sensitivity=sensitivity, odometer=odometer)
    assert event.pure_epsilon == pytest.approx(epsilon, rel=1e-12)
    assert odometer.used == (event,)


def test_several_histograms_keep_their_shapes_and_make_one_event_that_counts_them() -> None:
    parts = [np.zeros(3), np.zeros(1), np.zeros(7, dtype=np.int32)]
    noisy, event = mechanisms.noisy_histograms(parts, scale=10.0, sensitivity=4, odometer=FREE)
    assert [len(n) for n in noisy] == [3, 1, 7]
    assert all(n.dtype == np.int64 for n in noisy)
    assert event == Gaussian(2.5, 3)
    assert rdp(event, 5) == pytest.approx(3 * 5 * 16 / (2 * 100))


def zeros(cells: int, scale: float) -> list[np.ndarray]:
    return mechanisms.noisy_histograms([np.zeros(cells)], scale=scale, sensitivity=1, odometer=FREE)[0]


def test_two_calls_never_share_noise() -> None:
    # Two vectors of 64 cells with deviation 1000 agree by chance with a probability far under 1e-100.
    calls = [zeros(64, 1000.0)[0] for _ in range(5)]
    assert len({c.tobytes() for c in calls}) == 5
    correlations = np.corrcoef(calls)[np.triu_indices(5, 1)]
    assert np.abs(correlations).max() < 6.5 / math.sqrt(64), "10 pairs, each beyond 6.5 deviations with 1e-10"


def test_numpy_and_python_seeds_do_not_touch_the_noise() -> None:
    import random

    released = []
    for _ in range(2):
        np.random.seed(7)
        random.seed(7)
        released.append(zeros(64, 1000.0)[0].tobytes())
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
    least = math.ceil(mechanisms.threshold(scale, delta, keys=keys, sensitivity=sensitivity, odometer=FREE))
    # A cell that one unit alone fills holds at most `sensitivity`; it shows if its noise reaches the rest. Tails this far
    # out are summed exactly, which beats a hundred thousand runs.
    assert keys * rounded_tail(scale, least - sensitivity) <= delta
    # One row less would not do.
    assert keys * rounded_tail(scale, least - sensitivity - 1) > delta


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-8])
@pytest.mark.parametrize("scale", [0.6, 2.0, 12.5, 180.0])
def test_keys_stay_hidden_under_the_discrete_noise_of_an_earlier_plan_too(scale: float, delta: float) -> None:
    least = math.ceil(mechanisms.threshold(scale, delta, keys=7, sensitivity=1, odometer=discrete(scale)))
    assert 7 * discrete_tail(scale, least - 1) <= delta


@given(st.floats(1e-3, 1e6), st.floats(1e-300, 0.4), st.integers(1, 1000), st.integers(1, 100))
def test_a_threshold_is_never_too_low_and_never_a_row_too_high(
    scale: float, delta: float, keys: int, sensitivity: int
) -> None:
    """A whole count passes if it is the least whole number above; what it is there tells the exact probability."""
    limit = mechanisms.threshold(scale, delta, keys=keys, sensitivity=sensitivity, odometer=FREE)
    needed = scale * norm.isf(delta / keys)
    assert math.ceil(limit) - sensitivity - 0.5 >= needed * (1 - 1e-15)
    assert math.floor(limit * (1 - 1e-11)) - sensitivity - 0.5 < needed


def test_a_key_held_by_one_unit_is_shown_as_rarely_as_promised() -> None:
    delta, trials, scale = 0.05, 40_000, 3.0
    least = mechanisms.threshold(scale, delta, keys=1, sensitivity=1, odometer=FREE)
    (noisy,), _ = mechanisms.noisy_histograms([np.ones(trials)], scale=scale, sensitivity=1, odometer=FREE)
    shown = int((noisy >= least).sum())
    # The number shown is binomial with probability at most delta; it exceeds this quantile with probability 1e-7.
    assert shown <= binom.isf(1e-7, trials, delta)
    assert shown > 0, "the test can fail: the exact probability is above 0.02, so nothing shown has e^-800"


def fits(noise: np.ndarray, mass: np.ndarray) -> bool:
    """Say whether noise from -2 to 2, and beyond, is as frequent as it should be."""
    seen = np.array([(noise == v).sum() for v in X])
    expected = CELLS * np.append(mass, 1 - mass.sum())
    statistic = ((np.append(seen, CELLS - seen.sum()) - expected) ** 2 / expected).sum()
    return statistic < chi2.isf(1e-7, len(mass))


X = np.arange(-2, 3)
ROUNDED = norm.cdf((X + 0.5) / 0.8) - norm.cdf((X - 0.5) / 0.8)
DISCRETE = np.exp(-(X**2) / (2 * 0.8**2)) / np.exp(-(np.arange(-80, 81) ** 2) / (2 * 0.8**2)).sum()


def test_the_noise_has_the_shape_of_a_rounded_normal_variate() -> None:
    (noise,) = zeros(CELLS, 0.8)
    assert fits(noise, ROUNDED)
    assert not fits(noise, DISCRETE), "at this scale the two shapes are told apart"


def test_what_was_charged_as_discrete_noise_draws_discrete_noise() -> None:
    odometer = discrete(0.8)
    (noise,), event = mechanisms.noisy_histograms([np.zeros(CELLS)], scale=0.8, sensitivity=1, odometer=odometer)
    assert event == DiscreteGaussian(0.8)
    assert fits(noise, DISCRETE)
    assert not fits(noise, ROUNDED), "at this scale the two shapes are told apart"
    for scale in (0.79, 0.8, 0.81, 1.6):
        with pytest.raises(NotCharged):
            mechanisms.noisy_histograms([np.zeros(3)], scale=scale, sensitivity=1, odometer=odometer)


NOTHING = Odometer([])


@pytest.mark.parametrize(
    "release",
    [
        lambda: mechanisms.noisy_count(10, epsilon=1.0, odometer=NOTHING),
        lambda: mechanisms.noisy_histograms([np.zeros(3)], scale=1e9, sensitivity=1, odometer=NOTHING),
        lambda: mechanisms.threshold(10.0, 1e-12, keys=1, sensitivity=1, odometer=NOTHING),
        lambda: mechanisms.noisy_histograms(
            [np.zeros(3)], scale=9.9, sensitivity=1, odometer=Odometer([Gaussian(10.0)])
        ),
        lambda: mechanisms.noisy_histograms(
            [np.zeros(3)], scale=10.0, sensitivity=2, odometer=Odometer([Gaussian(10.0)])
        ),
        lambda: mechanisms.noisy_histograms(
            [np.zeros(3)] * 2, scale=10.0, sensitivity=1, odometer=Odometer([Gaussian(10.0)])
        ),
        lambda: mechanisms.noisy_histograms([np.zeros(3)], scale=10.0, sensitivity=2, odometer=discrete(10.0)),
        lambda: mechanisms.noisy_histograms([np.zeros(3)], scale=10.0, sensitivity=1.5, odometer=discrete(10.0)),
        lambda: mechanisms.noisy_count(10, epsilon=1.0, sensitivity=2, odometer=Odometer([DiscreteLaplace(1.0)])),
        lambda: mechanisms.noisy_count(10, epsilon=1.1, odometer=Odometer([DiscreteLaplace(1.0)])),
    ],
)
def test_what_was_not_charged_is_refused_before_any_noise_is_drawn(
    release: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ("rounded_gaussian", "_count_release", "_discrete_release"):
        monkeypatch.setattr(mechanisms, source, lambda *asked: pytest.fail("noise was drawn"))
    with pytest.raises(NotCharged, match="not charged for"):
        release()


def test_no_mechanism_can_be_called_without_an_odometer() -> None:
    released = [f for name, f in vars(mechanisms).items() if inspect.isfunction(f) and not name.startswith("_")]
    own = [f for f in released if f.__module__ == mechanisms.__name__]
    assert {f.__name__ for f in own} == {"noisy_count", "noisy_histograms", "threshold", "threshold_of_divided"}
    for function in own:
        parameter = inspect.signature(function).parameters["odometer"]
        assert (parameter.default, parameter.kind) == (parameter.empty, parameter.KEYWORD_ONLY)


@pytest.mark.parametrize("sensitivity", [1, 3, 40])
@pytest.mark.parametrize("scale", [0.3, 5.0, 12.5, 1234.5])
def test_opendps_own_privacy_maps_say_what_our_events_say(scale: float, sensitivity: int) -> None:
    geometric = mechanisms._count_release(scale).map(sensitivity)
    assert geometric == pytest.approx(DiscreteLaplace(scale, sensitivity).pure_epsilon, rel=1e-12)
    # zCDP: a Rényi divergence of rho times each order.
    gaussian = mechanisms._discrete_release(scale).map(float(sensitivity))
    assert 7 * gaussian == pytest.approx(rdp(DiscreteGaussian(scale, sensitivity), 7), rel=1e-9)
