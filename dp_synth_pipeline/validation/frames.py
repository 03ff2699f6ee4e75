"""Reads a table for comparison: whole if it is small, a uniform sample if it is large."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

LARGEST = 200_000
"""Rows compared at most; more would not change a figure by what a person can see."""


def read_frame(path: Path, columns: list[str]) -> pd.DataFrame:
    """Return the named columns, sampled uniformly above `LARGEST` rows; Arrow dtypes, times of day as microseconds."""
    rows = pq.ParquetFile(path).metadata.num_rows
    if rows <= LARGEST:
        table = pq.read_table(path, columns=columns)
    else:
        with duckdb.connect() as con:
            con.from_parquet(str(path)).select(*columns).create_view("everything")
            table = con.sql(f"SELECT * FROM everything USING SAMPLE {LARGEST} ROWS").to_arrow_table()
    times = [f.with_type(pa.int64()) if pa.types.is_time(f.type) else f for f in table.schema]  # as in a snapshot
    return table.cast(pa.schema(times)).replace_schema_metadata(None).to_pandas(types_mapper=pd.ArrowDtype)
