"""Which dates hang on others is told by noisy counts of the days between them, and by nothing else."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.ordered_dates import CELLS, DatesPlan, Pair
from dp_synth_pipeline.tabular.schema import build

ROWS = 4_000
TYPES = {
    "arrived": pa.timestamp("us"),
    "visited": pa.date32(),
    "left": pa.date32(),
    "born": pa.date32(),
    "n": pa.int64(),
    "month": pa.int32(),
    "day_of_week": pa.int64(),
    "hour": pa.int8(),
    "month_name": pa.string(),
    "day": pa.string(),
    "quarter": pa.string(),
    "period": pa.string(),
    "is_weekend": pa.bool_(),
    "weekend": pa.int8(),
}


def stays(rows: int = ROWS) -> dict[str, np.ndarray]:
    """A stay begins on the day of arrival, and half of them end up to 9 days later; births are decades before."""
    rng = np.random.default_rng()
    day = np.datetime64("2022-01-01") + rng.integers(0, 700, rows)
    minutes = rng.integers(0, 24 * 60, rows).astype("timedelta64[m]")
    return {
        "arrived": (day.astype("datetime64[us]") + minutes),
        "visited": day,
        "left": np.where(rng.random(rows) < 0.5, day + rng.integers(0, 10, rows), np.datetime64("NaT")),
        "born": day - rng.integers(366 * 5, 366 * 90, rows),
        "n": rng.integers(0, 9, rows),
    }


def found(
    columns: dict[str, Any], folder: Path, scale: float = 1e-6, declared: dict[str, Any] | None = None, **changes: Any
) -> dict[str, dict[str, str]]:
    """Return what is found of a table's columns at some noise."""
    arrays = {n: pa.array(v, TYPES[n], from_pandas=True) for n, v in columns.items()}
    pq.write_table(pa.table(arrays), folder / "rows.parquet")
    schema = build({n: TYPES[n] for n in columns}, declared)
    free = changes.get("free", (*ordered_dates.dates(schema), *ordered_dates.parts(schema)))
    plan, last = DatesPlan(ordered_dates.pairs(schema, free), scale), changes.get("last", ())
    return ordered_dates.measure(folder / "rows.parquet", schema, free, plan, Odometer(plan.events), last)


def test_what_comes_on_the_same_day_or_soon_after_is_found_and_what_is_years_before_is_not(tmp_path: Path) -> None:
    told = found(stays(), tmp_path, 5.0)
    assert told["visited"] == {"same_as": "arrived"}
    assert told["left"] in ({"after": "visited"}, {"after": "arrived"})
    assert set(told) == {"visited", "left"}


def test_nothing_hangs_on_the_last_ones_nor_are_they_the_same_as_others(tmp_path: Path) -> None:
    rows = stays()
    rows = {"born": rows["born"], "visited": rows["visited"], "left": rows["visited"] + 3}
    assert found(rows, tmp_path, 5.0) == {"left": {"after": "visited"}}
    assert found(rows, tmp_path, 5.0, last=["visited"]) == {}
    rows |= {"left": rows["visited"]}
    assert found(rows, tmp_path, 5.0, last=["left"]) == {"left": {"after": "visited"}}


def test_the_last_ones_are_not_after_what_is_the_same_as_another_one() -> None:
    schema = build({n: TYPES[n] for n in ("born", "visited", "left")}, {})
    same, later = np.array([0, 0, 1000, 0, 0, 0, 0]), np.array([0, 0, 0, 1000, 0, 0, 0])
    counts = {Pair("visited", "left"): later, Pair("born", "left"): later, Pair("born", "visited"): same}
    told = ordered_dates._chosen(schema, (schema.names, ["left"]), counts, 1.0)
    assert told == {"visited": {"same_as": "born"}, "left": {"after": "born"}}


def test_of_several_bases_the_latest_is_taken_which_lies_nearest(tmp_path: Path) -> None:
    visited = stays()["visited"]
    left = visited + np.random.default_rng().integers(1, 10, ROWS)
    paid = left + np.random.default_rng().integers(1, 31, ROWS)
    for names in (("visited", "left", "born"), ("born", "left", "visited"), ("left", "born", "visited")):
        rows = {"visited": visited, "left": left, "born": paid}
        told = found({name: rows[name] for name in names}, tmp_path, 5.0)
        assert told == {"left": {"after": "visited"}, "born": {"after": "left"}}


