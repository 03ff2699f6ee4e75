"""Codes that say "as in the row before" or "as in the row beside" come back as what is there."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dp_synth_pipeline.model.base import Before, Possible
from dp_synth_pipeline.model.histories.context import (
    BEFORE,
    LAST,
    MOST,
    NONE,
    NOW,
    NUMBERS_REPEAT,
    TURNS,
    Beside,
    Context,
    RowsBeside,
)
from dp_synth_pipeline.model.histories.so_far import LEVELS

TEAM, GAP, GAMES = 0, 1, 2
SHARES = [np.full(4, 0.25), np.full(3, 1 / 3), np.full(2, 0.5)]
BESIDE = Beside(given=(0, 2), merged=((0, 1, 1), (0, 1)), namesakes=(0, -1, -1), copies=((2, 3, -1), (), ()), gap=GAP)
CONTEXT = Context.of([np.full(2, 0.5)], SHARES, rows=5, categories=([0], [TEAM]), beside=BESIDE)


def test_what_is_as_in_both_other_rows_is_as_in_the_row_beside_and_comes_back():
    codes = np.array([[2, 1, 0], [2, 1, 0], [2, 1, 0], [1, 0, 1]])
    previous = np.array([[-1, -1, -1], [2, 1, 0], [2, 0, 0], [0, 0, 0]])
    beside = np.array([[2, 1, -1], [2, 2, -1], [3, 1, -1], [-1, -1, -1]])
    drawn = CONTEXT.relative(codes, previous, codes == beside)
    stays, copied_team, copied_gap = 4, 5, 3
    assert drawn.tolist() == [[copied_team, copied_gap, 0], [copied_team, 1, 0], [stays, copied_gap, 0], [1, 0, 1]]
    assert CONTEXT.absolute(drawn, previous, beside).tolist() == codes.tolist()
    assert CONTEXT.copied(drawn, beside).tolist() == [
        [True, True, False],
        [True, False, False],
        [False, True, False],
        [False] * 3,
    ]
    assert CONTEXT.stays(drawn, previous)[:, TEAM].tolist() == [False, False, True, False]


def test_whatever_is_drawn_stands_for_one_of_a_column_s_own_codes():
    rng = np.random.default_rng()
    drawn = np.stack([rng.integers(0, c, 500) for c in CONTEXT.own_cardinalities], 1)
    previous, beside = (np.stack([rng.integers(-1, len(s), 500) for s in SHARES], 1) for _ in range(2))
    codes = CONTEXT.absolute(drawn, previous, beside)
    assert (codes >= 0).all()
    assert (codes < [len(s) for s in SHARES]).all()
    own = drawn < [len(s) for s in SHARES]
    assert (codes[own] == drawn[own]).all()
    alike = CONTEXT.copied(drawn, beside)
    assert (codes[alike] == beside[alike]).all()
    assert not (alike & CONTEXT.stays(drawn, previous)).any()


def drawable(possible: Possible) -> np.ndarray:
    """Return which codes may be drawn, bool (rows, codes)."""
    assert possible.instead is not None
    own = possible.instead.shape[1]
    return np.concatenate([possible.may[:, :own] & ~possible.instead, possible.may[:, own:]], 1)


def test_no_code_is_possible_that_no_row_is_given():
    """Of all codes, those that some row has upon what is before and beside it, and no others, may be drawn upon that."""
    rng = np.random.default_rng()
    previous = np.stack([rng.integers(-1, len(s), 60_000) for s in SHARES], 1)
    beside = np.stack([rng.integers(-1, len(s), 60_000) for s in SHARES], 1)
    codes = np.stack([rng.integers(0, len(s), 60_000) for s in SHARES], 1)
    drawn = CONTEXT.relative(codes, previous, (codes == beside) & (np.arange(3) == TEAM))
    for column in (TEAM, GAMES):
        upon = (previous[:, column] + 1) * 10 + beside[:, column] + 1
        possible = CONTEXT.possible(column, previous[:, column], beside[:, column])
        for one in np.unique(upon):
            given, first = set(drawn[upon == one, column].tolist()), int(np.argmax(upon == one))
            assert set(np.flatnonzero(drawable(possible)[first]).tolist()) == given
    assert drawable(CONTEXT.possible(GAP, previous[:, GAP], beside[:, GAP])).all(), (
        "how far off the next row is says more"
    )


def test_a_number_s_code_may_be_that_of_the_row_before_whose_value_is_another_one():
    context = Context.of([], [np.full(30, 1 / 30)], rows=4, following=([0], []))
    assert context.numbers == (0,)
    possible = drawable(context.possible(0, np.array([-1, 5]), np.array([-1, -1])))
    assert possible[:, :30].all()
    assert possible[:, 30].tolist() == [False, True]


def test_what_says_as_before_keeps_its_share_and_what_cannot_be_gives_its_own_to_all():
    possible = CONTEXT.possible(TEAM, np.array([2, -1]), np.array([-1, 1]))
    assert possible.instead is not None
    assert np.flatnonzero(possible.instead[0]).tolist() == [2]
    assert np.flatnonzero(possible.instead[1]).tolist() == [1]
    assert np.flatnonzero(~possible.may[0]).tolist() == [5], "nothing is beside it"
    assert np.flatnonzero(~possible.may[1]).tolist() == [4], "nothing is before it"


def test_rows_are_drawn_upon_what_is_beside_them_and_upon_that_nothing_is():
    beside = RowsBeside(
        np.array([[0, 9, 1], [2, 9, 0], [-1, -1, -1]]), np.array([NOW, BEFORE + LAST, NONE]), np.array([0, 9, 1])
    )
    zeros = np.zeros(3, np.int64)
    given = CONTEXT.given(np.zeros((3, 1), int), zeros, zeros, np.full((3, 3), -1), beside=beside)
    assert given[:, -4:].tolist() == [[1, 2, NOW, 0], [2, 1, BEFORE + LAST, TURNS], [0, 0, NONE, 1]]
    assert given.shape[1] == len(CONTEXT.cardinalities)
    assert (given < CONTEXT.cardinalities).all()


def test_own_codes_of_what_is_beside_are_those_of_the_same_value():
    assert BESIDE.copied(np.array([[0, 1], [1, 1], [2, 0], [-1, -1]]))[:, TEAM].tolist() == [2, 3, -1, -1]


ORDERED = replace(BESIDE, given=(0, 2), merged=((0, 1, 1), ()), namesakes=(0, -1, 2), names=("team", "gap", "played"))
NUMBERED = Context.of([np.full(2, 0.5)], SHARES, rows=5, categories=([0], [TEAM]), beside=ORDERED)
"""Games may be as many as were played in the row beside, which is a number there, too."""

PARENT = replace(ORDERED, given=(2,), merged=((),), gap=-1, above=True)
ABOVE = Context.of([np.full(2, 0.5)], SHARES, rows=5, categories=([0], [TEAM]), beside=PARENT)
"""What lies beside is the parent's row."""


