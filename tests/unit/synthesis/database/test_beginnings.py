"""Rows that begin after a date of their parent: never before it, and at some time if that date is not known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import Beginning, Related, Relations
from dp_synth_pipeline.synthesis.database.beginnings import after_bases, beginnings, begun_sentence, empty_sentence
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, build

SINCE = "orders: first ordered: after joined"
RELATIONS = Relations(
    [
        Related("customers", key="customer_id"),
        Related("orders", None, "customers", "customer_id", "ordered", max_rows=5),
        Related("calls", None, "customers", "customer_id", "called", max_rows=5),
    ]
)


def begun(joined: list[int | None], days: list[int | None], kind: pa.DataType = pa.date32()) -> list[int | None]:
    """Return when orders begin, in days, of customers who joined on such days and order so many days later."""
    unit = 1 if kind == pa.date32() else 86_400_000_000
    source = build({"joined": kind, "ordered": kind}, {})
    distance = offsets.distance(SINCE, source["ordered"], source["joined"])
    values = pa.array([None if d is None else d * unit for d in days], pa.int64()).cast(distance.arrow_type)
    parents = Rows(pa.table({SINCE: values}), np.zeros((len(days), 1), int), None, np.arange(len(days)))
    known = pa.array([None if d is None else d * unit for d in joined], pa.int64())
    dates = (known.cast(pa.int32()) if unit == 1 else known).cast(kind)
    order: Column = source["ordered"]
    found = after_bases(parents, distance, (dates, source["joined"]), order, None, np.random.default_rng())
    points, null = offsets.points_of(found, order)
    return [None if lost else point // unit for point, lost in zip(points.tolist(), null, strict=True)]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "Europe/Paris")])
def test_rows_begin_as_long_after_the_date_as_was_drawn_and_who_has_no_distance_has_none(kind: pa.DataType) -> None:
    assert begun([100, 200, 300], [0, 7, None], kind) == [100, 207, None]


def test_of_who_lacks_the_date_rows_begin_when_those_of_another_do() -> None:
    found = begun([100, 200, *[None] * 50], [1, 2, *[None] * 50])
    assert found[:2] == [101, 202]
    assert set(found[2:]) == {101, 202}
    assert begun([None, None], [None, None]) == [None, None], "nobody is there to begin with"


def test_rows_whose_distances_noise_hid_begin_at_the_time_itself() -> None:
    assert begun([100, None, 300], [None, None, None]) in ([100, 100, 300], [100, 300, 300])
    table, distance = RELATIONS["orders"], "orders: to the first ordered"
    source = build({"came": pa.int64(), "ordered": pa.int64(), distance: pa.int64()}, {})

    def beginning(days: list[int | None]) -> tuple[list[int], list[int]]:
        values = {table.count: pa.array([2, 0, 1]), distance: pa.array(days, pa.int64())}
        parents = Rows(pa.table(values), np.zeros((3, 2), int), None, np.arange(3), np.array([10, 20, 30]))
        how = Beginning(None, distance)
        counts, times = beginnings(table, parents, source, (source["came"], source["ordered"]), how)
        assert times is not None
        return counts.tolist(), times.tolist()

    assert beginning([None, None, None]) == ([2, 0, 1], [10, 20, 30])
    assert beginning([None, 7, None]) == ([2, 0, 1], [10, 27, 30]), "who has rows has none"
    assert beginning([5, None, None]) == ([2, 0, 0], [15, 20, 30]), "of others, who has none has no rows"


def test_it_is_said_of_which_tables_no_row_is_drawn_since_noise_hides_when_they_begin() -> None:
    columns = ["joined", "orders: rows", "orders: first ordered", "calls: rows", "calls: first called"]
    kind = build({"day": pa.date32()}, {})["day"].kind

    def told(known: list[str]) -> str:
        profiles = [ColumnProfile(c, kind, (), (), ((1.0, 9.0),) if c in known else (), (1.0,)) for c in columns]
        return empty_sentence(RELATIONS, "customers", columns, TableProfile(9, 9, "row", tuple(profiles), ()))

    assert told(columns) == ""
    assert told(columns[:-1]).startswith("no row of calls is drawn")
    said = told([])
    assert said.startswith("no row of orders, calls is drawn")
    assert "tables.orders.columns: {ordered: {lower: ..., upper: ...}}" in said


def test_what_was_found_is_said_of_each_table_whose_rows_begin_so() -> None:
    columns = ["joined", "orders: rows", SINCE, "calls: rows", "calls: first called"]
    said = begun_sentence(RELATIONS, "customers", columns)
    assert "rows of orders begin after customers.joined. " in said
    assert "tables.orders.columns: {ordered: {after: false}}" in said
    assert begun_sentence(RELATIONS, "customers", [c for c in columns if c != SINCE]) == ""
    assert begun_sentence(RELATIONS, "orders", ["amount"]) == ""
