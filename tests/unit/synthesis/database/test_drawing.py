"""What stays as it was in a history is the same value, and not another one of the same code."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.histories.context import Beside, Context
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis import generator
from dp_synth_pipeline.synthesis.database import histories, learning
from dp_synth_pipeline.synthesis.database.beside import Neighbours
from dp_synth_pipeline.synthesis.database.drawing import (
    Above,
    DatabaseDrawer,
    Following,
    Part,
    _joined,
    _shape,
    copying,
    staying,
)
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, _carried
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.mechanisms.texts import coded_beside
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.tabular.sources.ingestion import UNIT


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
    rows = _joined(parts, above, SimpleNamespace(codec=columns), np.random.default_rng())  # type: ignore[arg-type]
    assert rows.values["team"].to_pylist() == ["5-0", "5-0", "6-2", "7-3"]
    assert told[0].begins.tolist() == [True, False, True, False]
    assert told[0].stays[:, 0].tolist() == [False, True, False, False]


def test_static_columns_are_those_of_the_row_right_above_and_not_of_the_person():
    table = Related("drugs", None, "visits", "visit", max_rows=3, static=("dose", "email"))
    storage = dict.fromkeys(("visit", "dose", "email"), pa.string())
    schema = build(storage, {"visit": {"kind": "identifier"}, "email": {"kind": "email"}})
    codes, person = np.zeros((3, 1), np.int64), np.zeros(3, np.int64)
    visits = Rows(pa.table({"drugs.dose": ["a", None, "c"]}), codes, person, person)
    drugs = Rows(pa.table({"drug": [1, 2, 3]}), codes, np.array([1, 2, 2]), person)
    carried = _carried(table, {"visits": visits, "drugs": drugs}, schema)
    made = schema["email"].kind.generated(schema["email"], 0, 3).to_pylist()
    assert {name: cells.to_pylist() for name, cells in carried.items()} == {
        "dose": [None, "c", "c"],
        "email": [made[1], made[2], made[2]],
    }


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
    model = SimpleNamespace(follow=lambda given, forbidden, rng: np.full((len(given), 1), code))
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
    beside = pa.table({"ward": ["north", "south"], "other": [7, 8]})
    found = copying(values, ["ward", "score"], copied, beside, np.array([1, 0, -1]))
    assert found.to_pydict() == {"ward": ["south", "b", "c"], "score": [1, 2, 3]}
    stays = np.array([[False, False], [True, False], [False, False]])
    assert staying(found, ["ward", "score"], stays)["ward"].to_pylist() == ["south", "south", "c"]


def shape(table, columns, order, facts=None):
    """Return the counts and beginnings of a table's rows, by what was drawn of their parents."""
    relations = Relations([Related("p", key="k"), Related("a", None, "p", "k", "t", max_rows=3), table])
    values = pa.table({f"{table.name}: rows": pa.array([2] * 4), **columns})
    schema = build({name: values[name].type for name in values.column_names}, {})
    own = build({"t": order}, {"t": facts or {}})["t"]
    parents = Rows(values, np.zeros((4, 1), np.int64), None, np.arange(4))
    counts, times = _shape(table, parents, schema, [None, own], relations.beginning(table.name, schema.names))
    return counts.tolist(), list(times if times is not None else [])


def test_rows_begin_at_the_drawn_distance_from_where_those_of_the_table_beside_them_do():
    """Of the last two persons, nothing says when their rows begin, so they have none."""
    day, moment = 86_400 * 10**6, pa.timestamp("us")
    far = {"b: to the first t from a": pa.array([0, -3, 5, None], pa.int64())}
    days = {"a, else b: first t": pa.array([10, 20, None, 40], pa.int64()).cast(pa.int32()).cast(pa.date32())}
    table = Related("b", None, "p", "k", "t", max_rows=3)
    assert shape(table, {**days, **far}, pa.date32()) == ([2, 2, 0, 0], [10, 17, 5, 40])
    hours = {"b: to the first t from a": pa.array([0, -3, 5, None], pa.duration("us"))}
    assert shape(table, {**days, **hours}, moment)[1][:2] == [10 * day, 20 * day - 3]
    years = {"a, else b: first t": pa.array([10, 20, None, 40], pa.int64())}
    ends = {"kind": "integer", "lower": 11, "upper": 16}
    assert shape(table, {**years, **far}, pa.int64(), ends)[1][:2] == [11, 16], "no row lies beyond the declared ends"


def test_rows_of_an_earlier_version_begin_where_their_own_column_says():
    table = Related("b", None, "p", "k", "t", max_rows=3)
    firsts = {f"{name}: first t": pa.array([10, 20, None, 40], pa.int64()) for name in ("a", "b")}
    assert shape(table, firsts, pa.int64()) == ([2, 2, 0, 2], [10, 20, 0, 40])