def test_a_number_beside_has_a_code_and_is_given_by_the_own_code_that_its_value_would_have():
    assert ORDERED.numbers == [GAMES]
    assert NUMBERED.own_cardinalities == (6, 4, 3)
    numbers = np.array([[1], [-1]])
    beside = RowsBeside(np.array([[0, 9, 1], [-1, -1, -1]]), np.array([NOW, NONE]), np.zeros(2, int), numbers)
    zeros = np.zeros(2, np.int64)
    given = NUMBERED.given(np.zeros((2, 1), int), zeros, zeros, np.full((2, 3), -1), beside=beside)
    assert given[:, -4:].tolist() == [[1, 2, NOW, 0], [0, 0, NONE, 0]]
    assert (given < NUMBERED.cardinalities).all()
    orders = [range(4), range(3), (1, 0)]
    assert NUMBERED.apart(orders) == {len(NUMBERED.cardinalities) + GAMES: Before(given.shape[1] - 3, (1, 0))}
    assert NUMBERED.orders([()], [], orders)[given.shape[1] - 3] == [2, 1], "smooth along its values"
    assert CONTEXT.apart(orders) == {}
    *_, games = NUMBERED.shares([np.full(2, 0.5)], SHARES)
    assert games[2] == NUMBERS_REPEAT


def test_it_is_told_of_categories_and_of_what_may_be_as_beside_how_drawn_rows_agree_with_others():
    assert (NUMBERED.agreeing, NUMBERED.agreements) == ([TEAM, GAMES], (3, 2)), "a gap ends where the next row begins"
    drawn = np.array([[3, 3, 1], [4, 0, 2], [5, 1, 0]])
    assert NUMBERED.agreed(drawn).tolist() == [[0, 0], [1, 1], [2, 0]]
    assert KNOWN.agreements == (4,), "whatever says so"
    assert replace(NUMBERED, running=(GAMES,)).agreeing == [TEAM]
    assert Context.of([], SHARES, rows=5, categories=([], [TEAM])).agreeing == [], "only as in the row before"


def test_a_number_whose_code_is_that_of_the_value_beside_may_be_another_number():
    possible = drawable(NUMBERED.possible(GAMES, np.array([-1, 0]), np.array([1, -1])))
    assert possible.tolist() == [[True] * 3, [True, True, False]]


