"""Reads a table for comparison: whole if it is small, a uniform sample if it is large."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq

LARGEST = 200_000
"""Rows compared at most; more would not change a figure by what a person can see."""


def read_frame(path: Path, columns: list[str]) -> pd.DataFrame:
    """Return the named columns, exact types kept (Arrow dtypes), sampled uniformly above `LARGEST` rows."""
    rows = pq.ParquetFile(path).metadata.num_rows
    if rows <= LARGEST:
        table = pq.read_table(path, columns=columns)
    else:
        with duckdb.connect() as con:
            con.from_parquet(str(path)).select(*columns).create_view("everything")
            table = con.sql(f"SELECT * FROM everything USING SAMPLE {LARGEST} ROWS").to_arrow_table()
    return table.replace_schema_metadata(None).to_pandas(types_mapper=pd.ArrowDtype)
