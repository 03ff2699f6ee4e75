"""Connections to DuckDB do what they promise, whatever its defaults are."""

from pathlib import Path

from dp_synth_pipeline.tabular import sql


def test_a_connection_that_keeps_the_order_of_rows_writes_with_one_thread(tmp_path: Path) -> None:
    with sql.connection_beside(tmp_path / "rows.parquet") as con:
        sql.keep_order(con)
        settings = con.sql("SELECT current_setting('threads'), current_setting('preserve_insertion_order')").fetchall()
    assert settings == [(1, True)]
