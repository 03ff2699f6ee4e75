"""Text columns of a source with a schema are read as what a person declares that they are, each cell by itself."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source

TABLE = pa.table(
    {
        "day": ["2020-01-02", "2020-02-30", "x", "", None],
        "spelled": ["31.12.2021", "1.1.2020", "2020-01-02", None, "x"],
        "at": ["2020-01-02 03:04:05", "2020-01-02T03:04:05", "2020-01-02", None, "x"],
        "price": ["1,200.5", " 4 ", "1e3", "x", None],
        "count": ["1", "3.0", "2.5", "-4", None],
        "paid": ["true", "f", "yes", "x", None],
        "label": ["a", "b", "c", "d", "e"],
        "took": pa.array([1, 2, 3, None, 5], pa.duration("ms")),
    }
)
DECLARED = {
    "day": {"kind": "date"},
    "spelled": {"kind": "date", "format": "%d.%m.%Y"},
    "at": {"kind": "datetime"},
    "price": {"kind": "decimal"},
    "count": {"kind": "integer"},
    "paid": {"kind": "boolean"},
}
MOMENT = datetime(2020, 1, 2, 3, 4, 5)
READ = {
    "day": [date(2020, 1, 2), None, None, None, None],
    "spelled": [date(2021, 12, 31), date(2020, 1, 1), None, None, None],
    "at": [MOMENT, MOMENT, datetime(2020, 1, 2), None, None],
    "price": [1200.5, 4.0, 1000.0, None, None],
    "count": [1, 3, None, -4, None],
    "paid": [True, False, True, None, None],
    "label": ["a", "b", "c", "d", "e"],
}


def _parquet(folder: Path) -> str:
    pq.write_table(TABLE, folder / "t.parquet")
    return str(folder / "t.parquet")


def _dictionary(folder: Path) -> str:
    texts = {n: TABLE[n].dictionary_encode() for n in TABLE.column_names if pa.types.is_string(TABLE[n].type)}
    coded = pa.table({**texts, "took": TABLE["took"]})
    pq.write_table(coded, folder / "t.parquet")
    return str(folder / "t.parquet")


def _duckdb(folder: Path) -> str:
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.register("rows", TABLE.drop_columns("took"))
        con.execute("CREATE TABLE t AS SELECT *, to_milliseconds(rowid) AS took FROM (SELECT *, 1 AS rowid FROM rows)")
    return f"duckdb:///{folder / 't.duckdb'}?table=t"


def _staged(folder: Path) -> str:
    write_deltalake(folder / "t", TABLE.drop_columns("took"))
    return f"delta://{folder / 't'}"


@pytest.mark.parametrize("form", [_parquet, _dictionary, _duckdb, _staged])
def test_each_cell_of_a_declared_text_is_its_value_or_a_null(tmp_path: Path, form) -> None:
    taken = ingestion.snapshot(source.parse(form(tmp_path)), tmp_path / "s" / "snapshot.parquet", declared=DECLARED)
    rows = pq.read_table(taken.path).sort_by("label").to_pydict()
    assert {name: rows[name] for name in READ} == READ
    assert {c.name: str(c.kind) for c in taken.schema if c.name in DECLARED} == {
        n: f["kind"] for n, f in DECLARED.items()
    }
    assert taken.untyped == ()


def test_columns_beside_it_are_read_as_ever(tmp_path: Path) -> None:
    taken = ingestion.snapshot(
        source.parse(_parquet(tmp_path)), tmp_path / "s" / "snapshot.parquet", declared={"day": {"kind": "date"}}
    )
    rows = pq.read_table(taken.path).sort_by("label").to_pydict()
    assert rows["took"] == [1000, 2000, 3000, None, 5000], "microseconds"
    assert rows["at"] == TABLE["at"].to_pylist()


def test_what_is_no_text_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="which is not read as date"):
        ingestion.snapshot(
            source.parse(_parquet(tmp_path)), tmp_path / "s" / "snapshot.parquet", declared={"took": {"kind": "date"}}
        )


def test_a_length_is_read_in_microseconds(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3], "long": ["01:30", "2 hours", "x"]}), tmp_path / "t.parquet")
    taken = ingestion.snapshot(
        source.parse(str(tmp_path / "t.parquet")),
        tmp_path / "s" / "snapshot.parquet",
        declared={"long": {"kind": "duration"}},
    )
    hours = [timedelta(hours=1.5), timedelta(hours=2)]
    found = pq.read_table(taken.path).sort_by("n").column("long").to_pylist()
    assert found == [*(h // timedelta(microseconds=1) for h in hours), None]
