"""Rows drawn one after the other: what stays, what lies beside, and where rows end."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.model.histories.context import Beside, Context
from dp_synth_pipeline.model.histories.pair_weights import PairWeights
from dp_synth_pipeline.model.marginals.dependencies import NOTHING, Impossible
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.synthesis.database.beside import Neighbours
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.synthesis.database.row_by_row import Above, Following, Part, Upon, copying, joined, staying
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build
from tests.unit.model.histories.test_context import drawable


def test_a_value_that_stays_is_the_one_before_though_its_code_stands_for_several():
    values = pa.table({"team": ["a", "b", "c", "d", "e"], "games": [1, 2, 3, 4, 5]})
    stays = np.array([[False, False], [True, False], [True, False], [False, False], [True, False]])
    drawn = staying(values, ["team", "games"], stays)
    assert drawn.to_pydict() == {"team": ["a", "a", "a", "d", "d"], "games": [1, 2, 3, 4, 5]}


def test_rows_that_are_drawn_place_by_place_stay_as_the_row_before_of_their_own_parent():
    """Two parents of two rows; the second row of the first one stays as its first."""
    told = []
    columns = SimpleNamespace(columns=[0], encoded=["team"])
    columns.decode = lambda codes, rng, succession: (
        told.append(succession)
        or pa.RecordBatch.from_pydict({"team": [f"{code}-{i}" for i, (code,) in enumerate(codes)]})
    )
    none, no = np.zeros((2, 0), np.int16), np.zeros((2, 1), bool)
    parts = [
        Part(np.array([0, 1]), codes, codes, stays, None, None, no, none)
        for codes, stays in ((np.array([[5], [6]]), no), (np.array([[5], [7]]), np.array([[True], [False]])))
    ]
    above = Above(np.zeros((2, 1), int), np.array([2, 2]), None, np.array([0, 1]))
    rows = joined(parts, above, columns, np.random.default_rng())  # type: ignore[arg-type]
    assert rows.values["team"].to_pylist() == ["5-0", "5-0", "6-2", "7-3"]
    assert told[0].begins.tolist() == [True, False, True, False]
    assert told[0].stays[:, 0].tolist() == [False, True, False, False]


def test_in_a_person_s_first_row_nothing_stays_whatever_was_drawn():
    context = Context.of([np.ones(1)], [np.full(3, 1 / 3)], rows=4, categories=([0], [0]))
    drawn, repeat = np.array([[3], [3], [1]]), 3
    assert context.own_cardinalities == (repeat + 1,)
    assert context.stays(drawn, np.array([[-1], [2], [2]])).tolist() == [[False], [True], [False]]
    assert context.absolute(drawn, np.array([[-1], [2], [2]])).tolist() == [[0], [2], [1]]


WHOLE = TableCodec(
    build({"day: to the next": pa.int64()}, {}),
    TableProfile(9, 9, "row", (ColumnProfile("day: to the next", Kind.INTEGER, (0, 5), (0.5, 0.5), (), ()),), ()),
)
"""Of distances in whole numbers."""


def test_rows_before_the_end_lie_as_finely_as_distances_are_written_and_on_days_on_which_rows_do():
    hour, rows = 3_600_000_000, 3000
    schema = build({"seen: to the next": pa.duration("us")}, {})
    profile = ColumnProfile("seen: to the next", schema.columns[0].kind, (hour,), (1.0,), (), (), resolution=hour)
    codec = TableCodec(schema, TableProfile(9, 9, "row", (profile,), ()))
    order = replace(build({"seen": pa.timestamp("us")}, {})["seen"], upper=240.0 * hour)
    dated = SimpleNamespace(likely=lambda gaps, codes, now: np.where((now + gaps) // (24 * hour) % 2 == 0, 1.0, 0.0))
    following = Following(Related("visits", order="seen"), None, codec, None, None, order, dated)  # type: ignore[arg-type]
    now, far = np.full(rows, 24 * hour), np.full(rows, 999 * hour)
    gaps = following._before_end(far, np.zeros((rows, 1), int), now, np.full(rows, 2), np.random.default_rng())
    assert (gaps % hour == 0).all()
    assert ((now + gaps) // (24 * hour) % 2 == 0).mean() > 0.999, "twenty draws, of which one in two is on such a day"
    assert (now + gaps).max() <= 240 * hour
    assert len(np.unique(gaps)) > 50


def test_no_row_lies_beyond_the_declared_end_of_the_order_and_without_one_rows_lie_where_they_were_drawn():
    """Distances of 0 to 99 are drawn, by persons with room for half of them, for none, for all, and by a last row."""
    visits, rows, rng = Related("visits", order="day", max_rows=9), 4000, np.random.default_rng(1)
    drawn = rng.integers(0, 100, rows)
    times, left = np.tile([50, 100, 0, 100], rows // 4), np.tile([3, 1, 1, 0], rows // 4)
    for upper, ends in (({"upper": 100}, [50, 0, 99, 99]), ({}, [99, 99, 99, 99])):
        schema = build({"day": pa.int64()}, {"day": {"kind": "integer", **upper}})
        following = Following(visits, None, WHOLE, None, None, schema["day"])  # type: ignore[arg-type]
        gaps = following._before_end(drawn.copy(), np.zeros((rows, 1), int), times, left, rng)
        assert all((gaps[i::4] <= end).all() for i, end in enumerate(ends))
        fits = drawn <= np.tile(ends, rows // 4)
        assert (gaps[fits] == drawn[fits]).all()
        if upper:
            three_left = gaps[0::4][~fits[0::4]]
            assert 10 < three_left.mean() < 14, (
                "the first of three, anywhere within 50 days: after 12.5 of them in the mean"
            )


def test_no_row_lies_after_the_end_of_its_own_parent_nor_after_the_declared_one():
    visits, rows, rng = Related("visits", order="day", max_rows=9), 4000, np.random.default_rng(1)
    drawn, left = rng.integers(0, 100, rows), np.ones(rows, np.int64)
    times, own = np.tile([50, 50, 50, 50], rows // 4), np.tile([60, 50, 120, np.inf], rows // 4)
    for upper, ends in (({"upper": 110}, [10, 0, 60, 60]), ({}, [10, 0, 70, 99])):
        schema = build({"day": pa.int64()}, {"day": {"kind": "integer", **upper}})
        following = Following(visits, None, WHOLE, None, None, schema["day"])  # type: ignore[arg-type]
        gaps = following._before_end(drawn.copy(), np.zeros((rows, 1), int), times, left, rng, own)
        assert all((gaps[i::4] <= end).all() for i, end in enumerate(ends))
        fits = drawn <= np.tile(ends, rows // 4)
        assert (gaps[fits] == drawn[fits]).all()


UNTIL = 4
"""The code of a distance that ends where the next row beside begins: after those of 0, 5, 7 and null."""


def beside_others(days, who, starts, code):
    """Draw four rows of each person, all of one code, beside rows on these days of these persons; return their places."""
    schema, day = build({"day: to the next": pa.int64()}, {}), build({"day": pa.int64()}, {})["day"]
    distances = ColumnProfile(
        "day: to the next", schema.columns[0].kind, (0, 5, 7), (0.5, 0.2, 0.2), (), (), null_rate=0.1
    )
    codec = TableCodec(schema, TableProfile(100, 100, "row", (distances,), ()))
    beside = Beside(given=(), merged=(), namesakes=(-1,), copies=((),), gap=0)
    context = Context((), ((0, 1, 2, 3),), (False,), (0, 1, 2, 3), beside=beside)
    assert context.own_cardinalities == (UNTIL + 1,)
    clock = SimpleNamespace(coded=lambda times: np.zeros(len(times), int))
    model = SimpleNamespace(follow=lambda given, forbidden, allowed, rng: np.full((len(given), 1), code))
    following = Following(Related("visits", order="day", max_rows=9), model, codec, context, clock, day)  # type: ignore[arg-type]
    others = Rows(pa.table({"x": who}), np.zeros((len(who), 1), int), who, who, days)
    persons = np.arange(len(starts))
    above = Above(np.zeros((len(starts), 0), int), persons * 0 + 4, starts, persons, others, Neighbours(who, days))
    return following.parts(above, np.random.default_rng())


def test_rows_lie_where_rows_beside_do_and_go_on_where_these_end():
    """Of four rows of each person, two lie on the other rows of two persons; a third person has none there."""
    starts = np.array([10, 20, 30])
    parts = beside_others(np.array([10, 13, 20, 26]), np.array([0, 0, 1, 1]), starts, UNTIL)
    times = np.stack([p.times for p in parts], 1)
    assert times[:2, :2].tolist() == [[10, 13], [20, 26]]
    assert set(np.diff(times[:2, 1:]).flatten()) | set(np.diff(times[2])) <= {5, 7}, "never 0, and as released"
    assert [p.beside.tolist() for p in parts] == [[0, 2, -1], [1, 3, -1], [1, 3, -1], [1, 3, -1]]
    assert not any(p.copied.any() for p in parts), "a distance is no value of the other row"


def test_drawn_rows_of_one_time_take_turns_with_the_rows_beside():
    parts = beside_others(np.array([10, 10, 15]), np.array([0, 0, 0]), np.array([10]), 0)
    assert [p.beside.tolist() for p in parts] == [[0], [1], [1], [1]]


def test_what_is_as_in_the_row_beside_is_that_row_s_value_and_in_later_rows_stays_it():
    values = pa.table({"ward": ["a", "b", "c"], "score": [1, 2, 3]})
    copied = np.array([[True, False], [False, True], [False, False]])
    beside = pa.table({"unit": ["north", "south"], "other": [7, 8]})
    found = copying(values, {"ward": "unit", "score": "score"}, copied, beside, np.array([1, 0, -1]))
    assert found.to_pydict() == {"ward": ["south", "b", "c"], "score": [1, 2, 3]}
    stays = np.array([[False, False], [True, False], [False, False]])
    assert staying(found, ["ward", "score"], stays)["ward"].to_pylist() == ["south", "south", "c"]


def test_a_column_of_which_no_code_says_as_in_another_row_is_drawn_as_it_was_learnt():
    context = Context.of([], [np.full(3, 1 / 3)] * 2, rows=4, categories=([], [0]))
    nobody = np.zeros((5, 0), int)
    upon = Upon(np.arange(5), nobody, np.ones((5, 2), int), np.full((5, 2), -1), np.ones(5, int), None, None, None)
    for impossible, second in ((NOTHING, True), (Impossible({(0, 1): np.eye(3, dtype=bool)}), False)):
        following = Following(Related("orders"), None, None, context, None, None, impossible=impossible)  # type: ignore[arg-type]
        assert following._possible(upon, np.arange(5), 0, nobody) is not None
        found = following._possible(upon, np.arange(5), 1, np.zeros((5, 1), int))
        assert (found is None) == second


def test_a_code_leans_to_what_an_earlier_column_is_whether_as_in_the_row_before_or_anew():
    context = Context.of([], [np.full(3, 1 / 3)] * 2, rows=4, categories=([], [0, 1]))
    cells = np.arange(9, dtype=np.float32).reshape(3, 3)
    following = Following(Related("orders"), None, None, context, None, None, weights=PairWeights({(0, 1): cells}))  # type: ignore[arg-type]
    previous, nobody = np.array([[2, 0], [1, 2]]), np.zeros((2, 0), int)
    upon = Upon(np.arange(2), nobody, previous, np.full((2, 2), -1), np.ones(2, int), None, None, None)
    leaning = following._possible(upon, np.arange(2), 1, np.array([[1], [3]])).leaning
    assert leaning.tolist() == [[3, 4, 5, 3], [3, 4, 5, 5]], "the second row's first code is as in the row before: 1"
    assert following._possible(upon, np.arange(2), 0, nobody).leaning is None


def test_no_code_is_drawn_beside_what_it_cannot_go_with_whether_as_in_the_row_before_or_anew():
    storage, kinds = {"code": pa.string(), "name": pa.string()}, {n: {"kind": "category"} for n in ("code", "name")}
    schema = build(storage, kinds)
    columns = tuple(ColumnProfile(c.name, c.kind, ("a", "b", "c"), (1 / 3,) * 3, (), ()) for c in schema)
    codec = TableCodec(schema, TableProfile(100, 100, "row", columns, ()))
    context = Context.of([], [np.full(3, 1 / 3)] * 2, rows=4, categories=([], [0, 1]))
    assert context.own_cardinalities == (4, 4), "the last one says: as in the row before"
    times = []

    def follow(given, forbidden, allowed, rng):
        rows = np.arange(len(given))
        times.append(len(rows))
        any_code = drawable(allowed(rows, 0, np.zeros((len(rows), 0), int)))
        code = np.argmax(any_code * rng.random(any_code.shape), 1)[:, None]
        may = drawable(allowed(rows, 1, code))
        assert may.any(1).all()
        return np.column_stack([code, np.argmax(may * rng.random(may.shape), 1)])

    impossible = Impossible({(0, 1): ~np.eye(3, dtype=bool)})
    model, persons = SimpleNamespace(follow=follow), np.arange(500)
    following = Following(Related("orders", max_rows=4), model, codec, context, None, None, impossible=impossible)  # type: ignore[arg-type]
    parts = following.parts(Above(np.zeros((500, 0), int), persons * 0 + 4, None, persons), np.random.default_rng())
    codes, drawn = (np.concatenate([getattr(p, name) for p in parts[1:]]) for name in ("codes", "drawn"))
    assert (codes[:, 0] == codes[:, 1]).all()
    as_before = drawn == 3
    assert (as_before[:, 0] == as_before[:, 1]).all(), "another code gives another name"
    assert 0.2 < as_before[:, 0].mean() < 0.5
    assert (parts[0].drawn < 3).all(), "of what no row is before, nothing is as in that"
    anew = ~as_before[:, 0]
    assert (codes[anew] != np.concatenate([p.codes for p in parts[:-1]])[anew]).all()
    assert times == [500] * 4