def test_the_order_of_columns_does_not_matter(tmp_path: Path) -> None:
    rows = stays()
    told = found({n: rows[n] for n in ("left", "visited", "arrived")}, tmp_path)
    assert told["visited"] == {"same_as": "arrived"}, "a datetime is not told by its day"
    assert told["left"]["after"] in {"visited", "arrived"}


def test_a_datetime_comes_after_a_date_from_its_midnight_on(tmp_path: Path) -> None:
    rows = stays()
    told = found({"visited": rows["visited"], "arrived": rows["arrived"] + np.timedelta64(3, "D")}, tmp_path)
    assert told == {"arrived": {"after": "visited"}}


@pytest.mark.parametrize(("broken", "known"), [(0.03, True), (0.1, False)])
def test_a_few_rows_may_break_it(tmp_path: Path, broken: float, known: bool) -> None:
    rows = stays()
    wrong = np.arange(ROWS) < broken * ROWS
    left = np.where(wrong & ~np.isnat(rows["left"]), rows["visited"] - 5, rows["left"])
    told = found({"visited": rows["visited"], "left": left}, tmp_path)
    assert told == ({"left": {"after": "visited"}} if known else {})


def test_a_column_that_stands_where_its_base_is_null_stands_by_itself(tmp_path: Path) -> None:
    rows = stays()
    visited = np.where(np.arange(ROWS) % 4 > 0, rows["visited"], np.datetime64("NaT"))
    left = rows["visited"] + np.arange(ROWS) % 10
    assert found({"visited": visited, "left": left}, tmp_path) == {}
    assert found({"visited": left, "left": np.where(np.isnat(visited), visited, left)}, tmp_path) == {
        "left": {"after": "visited"}
    }, "nulls of its own are not in the way of what comes after another column, and are of equal values"


def test_what_a_person_declared_stays(tmp_path: Path) -> None:
    rows = stays()
    both = {"visited": rows["visited"], "left": rows["visited"].copy()}
    assert found(both, tmp_path) == {"left": {"same_as": "visited"}}
    assert found(both, tmp_path, declared={"left": {"nulls": "drop"}}) == {"visited": {"after": "left"}}, (
        "nulls of equal columns would be those of the base, and were declared others"
    )
    assert found(both, tmp_path, declared={"left": {"lower": date(2000, 1, 1)}}) == {"visited": {"same_as": "left"}}
    assert found(both, tmp_path, free=["visited"]) == {"visited": {"same_as": "left"}}


def test_pairs_of_columns_of_which_all_was_said_are_not_compared() -> None:
    schema = build(TYPES)
    assert ordered_dates.dates(schema) == ("arrived", "visited", "left", "born")
    assert ordered_dates.pairs(schema, []) == ()
    pairs = (("arrived", "left", None), ("visited", "left", None), ("left", "born", None))
    assert ordered_dates.pairs(schema, ["left"]) == pairs


def test_each_column_hangs_on_one_other_at_most_and_none_on_itself(tmp_path: Path) -> None:
    rows = stays()
    same = dict.fromkeys(("visited", "left", "born"), rows["visited"])
    assert found(same, tmp_path) == {"left": {"same_as": "visited"}, "born": {"same_as": "visited"}}


def test_noise_that_hides_a_fact_finds_none(tmp_path: Path) -> None:
    rows = stays()
    assert not any(found(rows, tmp_path, scale=ROWS * 2.0) for _ in range(20))
    assert not ordered_dates.finds_any(ROWS * 2.0, ROWS)
    assert ordered_dates.finds_any(ROWS / 100, ROWS)