def test_of_a_parent_s_row_nothing_tells_when_it_was_and_no_distance_leads_to_another_one():
    assert ABOVE.own_cardinalities == (6, 3, 3)
    assert len(ABOVE.cardinalities) == len(Context.of([np.full(2, 0.5)], SHARES, rows=5).cardinalities) + 1
    assert (ABOVE.standing, CONTEXT.standing) == ((), (GAP,))
    rows = RowsBeside(np.array([[0, 9, 1]]), np.array([NONE]), np.zeros(1, int), np.array([[1]]))
    zero = np.zeros(1, np.int64)
    given = ABOVE.given(np.zeros((1, 1), int), zero, zero, np.full((1, 3), -1), beside=rows)
    assert given[0, -1] == 2
    assert given.shape[1] == len(ABOVE.cardinalities)


@pytest.mark.parametrize("context", [CONTEXT, NUMBERED, ABOVE, Context.of([], SHARES, rows=3)])
def test_a_context_comes_back_from_its_facts(context):
    assert Context.from_dict(json.loads(json.dumps(context.to_dict()))) == context


def test_a_context_of_an_earlier_version_knows_no_rows_beside():
    facts = Context.of([], SHARES, rows=3).to_dict()
    del facts["beside"]
    assert Context.from_dict(facts).own_cardinalities == (4, 3, 2)


def test_in_a_context_of_an_earlier_version_no_number_is_as_in_the_row_beside():
    facts = json.loads(json.dumps(CONTEXT.to_dict()))
    for later in ("names", "above"):
        del facts["beside"][later]
    earlier = Context.from_dict(facts)
    assert earlier == CONTEXT
    assert earlier.beside is not None
    assert earlier.beside.numbers == []


def test_given_codes_have_the_order_of_those_that_were_merged_to_them_and_own_codes_theirs():
    shares = [np.full(30, 1 / 30), np.full(4, 0.25)]
    context = Context.of([np.full(2, 0.5)], shares, rows=5, times=[3], categories=([0], [1]))
    line = [29, *range(29)]
    parent, place, left, time, before, other, *own = context.orders([()], [[2, 0, 1]], [line, ()])
    assert len(own) + 6 == len(context.cardinalities) + len(context.own_cardinalities)
    assert list(parent) == list(other) == []
    assert list(place) == list(left) == list(range(context.cardinalities[1]))
    assert time == [2, 0, 1]
    most = context.cardinalities[4] - 1
    assert before == [most, *range(1, most)], "the code of no row before has no place"
    assert own == [line, ()]


def test_categories_beside_have_no_order():
    assert CONTEXT.orders([()], [], [(), (), ()])[-7:-3] == [()] * 4


WAGE = 0
WAGES = Context.of([], [np.full(20, 0.05), np.full(3, 1 / 3)], rows=5, following=([0, 1], ()))


def test_a_number_stays_where_its_value_does_and_not_where_its_code_alone_is_the_same():
    codes, previous = np.array([[7, 1], [7, 1], [7, 1]]), np.array([[7, 1], [7, 1], [-1, -1]])
    same = np.array([[True], [False], [True]])
    drawn = WAGES.relative(codes, previous, same=same)
    assert drawn[:, WAGE].tolist() == [20, 7, 7]
    assert WAGES.absolute(drawn, previous).tolist() == codes.tolist()
    assert WAGES.stays(drawn, previous)[:, WAGE].tolist() == [True, False, False]


def test_a_number_of_few_codes_is_told_by_the_code_before_and_those_of_many_rarely_stay_before_anything_is_learnt():
    assert (WAGES.numbers, WAGES.repeats, WAGES.own_cardinalities) == ((WAGE,), (True, False), (21, 3))
    *_, wage, other = WAGES.shares([], [np.full(20, 0.05), np.full(3, 1 / 3)])
    assert (wage[20], wage.sum()) == (NUMBERS_REPEAT, pytest.approx(1))
    assert len(other) == 3
    kept = Context.from_dict(json.loads(json.dumps(WAGES.to_dict())))
    assert kept == WAGES
    earlier = {name: fact for name, fact in WAGES.to_dict().items() if name != "numbers"}
    assert Context.from_dict(earlier).numbers == (), "of an earlier version none stay"


def test_of_a_number_that_moves_every_code_of_the_row_before_is_given_and_known_where():
    shares = [np.full(30, 1 / 30), np.full(40, 1 / 40), np.full(3, 1 / 3)]
    context = Context.of([np.full(5, 0.2)], shares, rows=4, times=[6], categories=((), (2,)), following=((), [1]))
    merged, whole, few = (max(m) + 1 for m in context.own)
    assert merged <= MOST
    assert (whole, few) == (40, 3)
    before = context.before([range(30), [39, *range(39)], ()])
    assert before == {len(context.cardinalities) + 1: Before(1 + 2 + 1 + 1, (39, *range(39)))}
    previous = np.array([[29, 39, 2], [0, 0, 0], [-1, -1, -1]])
    given = context.given(np.zeros((3, 1), int), np.arange(3), np.zeros(3, int), previous, np.zeros((3, 1), int))
    (where,) = before.values()
    assert given[:, where.column].tolist() == [40, 1, 0]
    assert Context.from_dict(json.loads(json.dumps(context.to_dict()))) == context


