"""Attacks on a generator that copies its rows succeed, on an honest one they do not; intervals hold what they promise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dp_synth_pipeline.validation import attacks
from dp_synth_pipeline.validation.attacks import attribute, membership

ORDERED = np.array([True, True, False, False, False])


def population(rows: int, seed: int) -> np.ndarray:
    """Rows whose last column follows from the first but for a coin: what is true of everybody.

    They are drawn from a seed, since what is tested here has no chance in it, and draws that mislead are no news.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, rows)
    y = np.clip(x // 2 + rng.integers(0, 8, rows), 0, 25)
    sex, city = rng.integers(0, 2, rows), rng.integers(0, 30, rows)
    ill = np.where(rng.random(rows) < 0.7, x % 4, rng.integers(0, 4, rows))
    return np.stack([x, y, sex, city, ill], 1)


def copies(training: np.ndarray, share: float) -> np.ndarray:
    """A generator that copies a share of its training rows, and draws the rest honestly."""
    leaked = training[: round(share * len(training))]
    return np.concatenate([leaked, population(len(training) - len(leaked), 3)])


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_generator_that_copies_rows_is_caught_by_both_attacks(share: float) -> None:
    training, holdout = population(800, 1), population(800, 2)
    synthetic = copies(training, share)
    found = membership(training, holdout, synthetic, ORDERED)
    assert found.warns
    assert found.low > 0.5
    hidden = attribute(training, holdout, synthetic, ORDERED, 4, name="ill")
    assert hidden.warns
    assert hidden.name == "attribute: ill"


def test_a_generator_that_draws_from_the_population_is_not_caught() -> None:
    alarms = 0
    for i in range(20):
        training, holdout, synthetic = (population(300, 3 * i + part) for part in range(3))
        alarms += membership(training, holdout, synthetic, ORDERED).warns
        alarms += attribute(training, holdout, synthetic, ORDERED, 4).warns
    assert alarms <= 3, "each of 40 has a probability of 0.005"


def test_what_is_true_of_everybody_is_no_leak_however_well_it_is_guessed() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (np.stack([x := rng.integers(0, 10, 500), x], 1) for _ in range(3))
    found = attribute(a, b, c, np.array([False, False]), 1)
    assert found.baseline == 1.0
    assert found.value == 0.0
    assert not found.warns


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        a, b = rng.binomial(200, 0.6), rng.binomial(200, 0.4)
        low, high = attacks._newcombe(int(a), 200, int(b), 200)
        missed += not low <= 0.2 <= high
        near, far = rng.normal(0, 1, 100), rng.normal(0.5, 1, 100)
        auc = attacks._auc(near, far)
        width = 2.576 * attacks._deviation(auc, 100, 100)
        missed += abs(auc - 0.6382) > width  # Phi(0.5 / sqrt 2)
    assert missed < 26, "800 at one percent: eight expected"


def test_the_auc_counts_ties_half_and_knows_which_side_is_near() -> None:
    assert attacks._auc(np.zeros(5), np.zeros(7)) == 0.5
    assert attacks._auc(np.zeros(5), np.ones(7)) == 1.0
    assert attacks._auc(np.ones(5), np.zeros(7)) == 0.0


def test_results_are_json_and_say_what_they_cannot_show() -> None:
    training, holdout = population(60, 1), population(50, 2)
    for found in (
        membership(training, holdout, training, ORDERED),
        attribute(training, holdout, training, ORDERED, 2),
    ):
        told = json.loads(json.dumps(found.to_dict()))
        assert "Cannot show" in told["meaning"]
        assert told["low"] <= told["value"] <= told["high"]
        assert told["rows"] == [60, 50]


@pytest.mark.parametrize("wrong", ["no rows", "columns", "hidden"])
def test_tables_that_cannot_be_compared_are_refused(wrong: str) -> None:
    rows = population(20, 1)
    holdout = {"no rows": rows[:0], "columns": rows[:, :3]}.get(wrong, rows)
    with pytest.raises(ValueError, match="expected"):
        attribute(rows, holdout, rows, ORDERED, 5)
    if wrong != "hidden":
        with pytest.raises(ValueError, match="expected"):
            membership(rows, holdout, rows, ORDERED)


def test_large_tables_are_sampled() -> None:
    rows = population(3000, 1)
    assert membership(rows, rows, rows, ORDERED, most=200).rows == (200, 200)
