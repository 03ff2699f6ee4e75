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
    ({"paid": {"same_as": "arrived", "part": "moon"}}, "'paid': part: expected one of year, .* got 'moon'"),
    ({"paid": {"part": "month"}}, "'paid': part: say of which date or datetime it is the month"),
    ({"paid": {"after": "arrived", "part": "month"}}, "part: say of which date"),
    (
        {"visited": {"same_as": "arrived", "part": "month"}},
        "a month is a number, and 'visited' holds a date or datetime",
    ),
    (
        {"paid": {"same_as": "arrived", "part": "month_name"}},
        "a month_name is a category, and 'paid' is of kind integer",
    ),
    ({"ward": {"same_as": "arrived", "part": "weekend"}}, "a weekend is a boolean, and 'ward' is of kind category"),
    ({"ward": {"same_as": "due", "part": "month_abbr"}}, "a date or a datetime has a month_abbr, and 'due' is of kind"),
    ({"paid": {"same_as": "due", "part": "month"}}, "a date or a datetime has a month, and 'due' is of kind decimal"),
    ({"paid": {"same_as": "visited", "part": "hour"}}, "a datetime has a hour|a datetime has a hour, and 'visited'"),
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


PARTED = {"month": {"part": "month", "same_as": "visited"}, "hour": {"part": "hour", "same_as": "arrived"}}
PARTED_WEEKDAY = {"part": "weekday", "same_as": "arrived"}
PARTED_TYPES = {
    "arrived": pa.timestamp("us", "Europe/Paris"),
    "visited": pa.date32(),
    "month": pa.int32(),
    "hour": pa.float64(),
}


def moments(*texts: str | None) -> pa.Array:
    """Return moments of UTC as clocks of Paris show them."""
    return pa.array([text and datetime.fromisoformat(text) for text in texts], pa.timestamp("us", "Europe/Paris"))


def test_parts_are_computed_from_what_the_clocks_of_a_zone_show_and_null_where_it_is() -> None:
    schema = build(PARTED_TYPES, {**PARTED, "visited": {"same_as": "arrived"}})
    assert offsets.modelled(schema).names == ("arrived", "month", "hour")
    assert offsets.modelled(schema, parts=False).names == ("arrived",)
    keyed = build({"seen": pa.date32(), "date_key": pa.int32()}, {"date_key": {"same_as": "seen", "part": "date_key"}})
    assert offsets.modelled(keyed).names == ("seen",), "a key says no more than its date"
    drawn = offsets.restored({"arrived": moments("2023-03-31T22:30:00+00:00", None)}, schema)
    assert drawn["visited"].to_pylist() == [date(2023, 4, 1), None]
    assert drawn["month"].to_pylist() == [4, None]
    assert drawn["hour"].to_pylist() == [0.0, None]
    assert (drawn["month"].type, drawn["hour"].type) == (pa.int32(), pa.float64())
    assert offsets.agree(pa.table(drawn), schema).all()
    wrong = pa.table({**drawn, "month": pa.array([5, None], pa.int32())})
    assert offsets.agree(wrong, schema).tolist() == [False, True]


def test_a_drawn_date_is_placed_within_its_cell_by_the_parts_that_were_drawn_beside_it() -> None:
    """Cells are months: a month that was drawn is that of its date, or it is left; an hour and a weekday are met."""
    types = {**PARTED_TYPES, "weekday": pa.int64(), "arrived": pa.timestamp("us")}
    schema = build(types, {**PARTED, "month": {"same_as": "arrived", "part": "month"}, "weekday": PARTED_WEEKDAY})
    days = [datetime(2023, 3, 31, 10, 15), datetime(2023, 3, 31, 10, 15), None, datetime(2023, 3, 1, 9)]
    drawn = {
        "arrived": pa.array(days, pa.timestamp("us")),
        "visited": pa.nulls(4, pa.date32()),
        "month": pa.array([3, 4, 5, None], pa.int32()),
        "hour": pa.array([23.0, 0.0, 4.0, None]),
        "weekday": pa.array([6, 0, 2, None]),
    }
    cells = np.array([d and d.strftime("%Y-%m") for d in days])
    within = {"arrived": lambda values: np.array([v and v.strftime("%Y-%m") for v in values.to_pylist()]) == cells}
    found = offsets.placed_within(drawn, schema, lambda name, values: within[name](values))
    assert found["arrived"].to_pylist() == [
        datetime(2023, 3, 26, 23, 15),
        datetime(2023, 3, 27, 0, 15),
        None,
        datetime(2023, 3, 1, 9),
    ]
    whole = offsets.restored(found, schema)
    assert whole["month"].to_pylist() == [3, 3, None, 3]
    assert whole["weekday"].to_pylist() == [6, 0, None, 2]


