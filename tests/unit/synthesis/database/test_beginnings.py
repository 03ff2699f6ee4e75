"""Where histories begin."""

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis.database.beginnings import beginnings
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.tabular.schema import build


def shape(table, columns, order, facts=None):
    """Return the counts and beginnings of a table's rows, by what was drawn of their parents."""
    relations = Relations([Related("p", key="k"), Related("a", None, "p", "k", "t", max_rows=3), table])
    values = pa.table({f"{table.name}: rows": pa.array([2] * 4), **columns})
    schema = build({name: values[name].type for name in values.column_names}, {})
    own = build({"t": order}, {"t": facts or {}})["t"]
    parents = Rows(values, np.zeros((4, 1), np.int64), None, np.arange(4))
    counts, times = beginnings(table, parents, schema, [None, own], relations.beginning(table.name, schema.names))
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