def test_in_a_context_of_an_earlier_version_no_number_moves():
    facts = WAGES.to_dict()
    del facts["moving"]
    assert Context.from_dict(facts) == WAGES


KNOWN = replace(CONTEXT, levels=((), (0.25, 0.75, -1.0), ()))
"""Of teams, it is known which one was most frequent; of gaps, how large they were; the last column does not repeat."""


def test_what_histories_were_like_is_given_by_codes_that_each_column_has_room_for():
    rng, parents = np.random.default_rng(3), 500
    parent, place = np.repeat(np.arange(parents), 5), np.tile(np.arange(5), parents)
    codes = np.stack([rng.integers(0, len(s), len(parent)) for s in SHARES], 1)
    begun = KNOWN.histories(parents)
    assert begun is not None
    past, previous = begun.before(codes, parent, place), np.where((place > 0)[:, None], np.roll(codes, 1, 0), -1)
    beside = RowsBeside(np.full((len(parent), 3), -1), np.full(len(parent), NONE), np.zeros(len(parent), int))
    given = KNOWN.given(np.zeros((len(parent), 1), int), place, 4 - place, previous, None, beside, past.told)
    assert given.shape[1] == len(KNOWN.cardinalities) == len(CONTEXT.cardinalities) + 5, "two of each category"
    assert (given < KNOWN.cardinalities).all()
    orders = KNOWN.orders([[]], [], [[], [0, 1], []])
    assert len(orders) == len(KNOWN.cardinalities) + len(SHARES)
    assert [i for i, order in enumerate(orders) if order == range(1, LEVELS + 1)] == [1 + 2 + len(SHARES) + 2]


def test_a_context_is_kept_and_that_of_an_earlier_version_is_read():
    assert Context.from_dict(json.loads(json.dumps(KNOWN.to_dict()))) == KNOWN
    assert CONTEXT.histories(5) is None
    earlier = CONTEXT.to_dict()
    del earlier["levels"]
    assert Context.from_dict(json.loads(json.dumps(earlier))) == CONTEXT
    assert CONTEXT.own_cardinalities == (6, 4, 2)


def test_what_is_as_most_often_so_far_comes_back_and_what_is_as_in_another_row_is_that():
    assert KNOWN.own_cardinalities == (7, 4, 2)
    stays, copied, favourite = 4, 5, 6
    codes, most = np.array([[2, 1, 0]] * 5), np.array([[2, 1, 0]] * 4 + [[-1, -1, -1]])
    previous = np.array([[3, 0, 0], [2, 0, 0], [3, 0, 0], [-1, -1, -1], [-1, -1, -1]])
    beside = np.array([[1, 0, -1], [1, 0, -1], [2, 0, -1], [-1, -1, -1], [-1, -1, -1]])
    drawn = KNOWN.relative(codes, previous, codes == beside, most=most)
    assert drawn[:, TEAM].tolist() == [favourite, stays, copied, favourite, 2]
    assert (drawn[:, 1:] == codes[:, 1:]).all(), "numbers have no favourite"
    assert KNOWN.absolute(drawn, previous, beside, most).tolist() == codes.tolist()
    assert KNOWN.absolute(drawn[:, :1], previous, beside, most).tolist() == codes[:, :1].tolist()


def test_of_what_is_most_frequent_no_code_is_possible_either_that_no_row_is_given():
    """Of all codes, those that some row has upon what is before and beside it and was most frequent, and no others."""
    rng = np.random.default_rng(8)
    previous, beside, most = (rng.integers(-1, 4, (60_000, 1)) for _ in range(3))
    codes = rng.integers(0, 4, (60_000, 1))
    others = [np.concatenate([x, np.full((len(x), 2), -1)], 1) for x in (previous, beside, most)]
    codes = np.concatenate([codes, np.zeros((len(codes), 2), int)], 1)
    drawn = KNOWN.relative(codes, others[0], codes == others[1], most=others[2])[:, TEAM]
    upon = ((previous + 1) * 100 + (beside + 1) * 10 + most + 1)[:, 0]
    possible = KNOWN.possible(TEAM, previous[:, 0], beside[:, 0], most[:, 0])
    standing = KNOWN.standing_for(TEAM, *others)
    for one in np.unique(upon):
        first = int(np.argmax(upon == one))
        assert set(np.flatnonzero(drawable(possible)[first]).tolist()) == set(drawn[upon == one].tolist())
        assert standing[first, 2] == (most[first, 0] if most[first, 0] >= 0 else max(previous[first, 0], 0))
