"""Bad input: one clear error each, with what to do next, without a value."""

from __future__ import annotations

import codecs
import math
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.sources import ingestion, source
from tests.unit.tabular.snapshots import take

CANARY = "Xq7canary"
"""A cell that no message may repeat."""

GOOD = "".join(f"{i % 9},v{i % 3}\n" for i in range(50))
MANY = "".join(f"{i % 9},{i % 7}\n" for i in range(30_000))
"""More rows than DuckDB samples to guess types."""


def refused(uri: str, folder: Path, **options: Any) -> str:
    def read() -> None:
        found = source.parse(uri, options.get("declared"))
        ingestion.snapshot(found, folder / "restricted" / "snapshot.parquet", **options)

    with pytest.raises(InvalidInput) as caught:
        read()
    assert caught.value.exit_code == 2
    assert CANARY not in str(caught.value)
    assert not re.search("4711|1987|3.5e7", str(caught.value)), "a first line without names is a row"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "a trace would show the value"
    left = folder / "restricted"
    assert not left.exists() or not list(left.iterdir()), "nothing is left of what was read"
    return str(caught.value)


def csv_refused(text: str, folder: Path, name: str = "t.csv", **options: Any) -> str:
    (folder / name).write_text(text)
    return refused(str(folder / name), folder, **options)


@pytest.mark.parametrize("uri", ["no.csv", "no.parquet", "no*.csv", "duckdb:///no.duckdb?table=t"])
def test_a_file_that_does_not_exist_is_named(tmp_path: Path, uri: str) -> None:
    where = uri if uri.startswith("duckdb") else str(tmp_path / uri)
    assert "no such" in refused(where, tmp_path)


def test_an_unknown_kind_of_source_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    assert "Give .csv, .parquet, duckdb:///" in csv_refused("a\n1\n", tmp_path, "t.xlsx")


def test_a_duckdb_uri_without_a_table_or_with_an_unknown_one_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert "names no table" in refused(f"duckdb:///{tmp_path}/d.duckdb", tmp_path)
    assert "no such table" in refused(f"duckdb:///{tmp_path}/d.duckdb?table=u", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: it holds no header and no row"),
        ("a,b\n", "has columns but no rows"),
        (f"a,b\n1,{CANARY}\n", "has one row only"),
        ("a,a\n" + GOOD, "duplicate column name 'a'"),
        ("a,A \n" + GOOD, "duplicate column name 'a'"),
        ("a,\n" + GOOD, "has no name"),
        ("\n" + GOOD, "has no name"),
        ("4711,\n" + GOOD, "first line of .* holds no column names"),
        ("4711,4711\n" + GOOD, "first line of .* holds no column names"),
        ("4711,1987-06-05\n" + GOOD, "first line of .* holds no column names"),
        ("-3.5e7,12:30\n" + GOOD, "first line of .* holds no column names"),
        ("true,1987-06-05 10:00:00\n" + GOOD, "first line of .* holds no column names"),
        (f"{CANARY},{CANARY},4711\n" + "1,2,3\n" * 30, "duplicate column name in "),
        ("a,b\n" + "1,0.5\n" * 30 + "1,inf\n", "column 'b' holds infinite or NaN numbers"),
        ("a,b\n" + "1,0.5\n" * 30 + "1,-inf\n", "column 'b' holds infinite or NaN numbers"),
        ("a,b\n" + "".join(f"1,{CANARY}{i}\n" for i in range(40)), "column 'b' is text that never repeats"),
        ("a,b\n" + GOOD + f"1,2,{CANARY}\n" + GOOD, "not valid CSV: wrong number of fields"),
        ("a,b\n" + GOOD + f"{CANARY}\n" + GOOD, "not valid CSV: wrong number of fields"),
        ("a,b\n" + GOOD + f'1,"{CANARY}\n' + GOOD, "not valid CSV: .* quotes"),
        ("a,b\n" + MANY + f"1,2,{CANARY}\n", r"line 30002 of .* is not valid CSV.* Mend that line"),
        (f"a,b\n4711,{CANARY}\n" + GOOD + f"4711,2,{CANARY}\n", r"line 53 of .* is not valid CSV"),
        ("a,b\n" + MANY + f"1,{CANARY}\n", "column 'b' mixes numbers and text; .*kind: category"),
        ("a,b\n" + "1,2\n" * 30 + f"1,{CANARY}\n" * 5, "column 'b' mixes numbers and text; .*kind: category"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) and " " in v[:60] else "",
)
def test_a_csv_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    assert re.search(message, csv_refused(text, tmp_path))


