"""The grid that is computed all at once is the grid that dp_accounting computes point by point."""

from __future__ import annotations

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.privacy.gaussian_loss import gaussian_loss

pytestmark = pytest.mark.slow

INTERVAL = 1e-3


@settings(max_examples=40)
@given(noise=st.floats(0.3, 50), rate=st.one_of(st.just(1.0), st.floats(1e-4, 1.0)), steps=st.integers(1, 300))
@example(noise=0.6, rate=0.05, steps=300)
@example(noise=1.0, rate=0.999, steps=3)
def test_the_divergences_are_those_of_dp_accounting(noise: float, rate: float, steps: int) -> None:
    ours = gaussian_loss(noise, rate, INTERVAL)
    theirs = pld_lib.from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=INTERVAL)
    for epsilon in (0.0, 0.01, 0.3, 1.0, 5.0):
        assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), abs=1e-15)
    ours, theirs = ours.self_compose(steps), theirs.self_compose(steps)
    assert ours.get_epsilon_for_delta(1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-9, abs=1e-12)
