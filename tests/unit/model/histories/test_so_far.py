"""What histories were like so far is what a plain reading of all rows before says, and nothing of other parents' rows."""

import numpy as np
import pytest

from dp_synth_pipeline.model.histories.so_far import LEVELS, NONE, NOWHERE, SoFar, places

NUMBER = places(np.array([0.1, 0.2, 0.3, 0.4]), [2, 0, 1])  # the last code is that of nulls
SHOP = (0, 1, 2, 2)  # the two rarest are one


def rows_of(parents: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return codes of two columns, the parent of each row, and its place; some parents have no row."""
    counts = rng.integers(0, 7, parents)
    parent = np.repeat(np.arange(parents), counts)
    place = np.concatenate([np.arange(n) for n in counts])
    return rng.integers(0, 4, (len(parent), 2)), parent, place


def level(codes: list[int]) -> int:
    known = [NUMBER[c] for c in codes if NUMBER[c] != NOWHERE]
    return 1 + min(int(LEVELS * sum(known) / len(known)), LEVELS - 1) if known else NONE


def favourite(codes: list[int]) -> int:
    merged = [SHOP[c] for c in codes]
    last = {code: i for i, code in enumerate(merged)}
    return 1 + max(last, key=lambda code: (merged.count(code), last[code])) if merged else NONE


def test_it_is_what_all_rows_before_say():
    rng = np.random.default_rng(4)
    rows, parent, place = rows_of(200, rng)
    found = SoFar((NUMBER, ()), (range(4), SHOP), 200).before(rows, parent, place)
    for i in range(len(rows)):
        before = [rows[j] for j in range(i - place[i], i)]
        assert found[i].tolist() == [level([b[0] for b in before]), favourite([b[1] for b in before])]
    assert set(found[:, 0]) >= {NONE, 3, 5, 7}
    assert set(found[:, 1]) == {NONE, 1, 2, 3}


def test_one_by_one_it_is_what_it_is_of_all_rows_at_once():
    """As rows are drawn, so they were learnt."""
    rng = np.random.default_rng(5)
    rows, parent, place = rows_of(50, rng)
    whole, step = (SoFar((NUMBER, ()), (range(4), SHOP), 50) for _ in range(2))
    expected = whole.before(rows, parent, place)
    for k in range(int(place.max()) + 1):
        these = np.flatnonzero(place == k)
        assert step.told(parent[these]).tolist() == expected[these].tolist()
        step.add(parent[these], rows[these])


def test_no_other_parent_s_rows_change_it():
    """A person's gradient, which is clipped, is then a function of that person's rows alone."""
    rng = np.random.default_rng(6)
    rows, parent, place = rows_of(60, rng)
    others = np.where((parent == 7)[:, None], rows, rng.integers(0, 4, rows.shape))
    of_rows, of_others = (
        SoFar((NUMBER, ()), (range(4), SHOP), 60).before(codes, parent, place)[parent == 7] for codes in (rows, others)
    )
    assert len(of_rows)
    assert (of_rows == of_others).all()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_no_rows_or_one_is_told_of(rows):
    found = SoFar((NUMBER, ()), (range(4), SHOP), 1).before(
        np.ones((rows, 2), int), np.zeros(rows, int), np.arange(rows)
    )
    assert found.tolist() == [[NONE, NONE]] * rows


def test_places_rise_with_values_whatever_shares_noise_left():
    rng = np.random.default_rng(7)
    for _ in range(100):
        share, order = rng.normal(0.1, 0.1, 6), rng.permutation(6)[:5]
        found = np.array(places(share, order))
        assert (np.diff(found[order]) >= 0).all()
        assert ((found[order] >= 0) & (found[order] <= 1)).all()
        assert (np.delete(found, order) == NOWHERE).all()
    assert places(np.array([-1.0, -2.0]), [0, 1]) == (0.25, 0.75)
