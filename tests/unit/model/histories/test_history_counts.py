"""Counts of all rows: one person moves all of them together by no more than the bound, and what is left is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.model.histories.history_counts import (
    AGREEING,
    CLEAR,
    HistoryCountsPlan,
    bound_of,
    clear_pairs,
    layout_of,
    measure,
    pairs_of,
    parts_of,
    shares_of,
)
from dp_synth_pipeline.model.marginals.measuring import WHOLE, count
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered

CARDINALITIES = (3, 4)
LAYOUT = layout_of(CARDINALITIES, [(0, 1)])


@st.composite
def histories(draw):
    """Return the codes of some persons' rows, and whose they are."""
    counts = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))
    row = st.tuples(*(st.integers(0, c - 1) for c in CARDINALITIES))
    rows = draw(st.lists(row, min_size=sum(counts), max_size=sum(counts)))
    return np.array(rows, dtype=np.int16).reshape(-1, 2), np.repeat(np.arange(len(counts)), counts)


def counted(codes, units, bound):
    return count(codes, LAYOUT, parts_of(codes, units, LAYOUT, bound))


@given(histories(), st.floats(0.5, 30))
def test_a_person_more_moves_all_counts_together_by_the_bound_at_most_and_nobody_else_s_rows(rows, bound):
    codes, units = rows
    for person in range(int(units.max(initial=0)) + 1):
        others = units != person
        moved = counted(codes, units, bound) - counted(codes[others], units[others], bound)
        assert np.sqrt((moved.astype(float) ** 2).sum()) <= bound * WHOLE
        own = ~others
        assert (moved == counted(codes[own], units[own], bound)).all(), (
            "what a person adds follows from that person's rows"
        )


def test_how_rows_agree_is_counted_after_the_table_s_own_columns_and_lengthens_a_person_s_counts():
    layout = layout_of((3, 4), [(0, 1)], (2, 3))
    assert layout.cardinalities == (3, 4, 2, 3)
    assert layout.cliques == ((0,), (1,), (2,), (3,), (0, 1))
    shares = [np.full(3, 1 / 3), np.full(4, 1 / 4)]
    squares = [bound_of(shares, 6, found) ** 2 for found in (LAYOUT, layout)]
    assert squares[1] - squares[0] == pytest.approx(2 * (6 + 6 * 5 * AGREEING))


@given(histories())
def test_whoever_is_within_the_bound_counts_row_by_row(rows):
    codes, units = rows
    most = 12 * np.sqrt(3)  # as long as twelve rows in two columns and their pair can be
    assert (parts_of(codes, units, LAYOUT, most) >= WHOLE - 1).all()


def test_rows_of_a_person_beyond_the_bound_count_for_as_much_less():
    codes, units = np.array([[0, 0]] * 6 + [[1, 2]]), np.array([0] * 6 + [1])
    parts = parts_of(codes, units, LAYOUT, np.sqrt(3) * 3) / WHOLE
    assert parts == pytest.approx([0.5] * 6 + [1.0], abs=1e-5)


def test_the_counts_are_of_all_rows_and_need_their_charge():
    rng = np.random.default_rng(0)
    codes, units = rng.integers(0, 3, (1000, 2)), np.repeat(np.arange(250), 4)
    plan = HistoryCountsPlan(1e-3, 4 * np.sqrt(3))
    found = measure(codes, units, LAYOUT, plan, Unmetered())
    assert found.rows == 1000
    for column, share in enumerate(shares_of(found)):
        assert share == pytest.approx(np.bincount(codes[:, column], minlength=CARDINALITIES[column]) / 1000, abs=1e-4)
    assert len(shares_of(found)) == 2
    pair = dict(LAYOUT.blocks(found.counts))[0, 1]
    assert pair == pytest.approx(np.histogram2d(*codes.T, bins=CARDINALITIES, range=((0, 3), (0, 4)))[0], abs=0.1)
    for multiplier, bound in ((0.1, 3.3), (0.7, 5.657), (1.37, 20.1), (9.629016809190192, 20.717905844304155)):
        paid = HistoryCountsPlan(multiplier, bound)
        measure(codes, units, LAYOUT, paid, Odometer([paid.event]))
    with pytest.raises(NotCharged):
        measure(codes, units, LAYOUT, plan, Odometer([Gaussian(plan.noise_multiplier * 1.001)]))


