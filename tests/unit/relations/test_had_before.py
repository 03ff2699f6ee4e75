"""What the rows of a parent have had is told by their codes, and rows that have it again are drawn anew."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.relations.had_before import HadBefore
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.synthesis.database.row_by_row import Above, Following
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build

BOTH = np.array([0, 1])


def had(timed: bool, *single: list[bool]) -> HadBefore:
    return HadBefore(tuple(range(len(single))), tuple(map(np.array, single)), timed, 2)


def codes(*rows: tuple[int, ...]) -> np.ndarray:
    return np.array(rows, np.int64)


def test_a_row_has_again_what_any_earlier_one_of_its_own_parent_had_in_all_columns():
    known = had(False, [True] * 3, [True] * 2)
    known.add(BOTH, codes((0, 1), (1, 1)))
    known.move_on(BOTH)
    known.add(BOTH, codes((2, 0), (2, 1)))
    assert known.again(BOTH, codes((0, 1), (0, 1))).tolist() == [True, False]
    assert known.again(BOTH, codes((2, 0), (2, 0))).tolist() == [True, False]
    assert known.again(np.array([1]), codes((2, 1))).tolist() == [True]


def test_with_the_order_among_the_columns_a_row_is_compared_with_those_of_its_time():
    known = had(True, [True] * 3)
    known.add(BOTH, codes((0,), (0,)))
    known.move_on(BOTH[1:])
    assert known.again(BOTH, codes((0,), (0,))).tolist() == [True, False]
    known.add(BOTH, codes((1,), (1,)))
    assert known.again(BOTH, codes((0,), (1,))).tolist() == [True, True]
    known.add(BOTH, codes((2,), (2,)))
    known.move_on(BOTH[:1])
    assert known.again(BOTH, codes((0,), (1,))).tolist() == [False, True]


def test_a_code_of_several_values_is_the_same_as_none():
    known = had(False, [True, False])
    known.add(BOTH, codes((1,), (1,)))
    assert not known.again(BOTH, codes((1,), (1,))).any()


def test_where_the_order_alone_is_unique_each_row_of_one_time_has_what_was_had():
    known = had(True)
    known.add(BOTH, codes((), ()))
    known.move_on(BOTH[1:])
    assert known.again(BOTH, codes((), ())).tolist() == [True, False]


def test_more_combinations_than_64_bits_hold_are_told_apart_but_for_a_few():
    rng, many = np.random.default_rng(), [[True] * 60] * 14
    known, first = had(False, *many), rng.integers(0, 60, (2, 14))
    known.add(BOTH, first)
    other = first.copy()
    other[:, 13] = (other[:, 13] + 1) % 60
    assert known.again(BOTH, first).all()
    assert not known.again(BOTH, other).any()


def test_which_codes_are_one_value_is_told_by_the_codec():
    schema = build({"ward": pa.string(), "score": pa.int64()}, {"score": {"kind": "integer"}})
    ward = ColumnProfile("ward", schema["ward"].kind, ("a", "b"), (0.5, 0.2), (), (), 0.2, 0.1)
    score = ColumnProfile("score", schema["score"].kind, (0, 7), (0.5, 0.2), ((10, 20),), (0.3,))
    codec = TableCodec(schema, TableProfile(100, 100, "row", (ward, score), ()))
    assert [c.single.tolist() for c in codec.columns] == [[True, True, False, False], [True, True, False]]
    for table, expected in (
        (Related("visits", order="day", unique=("day", "ward")), (True, (0,))),
        (Related("visits", order="day", unique=("score", "ward")), (False, (1, 0))),
        (Related("visits", order="day", unique=("day", "ward", "sex"), static=("sex",)), (True, (0,))),
    ):
        known = HadBefore.of(table, codec, 3)
        assert known is not None
        assert (known.timed, known.columns) == expected
    assert HadBefore.of(Related("visits"), codec, 3) is None
    assert HadBefore.of(Related("visits", unique=("gone",)), codec, 3) is None, (
        "such as a monotone one, of which rows hold steps"
    )


WARDS, ROWS = 3, 4


def drawn(unique: tuple[str, ...], parents: int = 400, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return wards and days of rows of which each ward, and each distance of 0 and 1 days, is as likely as another."""
    storage, kinds = {"day: to the next": pa.int64(), "ward": pa.string()}, {"ward": {"kind": "category"}}
    schema, day = build(storage, kinds), build({"day": pa.int64()}, {"day": {"kind": "integer"}})["day"]
    gap = ColumnProfile("day: to the next", schema.columns[0].kind, (0, 1), (0.5, 0.5), (), ())
    ward = ColumnProfile("ward", schema.columns[1].kind, ("a", "b", "c"), (1 / 3,) * 3, (), ())
    codec = TableCodec(schema, TableProfile(100, 100, "row", (gap, ward), ()))
    context = Context.of([], [np.full(2, 0.5), np.full(3, 1 / 3)], rows=rows, categories=([], []))
    model = SimpleNamespace(
        follow=lambda given, forbidden, allowed, rng: np.column_stack(
            [rng.integers(0, n, len(given)) for n in (2, WARDS)]
        )
    )
    clock = SimpleNamespace(coded=lambda times: np.zeros(len(times), int))
    table = Related("visits", order="day", max_rows=rows, unique=unique)
    following = Following(table, model, codec, context, clock, day)  # type: ignore[arg-type]
    everyone = np.arange(parents)
    above = Above(np.zeros((parents, 0), int), np.full(parents, rows), everyone * 0, everyone)
    parts = following.parts(above, np.random.default_rng())
    return np.stack([p.codes[:, 1] for p in parts], 1), np.stack([p.times for p in parts if p.times is not None], 1)


