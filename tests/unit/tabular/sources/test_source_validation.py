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
from tests.unit.tabular.snapshots import read, take

CANARY = "Xq7canary"
"""A cell that no message may repeat."""

GOOD = "".join(f"{i % 9},v{i % 3}\n" for i in range(50))
MANY = "".join(f"{i % 9},{i % 7}\n" for i in range(30_000))
"""More rows than DuckDB samples to guess types."""


def refused(uri: str, folder: Path, **options: Any) -> str:
    def take_it() -> None:
        ingestion.snapshot(source.parse(uri), folder / "restricted" / "snapshot.parquet", **options)

    with pytest.raises(InvalidInput) as caught:
        take_it()
    assert caught.value.exit_code == 2
    assert CANARY not in str(caught.value)
    assert not re.search("4711|1987|3.5e7", str(caught.value)), "a first line without names is a row"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "a trace would show the value"
    left = folder / "restricted"
    assert not left.exists() or not list(left.iterdir()), "nothing is left of what was read"
    return str(caught.value)


def csv_refused(text: str, folder: Path, name: str = "t.csv", **options: Any) -> str:
    (folder / name).write_text(text, errors="surrogateescape")
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
        ("a,b\n" + GOOD + f'1,"{CANARY}\n' + GOOD, "is not valid CSV: a quote in it does not close"),
        ("a,b\n" + MANY + f'1,"x" {CANARY}\n' + GOOD, "line 30002 is not valid CSV: a quote in it does not close"),
        (f"a,caf\udce9\n{GOOD}", "the first line of .* is not UTF-8 text"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) and " " in v[:60] else "",
)
def test_a_csv_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    assert re.search(message, csv_refused(text, tmp_path))


def test_names_that_hold_digits_are_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("2019,q1-2020\n" + GOOD)
    found = source.parse(str(tmp_path / "t.csv"))
    assert ingestion.snapshot(found, tmp_path / "restricted" / "s.parquet").schema.names == ("2019", "q1-2020")


def taken_of(text: str, folder: Path, **options: Any) -> ingestion.Snapshot:
    folder.mkdir(exist_ok=True)
    (folder / "t.csv").write_text(text)
    return read(str(folder / "t.csv"), folder / "restricted" / "s.parquet", **options)


@pytest.mark.parametrize("rows", ["", "1,2\n", "1,2\n3,4\n"], ids=["none", "one", "two"])
def test_how_many_rows_there_are_is_no_reason_to_refuse_a_source(tmp_path: Path, rows: str) -> None:
    assert taken_of("a,b\n" + rows, tmp_path).units == rows.count("\n")
    table = pa.table({"a": [1] * rows.count("\n")}, schema=pa.schema([("a", pa.int64())]))
    assert take(table, tmp_path / "parquet").units == rows.count("\n")


def test_a_line_that_is_no_row_is_set_aside_alone(tmp_path: Path) -> None:
    odd = f"1,2,{CANARY}\n{CANARY}\n"
    whole, torn = (taken_of("a,b\n" + GOOD + o + MANY, tmp_path / n) for n, o in (("a", ""), ("b", odd)))
    assert (whole.set_aside, torn.set_aside) == (0, 2)
    assert whole.digest == torn.digest, "no other line is read otherwise"


def test_a_line_that_is_not_utf8_is_set_aside_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"a,b\n{GOOD}".encode() + b"1,caf\xe9\n" + GOOD.encode())
    taken = read(str(tmp_path / "t.csv"), tmp_path / "s.parquet")
    assert (taken.units, taken.set_aside) == (100, 1)


def test_lines_set_aside_are_not_counted_where_nobody_knows_whose_they_are(tmp_path: Path) -> None:
    text = "u,x\n" + "7,1\n8,2\n" * 30 + "9\n"
    assert taken_of(text, tmp_path, unit=PrivacyUnit("u", 5)).set_aside is None
    found = source.parse(str(tmp_path / "t.csv"), where="u = '7'")
    assert ingestion.snapshot(found, tmp_path / "f.parquet").set_aside is None, "they may lie in another block"


def test_a_cell_that_spans_lines_is_one_cell(tmp_path: Path) -> None:
    taken = taken_of('a,b\n1,"two\nlines"\n2,x\n', tmp_path)
    assert (taken.units, taken.set_aside) == (2, 0)
    assert set(pq.read_table(taken.path)["b"].to_pylist()) == {"two\nlines", "x"}