def test_names_that_hold_digits_are_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("2019,q1-2020\n" + GOOD)
    found = source.parse(str(tmp_path / "t.csv"))
    assert ingestion.snapshot(found, tmp_path / "restricted" / "s.parquet").schema.names == ("2019", "q1-2020")


def test_a_column_of_nulls_is_refused_only_where_it_would_leave_no_row(tmp_path: Path) -> None:
    message = csv_refused("a,b\n" + "1,\n" * 30, tmp_path, nulls="drop")
    assert "column 'b' holds only nulls, so nulls: drop would leave no row" in message
    taken = take(pa.table({"a": [1, 2] * 9, "b": pa.nulls(18)}), tmp_path / "kept")
    assert taken.schema["b"].storage == "string"


def test_a_cell_that_speaks_of_a_column_is_not_taken_for_one(tmp_path: Path) -> None:
    rows = "a,t\n" + "1 hour,hello\n" * 30 + f"x,my column {CANARY}: 5\n"
    message = csv_refused(rows, tmp_path, declared={"a": {"kind": "duration"}})
    assert "mixes types" in message


def test_a_mixed_column_that_is_declared_a_category_is_text(tmp_path: Path) -> None:
    for name, text in {"half": "1,2\n" * 30 + "1,unknown\n" * 5, "late": MANY + "1,unknown\n"}.items():
        (tmp_path / f"{name}.csv").write_text("a,b\n" + text)
        declared = {"b": {"kind": "category"}}
        found = source.parse(str(tmp_path / f"{name}.csv"), declared)
        taken = ingestion.snapshot(found, tmp_path / "restricted" / f"{name}.parquet", declared=declared)
        assert "unknown" in pq.read_table(taken.path)["b"].to_pylist()


def test_a_declared_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    message = csv_refused("a,b\n" + GOOD, tmp_path, declared={"c": {"kind": "category"}})
    assert message == "declared column 'c' is not in the source, which has: a, b."


@pytest.mark.parametrize("name", ["damaged.parquet", "damaged.csv.gz"])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path, name: str) -> None:
    message = csv_refused(f"{CANARY} " * 100, tmp_path, name)
    assert "cannot be" in message or "not valid CSV" in message


