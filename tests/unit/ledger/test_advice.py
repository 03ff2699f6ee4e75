from __future__ import annotations

import re
from pathlib import Path

import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger.advice import most_steps
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteGaussian, SubsampledGaussian
from tests.unit.ledger.stores import SMALL, ask

PROFILE = DiscreteGaussian(60.0, 1, 6)
NOMINAL = (PROFILE, SubsampledGaussian(1.0, 0.02, 200))


def refused(ledger: Ledger, account: str, nominal: tuple) -> str:
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, account, "l", epsilon=2.9, delta=5e-6, nominal=nominal)
    return f"{caught.value}\n{caught.value.details}"


@pytest.mark.slow
@pytest.mark.parametrize("account", ["f", "p"])
def test_a_refusal_says_which_steps_and_which_noise_would_fit_and_they_do(tmp_path: Path, account: str) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("f", epsilon=3.0, delta=1e-5)
    ledger.open_account("p", epsilon=3.0, delta=1e-5, rule="plan")
    ask(ledger, account, "k", epsilon=2.2, delta=5e-6)
    text = refused(ledger, account, NOMINAL)
    assert 4 <= len(text.splitlines()) <= 5
    steps, noise = (
        re.search(p, text) for p in (r"at most (\d+) of 200 steps", r"multiplier of at least ([0-9.]+)[;.]")
    )
    fits = re.search(r"epsilon <= ([0-9.]+)", text)
    assert steps
    assert noise
    assert fits
    release = ask(ledger, account, "m", epsilon=float(fits[1]), delta=5e-6)
    fewer, noisier = SubsampledGaussian(1.0, 0.02, int(steps[1])), SubsampledGaussian(float(noise[1]), 0.02, 200)
    more, louder = (
        SubsampledGaussian(1.0, 0.02, int(steps[1]) + 1),
        SubsampledGaussian(0.98 * noisier.noise_multiplier, 0.02, 200),
    )
    for event in (fewer, noisier):
        assert accountant.epsilon([PROFILE, event], 5e-6) <= float(fits[1])
    for event in (more, louder):
        with pytest.raises(BudgetExceeded):
            ledger.start(release.id, "all", [PROFILE, event])
    assert ledger.start(release.id, "all", [PROFILE, noisier]).state == "started"


def test_without_steps_a_refusal_names_only_the_epsilon(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=2.2, delta=5e-6)
    assert "steps" not in refused(ledger, "p", SMALL)


def test_a_profile_that_fits_no_training_is_said_to_fit_none(ledger: Ledger) -> None:
    ask(ledger, "p", "k", epsilon=2.95, delta=5e-6)
    text = refused(ledger, "p", (DiscreteGaussian(5.0), SubsampledGaussian(1.0, 0.02, 200)))
    assert "would fit: none" in text
    assert "at these steps" not in text


@pytest.mark.parametrize("most", [0, 1, 63, 64, 100])
def test_the_most_steps_are_found(most: int) -> None:
    plan = [SubsampledGaussian(1.0, 0.1, 100)]
    assert most_steps(plan, 100, lambda events: events[0].steps <= most) == most  # type: ignore[attr-defined]
