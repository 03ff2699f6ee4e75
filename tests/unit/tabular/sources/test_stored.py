"""Storage types as DuckDB alone does not tell them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.sources import ingestion, source


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