def twice(*of_rows: np.ndarray) -> float:
    """Return which part of the parents has two rows that are the same in all of these."""
    keys = sum(each * 100**i for i, each in enumerate(of_rows))
    return float(np.mean([len(np.unique(row)) < len(row) for row in np.asarray(keys)]))


@pytest.mark.parametrize(("unique", "rows"), [(("ward",), 3), (("day", "ward"), 3), (("day",), 4)])
def test_no_parent_s_rows_are_the_same_where_they_must_not_be(unique, rows):
    wards, days = drawn(unique, rows=rows)
    of_rows = [{"ward": wards, "day": days}[name] for name in unique]
    assert twice(*of_rows) < 0.01, "of 20 draws of a third ward, none is the third in 3 of 10,000"
    free_wards, free_days = drawn((), rows=rows)
    assert twice(*[{"ward": free_wards, "day": free_days}[name] for name in unique]) > 0.2


def test_of_more_rows_than_there_are_values_those_that_repeat_are_left_out_and_the_others_keep_their_parents():
    table = Related("visits", parent="people", reference="who", max_rows=4, unique=("ward",))
    schema = build(
        {"who": pa.int64(), "ward": pa.string()}, {"who": {"kind": "identifier"}, "ward": {"kind": "category"}}
    )
    drawer = DatabaseDrawer.__new__(DatabaseDrawer)
    drawer.sources = {"visits": schema}
    parent, wards = np.array([0, 0, 0, 1, 1, 2]), ["a", "b", "a", "a", "a", "b"]
    rows = Rows(pa.table({"ward": wards}), np.arange(6)[:, None], parent, parent)
    people = Rows(pa.table({"x": [1, 2, 3]}), np.zeros((3, 1), int), None, np.arange(3))
    kept = drawer._told_apart(table, rows, {"people": people})
    assert kept.values["ward"].to_pylist() == ["b", "a", "a", "b"]
    assert kept.codes[:, 0].tolist() == [1, 2, 4, 5]
    assert kept.parent is not None
    assert kept.parent.tolist() == [0, 0, 1, 2]
