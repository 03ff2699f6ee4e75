"""Exact counts of a snapshot."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.tabular.profiling import counting
from dp_synth_pipeline.tabular.profiling.counting import Counts
from dp_synth_pipeline.tabular.schema import build

STORAGE = {"x": pa.int64(), "y": pa.float64(), "kind": pa.string()}


def snapshot(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"x": [1, 1, 2, None], "y": [0.5, 0.25, 0.25, 0.5], "kind": ["a", None, "a", "b"]}
    pq.write_table(pa.table(rows, pa.schema(STORAGE)), folder / "it's.parquet")
    return folder / "it's.parquet"


def test_a_snapshot_is_opened_once_however_many_columns_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = snapshot(tmp_path), []
    honest, reading = duckdb.connect, pq.ParquetFile
    monkeypatch.setattr(counting.duckdb, "connect", lambda *a: opened.append("duckdb") or honest(*a))
    monkeypatch.setattr(counting.pq, "ParquetFile", lambda *a: opened.append("parquet") or reading(*a))
    counts = Counts(path)
    for column in build(STORAGE).learned:
        counts.nulls(column)
        counts.values(column, 1)
        if column.kind.numeric:
            list(counts._axis(column))
            list(counts._axis(column))
    assert sorted(opened) == ["duckdb", "parquet"]


@pytest.mark.parametrize("folder", [".", "x=7", "region=north"])
def test_counts_are_those_of_the_file_whatever_its_folder_is_called(tmp_path: Path, folder: str) -> None:
    counts, columns = Counts(snapshot(tmp_path / folder)), build(STORAGE)
    assert counts.nulls(columns["x"]) == counts.nulls(columns["kind"]) == 1
    assert counts.values(columns["x"], 1) == [(1.0, 2), (2.0, 1)]
    assert counts.values(columns["kind"], 2) == [("a", 2)]
    assert counts.rows(["x", "kind"]) == (2, 2)


def test_rows_that_do_not_fit_into_memory_spill_beside_the_snapshot_and_not_where_the_run_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restricted, started = tmp_path / "restricted", tmp_path / "started"
    restricted.mkdir()
    started.mkdir()
    (started / ".tmp").touch()  # a file, so that DuckDB cannot spill there, as it would by itself
    monkeypatch.chdir(started)
    path = restricted / "snapshot.parquet"
    duckdb.sql(f"COPY (SELECT 'person-' || hash(i) AS name FROM range(1000000) t(i)) TO '{path}'")
    counts, column = Counts(path), build({"name": pa.string()})["name"]
    counts._con.execute("SET memory_limit = '60MB'")
    assert counts.values(column, 2) == []
    assert [p.name for p in started.iterdir()] == [".tmp"]
