"""Verdicts of the audit: honest figures pass, however often; figures of a broken mechanism do not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dp_synth_pipeline.privacy.audit import NAMES, TITLES, Audit, Observed

SIGMA, RATE, UNITS, STEPS, DRAWS = 1.7, 1 / 16, 600, 480, 122_880


def seen(sigma: float = SIGMA, rate: float = RATE) -> Observed:
    """Draw what an honest run with these parameters sees."""
    rng = np.random.default_rng()
    times = rng.binomial(STEPS, rate, UNITS)
    return Observed(
        steps=STEPS,
        draws=DRAWS,
        squares=sigma**2 * float(rng.chisquare(DRAWS)),
        pairs=DRAWS - 256,
        echoes=sigma**2 * float(rng.normal(0, np.sqrt(DRAWS))),
        units=UNITS,
        inclusions=int(times.sum()),
        spread=float(np.square(times - STEPS * RATE).sum()),
        clipped=1.0,
        entangled=1e-6,
    )


def failed(observed: Observed) -> list[str]:
    return Audit.of(observed, SIGMA, RATE).failed


def test_honest_runs_pass_and_the_truth_lies_in_every_interval() -> None:
    audits = [Audit.of(seen(), SIGMA, RATE) for _ in range(2000)]
    # One in a million fails: two of 2,000 with a probability of 2e-6, three with 1e-9.
    assert sum(not audit.passed for audit in audits) <= 2
    assert sum(not all(f.low <= f.claimed <= f.high for f in audit.findings) for audit in audits) <= 2


def test_noise_is_known_to_one_percent() -> None:
    finding = Audit.of(seen(), SIGMA, RATE).findings[0]
    assert finding.high / finding.low < 1.06
    assert finding.measured == pytest.approx(SIGMA, rel=0.01)


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 0.97, 1.1])
def test_another_noise_than_the_charged_one_fails(factor: float) -> None:
    assert failed(seen(sigma=factor * SIGMA)) == ["audit_noise"]


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_comes_again_or_is_taken_back_fails(sign: int) -> None:
    again = replace(seen(), echoes=sign * SIGMA**2 * DRAWS / 2)
    assert failed(again) == ["audit_noise"]
    assert "repeats" in Audit.of(again, SIGMA, RATE).findings[0].told


@pytest.mark.parametrize("factor", [0.5, 1.1, 2.0])
def test_another_rate_than_the_charged_one_fails(factor: float) -> None:
    assert "audit_sampling" in failed(seen(rate=factor * RATE))


def test_shuffled_batches_fail_although_their_rate_is_right() -> None:
    shuffled = replace(seen(), inclusions=round(UNITS * STEPS * RATE), spread=0.0)
    assert failed(shuffled) == ["audit_sampling"]
    assert "too evenly" in Audit.of(shuffled, SIGMA, RATE).findings[1].told


def test_units_that_are_drawn_in_fixed_groups_fail() -> None:
    audit = Audit.of(replace(seen(), spread=3 * seen().spread), SIGMA, RATE)
    assert audit.failed == ["audit_sampling"]
    assert "too unevenly" in audit.findings[1].told


@pytest.mark.parametrize("wrong", [{"clipped": 1.01}, {"clipped": float("inf")}, {"entangled": 0.3}])
def test_examples_that_move_the_sum_too_far_or_together_fail(wrong: dict[str, float]) -> None:
    assert failed(replace(seen(), **wrong)) == ["audit_clipping"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_figures_that_are_no_numbers_never_pass(value: float) -> None:
    assert "audit_noise" in failed(replace(seen(), squares=value))
    assert "audit_noise" in failed(replace(seen(), echoes=value))
    assert "audit_clipping" in failed(replace(seen(), clipped=value))


def test_a_run_that_watched_nothing_does_not_pass() -> None:
    nothing = Observed(0, 0, 0.0, 0, 0.0, UNITS, 0, 0.0, 0.0, 0.0)
    assert failed(nothing) == ["audit_noise", "audit_sampling"]


def test_rates_at_which_everybody_or_nobody_is_drawn_are_judged_too() -> None:
    everybody = replace(seen(), inclusions=UNITS * STEPS, spread=0.0)
    nobody = replace(seen(), inclusions=0, spread=0.0)
    assert Audit.of(everybody, SIGMA, 1.0).passed
    assert Audit.of(nobody, SIGMA, 1e-12).passed
    assert Audit.of(nobody, SIGMA, 1.0).failed == Audit.of(everybody, SIGMA, 1e-12).failed == ["audit_sampling"]


def test_it_is_written_as_json_that_says_what_was_measured() -> None:
    told = json.loads(Audit.of(replace(seen(), clipped=float("inf")), SIGMA, RATE).to_json(release="r1"))
    assert told["release"] == "r1"
    assert not told["passed"]
    assert [f["name"] for f in told["findings"]] == list(NAMES) == list(TITLES)
    assert told["findings"][2]["measured"] is None, "JSON has no infinity"
    assert "122,880 reserved draws" in told["findings"][0]["told"]