def test_noise_is_of_the_bound_s_size_in_every_cell():
    codes, units = np.zeros((0, 2), np.int16), np.zeros(0, np.int64)
    cells = [measure(codes, units, LAYOUT, HistoryCountsPlan(2.0, 10.0), Unmetered()).counts for _ in range(400)]
    assert np.std(cells) == pytest.approx(20.0, rel=0.1)  # 7,600 cells: 0.8 % is one deviation
    assert measure(codes, units, LAYOUT, HistoryCountsPlan(2.0, 10.0), Unmetered()).scale == pytest.approx(20)


def test_shares_are_probabilities_whatever_the_noise_did():
    measured = measure(np.zeros((0, 2), int), np.zeros(0, int), LAYOUT, HistoryCountsPlan(5.0, 3.0), Unmetered())
    for share in shares_of(measured):
        assert share.sum() == pytest.approx(1)
        assert (share > 0).all()


def test_the_bound_is_how_long_the_counts_of_such_a_person_are():
    rng, shares, rows = np.random.default_rng(1), [np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.1, 0.1, 0.1])], 7
    counts = [rng.multinomial(rows, share, 20_000) for share in shares]
    lengths = np.sqrt(sum((c.astype(float) ** 2).sum(1) for c in counts))
    assert np.sqrt((lengths**2).mean()) == pytest.approx(bound_of(shares, rows, layout_of((3, 4), [])), rel=0.01)
    assert bound_of(shares, 1, layout_of((3, 4), [])) == pytest.approx(np.sqrt(2))


def test_of_a_pair_the_bound_is_that_of_columns_one_of_which_determines_the_other():
    rng, share, rows = np.random.default_rng(1), np.array([0.4, 0.3, 0.2, 0.1]), 7
    gives = np.array([0, 1, 1, 0])
    counts = rng.multinomial(rows, share, 20_000).astype(float)
    given = np.stack([counts[:, gives == g].sum(1) for g in (0, 1)], 1)
    lengths = 2 * (counts**2).sum(1) + (given**2).sum(1)  # the pair's cells are as full as those of what determines
    bound = bound_of([share, np.array([0.5, 0.5])], rows, layout_of((4, 2), [(0, 1)]))
    assert np.sqrt(lengths.mean()) == pytest.approx(bound, rel=0.01)


def test_pairs_whose_cells_noise_does_not_hide_are_counted_wherever_they_stand():
    even = [np.full(n, 1 / n) for n in (8, 2, 8, 8)]
    assert clear_pairs(even, [0, 1, 2, 3], 0.0) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert clear_pairs(even, [0, 1, 3], CLEAR / 16) == [(0, 1), (1, 3)]
    assert clear_pairs(even, [0, 1, 2, 3], CLEAR / 15) == []
    wide = [np.full(2, 0.5), *[np.full(4, 0.25)] * 6]
    found = clear_pairs(wide, range(7), 0.01)
    assert len(found) == 14, "twice as many as there are columns"
    assert not [pair for pair in found if 0 in pair], "those that could tell most come first"


def test_pairs_that_may_tell_much_are_counted_and_first_those_that_stand_near_each_other():
    even = [np.full(n, 1 / n) for n in (8, 8, 8, 2, 8, 2)]
    assert pairs_of(even, [0, 1, 2, 3, 4]) == [(0, 1), (0, 2), (1, 2), (1, 4), (2, 3), (2, 4)]
    assert pairs_of(even, [0, 3]) == [(0, 3)]
    assert pairs_of(even, [2]) == []
    assert pairs_of([np.full(1000, 1e-3), np.full(1000, 1e-3)], [0, 1]) == []  # noise would hide which cells are empty
