"""Running totals of drawn rows go on from the row before by the values that their terms got."""

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.relations.adding_up import AddingUp, Total, columns_of, totals_of, with_values
from dp_synth_pipeline.relations.running_totals import BACK, FORTH
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build

ROWS = Related("moves", running=(("balance", ("amount",)),))
SCHEMA = build({"amount": pa.float64(), "balance": pa.float64()}, {})


def codec_profile():
    ends = {"amount": (0.0, 10.0, 100.0), "balance": (0.0, 100.0, 400.0)}
    columns = [
        ColumnProfile(c.name, c.kind, (), (), ((low, mid), (mid, high)), (0.45, 0.45), null_rate=0.1, decimals=2)
        for c in SCHEMA
        for low, mid, high in [ends[c.name]]
    ]
    return TableProfile(900, 900, "row", tuple(columns), ())


@pytest.fixture(scope="module")
def codec():
    return TableCodec(SCHEMA, codec_profile())


def drawn(codec, adding, who, codes, directions, stays=None):
    codes, directions = np.array(codes), np.array(directions)[:, None]
    stays = np.zeros(codes.shape, bool) if stays is None else np.array(stays)
    values = adding.values(np.array(who), codes, stays, directions, np.random.default_rng(5))
    adding.code(codes, values, directions)
    return codes, values


def test_totals_are_learnt_as_such_if_they_and_their_terms_are_numbers_with_codes(codec):
    assert totals_of(ROWS, codec) == (Total(1, (0,)),)
    assert totals_of(Related("moves", running=(("balance", ("fee",)),)), codec) == ()
    assert columns_of(totals_of(ROWS, codec)) == [0, 1]


def test_a_total_goes_on_from_the_row_before_forth_and_back_and_has_the_code_of_its_value(codec):
    adding = AddingUp(totals_of(ROWS, codec), codec, 3)
    high = codec.columns[0].cardinality - 2
    codes, first = drawn(codec, adding, [0, 1, 2], [[high, 0], [high, 0], [0, 0]], [FORTH, FORTH, 0])
    assert first[:2, 1].tolist() == first[:2, 0].tolist(), "a total begins at 0"
    assert (codes[:, 1] == codec.columns[1].encode(pa.array(first[:, 1]))).all()
    adding.add(np.arange(3), first)
    _, second = drawn(codec, adding, [0, 1], [[0, 0], [0, 0]], [BACK, FORTH])
    assert second[:, 1].tolist() == np.round(first[:2, 1] + [-1, 1] * second[:, 0], 2).tolist()
    assert drawn(codec, adding, [2], [[0, 0]], [FORTH])[1][0, 1] > first[2, 1], "also from one that did not follow"


def test_a_declared_end_has_a_row_drawn_anew_and_does_not_hide_that_its_total_leads_beyond(codec):
    ended = build({"amount": pa.float64(), "balance": pa.float64()}, {"balance": {"lower": 0, "upper": 400}})
    of_ended = TableCodec(ended, codec_profile())
    adding = AddingUp(totals_of(ROWS, of_ended), of_ended, 1)
    values = adding.values(
        np.array([0]), np.array([[1, 0]]), np.zeros((1, 2), bool), np.array([[BACK]]), np.random.default_rng()
    )
    assert values[0, 1] == -values[0, 0] < 0
    assert adding.beyond(values).tolist() == [True]


def test_what_stays_has_the_value_of_the_row_before_and_null_adds_nothing(codec):
    adding, null = AddingUp(totals_of(ROWS, codec), codec, 2), codec.columns[0].null
    _, first = drawn(codec, adding, [0, 1], [[0, 0], [0, 0]], [FORTH, FORTH])
    adding.add(np.arange(2), first)
    stays = [[True, False], [False, True]]
    _, second = drawn(codec, adding, [0, 1], [[0, 0], [null, 0]], [FORTH, 0], stays)
    assert second[0].tolist() == [first[0, 0], round(2 * first[0, 0], 2)]
    assert np.isnan(second[1, 0])
    assert second[1, 1] == first[1, 1]
    adding.add(np.arange(2), second)
    _, third = drawn(codec, adding, [1], [[null, 0]], [FORTH])
    assert third[0, 1] == first[1, 1]
    adding.add(np.array([1]), np.full((1, 2), np.nan))
    _, fourth = drawn(codec, adding, [1], [[0, 0]], [FORTH])
    assert fourth[0, 1] == round(first[1, 1] + fourth[0, 0], 2), "after a total that is null, from the one before that"


def test_a_total_that_leads_beyond_what_was_released_is_told_and_ends_there(codec):
    adding = AddingUp(totals_of(ROWS, codec), codec, 3)
    values = np.array([[30.0, -10.0], [30.0, 420.0], [9.0, np.nan]])
    assert adding.beyond(values).tolist() == [True, True, False]
    codes = np.zeros((3, 2), int)
    adding.code(codes, values, np.array([[BACK], [FORTH], [0]]))
    assert values[:2, 1].tolist() == [0.0, 399.99], "as it is written"
    assert codes[:, 1].tolist() == [0, 1, 0]


def test_values_take_the_place_of_decoded_ones_as_their_columns_hold_them(codec):
    rows = pa.table({"amount": [1.0, 2.0], "balance": [3.0, None], "to": ["a", "b"]})
    found = with_values(rows, totals_of(ROWS, codec), codec, np.array([[0.1, 0.3], [np.nan, 5.0]]))
    assert found.to_pydict() == {"amount": [0.1, None], "balance": [0.3, 5.0], "to": ["a", "b"]}


def test_codes_say_how_totals_follow_and_come_back():
    context = Context(
        (), ((0, 1, 2), (0, 1)), (True, False), (0, 1), numbers=(0,), levels=((0.1, 0.5, 0.9), ()), running=(0,)
    )
    assert context.own_cardinalities == (6, 2)
    codes, previous = np.array([[1, 0], [2, 1], [0, 1], [0, 0]]), np.array([[-1, -1], [1, 0], [0, 1], [2, 0]])
    follows, same = np.array([[FORTH], [BACK], [0], [FORTH]]), np.array([[False], [False], [True], [True]])
    relative = context.relative(codes, previous, None, same, None, follows)
    assert relative[:, 0].tolist() == [4, 5, 3, 4]
    assert context.directions(relative).tolist() == follows.tolist()
    assert context.absolute(relative, previous)[:, 0].tolist() == [0, 1, 0, 2], "as before, until its terms have values"
    assert context.absolute(relative[:, :1], previous)[:, 0].tolist() == [0, 1, 0, 2]
    assert context.possible(0, previous[:, 0], np.full(4, -1)).may[:, 4:].all()
    shares = context.shares([], [np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.5])])[-2]
    assert shares[4] == shares[5] > 0.2
    assert Context.from_dict(context.to_dict()) == context
    before = {key: value for key, value in context.to_dict().items() if key != "running"}
    assert Context.from_dict(before).own_cardinalities == (4, 2), "of an earlier version"
