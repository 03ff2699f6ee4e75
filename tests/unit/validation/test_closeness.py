"""Distances to the closest record: copies lie nearer to the rows that were copied than to others; honest rows do not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dp_synth_pipeline.validation.closeness import closeness, distances, nearest, spans

ORDERED = np.array([True, False, False, True])


def population(rows: int, seed: int) -> np.ndarray:
    """Draw rows; from a seed, since what is tested here has no chance in it, and draws that mislead are no news."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, rows)
    return np.stack(
        [x, rng.integers(0, 5, rows), rng.integers(0, 12, rows), np.clip(x + rng.integers(0, 9, rows), 0, 50)], 1
    )


def test_a_generator_that_copies_is_nearer_to_what_it_learnt_from() -> None:
    training, holdout = population(700, 1), population(700, 2)
    found = closeness(training, holdout, training, ORDERED)
    assert found.identical_training == 1.0
    assert found.identical_holdout < 0.2
    assert found.nearer_training > 0.9
    assert found.warns
    assert found.closest_training == (0.0, 0.0, 0.0)


def test_a_tenth_of_copies_is_enough() -> None:
    training, holdout = population(3000, 1), population(3000, 2)
    found = closeness(training, holdout, np.concatenate([training[:300], population(2700, 3)]), ORDERED)
    assert found.identical_training > found.identical_holdout
    assert found.warns


def test_a_generator_that_draws_from_the_population_is_not_warned_about() -> None:
    tables = [[population(300, 3 * i + part) for part in range(3)] for i in range(40)]
    alarms = sum(closeness(*three, ORDERED).warns for three in tables)
    assert alarms <= 4, "half a percent of 40 is none; rows that share a neighbour make it one and a half percent"


def test_a_smaller_holdout_does_not_make_training_rows_look_near() -> None:
    tables = population(3000, 1), population(200, 2), population(1000, 3)
    # The 200 training rows that are compared are drawn by chance, and warn by it with a probability of 0.01 at most: five of
    # ten with 2e-8.
    assert sum(closeness(*tables, ORDERED).warns for _ in range(10)) < 5


def test_distances_are_gowers_and_zero_means_identical() -> None:
    rows = np.array([[0, 1, 2, 0], [10, 1, 2, 5]])
    others = np.array([[0, 1, 2, 0], [5, 0, 2, 10]])
    scale = spans(rows, others)
    assert scale.tolist() == [10, 1, 1, 10]
    expected = [[0, (0.5 + 1 + 0 + 1) / 4], [(1 + 0 + 0 + 0.5) / 4, (0.5 + 1 + 0 + 0.5) / 4]]
    assert distances(rows, others, ORDERED, scale) == pytest.approx(np.array(expected))
    assert nearest(rows, others, ORDERED, scale) == pytest.approx([0, 0.375])


def test_the_result_is_json_and_says_what_it_cannot_show() -> None:
    rows = population(30, 1)
    told = json.loads(json.dumps(closeness(rows, rows[:10], rows, ORDERED, most=20).to_dict()))
    assert told["compared"] == [10, 10, 20]
    assert "Cannot show" in told["meaning"]


def test_tables_of_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="same columns"):
        closeness(population(5, 1), population(5, 2)[:, :2], population(5, 3), ORDERED)
