"""Storage types as DuckDB alone does not tell them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from tests.unit.tabular.snapshots import profile, quiet, take

MOST = 2**63 - 1
DAY, MICRO = timedelta(days=1), timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6}


def snapshot(folder: Path, value: str, **declared: dict) -> ingestion.Snapshot:
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS SELECT {value}::HUGEINT AS h, i AS n FROM range(30) r(i)")
    found = source.parse(f"duckdb:///{folder / 't.duckdb'}?table=t")
    return ingestion.snapshot(found, folder / "s" / "snapshot.parquet", declared=declared)


def test_whole_numbers_of_128_bits_are_read_as_decimals_and_not_as_doubles(tmp_path: Path) -> None:
    taken = snapshot(tmp_path, str(10**38 - 1))
    assert taken.schema["h"].arrow_type == pa.decimal128(38, 0)
    assert set(pq.read_table(taken.path).column("h").to_pylist()) == {Decimal(10**38 - 1)}


def test_one_of_more_than_38_digits_is_a_null(tmp_path: Path) -> None:
    taken = snapshot(tmp_path, str(2**127 - 1))
    assert set(pq.read_table(taken.path).column("h").to_pylist()) == {None}


def taken_of(values: list[int | None], storage: pa.DataType, folder: Path) -> ingestion.Snapshot:
    """Return a snapshot of a column whose cells are stored as these whole numbers."""
    whole = pa.array(values, pa.int32() if pa.types.is_date(storage) else pa.int64())
    return take(pa.table({"i": range(len(values)), "x": whole.cast(storage)}), folder)


def taken_from_a_table(kind: str, values: list[str], folder: Path) -> ingestion.Snapshot:
    """Return a snapshot of a DuckDB table, which has types that a Parquet file lacks."""
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute("SET TimeZone = 'UTC'")
        con.execute(f"CREATE TABLE t AS SELECT i, x::{kind} AS x FROM (VALUES {rows}) v(i, x)")
    found = source.parse(f"duckdb:///{folder / 't.duckdb'}?table=t")
    return ingestion.snapshot(found, folder / "s" / "snapshot.parquet")


def cells(taken: ingestion.Snapshot) -> list[Any]:
    """Return the cells of a snapshot as Python has them, in the source's zone."""
    column = pq.read_table(taken.path).sort_by("i")["x"]
    return [cell.as_py() for cell in column.cast(taken.schema["x"].arrow_type)]


def told(moment: datetime, zone: str | None) -> datetime:
    return moment if zone is None else moment.replace(tzinfo=UTC)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("unit", PER_SECOND)
def test_moments_beyond_the_years_1_to_9999_come_out_at_their_nearest_end(
    unit: str, zone: str | None, tmp_path: Path
) -> None:
    second, inner = PER_SECOND[unit], timedelta(0) if zone in (None, "UTC") else DAY
    beyond = [-62_135_596_800 * second - 1, 253_402_300_800 * second, -(10**12) * second, 10**12 * second]
    found = cells(taken_of([None, 0, 7 * second, *beyond], pa.timestamp(unit, zone), tmp_path))
    first, last = told(datetime.min + inner, zone), told(datetime.max - inner, zone)
    assert found == [None, told(EPOCH, zone), told(EPOCH + timedelta(seconds=7), zone), first, last, first, last]


def test_days_beyond_the_years_1_to_9999_come_out_at_their_nearest_end(tmp_path: Path) -> None:
    found = cells(taken_of([None, 0, 2_932_896, 2_932_897, -719_163, 2**31 - 2, -(2**31)], pa.date32(), tmp_path))
    assert found == [None, EPOCH.date(), date.max, date.max, date.min, date.max, date.min]


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("TIMESTAMP_S", datetime.max.replace(microsecond=0)),
        ("TIMESTAMP_MS", datetime.max.replace(microsecond=999_000)),
        ("TIMESTAMP", datetime.max),
        ("TIMESTAMPTZ", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_moments_of_a_table_keep_to_the_calendar_in_every_unit(kind: str, last: datetime, tmp_path: Path) -> None:
    values = ["'2020-01-02 03:04:05'", "'9999-12-31 23:59:59'", "'290000-01-01'", "'5000-01-01 (BC)'", "'-infinity'"]
    ordinary = datetime(2020, 1, 2, 3, 4, 5, tzinfo=last.tzinfo), last.replace(microsecond=0)
    expected = [*ordinary, last, datetime.min.replace(tzinfo=last.tzinfo), None, None]
    assert cells(taken_from_a_table(kind, [*values, "NULL"], tmp_path)) == expected


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_last_moment_that_stands_for_never_is_kept_as_it_is(zone: str | None, tmp_path: Path) -> None:
    never = [told(datetime(9999, 12, 31, *clock), zone) for clock in ((), (23, 59, 59), (23, 59, 59, 999_999))]
    whole = [(moment - told(EPOCH, zone)) // MICRO for moment in never]
    assert cells(taken_of(whole, pa.timestamp("us", zone), tmp_path)) == never


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("end", [MOST, -MOST, MOST - 1, -MOST + 1])
def test_the_ends_of_nanoseconds_in_a_zone_are_null_or_finite_and_can_be_profiled(
    end: int, zone: str, tmp_path: Path
) -> None:
    taken = taken_of([end, *range(0, 60 * 10**9, 10**9)], pa.timestamp("ns", zone), tmp_path)
    first, *others = pq.read_table(taken.path).sort_by("i")["x"].to_pylist()
    assert first is None or 1677 <= first.year <= 2262
    assert others == [told(EPOCH, zone) + timedelta(seconds=s) for s in range(60)]
    assert profile(taken, quiet(61))["x"].null_rate < 0.2


@pytest.mark.parametrize(("unit", "micros"), [("s", 10**6), ("ms", 10**3)])
def test_a_duration_that_64_bits_of_microseconds_do_not_hold_is_a_null(unit: str, micros: int, tmp_path: Path) -> None:
    most = MOST // micros
    taken = taken_of([1, None, most, -most, most + 1, MOST, -MOST], pa.duration(unit), tmp_path)
    held = pq.read_table(taken.path).sort_by("i")["x"].to_pylist()
    assert held == [micros, None, most * micros, -most * micros, None, None, None]


def test_an_interval_that_is_too_long_is_a_null(tmp_path: Path) -> None:
    values = ["'1 day'", "'178000000 years'", "'-178000000 years'", "NULL", "'1 month'"]
    assert cells(taken_from_a_table("INTERVAL", values, tmp_path)) == [DAY, None, None, None, 30 * DAY]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_zone_that_nobody_knows_is_refused_by_name(unit: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'x'.*'Foo/Bar'"):
        taken_of([1, 2], pa.timestamp(unit, "Foo/Bar"), tmp_path)
