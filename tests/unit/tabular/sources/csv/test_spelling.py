"""A synthetic CSV is written as the source was: dates, datetimes and times of day in the one format that all cells have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.schema import Kind
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.targets import sink
from tests.unit.tabular.snapshots import Declared, no_noise, profile, quiet, read, take

pytestmark = pytest.mark.slow

ROWS = 300
DAY = ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%-m/%-d/%Y", "%-d.%-m.%Y", "%d-%b-%Y"]
PLAIN = [
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S.%g"),
    *("%Y-%m-%d %H:%M:%S.%f", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M", "%m/%d/%Y %I:%M:%S %p"),
]
MOMENT = [f"{p}{zone}" for p in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S") for zone in formats.UTC]
MOMENT += ["%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%S.%gZ", "%Y-%m-%dT%H:%M:%S.%f+00:00"]
TEXT = [
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%-m/%-d/%Y %-H:%M",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %I:%M %p",
]
"""Formats of dates, of datetimes without a zone and with one, and of what DuckDB takes for text."""
CLOCK = [
    "%H:%M",
    "%-H:%M",
    "%H:%M:%S",
    "%-H:%M:%S",
    "%H:%M:%S.%g",
    "%H:%M:%S.%f",
    "%I:%M %p",
    "%-I:%M %p",
    "%I:%M:%S %p",
]


def moments(rows: int = ROWS) -> list[datetime]:
    rng = np.random.Generator(np.random.PCG64(5))
    return [datetime(2013, 1, 1) + timedelta(microseconds=int(u)) for u in rng.integers(0, 366 * 86_400_000_000, rows)]


def spelled(moment: date | time, format: str) -> str:
    """Python's own strftime, which has no milliseconds."""
    return moment.strftime(format.replace("%g", f"{getattr(moment, 'microsecond', 0) // 1000:03d}"))


