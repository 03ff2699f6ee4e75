"""Connections to DuckDB do what they promise, whatever its defaults are."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.tabular import sql
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources.csv.values import CellType


def test_a_connection_that_keeps_the_order_of_rows_writes_with_one_thread(tmp_path: Path) -> None:
    with sql.connection_beside(tmp_path / "rows.parquet") as con:
        sql.keep_order(con)
        settings = con.sql("SELECT current_setting('threads'), current_setting('preserve_insertion_order')").fetchall()
    assert settings == [(1, True)]


def test_typed_and_completed_rows_are_copied_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB swaps rows too seldom for a test to see it each time, so what is seen is whether it is told not to."""
    kept: list[object] = []
    for module in (ingestion, nulls):
        monkeypatch.setattr(module, "keep_order", lambda con, module=module: kept.append(module))
    pq.write_table(pa.table({"age": ["1", "2", "3"], ingestion.UNIT: [0, 0, 1]}), tmp_path / "rows")
    ingestion.typed(tmp_path / "rows", build({"age": pa.int64()}, {}), {"age": CellType("BIGINT")}, tmp_path / "typed")
    nulls._copy(tmp_path / "rows", f"SELECT {ingestion.UNIT} FROM snapshot", [], tmp_path / "completed")
    assert kept == [ingestion, nulls]
