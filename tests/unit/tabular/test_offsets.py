"""What may hang on what, and what a snapshot, a completed file and a profile hold of it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.run_state import dump_schema, load_schema
from dp_synth_pipeline.tabular import constraints, offsets
from dp_synth_pipeline.tabular.declarable import mistakes
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.schema import Kind, build
from dp_synth_pipeline.validation import evidence
from dp_synth_pipeline.validation.expectations import suite_for
from tests.unit.tabular.snapshots import no_noise, profile, quiet, read, take

TYPES = {
    "arrived": pa.timestamp("us"),
    "visited": pa.date32(),
    "discharged": pa.date32(),
    "paid": pa.int32(),
    "due": pa.float64(),
    "opens": pa.time64("us"),
    "ward": pa.string(),
}
CHAIN = {"visited": {"same_as": "arrived"}, "discharged": {"after": "visited"}, "due": {"after": "paid"}}

REFUSED = [
    ({"discharged": {"after": "left"}}, "'discharged': after: there is no column 'left'"),
    ({"discharged": {"after": 3}}, "'discharged': after: there is no column 3"),
    ({"discharged": {"after": "discharged"}}, "hangs on itself, by way of discharged -> discharged"),
    ({"discharged": {"after": "visited"}, "visited": {"same_as": "discharged"}}, "hangs on itself, by way of"),
    ({"discharged": {"after": "visited", "same_as": "arrived"}}, "both|after and same_as"),
    ({"discharged": {"after": "paid"}}, "'discharged' holds a date or datetime and 'paid' holds a number"),
    ({"discharged": {"after": "ward"}}, "'ward' is of kind category"),
    ({"ward": {"after": "visited"}}, "'ward' is of kind category"),
    ({"opens": {"after": "opens"}}, "'opens' is a time of day"),
    ({"discharged": {"after": "visited"}, "visited": {"kind": "excluded"}}, "'visited' is of kind excluded"),
    ({"discharged": {"after": "visited", "nulls": "constant", "constant": "2024-01-01"}}, "says nothing of its offset"),
    ({"discharged": {"after": "visited", "nulls": "median"}}, "declare what becomes of the nulls of 'visited'"),
    ({"visited": {"same_as": "arrived", "nulls": "drop"}}, "same_as: its nulls are those of 'arrived'"),
    ({"visited": {"same_as": "arrived", "lower": date(2020, 1, 1)}}, "declare lower there"),
]


@pytest.mark.parametrize(("declared", "said"), REFUSED)
def test_a_column_that_hangs_on_what_it_cannot_is_refused_by_name(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        build(TYPES, declared)


def test_mistakes_are_told_before_there_is_a_source() -> None:
    found = mistakes(
        {
            "a": {"after": "b"},
            "b": {"same_as": "a"},
            "c": {"kind": "date", "after": "d"},
            "d": {"kind": "category"},
            "visited": {"kind": "date", "same_as": "arrived"},
            "arrived": {"kind": "datetime"},
            "discharged": {"after": "visited"},
            "later": {"after": "visited", "same_as": "visited"},
            "of wrong": {"after": "wrong"},
            "wrong": {"nulls": "delete"},
            "of text": {"after": "text"},
            "text": "text",
        }
    )
    assert set(found) == {"a", "b", "c", "later", "wrong", "text"}
    assert "by way of a -> b -> a" in found["a"]
    assert "'d' is of kind category" in found["c"]


def test_offsets_stand_in_the_place_of_what_comes_after_and_the_same_is_not_modelled() -> None:
    schema = build(TYPES, CHAIN)
    found = offsets.modelled(schema)
    assert found.names == ("arrived", "discharged: after visited", "paid", "due: after paid", "opens", "ward")
    days, money = found["discharged: after visited"], found["due: after paid"]
    assert (days.kind, days.lower, money.kind, money.lower) == (Kind.INTEGER, 0, Kind.DECIMAL, 0)
    moments = build({"a": pa.timestamp("us"), "b": pa.timestamp("us", "UTC")}, {"b": {"after": "a"}})
    assert offsets.modelled(moments)["b: after a"].lower == timedelta(0)


def test_a_schema_without_offsets_is_written_as_before_and_one_with_them_comes_back() -> None:
    assert not any(f'"{fact}"' in dump_schema(build(TYPES)) for fact in offsets.HANGS)
    schema = build(TYPES, CHAIN)
    assert load_schema(dump_schema(schema)) == schema
    assert offsets.modelled(build(TYPES)) == build(TYPES)


def visits(rows: int = 400) -> pa.Table:
    """Every fifth visit has no discharge, every tenth nothing at all but a discharge; some break what is declared."""
    day = [datetime(2024, 1, 1 + i % 28, 9, i % 60) if i % 10 else None for i in range(rows)]
    stay = [0, 0, 1, 2, 30]
    left = [None if i % 5 == 1 else date(2024, 2, 1 + i % 28) + timedelta(stay[i % 5]) for i in range(rows)]
    broken = [date(2023, 1, 1) if i % 20 == 3 else d for i, d in enumerate(left)]
    return pa.table(
        {
            "arrived": pa.array(day, pa.timestamp("us")),
            "visited": pa.array([d and d.date() for d in day], pa.date32()),
            "discharged": pa.array(broken, pa.date32()),
        }
    )


DECLARED = {"visited": {"same_as": "arrived"}, "discharged": {"after": "visited"}}


def test_a_snapshot_holds_offsets_beside_the_columns_of_the_source(tmp_path: Path) -> None:
    table = visits()
    taken = take(table, tmp_path, DECLARED)
    rows = pq.read_table(taken.path)
    assert rows.column_names == ["arrived", "visited", "discharged", "discharged: after visited"]
    expected = sorted(
        (d - v).days if d and v else -(10**6)
        for v, d in zip(table["visited"].to_pylist(), table["discharged"].to_pylist(), strict=True)
    )
    assert sorted(-(10**6) if x is None else x for x in rows["discharged: after visited"].to_pylist()) == expected
    assert taken.path.stat().st_mode & 0o777 == 0o400


def test_the_types_of_a_csv_may_be_declared_or_measured(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "arrived,visited,discharged\n" + "2024-01-05 10:30:00,2024-01-05,2024-01-09\n" * 60, encoding="utf-8"
    )
    kinds = {"visited": {"kind": "date", "same_as": "arrived"}, "discharged": {"kind": "date", "after": "visited"}}
    for number, declared in enumerate((DECLARED, kinds, {**kinds, "arrived": {"kind": "datetime"}})):
        taken = read(str(tmp_path / "t.csv"), tmp_path / f"{number}.parquet", declared=declared)
        assert set(pq.read_table(taken.path)["discharged: after visited"].to_pylist()) == {4}
        assert taken.schema["visited"].same_as == "arrived"


@pytest.mark.parametrize("policy", ["keep", "median", "drop"])
def test_what_is_completed_hangs_together_and_has_the_values_that_are_known(tmp_path: Path, policy: str) -> None:
    taken = take(visits(), tmp_path, DECLARED, nulls=policy)
    with no_noise():
        found = profile(taken, quiet(400))
    rows = pq.read_table(nulls.complete(taken.path, taken.schema, found, tmp_path / "completed.parquet"))
    offset, visited, discharged = (rows[n].to_pylist() for n in ("discharged: after visited", "visited", "discharged"))
    if policy == "keep":
        assert rows.num_rows == 400
        assert discharged.count(None) == 80  # one without a visit keeps its discharge, which the report compares
        assert offset.count(None) == 120
        return
    assert rows.num_rows == (400 if policy == "median" else 280)
    assert None not in offset + visited + discharged
    filled = [(v, o, d) for v, o, d in zip(visited, offset, discharged, strict=True) if o >= 0]
    assert policy == "drop" or any(d == v + timedelta(o) for v, o, d in filled)


def test_rows_that_break_a_declaration_are_taken_for_the_nearest_that_keep_it(tmp_path: Path) -> None:
    table, taken = visits(), take(visits(), tmp_path, DECLARED)
    with no_noise():
        codec = TableCodec(taken.schema, profile(taken, quiet(400)))
    back = pa.Table.from_batches([codec.decode(codec.encode(table).astype(np.int64))])
    assert offsets.agree(back, taken.schema).all()
    assert not offsets.agree(table, taken.schema).all()


def test_checks_know_between_which_ends_a_column_lies_that_hangs_on_another(tmp_path: Path) -> None:
    taken = take(visits(), tmp_path, DECLARED)
    with no_noise():
        found = profile(taken, quiet(400))
    told = offsets.published(taken.schema, found)
    assert [c.name for c in told.columns] == ["arrived", "visited", "discharged"]
    assert told["discharged"].null_rate == pytest.approx(0.3)
    limits = constraints.limits(taken.schema, found)
    assert set(limits) == {"arrived", "visited", "discharged"}
    codec = TableCodec(taken.schema, found)
    back = pa.Table.from_batches([codec.decode(codec.encode(visits()).astype(np.int64))])
    for name in ("visited", "discharged"):
        days = back[name].cast(pa.int32()).drop_null().to_numpy()
        assert told[name].lower <= days.min()
        assert days.max() <= told[name].upper
    checks = {c.name for c in suite_for(taken.schema, found, 400)}
    assert {"visited__range", "discharged__range"} <= checks or {"visited__domain", "discharged__domain"} <= checks


def test_attacks_code_real_and_drawn_rows_alike(tmp_path: Path) -> None:
    """A completed snapshot has offsets, drawn rows have none; a sensitive column is guessed by the code that tells of it."""
    taken = take(visits(), tmp_path, DECLARED)
    with no_noise():
        found = profile(taken, quiet(400))
    codec = TableCodec(taken.schema, found)
    completed = nulls.complete(taken.path, taken.schema, found, tmp_path / "completed.parquet")
    rows = pq.read_table(completed)
    pq.write_table(rows.select(["arrived", "visited", "discharged"]), tmp_path / "drawn.parquet")
    real, drawn = (evidence.codes(path, codec, 400) for path in (completed, tmp_path / "drawn.parquet"))
    assert (real == drawn).all()
    assert [codec.number(name) for name in ("arrived", "visited", "discharged")] == [0, 0, 1]


def test_declared_bounds_of_what_comes_after_hold_and_order_goes_before_them() -> None:
    table = pa.table({"a": pa.array([1, 5, 9], pa.int64()), "b: after a": pa.array([1, 9, 0], pa.int64())})
    schema = build({"a": pa.int64(), "b": pa.int64()}, {"b": {"after": "a", "upper": 8}})
    values = {n: table[n].combine_chunks() for n in table.column_names}
    assert offsets.restored(values, schema)["b"].to_pylist() == [2, 8, 9]


def test_what_a_column_hangs_on_is_modelled_whatever_its_name_says(tmp_path: Path) -> None:
    from dp_synth_pipeline.synthesis.reading import reading
    from dp_synth_pipeline.synthesis.settings import ReleaseSettings

    settings = ReleaseSettings(
        table="t", source="t.csv", account="a", epsilon=1, columns={"last": {"after": "order_id"}, "x": None}
    )
    assert "order_id" in reading(settings)["kept"]


def test_far_and_broken_numbers_give_no_offset() -> None:
    schema = build({"a": pa.float64(), "b": pa.float64()}, {"b": {"after": "a"}})
    rows = pa.table({"a": [0.1, float("nan"), -1.7e308, None], "b": [0.3, 1.0, 1.7e308, 2.0]})
    assert offsets.with_offsets(rows, schema)["b: after a"].to_pylist() == [0.2, None, None, None]
    wide = build({"a": pa.int64(), "b": pa.int64()}, {"b": {"after": "a"}})
    rows = pa.table({"a": [-(2**63), 2**62], "b": [2**63 - 1, 2**62 + 3]})
    assert offsets.with_offsets(rows, wide)["b: after a"].to_pylist() == [None, 3]
