"""Noisy marginals: where cells lie, how much noise they get, and which pairs are chosen. False alarms: under 1e-9."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.model.marginals import measuring
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.pairs import nearest_pairs
from dp_synth_pipeline.model.marginals.plan import MarginalsPlan, plan_again, plan_marginals
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered

CARDS = (3, 2, 4, 5)


def codes(rows: int, cards: tuple[int, ...] = CARDS) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in cards], 1).astype(np.int16)


def even(cards: tuple[int, ...]) -> list[np.ndarray]:
    return [np.full(c, 1 / c) for c in cards]


def measured(
    held: np.ndarray, cards: tuple[int, ...], shares: list[np.ndarray], plan: MarginalsPlan, *, rows: int
) -> Marginals:
    return measuring.measure(held, shares, plan, rows=rows, odometer=Odometer([plan.event]))


@pytest.mark.parametrize("pairs", [((0, 1),), ((0, 3), (1, 2)), tuple(measuring.all_pairs(4))])
def test_index_blocks_and_count_speak_of_the_same_cells(pairs: tuple[tuple[int, int], ...]) -> None:
    layout, held = Layout(CARDS, pairs), codes(500)
    counted = measuring.count(held, layout)
    assert counted.sum() == 500 * len(pairs)
    assert np.array_equal(counted, np.bincount(layout.index(held).ravel(), minlength=layout.cells))
    for (i, j), cells in layout.blocks(counted):
        assert cells.shape == (CARDS[i], CARDS[j])
        for a in range(CARDS[i]):
            for b in range(CARDS[j]):
                assert cells[a, b] == ((held[:, i] == a) & (held[:, j] == b)).sum()


def test_counts_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, held = Layout(CARDS, tuple(measuring.all_pairs(4))), codes(1000)
    whole = measuring.count(held, layout)
    monkeypatch.setattr(measuring, "ROWS", 7)
    assert np.array_equal(whole, measuring.count(held, layout))


def test_a_layout_without_pairs_has_no_cells() -> None:
    layout = Layout((3,), ())
    assert layout.cells == 0
    assert layout.index(codes(5, (3,))).shape == (5, 0)
    assert len(measuring.count(codes(5, (3,)), layout)) == 0


@pytest.mark.parametrize("max_rows", [1, 3])
def test_every_cell_gets_the_noise_that_was_planned(max_rows: int) -> None:
    held = np.zeros((10, 40), np.int16)
    plan = plan_marginals((2,) * 40, 10_000, 2.0, max_rows)
    assert plan.chosen == plan.pairs == 780
    assert plan.scale == pytest.approx(2.0 * max_rows * math.sqrt(780))
    found = measured(held, (2,) * 40, even((2,) * 40), plan, rows=10_000)
    noise = (found.counts - measuring.count(held, found.layout)) / plan.scale
    n = len(noise)
    assert n == 3120
    # A sample deviation is off by 1 / sqrt(2 n) of itself.
    assert noise.std() == pytest.approx(1, rel=6.5 / math.sqrt(2 * n))
    assert abs(noise.mean()) < 6.5 / math.sqrt(n)
    assert found.scale == plan.scale


def test_a_canary_cell_alone_gets_the_noise_that_was_planned() -> None:
    held, plan = np.ones((1, 2), np.int16), MarginalsPlan(7.0, 7.0, 1, 1)
    noise = [measured(held, (2, 2), even((2, 2)), plan, rows=1).counts[3] - 1 for _ in range(800)]
    assert np.std(noise) == pytest.approx(7, rel=6.5 / math.sqrt(1600))


def fewer(chosen: int, pairs: int, quiet: float = 2.0) -> MarginalsPlan:
    return MarginalsPlan(0.001, quiet, chosen, pairs, score_scale=1.0, scored=pairs)


def chosen_of(
    held: np.ndarray, layout: Layout, shares: list[np.ndarray], plan: MarginalsPlan, orders: list[range] | None = None
) -> list[tuple[int, ...]]:
    expected, ordered = measuring.apart(shares, len(held)), orders or [range(0)] * len(shares)
    return measuring.choose(held, layout, expected, plan, odometer=Unmetered(), orders=ordered)


@pytest.mark.parametrize("chosen", [3, 4, 5])
def test_the_chosen_pairs_are_as_many_as_planned_and_reach_every_column(chosen: int) -> None:
    """The three columns of two codes have the least noise; the pairs among them alone would leave the fourth out."""
    cards = (2, 2, 2, 30)
    layout = Layout(cards, tuple(measuring.all_pairs(4)))
    for _ in range(20):
        pairs = chosen_of(codes(50, cards), layout, even(cards), fewer(chosen, 6, 30.0))
        assert len(pairs) == len(set(pairs)) == chosen
        assert set(pairs) <= set(layout.cliques)
        joined = {pairs[0][0]}
        for _ in pairs:
            joined |= {c for pair in pairs if joined & set(pair) for c in pair}
        assert joined == set(range(4)), "all columns hang together"


def test_the_pairs_that_depend_most_are_chosen() -> None:
    held = codes(4000, (4,) * 6)
    held[:, 4] = held[:, 1]
    held[:, 5] = (held[:, 2] + 1) % 4
    plan = fewer(5, 15)
    for _ in range(10):
        found = measured(held, (4,) * 6, even((4,) * 6), plan, rows=4000)
        assert {(1, 4), (2, 5)} <= set(found.layout.cliques)


def test_wide_pairs_whose_noise_would_drown_them_are_not_chosen_for_the_noise() -> None:
    held = codes(2000, (50, 50, 3, 3))
    held[:, 3] = held[:, 2]
    shares = even((50, 50, 3, 3))
    layout = Layout((50, 50, 3, 3), tuple(measuring.all_pairs(4)))
    for _ in range(10):
        chosen = chosen_of(held, layout, shares, fewer(3, 6, 20.0))
        assert (2, 3) in chosen
        assert (0, 1) not in chosen


def test_numbers_are_not_left_out_since_they_have_many_codes() -> None:
    """Of four numbers two grow with each other; four categories have little to say, and few cells that noise could reach."""
    cards = (8,) * 4 + (3,) * 4
    held, layout = codes(5000, cards), Layout(cards, tuple(measuring.all_pairs(8)))
    held[:, 2] = np.clip(held[:, 0] + np.random.default_rng().integers(-3, 4, len(held)), 0, 7)
    shares = [np.bincount(c, minlength=k) / len(held) for c, k in zip(held.T, cards, strict=True)]
    plan = replace(fewer(8, 28, 130.0), score_scale=300.0)
    together, alone = (
        sum((0, 2) in chosen_of(held, layout, shares, plan, orders) for _ in range(10))
        for orders in ([range(8)] * 4 + [range(0)] * 4, None)
    )
    assert together >= 9
    assert alone <= 4, "as noise in all of 64 cells would be taken over"


def test_of_very_many_columns_only_the_pairs_that_were_planned_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = (*[1] * 60, *[2] * 110)
    held, plan = codes(60, cards), plan_marginals(cards, 60, 20.0)
    assert (plan.pairs, plan.scored, plan.chosen) == (math.comb(110, 2), math.comb(100, 2), 99)
    seen: list[int] = []
    honest = measuring.scores
    monkeypatch.setattr(
        measuring, "scores", lambda c, layout, *more: seen.append(len(layout.cliques)) or honest(c, layout, *more)
    )
    found = measured(held, cards, even(cards), plan, rows=60)
    assert seen == [plan.scored], "each score's noise was planned for so many"
    assert len(found.layout.cliques) == plan.chosen
    assert set(found.layout.cliques) <= set(nearest_pairs(range(60, 170), plan.scored))


def parity(rows: int) -> np.ndarray:
    """Six fair coins, of which the last is the parity of the second and the fourth."""
    held = codes(rows, (2,) * 6)
    held[:, 5] = held[:, 1] ^ held[:, 3]
    return held


def test_the_triple_that_pairs_cannot_tell_is_chosen() -> None:
    plan = plan_marginals((2,) * 6, 4000, 2.0, triples=1)
    assert (plan.chosen, plan.triples) == (15, 1)
    for _ in range(10):
        found = measured(parity(4000), (2,) * 6, even((2,) * 6), plan, rows=4000)
        assert found.layout.cliques[15:] == ((1, 3, 5),)
        assert len(found.counts) == found.layout.cells == 15 * 4 + 8


def test_triples_get_the_noise_that_was_planned() -> None:
    cards, held = (2,) * 9, np.zeros((10, 9), np.int16)
    plan = plan_marginals(cards, 100_000, 2.0, 3, triples=84)
    assert plan.triples == math.comb(9, 3)
    assert plan.scale == pytest.approx(6 * math.sqrt((36 + 84) / 0.9))
    found = measured(held, cards, even(cards), plan, rows=100_000)
    noise = (found.counts - measuring.count(held, found.layout)) / plan.scale
    assert noise[36 * 4 :].std() == pytest.approx(1, rel=6.5 / math.sqrt(2 * 84 * 8))


def test_no_triple_is_measured_where_pairs_drown_already() -> None:
    plan = plan_marginals((60,) * 6, 100, 50.0, triples=5)
    assert (plan.chosen < plan.pairs, plan.triples) == (True, 0)


def test_rows_of_a_unit_count_as_one_together_however_many_they_are() -> None:
    units = np.repeat([0, 2, 3], [1, 4, 17])
    parts = measuring.parts_of(units)
    whole = np.bincount(units, parts)
    assert (whole[0], whole[2]) == (measuring.WHOLE, measuring.WHOLE), "up to 16 rows have whole numbers"
    assert measuring.WHOLE * (1 - 1e-4) < whole[3] <= measuring.WHOLE
    layout = Layout(CARDS, tuple(measuring.all_pairs(4)))
    held = codes(len(units))
    counted = measuring.count(held, layout, parts)
    assert counted.sum() == parts.sum() * len(layout.cliques)
    assert np.array_equal(counted, sum(measuring.count(held[[i]], layout) * p for i, p in enumerate(parts)))
    assert len(measuring.parts_of(np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize("noise", [1e-3, 300.0])
def test_pairs_of_two_columns_that_are_given_are_not_measured(noise: float) -> None:
    held, shares = np.zeros((50, 4), np.int16), even(CARDS)
    plan = plan_marginals(CARDS, 1000, noise, triples=4, given=2)
    assert (plan.pairs, plan.triples) == (5, 0)
    found = measured(held, CARDS, shares, plan, rows=1000)
    assert len(found.layout.cliques) == plan.chosen
    assert plan.chosen == 5 if noise < 1 else 3 <= plan.chosen < 5
    assert (0, 1) not in found.layout.cliques
    again = plan_again(found.layout.cliques, CARDS, noise, given=2)
    assert (again.pairs, again.chosen, again.given) == (5, plan.chosen, 2)


def test_cliques_that_are_measured_again_with_less_noise_than_was_charged_are_refused() -> None:
    layout, held = Layout(CARDS, ((0, 2), (1, 3))), codes(30)
    plan = plan_again(layout.cliques, CARDS, 5.0, given=2)
    how = {"rows": 30, "parts": measuring.parts_of(np.arange(30) // 3)}
    measuring.measure_cliques(held, layout, plan, odometer=Odometer([plan.event]), **how)
    quieter, odometer = replace(plan, scale=plan.scale * (1 - 1e-9)), Odometer([plan.event])
    with pytest.raises(NotCharged):
        measuring.measure_cliques(held, layout, quieter, odometer=odometer, **how)


def test_triples_count_parts_as_pairs_do() -> None:
    held, parts = codes(1500, (2,) * 4), measuring.parts_of(np.repeat(np.arange(500), 3))
    plan = plan_marginals((2,) * 4, 500, 1e-3, triples=2)
    assert plan.triples == 2
    how = {"rows": 500, "odometer": Odometer([plan.event]), "parts": parts}
    found = measuring.measure(held, even((2,) * 4), plan, **how)
    exact = measuring.count(held, found.layout, parts) / measuring.WHOLE
    assert np.abs(found.counts - exact).max() < 1, "a unit of three rows is one"


def test_parts_get_the_noise_that_whole_rows_would_get() -> None:
    units = np.repeat(np.arange(500), 3)
    held, plan = codes(1500, (2,) * 40), plan_marginals((2,) * 40, 10_000, 2.0)
    odometer, parts = Odometer([plan.event]), measuring.parts_of(units)
    found = measuring.measure(held, even((2,) * 40), plan, rows=500, odometer=odometer, parts=parts)
    exact = measuring.count(held, found.layout, parts) / measuring.WHOLE
    assert exact.sum() == pytest.approx(500 * plan.pairs)
    noise = (found.counts - exact) / plan.scale
    assert noise.std() == pytest.approx(1, rel=6.5 / math.sqrt(2 * len(noise)))
    assert abs(noise.mean()) < 6.5 / math.sqrt(len(noise))
