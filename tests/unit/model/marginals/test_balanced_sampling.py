"""Rows that have the marginals of the draws they come from."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.model.autoregressive.generation import _spread
from dp_synth_pipeline.model.marginals.balanced_sampling import CLIQUES, balanced
from dp_synth_pipeline.model.marginals.measuring import Layout, all_pairs, count

CARDS = (6, 5, 8, 3)
LAYOUT = Layout(CARDS, (*all_pairs(4), (0, 1, 3)))


def draws(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of four columns that depend on each other, and log-weights that depend on them."""
    rng = np.random.default_rng()
    first = np.minimum(rng.geometric(0.4, rows) - 1, 5)
    second = (first + rng.integers(0, 2, rows)) % 5
    codes = np.stack([first, second, rng.integers(0, 8, rows), rng.integers(0, 3, rows)], axis=1)
    return codes, 0.1 * first + 0.2 * codes[:, 3] - 3.0


def off(codes: np.ndarray, logs: np.ndarray, kept: np.ndarray) -> float:
    """Return by how many rows the cells of the kept rows miss those of all draws, by their weights."""
    expected = np.zeros(LAYOUT.cells)
    np.add.at(expected, LAYOUT.index(codes), (np.exp(logs) / np.exp(logs).sum() * kept.sum())[:, None])
    return float(np.abs(count(np.repeat(codes, kept, axis=0), LAYOUT) - expected).sum())


def alone(logs: np.ndarray, rows: int) -> np.ndarray:
    """Choose each row by its weight alone, rounded up or down."""
    weights = np.exp(logs) / np.exp(logs).sum() * rows
    return np.floor(weights + np.random.default_rng().random(len(logs))).astype(int)


@pytest.mark.parametrize(
    ("pool", "rows", "least"),
    [(20_000, 5_000, 0.4), (20_000, 10_000, 0.4), (3_000, 9_000, 0.8), (40_000, 1_000, 0.27)],
)
def test_kept_rows_have_the_marginals_of_the_draws(pool: int, rows: int, least: float) -> None:
    codes, logs = draws(pool)
    by_chance = np.mean([off(codes, logs, alone(logs, rows)) for _ in range(5)])
    walked = np.mean([off(codes, logs, balanced(codes, logs, LAYOUT, rows)) for _ in range(5)])
    assert walked < least * by_chance  # 0.25 of it, 0.55 where few rows have a choice left, and 0.19 of a large pool


@pytest.mark.parametrize("rows", [1, 7, 999, 5_000, 12_345])
def test_as_many_are_kept_as_are_asked_and_each_by_its_weight_rounded(rows: int) -> None:
    codes, logs = draws(5_000)
    kept = balanced(codes, logs, LAYOUT, rows)
    weights = np.exp(logs) / np.exp(logs).sum() * rows
    assert kept.sum() == rows
    assert (np.abs(kept - weights) < 1).all()


def test_each_row_is_kept_as_often_as_its_weight_says_in_the_mean() -> None:
    codes, logs = draws(2_000)
    weights = np.exp(logs) / np.exp(logs).sum() * 500
    mean = np.mean([balanced(codes, logs, LAYOUT, 500) for _ in range(300)], axis=0)
    # Of 300 runs each mean errs by 0.025; the walk leans against the rows of cells that came before in their order.
    assert np.abs(mean - weights).mean() < 0.04
    assert np.corrcoef(mean, weights)[0, 1] > 0.85


def test_a_row_of_next_to_no_weight_is_next_to_never_kept() -> None:
    codes, logs = draws(20_000)
    unlikely = np.arange(20_000) % 2 == 0
    kept = balanced(codes, np.where(unlikely, logs - 12, logs), LAYOUT, 5_000)
    assert kept[unlikely].sum() <= 5, "0.08 are seen in the mean: six by chance once in a thousand million runs"
    assert kept.sum() == 5_000


def test_of_very_many_cliques_some_are_balanced_at_a_time() -> None:
    columns = 40
    codes = np.random.default_rng().integers(0, 2, (4_000, columns))
    layout = Layout((2,) * columns, tuple(all_pairs(columns)))
    assert len(layout.cliques) > CLIQUES
    kept = balanced(codes, np.zeros(4_000), layout, 1_000)
    ones = np.repeat(codes, kept, axis=0).mean(axis=0) - codes.mean(axis=0)
    assert np.abs(ones).mean() < 0.006, "by chance: 0.011"


def test_rows_that_are_all_alike_are_kept_all_the_same() -> None:
    codes = np.zeros((100, 4), np.int64)
    assert balanced(codes, np.zeros(100), LAYOUT, 30).sum() == 30
    assert balanced(codes[:1], np.zeros(1), LAYOUT, 30).tolist() == [30]


def test_without_cliques_rows_are_kept_by_their_weights() -> None:
    codes, logs = draws(1_000)
    assert balanced(codes, logs, Layout(CARDS, ()), 400).sum() == 400


def test_uniform_numbers_lie_one_in_each_part() -> None:
    numbers = _spread(3, 1_000, np.random.default_rng())
    assert numbers.dtype == np.float32
    # Rounding moves a number to the next part once in 50,000; numbers drawn one by one leave a third of the parts empty.
    assert (np.sort((numbers * 1_000).astype(int), axis=1) == np.arange(1_000)).mean() > 0.99
    assert abs(np.corrcoef(numbers)[0, 1]) < 0.2
    assert not np.array_equal(numbers, _spread(3, 1_000, np.random.default_rng()))
    assert _spread(2, 0, np.random.default_rng()).shape == (2, 0)