def csv_file(folder: Path, cells: Iterable[str], name: str = "source.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("n,seen\n" + "".join(f"{i % 7},{c}\n" for i, c in enumerate(cells)))
    return path


def snapshot(path: Path, declared: Declared | None = None) -> ingestion.Snapshot:
    return read(str(path), path.parent / "restricted" / "snapshot.parquet", declared=declared)


def synthesized(taken: ingestion.Snapshot, target: Path, rows: int = ROWS) -> Path:
    """Profile, draw codes, decode, write and publish, as the chain does."""
    with no_noise():
        codec = TableCodec(taken.schema, profile(taken, quiet(taken.units)))
    rng = np.random.default_rng()
    codes = np.column_stack([rng.choice(len(m), rows, p=m) for m in codec.marginals()])
    synthetic = target.with_name("synthetic.parquet")
    sink.write_parquet(codec.decode_stream(iter(np.array_split(codes, 2))), taken.schema.arrow_schema(), synthetic)
    sink.publish(synthetic, str(target))
    return synthetic


def cells(path: Path) -> list[str]:
    return [line.partition(",")[2].strip('"') for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("format", [*DAY, *PLAIN, *MOMENT, *TEXT])
def test_dates_and_datetimes_come_back_as_the_source_wrote_them(tmp_path: Path, format: str) -> None:
    taken = snapshot(csv_file(tmp_path, [spelled(m, format) for m in moments()]))
    column = taken.schema["seen"]
    kind = "date32[day]" if format in DAY else "timestamp[us, tz=UTC]" if format in MOMENT else "timestamp[us]"
    assert (column.format, column.storage) == (format, kind)
    back = pq.read_table(taken.path)["seen"].to_pylist()
    assert sorted(spelled(r, format) for r in back) == sorted(spelled(m, format) for m in moments())
    synthetic = synthesized(taken, tmp_path / "out.csv")
    assert pq.read_schema(synthetic).field("seen").type == column.arrow_type, "Parquet keeps real types"
    drawn = pq.read_table(synthetic)["seen"].to_pylist()
    assert cells(tmp_path / "out.csv") == [spelled(d, format) for d in drawn]
    again = snapshot(tmp_path / "out.csv")
    assert again.schema == taken.schema, "whoever reads the source can read the synthetic file"


@pytest.mark.parametrize("null", ["", "NA"])
@pytest.mark.parametrize("format", CLOCK)
def test_times_of_day_come_back_as_the_source_wrote_them(tmp_path: Path, format: str, null: str) -> None:
    source_cells = [spelled(m, format) if i % 9 else null for i, m in enumerate(moments())]
    taken = snapshot(csv_file(tmp_path, source_cells))
    column = taken.schema["seen"]
    assert (column.kind, column.format, column.storage) == (Kind.DURATION, format, "time64[us]")
    kept = [t for t in hours(pq.read_table(taken.path)["seen"]) if t is not None]
    assert sorted(spelled(t, format) for t in kept) == sorted(c for c in source_cells if c != null)
    synthetic = synthesized(taken, tmp_path / "out.csv")
    drawn = pq.read_table(synthetic)["seen"].to_pylist()
    assert {type(t) for t in drawn} == {time, type(None)}, "Parquet keeps real types"
    assert cells(tmp_path / "out.csv") == ["" if t is None else spelled(t, format) for t in drawn]


def hours(lengths: pa.ChunkedArray) -> list[time | None]:
    """What a snapshot holds for times of day: microseconds since midnight."""
    return pa.array(lengths.to_pylist(), pa.int64()).cast(pa.time64("us")).to_pylist()


@pytest.mark.parametrize("format", ["%H:%M", "%-I:%M %p"])
@pytest.mark.parametrize("facts", [{}, {"kind": "duration"}], ids=str)
def test_times_of_day_are_read_by_a_declared_format(tmp_path: Path, facts: dict, format: str) -> None:
    taken = snapshot(csv_file(tmp_path, [spelled(m, format) for m in moments()]), {"seen": {**facts, "format": format}})
    assert (taken.schema["seen"].storage, taken.schema["seen"].format) == ("time64[us]", format)


@pytest.mark.parametrize("facts", [{"format": "%H:%M"}, {"kind": "duration", "format": "%H:%M"}], ids=str)
def test_times_of_day_are_written_in_a_declared_format(tmp_path: Path, facts: dict) -> None:
    path = csv_file(tmp_path, [spelled(m, "%H:%M") for m in moments()])
    other = snapshot(path, {"seen": facts | {"format": "%H:%M:%S"}})
    assert pq.read_table(other.path)["seen"].null_count == ROWS, "a cell in another format than the declared is a null"
    table = pa.table({"n": range(ROWS), "seen": pa.array([m.time() for m in moments()], pa.time64("us"))})
    synthesized(take(table, tmp_path / "parquet", {"seen": facts}), tmp_path / "out.csv")
    assert all(re.fullmatch(r"\d\d:\d\d", c) for c in cells(tmp_path / "out.csv"))


@pytest.mark.parametrize(
    ("kept", "format", "told"),
    [
        (time(9, 30), "%d.%m.%Y", "one of days; storage type .* takes a time of day alone, as in %H:%M"),
        (date(2013, 4, 25), "%H:%M", "one of times of day; storage type .* takes a day, as in %d.%m.%Y"),
        (9.5, "%H:%M", "format needs dates, datetimes or times of day; storage type double is none"),
    ],
    ids=["a day for times", "a time for days", "numbers"],
)
def test_a_format_of_another_kind_of_value_is_refused(tmp_path: Path, kept: object, format: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=f"column 'seen': .*{told}"):
        take(pa.table({"n": range(40), "seen": [kept] * 40}), tmp_path, {"seen": {"format": format}})


def test_one_cell_that_is_no_such_time_is_a_null_and_more_than_one_in_a_hundred_leave_text(tmp_path: Path) -> None:
    usual = [spelled(m, "%I:%M %p") for m in moments(120)]
    taken = snapshot(csv_file(tmp_path / "a", [*usual, "noon"]))
    assert taken.schema["seen"].storage == "time64[us]"
    assert pq.read_table(taken.path)["seen"].null_count == 1
    assert snapshot(csv_file(tmp_path / "c", [*usual, "noon", "noon"])).schema["seen"].storage == "string"
    declared: Declared = {"seen": {"kind": "category"}}
    assert snapshot(csv_file(tmp_path / "b", usual), declared).schema["seen"].storage == "string"


@pytest.mark.parametrize(
    ("written", "storage", "format", "shown"),
    [
        (
            ["2013-04-10T09:00:00Z", "2013-04-10 09:00:00Z"],
            *("timestamp[us, tz=UTC]", "%Y-%m-%d %H:%M:%SZ", "2013-04-10 09:00:00Z"),
        ),
        (
            ["2013-04-10T09:00:00Z", "2013-04-10T09:00:00.500Z"],
            *("timestamp[us, tz=UTC]", "%Y-%m-%dT%H:%M:%S.%gZ", "2013-04-10T09:00:00.000Z"),
        ),
        (["04/05/2013", "4/5/2013", "04/25/2013"], "date32[day]", "%m/%d/%Y", "04/05/2013"),
        (["2013-04-10 09:00:00+02"], "timestamp[us, tz=UTC]", None, "2013-04-10 07:00:00+00"),
    ],
    ids=["T and blank", "fractions", "leading zeros", "another zone"],
)
def test_cells_of_several_formats_are_all_read_and_written_in_the_most_frequent(
    tmp_path: Path, written: list[str], storage: str, format: str | None, shown: str
) -> None:
    path = csv_file(tmp_path, (written * ROWS)[:ROWS])
    path.write_text(path.read_text() + f"1,{written[-1]}\n")
    taken = snapshot(path)
    assert (taken.schema["seen"].storage, taken.schema["seen"].format) == (storage, format)
    assert pq.read_table(taken.path)["seen"].null_count == 0
    synthesized(taken, tmp_path / "out.csv")
    assert shown in cells(tmp_path / "out.csv")


def test_one_cell_of_another_format_changes_no_format_and_is_read(tmp_path: Path) -> None:
    usual = [spelled(m, "%Y-%m-%dT%H:%M:%S") for m in moments(3000)]
    taken = snapshot(csv_file(tmp_path, [*usual, "2013-04-10 09:00:00"]))
    assert taken.schema["seen"].format == "%Y-%m-%dT%H:%M:%S"
    assert datetime(2013, 4, 10, 9) in pq.read_table(taken.path)["seen"].to_pylist()


def test_leading_zeros_are_told_from_all_rows_not_from_the_first(tmp_path: Path) -> None:
    autumn = ["10/25/2013", "11/26/2013", "12/27/2013"] * 2000
    assert snapshot(csv_file(tmp_path / "a", autumn)).schema["seen"].format == "%m/%d/%Y"
    assert snapshot(csv_file(tmp_path / "b", [*autumn, "4/5/2013"])).schema["seen"].format == "%-m/%-d/%Y"


def test_nulls_have_no_say_and_a_column_of_nulls_stays_what_it_was(tmp_path: Path) -> None:
    late = [""] * 5000 + [spelled(m, "%d.%m.%Y %H:%M") for m in moments()]
    taken = snapshot(csv_file(tmp_path / "late", late))
    assert taken.schema["seen"].format == "%d.%m.%Y %H:%M"
    assert pq.read_table(taken.path)["seen"].null_count == 5000
    none = snapshot(csv_file(tmp_path / "none", [""] * ROWS)).schema["seen"]
    assert (none.kind, none.storage, none.format) == (Kind.CATEGORY, "string", None)


def test_text_that_two_formats_fit_stays_text_unless_one_is_declared(tmp_path: Path) -> None:
    path = csv_file(tmp_path, ["04/05/2013 10:11", "06/07/2013 10:12"] * 40)
    assert snapshot(path).schema["seen"].storage == "string"
    for format, day in (
        ("%m/%d/%Y %H:%M", datetime(2013, 4, 5, 10, 11)),
        ("%d/%m/%Y %H:%M", datetime(2013, 5, 4, 10, 11)),
    ):
        taken = snapshot(path, {"seen": {"format": format}})
        assert taken.schema["seen"].storage == "timestamp[us]"
        assert day in pq.read_table(taken.path)["seen"].to_pylist()
        synthesized(taken, tmp_path / "out.csv")
        assert set(cells(tmp_path / "out.csv")) <= {"04/05/2013 10:11", "06/07/2013 10:12"}


@pytest.mark.parametrize("declared", [None, "%m/%d/%Y", "%d/%m/%Y"])
def test_dates_that_two_formats_fit_are_written_as_they_were_read(tmp_path: Path, declared: str | None) -> None:
    path = csv_file(tmp_path, ["04/05/2013", "06/07/2013", "06/05/2013"] * 40)
    taken = snapshot(path, {"seen": {"format": declared}} if declared else None)
    chosen = taken.schema["seen"].format
    assert chosen == declared or (declared is None and chosen in ("%m/%d/%Y", "%d/%m/%Y"))
    read = pq.read_table(taken.path)["seen"].to_pylist()
    assert {spelled(r, chosen or "") for r in read} == {"04/05/2013", "06/07/2013", "06/05/2013"}


def test_a_doubtful_column_follows_the_reading_that_its_file_decides(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sure,seen\n" + "04/25/2013,04/05/2013\n05/26/2013,06/07/2013\n" * 40)
    taken = snapshot(path)
    assert [c.format for c in taken.schema] == ["%m/%d/%Y", "%m/%d/%Y"]
    assert date(2013, 4, 5) in pq.read_table(taken.path)["seen"].to_pylist()


def test_two_columns_of_one_file_may_be_written_differently(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [(spelled(m, "%m/%d/%Y"), spelled(m, "%d.%m.%Y %H:%M"), "yes" if m.day % 2 else "no") for m in moments()]
    path.write_text("born,seen at,said\n" + "".join(f"{','.join(r)}\n" for r in rows))
    taken = snapshot(path)
    assert [c.format for c in taken.schema] == ["%m/%d/%Y", "%d.%m.%Y %H:%M", None]
    assert [str(c.kind) for c in taken.schema] == ["date", "datetime", "category"]


@pytest.mark.parametrize(
    "facts",
    [{"kind": "category"}, {"categories": ["25.04.2013 10:11"]}],
    ids=["category", "categories"],
)
def test_text_that_a_person_declared_stays_text(tmp_path: Path, facts: dict) -> None:
    taken = snapshot(csv_file(tmp_path, ["25.04.2013 10:11", "26.04.2013 10:11"] * 40), {"seen": facts})
    assert (taken.schema["seen"].storage, taken.schema["seen"].format) == ("string", None)


@pytest.mark.parametrize("cell", ["25.04.2013 10:11 Ulm", "31.02.2013 10:11", "25.04.2013 10", "x", "25.4.2013 10:11"])
def test_one_cell_that_is_no_such_datetime_is_a_null_and_many_leave_text(tmp_path: Path, cell: str) -> None:
    usual = [spelled(m, "%d.%m.%Y %H:%M") for m in moments(120)]
    taken = snapshot(csv_file(tmp_path / "one", [*usual, cell]))
    assert taken.schema["seen"].storage == "timestamp[us]"
    assert pq.read_table(taken.path)["seen"].null_count == (0 if cell.startswith("25.4.") else 1)
    many = snapshot(csv_file(tmp_path / "many", [*usual, *[cell] * 40]))
    assert (many.schema["seen"].storage == "string") == (not cell.startswith("25.4."))


def test_a_cell_that_is_not_written_in_the_declared_format_is_a_null(tmp_path: Path) -> None:
    path = csv_file(tmp_path, ["25.04.2013", "04/26/2013"] * 40)
    taken = snapshot(path, {"seen": {"format": "%m/%d/%Y"}})
    assert taken.schema["seen"].storage == "date32[day]"
    assert set(pq.read_table(taken.path)["seen"].to_pylist()) == {None, date(2013, 4, 26)}


@pytest.mark.parametrize(
    "format",
    [
        "%d.%m",
        "d.m.Y",
        "%Y-%m-%d %Q",
        "%",
        "%-b %d %Y",
        "%Y-%m-%",
        20130425,
        "%H",
        "%I:%M",
        "%H:%M %z",
        "%d.%m.%%Y",
        "",
    ],
)
def test_a_format_that_is_none_is_refused_for_every_source(tmp_path: Path, format: object) -> None:
    told = r"column 'seen': format: expected the directives of a day, as in '%d\.%m\.%Y'"
    with pytest.raises(InvalidInput, match=told):
        snapshot(csv_file(tmp_path, ["2013-04-25"] * 40), {"seen": {"format": format}})
    with pytest.raises(InvalidInput, match=told):
        take(pa.table({"seen": moments(40)}), tmp_path / "parquet", {"seen": {"format": format}})


def test_every_directive_that_may_be_declared_is_one_of_duckdbs() -> None:
    found = [*formats.DAYS, *formats.CLOCK, *(f"-{d}" for d in formats.BARE)]
    for directive in found:
        formats.check("c", f"%Y %m %d %{directive}")
        duckdb.sql(
            f"SELECT try_strptime('x', '%{directive}'), strftime(TIMESTAMP '2013-04-25', '%{directive}')"
        ).fetchall()


def test_a_declared_format_is_how_a_parquet_source_is_written(tmp_path: Path) -> None:
    table = pa.table({"n": [i % 7 for i in range(ROWS)], "seen": pa.array(moments(), pa.timestamp("us"))})
    taken = take(table, tmp_path, {"seen": {"format": "%d.%m.%Y, %H:%M"}})
    synthesized(taken, tmp_path / "out.csv")
    assert all(re.fullmatch(r"\d\d\.\d\d\.\d{4}, \d\d:\d\d", c) for c in cells(tmp_path / "out.csv"))


def test_datetimes_of_a_declared_zone_are_written_in_utc_as_they_were(tmp_path: Path) -> None:
    path = csv_file(tmp_path, ["2013-04-10T09:00:00Z"] * ROWS)
    taken = snapshot(path, {"seen": {"zone": "Europe/Paris"}})
    assert taken.schema["seen"].storage == "timestamp[us, tz=Europe/Paris]"
    synthesized(taken, tmp_path / "out.csv")
    assert set(cells(tmp_path / "out.csv")) == {"2013-04-10T09:00:00Z"}


def test_constants_are_written_in_a_declared_format(tmp_path: Path) -> None:
    path = csv_file(tmp_path, ["25.04.2013"] * 40)
    taken = snapshot(path, {"seen": {"kind": "constant", "constant": "2024-01-31", "format": "%d.%m.%Y"}})
    synthesized(taken, tmp_path / "out.csv")
    assert set(cells(tmp_path / "out.csv")) == {"31.01.2024"}


def test_a_format_is_a_note_of_the_file_that_changes_no_type_of_any_other_target(tmp_path: Path) -> None:
    taken = snapshot(csv_file(tmp_path, ["2013-04-10T09:00:00Z", "2013-04-11T09:00:00Z"] * 40))
    synthetic = synthesized(taken, tmp_path / "out.csv")
    noted = pq.read_schema(synthetic)
    assert noted.field("seen").metadata[formats.FORMAT] == b"%Y-%m-%dT%H:%M:%SZ"
    assert not noted.field("n").metadata or formats.FORMAT not in noted.field("n").metadata
    bare = [pa.record_batch(b.columns, b.schema.names) for b in pq.read_table(synthetic).to_batches()]
    sink.write_parquet(bare, taken.schema.arrow_schema(), tmp_path / "ruled.parquet")
    kept = pq.read_schema(tmp_path / "ruled.parquet").field("seen").metadata
    assert kept[formats.FORMAT] == b"%Y-%m-%dT%H:%M:%SZ", "rules write columns anew, without notes"
    sink.publish(synthetic, f"duckdb:///{tmp_path / 'd.duckdb'}?table=t")
    with duckdb.connect(str(tmp_path / "d.duckdb"), read_only=True) as con:
        assert con.execute("SELECT DISTINCT typeof(seen) FROM t").fetchall() == [("TIMESTAMP WITH TIME ZONE",)]
    sink.publish(synthetic, str(tmp_path / "copy.parquet"))
    assert pq.read_table(tmp_path / "copy.parquet").equals(pq.read_table(synthetic), check_metadata=True)
