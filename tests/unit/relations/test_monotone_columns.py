"""A monotone column is kept as where a parent's rows begin and how far each next one is, and comes back from these."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.relations import carrying, monotone_columns, relating
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.schema import build
from tests.unit.relations.test_relating import related
from tests.unit.relations.test_static_columns import RELATIONS, VISITS, tables

TABLE = replace(VISITS, increasing=("age", "total"), decreasing=("left",))


def counted(patients=5, as_text=False):
    some = tables(patients)
    place = some["visits"]["visit"] % 3
    made = {"age": some["visits"]["patient"] + 30 + 2 * place, "total": 0.1 + place * 0.2, "left": 9 - place}
    visits = some["visits"].assign(**made)
    some["visits"] = visits.astype(dict.fromkeys(made, str)) if as_text else visits
    return some


def carried(folder, some):
    rows = related(folder, some, RELATIONS)
    above, below = carrying.carry(rows["patients"], rows["visits"], TABLE)
    return above, below, pq.read_table(above.path), pq.read_table(below.path)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_parent_carries_the_first_value_and_rows_the_distance_to_the_next_as_it_is_written(tmp_path, as_text):
    above, below, patients, visits = carried(tmp_path, counted(as_text=as_text))
    assert patients["visits.age"].to_pylist()[:2] == (["30", "31"] if as_text else [30, 31])
    assert patients["visits.age"].null_count == 1, "who has no visits begins nowhere"
    assert not {"age", "total", "left"} & {*visits.column_names, *below.schema.names}
    steps = visits.select(["age: to the next", "total: to the next", "left: to the next"]).to_pydict()
    assert {name: cells[:3] for name, cells in steps.items()} == {
        "age: to the next": [2, 2, None],
        "total: to the next": [0.2, 0.2, None],
        "left: to the next": [1, 1, None],
    }
    assert below.schema["age: to the next"].lower == 0
    assert visits.schema.field("age: to the next").type == (pa.float64() if as_text else pa.int64())
    assert [c.name for c in above.schema][-3:] == ["visits.age", "visits.total", "visits.left"]


def test_a_step_against_the_direction_is_none_and_an_unknown_one_is_null(tmp_path):
    some = counted()
    some["visits"].loc[1, ["age", "left"]] = [7, 99]
    some["visits"] = some["visits"].astype({"total": object})
    some["visits"].loc[4, "total"] = None
    _, _, _, visits = carried(tmp_path, some)
    assert visits["age: to the next"].to_pylist()[:2] == [0, 27]
    assert visits["left: to the next"].to_pylist()[:2] == [0, 92]
    assert visits["total: to the next"].to_pylist()[3:6] == [0.4, None, None], "to the next one that is known"


def test_a_parent_whose_first_value_is_unknown_carries_the_first_that_is_known(tmp_path):
    some = counted()
    some["visits"] = some["visits"].astype({"age": "Int64"})
    some["visits"].loc[[0, 1, 4], "age"] = pd.NA
    some["visits"].loc[6:8, "age"] = pd.NA
    _, _, patients, visits = carried(tmp_path, some)
    assert patients["visits.age"].to_pylist()[:3] == [34, 31, None]
    assert visits["age: to the next"].to_pylist()[:9] == [None, None, None, 4, None, None, None, None, None]
    (column,) = build({"age": pa.int64()}, {}).columns
    parent = np.repeat([0, 1, 2], 3)
    first = patients["visits.age"].combine_chunks().take(pa.array(parent))
    steps = visits["age: to the next"].combine_chunks()[:9]
    found = monotone_columns.restored(first, steps, parent, column, TABLE)
    assert found.to_pylist() == [34, 34, 34, 31, 35, 35, None, None, None]


@pytest.mark.parametrize(
    "storage", [pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.decimal128(9, 2)]
)
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@given(data=st.data())
def test_first_values_and_steps_give_back_what_they_were_taken_of(data, direction, storage):
    histories = data.draw(st.lists(st.lists(st.integers(0, 12_700), min_size=1, max_size=4), min_size=1, max_size=4))
    histories = [sorted(h, reverse=direction == "decreasing") for h in histories]
    scale = 100 if pa.types.is_integer(storage) else 1
    parent = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    values = pa.array([v // scale if scale > 1 else v / 100 for h in histories for v in h]).cast(storage, safe=False)
    (column,) = build({"x": storage}, {}).columns
    table = replace(VISITS, **{direction: ("x",)})
    points, _ = offsets.points_of(values, column)
    steps = np.abs(np.append(points[1:] - points[:-1], 0))
    step = monotone_columns.step_of(column, table)
    steps = offsets.values_at(steps, np.append(parent[1:] != parent[:-1], True), step)
    first = values.take(pa.array(np.searchsorted(parent, parent)))
    found = monotone_columns.restored(first, steps, parent, column, table)
    assert found.type == storage
    assert np.allclose([float(v) for v in found.to_pylist()], [float(v) for v in values.to_pylist()], atol=1e-3)


def test_sums_have_no_more_digits_than_what_they_are_of_and_end_where_the_column_does():
    (column,) = build({"x": pa.float64()}, {"x": {"upper": 0.5}}).columns
    table = replace(VISITS, increasing=("x",))
    first, steps = pa.array([0.1] * 4), pa.array([0.2, 0.1, 0.3, None])
    found = monotone_columns.restored(first, steps, np.zeros(4, np.int64), column, table)
    assert found.to_pylist() == [0.1, 0.3, 0.4, 0.5]
    (small,) = build({"x": pa.int8()}, {}).columns
    found = monotone_columns.restored(
        pa.array([100] * 2, pa.int8()), pa.array([90, None]), np.zeros(2, int), small, table
    )
    assert found.to_pylist() == [100, 127]


def test_who_begins_nowhere_has_nulls_and_cells_that_turned_out_to_be_words_stay(tmp_path):
    (number,) = build({"x": pa.int64()}, {}).columns
    (word,) = build({"x": pa.string()}, {}).columns
    table, parent = replace(VISITS, increasing=("x",)), np.array([0, 0, 1])
    first = pa.array([None, None, 4])
    assert monotone_columns.restored(first, pa.array([1, None, None]), parent, number, table).to_pylist() == [
        None,
        None,
        4,
    ]
    words = pa.array(["a", "a", "b"])
    assert monotone_columns.restored(words, pa.array([1.0, None, None]), parent, word, table) is words
    nothing = pa.array([], pa.int64())
    assert len(monotone_columns.restored(nothing, nothing, np.zeros(0, np.int64), number, table)) == 0


def test_the_distance_between_large_whole_numbers_is_exact_and_one_that_64_bits_cannot_hold_is_null(tmp_path):
    some = counted(1)
    some["visits"]["age"] = np.array([-(2**62), 2**62 - 1, 2**62 + 1])
    _, _, _, visits = carried(tmp_path, some)
    assert visits["age: to the next"].to_pylist() == [2**63 - 1, 2, None]
    assert relating.ROW in visits.column_names
    assert pd.api.types.is_integer_dtype(visits[relating.ROW].to_pandas())