def test_unrelated_dates_are_hardly_ever_tied(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    days = {n: np.datetime64("2022-01-01") + rng.integers(0, 700, ROWS) for n in ("visited", "left", "born")}
    assert not any(found(days, tmp_path, scale=0.02 * ROWS) for _ in range(20))


def test_the_histograms_are_what_is_charged_for(tmp_path: Path) -> None:
    plan = DatesPlan((Pair("a", "b"), Pair("a", "c")), 30.0, PrivacyUnit("person", 3))
    assert plan.events == (Gaussian(10.0, 2),)
    pq.write_table(pa.table({n: pa.array(stays(10)[n], TYPES[n]) for n in ("visited", "left")}), tmp_path / "r.parquet")
    schema = build({n: TYPES[n] for n in ("visited", "left")})
    persons = DatesPlan((Pair("visited", "left"),), 30.0, PrivacyUnit("person", 3))
    odometer = Odometer(persons.events)
    ordered_dates.measure(tmp_path / "r.parquet", schema, ["left"], persons, odometer)
    with pytest.raises(NotCharged):  # one call is all that was charged for
        ordered_dates.measure(tmp_path / "r.parquet", schema, ["left"], persons, odometer)
    cheap, charged = (DatesPlan((Pair("visited", "left"),), scale) for scale in (1.0, 2.0))
    with pytest.raises(NotCharged):
        ordered_dates.measure(tmp_path / "r.parquet", schema, ["left"], cheap, Odometer(charged.events))


MOMENTS = st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))


@given(st.lists(st.tuples(MOMENTS, MOMENTS, MOMENTS), max_size=6), st.tuples(MOMENTS, MOMENTS, MOMENTS))
def test_a_row_more_moves_one_cell_of_each_histogram_by_one_at_most(rows: list[Any], more: Any) -> None:
    schema = build({"a": pa.timestamp("us"), "b": pa.date32(), "c": pa.timestamp("us", "UTC")})
    pairs = ordered_dates.pairs(schema, ordered_dates.dates(schema))
    assert len(pairs) == 3

    def counts(held: list[Any]) -> list[np.ndarray]:
        columns = list(zip(*held, strict=True)) or [[], [], []]
        table = pa.table(
            {
                "a": pa.array(columns[0], pa.timestamp("us")),
                "b": pa.array([v and v.date() for v in columns[1]], pa.date32()),
                "c": pa.array(columns[2], pa.timestamp("us", "UTC")),
            }
        )
        return [ordered_dates._cells(table, schema[a], schema[b]) for a, b, _ in pairs]

    for before, after in zip(counts(rows), counts([*rows, more]), strict=True):
        moved = after - before
        assert len(moved) == CELLS
        assert moved.min() >= 0
        assert moved.sum() <= 1


@pytest.mark.parametrize(
    ("part", "of"),
    [
        ("month", st.integers(-(2**62), 2**62)),
        ("year_month", st.text() | st.sampled_from(["2024-05", "9999-12", "0000-01", "-001-01"])),
        ("weekday_name", st.text() | st.sampled_from(["Monday", "monday"])),
        ("weekend", st.booleans()),
    ],
)
@given(data=st.data())
def test_a_row_more_moves_one_cell_by_one_at_most_of_a_part_beside_its_date(
    part: str, of: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(MOMENTS, st.none() | of), min_size=1, max_size=6))
    kind = {"month": pa.int64(), "weekend": pa.bool_()}.get(part, pa.string())
    types = {"seen": pa.timestamp("us"), "month": kind}
    schema = build(types, {"month": {"same_as": "seen", "part": part}})

    def counts(held: list[Any]) -> np.ndarray:
        arrays = {n: pa.array([row[i] for row in held], t) for i, (n, t) in enumerate(types.items())}
        return ordered_dates._cells(pa.table(arrays), schema["seen"], schema["month"])

    moved = counts(rows) - counts(rows[:-1])
    assert moved.min() >= 0
    assert moved.sum() <= 1


def with_parts(rows: int = ROWS, weekday: int = 0) -> dict[str, np.ndarray]:
    """Return moments beside their month, weekday and hour; `weekday` shifts how days of a week are counted."""
    arrived = stays(rows)["arrived"]
    days = arrived.astype("datetime64[D]")
    return {
        "arrived": arrived,
        "month": days.astype("datetime64[M]").astype(int) % 12 + 1,
        "day_of_week": (days.astype(int) + 3 + weekday) % 7 + (weekday == 0),
        "hour": (arrived - days).astype("timedelta64[h]").astype(int),
    }