def test_a_part_of_what_comes_after_another_column_or_of_a_day_is_placed_by_what_is_modelled_alone() -> None:
    types = {**PARTED_TYPES, "left": pa.date32(), "weekday": pa.int64()}
    chain = {"visited": {"same_as": "arrived"}, "left": {"after": "visited"}}
    weekday = {"weekday": {"same_as": "left", "part": "weekday"}}
    schema = build(types, {**PARTED, **chain, **weekday})
    placed = offsets.placed_by(schema)
    assert {name: [c.name for c in found] for name, found in placed.items()} == {"arrived": ["month", "hour"]}
    assert offsets.modelled(schema).names == ("arrived", "month", "hour", "left: after visited")


def test_what_tells_of_an_hour_alone_is_learnt_though_the_hour_is_computed(tmp_path: Path) -> None:
    """Cells of a year of moments are days wide, and the ward depends on the hour: codes tell it, and so do drawn rows."""
    rng = np.random.default_rng(3)
    arrived = np.datetime64("2023-01-01", "us") + rng.integers(0, 365 * 86_400 * 10**6, 4000).astype("timedelta64[us]")
    hour = arrived.astype("datetime64[h]").astype(int) % 24
    types = {"arrived": pa.timestamp("us"), "hour": pa.int64(), "ward": pa.string()}
    rows = pa.table(
        {"arrived": arrived, "hour": hour, "ward": np.where(hour < 8, "night", "day")}, pa.schema(types.items())
    )
    with no_noise():
        taken = take(rows, tmp_path, {"hour": {"same_as": "arrived", "part": "hour"}})
        codec = TableCodec(taken.schema, profile(taken, quiet(4000)))
    back = pa.Table.from_batches([codec.decode(codec.encode(rows).astype(np.int64))])
    told = np.where(back["hour"].to_numpy() < 8, "night", "day") == back["ward"].to_numpy(zero_copy_only=False)
    assert told.mean() > 0.95, "but for moments at the edge of a cell, and two thirds of them if it were not learnt"
    drawn = back["arrived"].to_numpy().astype("datetime64[h]").astype(int) % 24
    assert (back["hour"].to_numpy() == drawn).all()
    assert codec.number("hour") == codec.encoded.index("hour")


def test_a_date_is_never_placed_beyond_what_was_released_of_it(tmp_path: Path) -> None:
    """All came in the evenings of a week: an hour that was drawn apart from its date does not bring a morning before it."""
    rng = np.random.default_rng(4)
    arrived = np.datetime64("2023-05-01T20", "us") + rng.integers(0, 6 * 86_400 * 10**6, 3000).astype("timedelta64[us]")
    types = {"arrived": pa.timestamp("us"), "hour": pa.int64(), "day": pa.int64()}
    hour, day = arrived.astype("datetime64[h]").astype(int) % 24, arrived.astype("datetime64[D]").astype(int) - 19478
    rows = pa.table({"arrived": arrived, "hour": hour, "day": day}, pa.schema(list(types.items())))
    with no_noise():
        taken = take(rows, tmp_path, {n: {"same_as": "arrived", "part": n} for n in ("hour", "day")})
        found = profile(taken, quiet(3000))
    codec = TableCodec(taken.schema, found)
    codes = np.stack([rng.integers(0, c.cardinality, 20_000) for c in codec.columns], 1)
    drawn = codec.decode(codes)["arrived"].to_numpy(zero_copy_only=False).astype("datetime64[us]").astype(np.int64)
    assert found["arrived"].lower <= drawn.min()  # type: ignore[operator]
    assert drawn.max() < found["arrived"].upper  # type: ignore[operator]


