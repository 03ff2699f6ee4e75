"""What histories were like so far is what a plain reading of all rows before says, and nothing of other parents' rows."""

import math

import numpy as np
import pytest

from dp_synth_pipeline.model.histories.so_far import LEVELS, NONE, NOWHERE, PARTS, SoFar, cardinalities, places

NUMBER = places(np.array([0.1, 0.2, 0.3, 0.4]), [2, 0, 1])  # the last code is that of nulls
SHOPS = (0, 1, 2, 2)  # the two rarest are one


def so_far(parents: int) -> SoFar:
    """Return histories of a number and a category."""
    return SoFar((NUMBER, ()), (range(4), SHOPS), parents)


def rows_of(parents: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return codes of two columns, the parent of each row, and its place; some parents have no row."""
    counts = rng.integers(0, 9, parents)
    parent = np.repeat(np.arange(parents), counts)
    place = np.concatenate([np.arange(n) for n in counts])
    return rng.integers(0, 4, (len(parent), 2)), parent, place


def level(codes: list[int]) -> int:
    known = [NUMBER[c] for c in codes if NUMBER[c] != NOWHERE]
    return 1 + min(int(LEVELS * sum(known) / len(known)), LEVELS - 1) if known else NONE


def favourite(codes: list[int]) -> tuple[int, int, int]:
    """Return what is given of a category, and which code was most frequent, the last one of several."""
    if not codes:
        return NONE, NONE, -1
    last = {code: i for i, code in enumerate(codes)}
    most = max(last, key=lambda code: (codes.count(code), last[code]))
    part = math.ceil(PARTS * codes.count(most) / len(codes))
    return part + (0 if codes[-1] == most else PARTS), 1 + SHOPS[most], most


def test_it_is_what_all_rows_before_say():
    rng = np.random.default_rng(4)
    rows, parent, place = rows_of(300, rng)
    found = so_far(300).before(rows, parent, place)
    for i in range(len(rows)):
        before = [rows[j].tolist() for j in range(i - place[i], i)]
        *told, most = favourite([b[1] for b in before])
        assert found.told[i].tolist() == [level([b[0] for b in before]), *told]
        assert found.most[i].tolist() == [-1, most]
    assert set(found.told[:, 0]) >= {NONE, 3, 5, 7}
    assert set(found.told[:, 1]) >= set(range(1 + 2 * PARTS)) - {1 + PARTS}
    assert cardinalities((NUMBER, ()), (range(4), SHOPS)) == [1 + LEVELS, *(found.told.max(0)[1:] + 1)]


def test_one_by_one_it_is_what_it_is_of_all_rows_at_once():
    """As rows are drawn, so they were learnt."""
    rows, parent, place = rows_of(50, np.random.default_rng(5))
    expected, step = so_far(50).before(rows, parent, place), so_far(50)
    for k in range(int(place.max()) + 1):
        these = np.flatnonzero(place == k)
        past = step.past(parent[these])
        assert all((one == all_of).all() for one, all_of in zip(past, expected.of(these), strict=True))
        step.add(parent[these], rows[these])


def test_no_other_parent_s_rows_change_it():
    """A person's gradient, which is clipped, is then a function of that person's rows alone."""
    rng = np.random.default_rng(6)
    rows, parent, place = rows_of(60, rng)
    own = np.flatnonzero(parent == parent[-1])
    others = np.where((parent == parent[-1])[:, None], rows, rng.integers(0, 4, rows.shape))
    of_rows, of_others = (so_far(60).before(codes, parent, place).of(own) for codes in (rows, others))
    assert len(own)
    assert (of_rows.told == of_others.told).all()
    assert (of_rows.most == of_others.most).all()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_no_rows_or_one_is_told_of(rows):
    found = so_far(1).before(np.ones((rows, 2), int), np.zeros(rows, int), np.arange(rows))
    assert found.told.tolist() == [[NONE, NONE, NONE]] * rows
    assert found.most.tolist() == [[-1, -1]] * rows


def test_a_category_may_be_more_frequent_than_can_be_counted():
    found = so_far(1)
    found._columns[1]._counts[:] = 254  # type: ignore[union-attr]
    for _ in range(3):
        found.add(np.array([0]), np.array([[0, 2]]))
    assert found.past(np.array([0])).most.tolist() == [[-1, 2]]


def test_places_rise_with_values_whatever_shares_noise_left():
    rng = np.random.default_rng(7)
    for _ in range(100):
        share, order = rng.normal(0.1, 0.1, 6), rng.permutation(6)[:5]
        found = np.array(places(share, order))
        assert (np.diff(found[order]) >= 0).all()
        assert ((found[order] >= 0) & (found[order] <= 1)).all()
        assert (np.delete(found, order) == NOWHERE).all()
    assert places(np.array([-1.0, -2.0]), [0, 1]) == (0.25, 0.75)