@pytest.mark.parametrize(("weekday", "part"), [(0, "isoweekday"), (1, "dow")])
def test_whole_numbers_named_as_parts_of_a_date_are_told_by_how_often_they_are(
    tmp_path: Path, weekday: int, part: str
) -> None:
    assert found(with_parts(weekday=weekday), tmp_path, 5.0) == {
        "month": {"same_as": "arrived", "part": "month"},
        "day_of_week": {"same_as": "arrived", "part": part},
        "hour": {"same_as": "arrived", "part": "hour"},
    }


def spelled(rows: int = ROWS) -> dict[str, np.ndarray]:
    """Return moments beside what their month, weekday and quarter are called."""
    arrived = pd.Series(with_parts(rows)["arrived"])
    return {
        "arrived": arrived.to_numpy(),
        "month_name": arrived.dt.strftime("%B").to_numpy(object),
        "day": arrived.dt.strftime("%a").to_numpy(object),
        "quarter": ("Q" + arrived.dt.quarter.astype(str)).to_numpy(object),
        "period": arrived.dt.strftime("%Y-%m").to_numpy(object),
        "is_weekend": arrived.dt.weekday.to_numpy() > 4,
        "weekend": (arrived.dt.weekday.to_numpy() > 4).astype(int),
    }


def test_texts_and_booleans_named_as_parts_of_a_date_are_told_by_how_often_they_are(tmp_path: Path) -> None:
    called = {"month_name": "month_name", "day": "weekday_abbr", "quarter": "quarter_label", "period": "year_month"}
    called |= {"is_weekend": "weekend", "weekend": "weekend"}
    told = {name: {"same_as": "arrived", "part": part} for name, part in called.items()}
    assert found(spelled(), tmp_path, 5.0) == told
    rows = spelled()
    other = {
        **rows,
        "month_name": np.roll(rows["month_name"], 1),
        "period": np.where(np.arange(ROWS) % 3, rows["period"], "never"),
    }
    assert set(found(other, tmp_path, 5.0)) == {"day", "quarter", "is_weekend", "weekend"}


def test_a_number_that_is_named_as_a_part_and_is_none_stays_by_itself(tmp_path: Path) -> None:
    rows = with_parts()
    wrong = np.where(np.arange(ROWS) % 10 < 2, 13 - rows["month"], rows["month"])
    other = {**rows, "month": wrong, "hour": np.arange(ROWS) % 24}
    assert set(found(other, tmp_path, 5.0)) == {"day_of_week"}


def test_a_part_is_looked_for_by_its_name_alone_and_where_there_is_a_date_that_has_it() -> None:
    def parts(types: dict[str, pa.DataType], free: list[str]) -> list[tuple[str, str | None]]:
        return [(pair.first, pair.part) for pair in ordered_dates.pairs(build(types), free)]

    types = {"seen": pa.date32(), "month": pa.int64(), "hour": pa.int64(), "n": pa.int64()}
    assert parts(types, ["month", "hour", "n"]) == [("seen", "month")], "a date has no hour"
    assert parts(types, ["n"]) == []
    assert ordered_dates.parts(build({"month": pa.int64(), "n": pa.int64()})) == ()
    texts = {
        "seen": pa.date32(),
        "month": pa.string(),
        "weekend": pa.bool_(),
        "weekday": pa.bool_(),
        "hour": pa.string(),
    }
    assert ordered_dates.parts(build(texts)) == ("month", "weekend")
    said = parts(texts, list(texts))
    assert said == [("seen", part) for part in ("year_month", "month_name", "month_abbr", "weekend")]
    assert ordered_dates.parts(build(texts, {"month": {"categories": ["May"]}})) == ("weekend",), "a list was declared"


def test_of_two_dates_a_part_is_that_of_the_one_that_it_fits_better(tmp_path: Path) -> None:
    rows = stays()
    left = rows["visited"] + np.random.default_rng().integers(0, 2, ROWS)
    month = left.astype("datetime64[M]").astype(int) % 12 + 1
    told = found({"visited": rows["visited"], "left": left, "month": month}, tmp_path)
    assert told["month"] == {"same_as": "left", "part": "month"}