def test_a_date_moves_to_the_parts_that_are_known_of_it_and_what_is_known_of_it_stays() -> None:
    schema = build(PARTED_TYPES, {**PARTED, "visited": {"same_as": "arrived"}})
    drawn = {"arrived": moments(*["2023-01-31T10:15:00+00:00"] * 5)}
    at_noon = datetime.fromisoformat("2023-01-31T11:15:00+00:00")
    known = {
        "arrived": pa.array([None, None, None, None, at_noon], pa.timestamp("us", "Europe/Paris")),
        "visited": pa.array([None, None, None, date(2024, 7, 5), None], pa.date32()),
        "month": pa.array([2, None, 6, 7, 8], pa.int32()),
        "hour": pa.array([None, 23.0, 2.0, None, None], pa.float64()),
    }
    found = offsets.restored(drawn, schema, known)
    assert found["visited"].to_pylist() == [
        date(2023, 2, 28),
        date(2023, 1, 31),
        date(2023, 6, 30),
        date(2024, 7, 5),
        date(2023, 1, 31),
    ]
    assert found["month"].to_pylist() == [2, 1, 6, 7, 8], "what is known stays, also where it contradicts itself"
    assert found["hour"].to_pylist() == [11.0, 23.0, 2.0, 12.0, 12.0], "10:15 in UTC is noon in summer"
    assert offsets.agree(pa.table(found), schema).tolist() == [True, True, True, True, False]


def test_what_is_the_same_as_a_known_column_is_not_moved_to_what_is_known_of_its_part_or_of_what_comes_after_it() -> (
    None
):
    """A patient arrived on 31 January, and left on 5 February: the visit was that of the arrival, whatever was drawn."""
    types = {**PARTED_TYPES, "left": pa.date32()}
    schema = build(types, {**PARTED, "visited": {"same_as": "arrived"}, "left": {"after": "visited"}})
    drawn = {"arrived": moments("2022-09-09T10:15:00+00:00"), "left: after visited": pa.array([3])}
    for known in ({"month": pa.array([1], pa.int32())}, {"left": pa.array([date(2023, 2, 5)], pa.date32())}):
        empty = {n: pa.nulls(1, t) for n, t in types.items()}
        found = offsets.restored(drawn, schema, {**empty, "arrived": moments("2023-01-31T11:15:00+00:00"), **known})
        assert found["visited"].to_pylist() == [date(2023, 1, 31)]
        assert offsets.agree(pa.table(found), schema).all()


def test_what_was_released_of_a_part_lies_between_its_ends_and_of_a_year_between_those_of_its_date(
    tmp_path: Path,
) -> None:
    types = {"seen": pa.date32(), "year": pa.int32(), "month": pa.int32()}
    declared = {n: {"same_as": "seen", "part": n} for n in ("year", "month")}
    days = [date(2019 + n % 4, 1 + n % 12, 3) for n in range(400)]
    rows = pa.table({"seen": days, "year": [d.year for d in days], "month": [d.month for d in days]})
    with no_noise():
        taken = take(rows.cast(pa.schema(list(types.items()))), tmp_path, declared)
        found = offsets.published(taken.schema, profile(taken, quiet(400)))
    assert (found["month"].lower, round(found["month"].upper or 0, 6)) == (1, 12)
    assert 2018 <= (found["year"].lower or 0) <= 2019
    assert 2022 <= (found["year"].upper or 0) <= 2023.1


def test_what_was_released_of_a_part_that_is_a_text_are_its_labels_of_the_years_of_its_date(tmp_path: Path) -> None:
    called = {"month": "month_abbr", "period": "year_month", "weekend": "weekend"}
    days = [date(2019 + n % 4, 1 + n % 12, 3) for n in range(400)]
    months = {"month": [f"{d:%b}" for d in days], "period": [f"{d:%Y-%m}" for d in days]}
    rows = pa.table({"seen": days, **months, "weekend": [d.weekday() > 4 for d in days]})
    with no_noise():
        taken = take(rows, tmp_path, {n: {"same_as": "seen", "part": part} for n, part in called.items()})
        found = offsets.published(taken.schema, profile(taken, quiet(400)))
    assert found["month"].values[:3] == ("Jan", "Feb", "Mar")
    assert sum(found["month"].weights) == pytest.approx(1)
    assert set(months["period"]) <= set(found["period"].values)
    assert len(found["period"].values) < 12 * 6
    assert found["weekend"].values == (False, True)


def test_schemas_with_parts_are_read_as_they_were_written() -> None:
    schema = build(PARTED_TYPES, PARTED)
    assert load_schema(dump_schema(schema)) == schema
    assert '"part"' not in dump_schema(build(PARTED_TYPES))
