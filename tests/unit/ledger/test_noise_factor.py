"""How much more noise makes so many more releases fit."""

from __future__ import annotations

import pytest

from dp_synth_pipeline.ledger import advice
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold

RELEASE = [
    DiscreteLaplace(20.0),
    DiscreteGaussian(25.0, 1, 20),
    Threshold(1e-9),
    SubsampledGaussian(2.5, 0.05, 800),
]


def test_for_gaussian_noise_the_factor_is_the_root_of_the_number_of_releases():
    once = accountant.rdp(Gaussian(2.0), 5)
    factor = advice.noise_factor([Gaussian(2.0)], 9, 5, once)
    assert 3.0 <= factor <= 3.0 * 1.001


@pytest.mark.parametrize("times", [2, 12, 52])
def test_a_whole_release_fits_at_the_factor_and_not_much_below_it(times):
    left = 3.7
    factor = advice.noise_factor(RELEASE, times, 5, left)
    noisier = [e.with_noise(e.noise * factor) for e in RELEASE]
    assert times * accountant.rdp(noisier, 5) <= left
    if factor > 1:
        less = [e.with_noise(e.noise * factor / 1.003) for e in RELEASE]
        assert times * accountant.rdp(less, 5) > left


def test_nothing_grows_when_all_fit_and_nothing_helps_when_nothing_is_left():
    assert advice.noise_factor([Gaussian(50.0)], 2, 5, 1.0) == 1.0
    assert advice.noise_factor([Gaussian(1.0)], 2, 5, 0.0) is None
