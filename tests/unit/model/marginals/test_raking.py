"""Raking moves marginals towards their targets as far as the noise on those lets one know them, and no further."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count
from dp_synth_pipeline.model.marginals.raking import Tilt, draws, rake, upon

CARDS = (3, 4, 2)
PAIRS = tuple(all_pairs(3))
LAYOUT = Layout(CARDS, PAIRS)


def table(rows: int, shares: list[list[float]]) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.choice(c, rows, p=p) for c, p in zip(CARDS, shares, strict=True)], 1)


def drawn(rows: int = 30_000) -> np.ndarray:
    return table(rows, [[0.4, 0.3, 0.3], [0.25] * 4, [0.5, 0.5]])


def wanted(scale: float, rows: int = 30_000) -> Marginals:
    other = table(rows, [[0.2, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4], [0.7, 0.3]])
    other[: rows // 3, 1] = other[: rows // 3, 0]
    return Marginals(LAYOUT, count(other, LAYOUT) + np.random.default_rng().normal(0, scale, LAYOUT.cells), scale, rows)


def distance(codes: np.ndarray, target: Marginals) -> float:
    return float(np.abs(count(codes, LAYOUT) / len(codes) - target.counts / target.rows).sum()) / 2 / len(PAIRS)


def test_raked_rows_have_the_measured_marginals() -> None:
    target = wanted(1.0)
    first = drawn()
    raked = rake(first, target, steps=300).resample(drawn(120_000), 30_000)
    assert distance(first, target) > 0.2
    assert distance(raked, target) < 0.03


def test_the_default_steps_go_most_of_the_way_from_a_near_start() -> None:
    target = wanted(5.0)
    near = rake(drawn(), target, steps=40).resample(drawn(120_000), 60_000)
    raked = rake(near, target).resample(near, 30_000)
    assert distance(raked, target) < distance(near, target)


def test_draws_are_raked_to_triples_too() -> None:
    rng = np.random.default_rng()
    made, layout = rng.integers(0, 2, (30_000, 3)), Layout((2, 2, 2), ((0, 1, 2),))
    parity = made.copy()
    parity[:, 2] = parity[:, 0] ^ parity[:, 1]
    kept = rake(made, Marginals(layout, count(parity, layout), 1.0, 30_000), steps=300).resample(made, 10_000)
    assert (kept[:, 2] == kept[:, 0] ^ kept[:, 1]).mean() > 0.9


@pytest.mark.parametrize(
    ("columns", "rows"), [(2, 1 << 16), (15, 1 << 16), (50, 32099), (120, 1 << 14), (300, 1 << 14)]
)
def test_the_more_pairs_are_measured_the_fewer_rows_are_drawn_to_find_the_tilt(columns: int, rows: int) -> None:
    layout = Layout((2,) * columns, tuple(all_pairs(columns)))
    assert draws(Marginals(layout, np.zeros(layout.cells), 1.0, 1000)) == rows


@pytest.mark.parametrize(("columns", "rows"), [(2, 1 << 16), (100, 1 << 16), (300, 21_845), (1000, 1 << 13)])
def test_the_more_columns_there_are_the_fewer_rows_are_drawn_though_few_pairs_are_measured(
    columns: int, rows: int
) -> None:
    layout = Layout((2,) * columns, ((0, 1),))
    assert draws(Marginals(layout, np.zeros(layout.cells), 1.0, 1000)) == rows


def test_of_too_many_cliques_those_that_miss_by_most_are_raked(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = 6, 30_000
    cards, pairs = (3,) * columns, tuple(all_pairs(columns))
    layout = Layout(cards, pairs)
    rng = np.random.default_rng()
    first, real = rng.integers(0, 3, (rows, columns)), rng.integers(0, 3, (rows, columns))
    real[: rows // 2, 4] = real[: rows // 2, 1]
    real[: rows // 3, 5] = real[: rows // 3, 2]
    target = Marginals(layout, count(real, layout) + rng.normal(0, 20, layout.cells), 20.0, rows)
    monkeypatch.setattr(raking, "MOST_CLIQUES", 2)
    tilt = rake(first, target, steps=200)
    assert tilt.layout.cliques == ((1, 4), (2, 5))
    kept = tilt.resample(rng.integers(0, 3, (4 * rows, columns)), rows)
    # It was a third before, should be 0.67, and noise leaves it at 0.622 with a deviation of 0.005.
    assert (kept[:, 1] == kept[:, 4]).mean() == pytest.approx(0.5 + 0.5 / 3, abs=0.1)


def test_huge_noise_leaves_draws_alone() -> None:
    tilt = rake(drawn(), wanted(1e7))
    assert np.abs(tilt.values).max() < 0.25, "0.08, with a deviation of 0.02"
    quiet = rake(drawn(), wanted(5.0))
    assert np.abs(quiet.values).max() > 0.4, "0.54, with a deviation of 0.005"
    codes = drawn()
    weights = np.exp(tilt.log_weights(codes))
    assert weights.std() / weights.mean() < 0.3


def test_a_rows_log_weight_is_the_sum_of_its_cells() -> None:
    codes = drawn(200)
    tilt = Tilt(LAYOUT, np.random.default_rng().normal(size=LAYOUT.cells).astype(np.float32))
    assert tilt.log_weights(codes) == pytest.approx(tilt.values[LAYOUT.index(codes)].sum(1), abs=1e-5)


def test_resampling_keeps_rows_in_proportion_to_their_weights() -> None:
    codes = np.array([[0, 0, 0], [1, 2, 1], [2, 3, 1]])
    values = np.zeros(LAYOUT.cells, np.float32)
    values[LAYOUT.index(codes)[1, 0]] = np.log(2)
    values[LAYOUT.index(codes)[2, 0]] = np.log(5)
    kept = Tilt(LAYOUT, values).resample(codes, 8000)
    # Systematic: each row comes up its exact share of times, but for one.
    assert np.abs(np.bincount(kept[:, 0]) - np.array([1000, 2000, 5000])).max() <= 1
    assert len(np.unique(kept[:40], axis=0)) > 1, "shuffled"
    assert not np.array_equal(kept, Tilt(LAYOUT, values).resample(codes, 8000))


def test_even_weights_keep_every_row_once() -> None:
    codes = drawn(500)
    kept = Tilt(LAYOUT, np.zeros(LAYOUT.cells, np.float32)).resample(codes, 500)
    assert np.array_equal(np.sort(LAYOUT.index(kept), 0), np.sort(LAYOUT.index(codes), 0))


def test_huge_weights_do_not_overflow() -> None:
    values = np.zeros(LAYOUT.cells, np.float32)
    values[0] = 1e4
    kept = Tilt(LAYOUT, values).resample(np.array([[0, 0, 0], [1, 1, 1]]), 10)
    assert (kept == 0).all()


GIVEN = Layout((2, 3), ((0, 1),))


def test_what_is_given_keeps_its_weight_and_the_rest_follows_upon_it() -> None:
    """Three of four are women among those that were counted, and one of four among those that rows are drawn upon."""
    rng, tries = np.random.default_rng(), 8
    follows = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    counts = (np.array([[3000.0], [1000.0]]) * follows).ravel()
    measured = Marginals(GIVEN, counts, 0.5, 4000)
    given = np.repeat((np.arange(4000) % 4 > 0).astype(int), tries)
    made = np.stack([given, rng.integers(0, 3, len(given))], 1)
    target = upon(made, measured, given=1)
    assert target.counts.reshape(2, 3).sum(1) == pytest.approx([1000, 3000])
    tilt = rake(made, target, steps=300, contexts=4000)
    weights = np.exp(tilt.log_weights(made).reshape(-1, tries).astype(float))
    weights = (weights / weights.sum(1, keepdims=True)).ravel()
    for code, shares in enumerate(follows):
        found = np.bincount(made[given == code, 1], weights[given == code])
        assert found / found.sum() == pytest.approx(shares, abs=0.04)


def test_of_a_given_code_that_noise_hides_marginals_say_what_the_drawn_rows_do() -> None:
    made = np.stack([np.repeat([0, 1], [990, 10]), np.arange(1000) % 3], 1)
    measured = Marginals(GIVEN, np.array([300.0, 300.0, 300.0, 40.0, -35.0, 4.0]), 20.0, 900)
    target = upon(made, measured, given=1)
    assert target.counts[:3] == pytest.approx([297.0] * 3)
    assert target.counts[3:] == pytest.approx(count(made, GIVEN)[3:] * 0.9)
    assert upon(made, measured, given=0).counts == pytest.approx(measured.counts)