def test_duplicate_names_in_a_parquet_file_are_refused_though_duckdb_would_rename_them(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1, 2] * 9), pa.array([3, 4] * 9)], names=["a", "a"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert "duplicate column name 'a'" in refused(str(tmp_path / "t.parquet"), tmp_path)


@pytest.mark.parametrize("written", ['"${:,}.50"', "{}%", '"{},5"', "€ {}", "({}.5)", '"{:,}"'])
def test_numbers_written_for_people_are_not_taken_for_names(tmp_path: Path, written: str) -> None:
    rows = "".join(f"{i},{written.format(1000 + 37 * (i % 90))}\n" for i in range(200))
    assert "holds numbers with currency signs" in csv_refused("i,x\n" + rows, tmp_path)
    (tmp_path / "kept").mkdir()
    declared = {"x": {"kind": "category"}}
    few = "".join(f"{i},{written.format(1000 + 5 * (i % 9))}\n" for i in range(200))
    for text, told in (("i,x\n" + rows, declared), ("i,x\n" + few, None)):
        (tmp_path / "t.csv").write_text(text)
        taken = ingestion.snapshot(
            source.parse(str(tmp_path / "t.csv"), told), tmp_path / "kept" / "s.parquet", declared=told
        )
        assert taken.schema["x"].storage == "string"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be"])
def test_a_file_that_is_not_utf8_is_refused_with_the_way_out(tmp_path: Path, encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    text = "a,b\n" + "1,x\n" * 30 + f"2,{CANARY}é\n"
    (tmp_path / "t.csv").write_bytes(mark + text.encode(encoding))
    assert "save the file as UTF-8" in refused(str(tmp_path / "t.csv"), tmp_path)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_that_are_no_numbers_are_refused_in_every_source(tmp_path: Path, kind: pa.DataType, bad: float) -> None:
    with pytest.raises(InvalidInput, match="infinite or NaN"):
        take(pa.table({"x": pa.array([1.0] * 30 + [bad], kind)}), tmp_path)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_infinite_dates_are_refused(tmp_path: Path, kind: str) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute(
            f"CREATE TABLE t AS SELECT CASE WHEN i = 5 THEN 'infinity' ELSE '2020-01-01' END::{kind} AS d"
            " FROM range(30) r(i)"
        )
    assert "column 'd' holds infinite dates" in refused(f"duckdb:///{tmp_path}/d.duckdb?table=t", tmp_path)


def test_text_that_never_repeats_may_be_declared_or_be_an_identifier(tmp_path: Path) -> None:
    table = pa.table({"name": [f"{CANARY}{i}" for i in range(40)], "x": [1, 2] * 20})
    for i, facts in enumerate(({"categories": ["p", "q"]}, {"kind": "identifier"}, {"kind": "excluded"})):
        take(table, tmp_path / str(i), {"name": facts})
    take(table.slice(0, 19), tmp_path / "few")


@pytest.mark.parametrize("delta", [0.5, 1 / 50, 0.0200001])
def test_a_delta_that_is_not_below_one_over_the_units_is_refused_without_their_number(
    tmp_path: Path, delta: float
) -> None:
    message = csv_refused("a,b\n" + GOOD, tmp_path, delta=delta)
    assert "Use delta auto, or a smaller one" in message
    assert "50" not in message.replace(f"{delta:g}", "")
    found = source.parse(str(tmp_path / "t.csv"))
    assert ingestion.snapshot(found, tmp_path / "restricted" / "ok.parquet", delta=0.0199).units == 50


def test_one_privacy_unit_is_not_a_population(tmp_path: Path) -> None:
    assert "one privacy unit only" in csv_refused("u,x\n" + "7,1\n" * 30, tmp_path, unit=PrivacyUnit("u", 5))
    assert "unit column 'v' is not in the source" in csv_refused(
        "u,x\n" + "7,1\n" * 30, tmp_path, unit=PrivacyUnit("v", 5)
    )


def test_an_old_snapshot_survives_a_refused_new_one(tmp_path: Path) -> None:
    first = take(pa.table({"x": [1, 2] * 10}), tmp_path)
    with pytest.raises(InvalidInput):
        take(pa.table({"x": [1]}), tmp_path)
    assert pq.read_table(first.path).num_rows == 20


def test_a_full_disk_is_told_as_such_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise duckdb.IOException(f"No space left on device while writing {CANARY}")

    monkeypatch.setattr(ingestion, "_digest", full)
    assert "the disk is full" in csv_refused("a,b\n" + GOOD, tmp_path)


def test_an_unforeseen_duckdb_error_is_told_without_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: object) -> str:
        raise duckdb.InternalException(f"odd value {CANARY}")

    monkeypatch.setattr(ingestion, "_digest", odd)
    assert "InternalException" in csv_refused("a,b\n" + GOOD, tmp_path)


def test_a_unit_column_of_nulls_is_said_to_be_one_and_not_one_unit(tmp_path):
    told = csv_refused("u,x\n" + ",1\n" * 30, tmp_path, unit=PrivacyUnit("u", 5))
    assert "unit column 'u'" in told
    assert "holds nothing but nulls" in told
    assert "name the column" in told


def test_an_empty_folder_is_said_to_be_one(tmp_path):
    (tmp_path / "lake").mkdir()
    told = refused(str(tmp_path / "lake"), tmp_path)
    assert "holds no .parquet file" in told
    assert "locked" not in told