def test_texts_are_written_upon_the_rows_above_in_the_order_in_which_they_were_counted(tmp_path, monkeypatch):
    """Two prescriptions: of the third visit, the second patient's, and of the first visit, the first patient's."""
    patient, visit, drug = Related("p", key="p"), Related("v", "v", "p", "p"), Related("d", None, "v", "v")
    relations, person = Relations([patient, visit, drug]), np.array([0, 0, 1])
    codes = {"v": np.array([[10], [11], [12]]), "p": np.array([[20], [21]]), "d": np.array([[31], [30]])}
    drawn = {
        "p": Rows(pa.table({}), codes["p"], None, np.arange(2)),
        "v": Rows(pa.table({}), codes["v"], person, person),
    }
    written = DatabaseDrawer(relations, {}, {})._codes_above(drug, drawn, np.array([2, 0]))
    path = tmp_path / "d.parquet"
    of_rows = {"how": ["first", "third"], relating.ROW: [0, 1], UNIT: [0, 1], relating.PARENT: [0, 2]}
    pq.write_table(pa.table(of_rows), path)
    release = TableRelease.__new__(TableRelease)
    release.name, release.rows = "d", RelatedRows(path, build({"how": pa.string()}, {}), 2)
    monkeypatch.setattr(TableRelease, "whole_rows", lambda self: path)
    monkeypatch.setattr(histories, "encoded", lambda table: codes[table.codec])
    tables = {name: SimpleNamespace(codec=name) for name in codes}
    release.above = histories.above_rows(release, relations, tables)  # type: ignore[arg-type]
    own = SimpleNamespace(encode=lambda rows: codes["d"][::-1])
    monkeypatch.setattr(TableRelease, "codec", own)
    counted = release.text_rows(["how"])
    assert counted.cells["how"].to_pylist() == ["first", "third"]
    assert release.text_codecs == [own, "v", "p"]
    assert counted.codes.tolist() == [[30, 10, 20], [31, 12, 21]]
    assert np.concatenate(written, 1).tolist() == [[12, 21], [10, 20]]
    other = pq.read_table(path).set_column(2, UNIT, pa.array([0, 0]))  # of rows that were swapped, two are one person's
    pq.write_table(other, tmp_path / "swapped.parquet")
    monkeypatch.setattr(TableRelease, "whole_rows", lambda self: tmp_path / "swapped.parquet")
    with pytest.raises(TrainingError, match="one row of each person"):
        release.text_rows(["how"])


def test_words_are_counted_by_columns_above_that_are_no_text():
    schema = build({"note": pa.string(), "age": pa.int64()}, {"note": {"kind": "text", "max_length": 3}})
    coded = SimpleNamespace(cardinality=2, marginal=np.array([0.5, 0.5]))
    above = SimpleNamespace(schema=schema, modelled=offsets.modelled(schema).columns, columns=[coded, coded])
    own = SimpleNamespace(schema=[], modelled=[], columns=[])
    merged, _ = coded_beside([own, above])  # type: ignore[list-item]
    assert [number for number, _ in merged] == [above.modelled.index(schema["age"])]


def test_writers_are_raked_upon_one_row_of_each_person_beside_its_own_parent():
    """Every other person has one parent with one row, the others have three with three rows each."""
    persons = np.arange(2_000)
    root = np.repeat(persons, np.where(persons % 2, 3, 1))
    parents = np.arange(len(root))
    counts = np.where(root % 2, 3, 1)
    who = [np.flatnonzero(counts > place) for place in range(3)]
    none = [np.zeros((len(w), 1), int) for w in who]
    places = [Part(w, no, parents[w][:, None], no > 0, None, None, no > 0, no) for w, no in zip(who, none, strict=True)]
    drawn = learning._Drawn.__new__(learning._Drawn)
    drawn._rng, drawn._above = np.random.default_rng(1), Above(parents[:, None], counts, None, root)
    drawn._following = SimpleNamespace(codec=SimpleNamespace(columns=[0]), parts=lambda above, rng: places)  # type: ignore
    own, above = drawn.one_row_each(rng=np.random.default_rng(2)).T
    assert (own == above).all()
    assert abs((root[own] % 2).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(own))


def test_where_no_drawn_person_has_a_row_nothing_is_drawn_upon():
    none, nobody = np.zeros((0, 1), int), np.zeros(0, np.int64)
    drawn = learning._Drawn.__new__(learning._Drawn)
    drawn._rng, drawn._above = (
        np.random.default_rng(),
        Above(np.zeros((3, 1), int), np.zeros(3, int), None, np.arange(3)),
    )
    part = Part(nobody, none, none, none > 0, None, None, none > 0, np.zeros((0, 2), np.int16))
    drawn._following = Following(None, None, None, SimpleNamespace(cardinalities=(2, 3)), None, None)  # type: ignore
    drawn._parts = lambda: [part]  # type: ignore[method-assign]
    drawn._stacked = lambda codes: none  # type: ignore[method-assign]
    assert drawn.upon(None).shape == (0, 2)  # type: ignore[arg-type]


def test_no_more_texts_are_written_to_rake_their_writer_than_of_a_single_table(monkeypatch):
    """A person's rows may be many: some 8,000 persons of 30 rows each would be ten times as many."""
    raked = []
    writer = SimpleNamespace(name="note", raked=lambda codes, sizes, rng: raked.append(len(codes)))
    monkeypatch.setattr(generator.storage, "load", lambda file: [writer])
    monkeypatch.setattr(generator.text_lengths, "drawn", lambda rows, name: rows)
    release = SimpleNamespace(state=SimpleNamespace(files=SimpleNamespace(texts="texts")))
    codec = SimpleNamespace(columns=[0], decode=lambda codes, rng: codes)
    generator.raked_texts(release, codec, lambda rng: np.zeros((2 * generator.TEXTS, 3)))  # type: ignore[arg-type]
    assert raked == [generator.TEXTS]
