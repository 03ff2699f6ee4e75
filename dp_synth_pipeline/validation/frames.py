"""Reads a table for comparison: whole if it is small, a uniform sample if it is large."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.sql import quoted

LARGEST = 200_000
"""Rows compared at most; more would not change a figure by what a person can see."""


def read_frame(path: Path, columns: list[str]) -> pd.DataFrame:
    """Return the named columns, sampled uniformly above `LARGEST` rows; Arrow dtypes, decimals as doubles, times of day as
    microseconds."""
    rows = pq.ParquetFile(path).metadata.num_rows
    if rows <= LARGEST:
        table = pq.read_table(path, columns=columns)
    else:
        with duckdb.connect() as con:
            con.from_parquet(str(path)).select(", ".join(map(quoted, columns))).create_view("everything")
            table = con.sql(f"SELECT * FROM everything USING SAMPLE {LARGEST} ROWS").to_arrow_table()
    return plain(table)


def plain(table: pa.Table) -> pd.DataFrame:
    """Return a table as `read_frame` does."""
    plain = [f.with_type(_plain(f.type)) for f in table.schema]
    return table.cast(pa.schema(plain)).replace_schema_metadata(None).to_pandas(types_mapper=pd.ArrowDtype)


def _plain(storage: pa.DataType) -> pa.DataType:
    """Return the type that figures are made of: pandas loses its way in decimals that are null."""
    if pa.types.is_decimal(storage):
        return pa.float64()
    return pa.int64() if pa.types.is_time(storage) else storage  # as in a snapshot