@pytest.mark.parametrize(
    ("cells", "facts", "storage", "values"),
    [
        (["2"] * 30 + ["unknown"] * 5, {}, "string", {"2", "unknown"}),
        (["2"] * 500 + ["unknown"] * 5, {}, "int64", {2, None}),
        (["2"] * 30 + ["unknown"] * 5, {"kind": "integer"}, "int64", {2, None}),
        (["2"] * 30 + ["unknown"] * 5, {"kind": "category"}, "string", {"2", "unknown"}),
        (["0.5"] * 300 + ["inf", "-inf", "NaN"], {}, "double", {0.5, None}),
        (["true"] * 30 + ["maybe"], {"kind": "boolean"}, "bool", {True, None}),
        (["1 hour"] * 30 + ["x"], {"kind": "duration"}, "duration[us]", {3_600_000_000, None}),
    ],
    ids=["numbers and many words", "numbers", "declared numbers", "declared words", "not finite", "truth", "durations"],
)
def test_a_cell_that_a_type_does_not_hold_is_a_null_row_by_row(
    tmp_path: Path, cells: list[str], facts: dict[str, Any], storage: str, values: set[Any]
) -> None:
    text = "a,b\n" + "".join(f"{i % 9},{c}\n" for i, c in enumerate(cells))
    taken = taken_of(text, tmp_path, declared={"b": facts})
    assert taken.schema["b"].storage == storage
    assert set(pq.read_table(taken.path)["b"].to_pylist()) == values


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


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"${:,}.50"', lambda i: i + 0.5),
        ("{}%", float),
        ('"{},5"', lambda i: i + 0.5),
        ("€ {}", float),
        ("({}.5)", lambda i: -i - 0.5),
        ('"{:,}"', float),
        ("-${}", lambda i: -float(i)),
    ],
)
def test_numbers_written_for_people_are_numbers(tmp_path: Path, written: str, value: Any) -> None:
    numbers = [1000 + 37 * (i % 90) for i in range(200)]
    taken = taken_of("i,x\n" + "".join(f"{i},{written.format(n)}\n" for i, n in enumerate(numbers)), tmp_path)
    assert taken.schema["x"].storage == "double"
    assert sorted(pq.read_table(taken.path)["x"].to_pylist()) == sorted(map(value, numbers))


def test_a_decimal_comma_is_told_from_the_column_and_may_be_declared(tmp_path: Path) -> None:
    text = "i;x\n" + "".join(f"{i};{c}\n" for i, c in enumerate(["1.234,5", "1.234", "999,25", "12"] * 50))
    taken = taken_of(text, tmp_path)
    assert (taken.schema["x"].storage, taken.schema["x"].format) == ("double", "1.234,5")
    assert set(pq.read_table(taken.path)["x"].to_pylist()) == {1234.5, 1234.0, 999.25, 12.0}
    again = taken_of(text, tmp_path / "b", declared={"x": {"kind": "decimal", "format": "1.234,5"}})
    assert pq.read_table(again.path)["x"].sort().equals(pq.read_table(taken.path)["x"].sort())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_of_utf16_is_refused_with_the_way_out(tmp_path: Path, encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "t.csv").write_bytes(mark + ("a,b\n" + "1,x\n" * 30 + f"2,{CANARY}é\n").encode(encoding))
    assert "save the file as UTF-8" in refused(str(tmp_path / "t.csv"), tmp_path)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_that_are_no_numbers_are_nulls_in_every_source(tmp_path: Path, kind: pa.DataType, bad: float) -> None:
    taken = take(pa.table({"x": pa.array([1.0] * 30 + [bad], kind)}), tmp_path)
    assert sorted(pq.read_table(taken.path)["x"].to_pylist(), key=str) == [1.0] * 30 + [None]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_infinite_dates_are_nulls(tmp_path: Path, kind: str) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute(
            f"CREATE TABLE t AS SELECT CASE WHEN i = 5 THEN 'infinity' ELSE '2020-01-01' END::{kind} AS d"
            " FROM range(30) r(i)"
        )
    taken = ingestion.snapshot(source.parse(f"duckdb:///{tmp_path}/d.duckdb?table=t"), tmp_path / "s.parquet")
    assert pq.read_table(taken.path)["d"].null_count == 1


def test_files_of_one_csv_whose_first_lines_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p1.csv").write_text("a,b\n" + GOOD)
    (tmp_path / "p2.csv").write_text("b,a\n" + GOOD)
    assert "differs from that of" in refused(str(tmp_path / "p*.csv"), tmp_path)


def test_text_that_never_repeats_is_read_as_any_other(tmp_path: Path) -> None:
    table = pa.table({"name": [f"{CANARY}{i}" for i in range(40)], "x": [1, 2] * 20})
    for i, facts in enumerate(({}, {"categories": ["p", "q"]}, {"kind": "identifier"}, {"kind": "excluded"})):
        assert take(table, tmp_path / str(i), {"name": facts}).units == 40


def test_a_unit_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "unit column 'v' is not in the source" in csv_refused(
        "u,x\n" + "7,1\n" * 30, tmp_path, unit=PrivacyUnit("v", 5)
    )


def test_rows_of_a_csv_whose_unit_is_a_word_for_null_are_left_out(tmp_path: Path) -> None:
    text = "u,x\n" + "7,1\n 7 ,1\nNA,2\n,3\n?,4\n8,5\n" * 5
    taken = taken_of(text, tmp_path, unit=PrivacyUnit("u", 100))
    assert (taken.units, pq.read_table(taken.path).num_rows) == (2, 15)


def test_an_old_snapshot_survives_a_refused_new_one(tmp_path: Path) -> None:
    first = take(pa.table({"x": [1, 2] * 10}), tmp_path)
    with pytest.raises(InvalidInput):
        take(pa.table({"x": [1]}), tmp_path, {"y": {"kind": "integer"}})
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


def test_an_empty_folder_is_said_to_be_one(tmp_path):
    (tmp_path / "lake").mkdir()
    told = refused(str(tmp_path / "lake"), tmp_path)
    assert "holds no .parquet file" in told
    assert "locked" not in told
