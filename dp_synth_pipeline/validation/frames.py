"""Reads a table for comparison: whole if it is small, a uniform sample if it is large."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
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
    schema = pa.schema([f.with_type(_plain(f.type)) for f in table.schema])
    columns = [_within_calendar(column) for column in table.cast(schema).columns]
    return pa.table(columns, schema.remove_metadata()).to_pandas(types_mapper=pd.ArrowDtype)


def _within_calendar(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and datetimes within the years 1 to 9999, as codes have them: Python has none beyond.

    In a time zone, the first and the last day are left out, so that it moves no time to another year.
    """
    storage = column.type
    if not (pa.types.is_date(storage) or pa.types.is_timestamp(storage)) or getattr(storage, "unit", "") == "ns":
        return column
    whole = pa.int32() if pa.types.is_date32(storage) else pa.int64()
    left_out = timedelta(days=1 if getattr(storage, "tz", None) else 0)
    ends = (pa.scalar(end, pa.timestamp("us")) for end in (datetime.min + left_out, datetime.max - left_out))
    first, last = (end.cast(storage, safe=False).cast(whole) for end in ends)
    numbers = pc.max_element_wise(column.cast(whole), first, skip_nulls=False)  # type: ignore[attr-defined]
    return pc.min_element_wise(numbers, last, skip_nulls=False).cast(storage)  # type: ignore[attr-defined]


def _plain(storage: pa.DataType) -> pa.DataType:
    """Return the type that figures are made of: pandas loses its way in decimals that are null."""
    if pa.types.is_decimal(storage):
        return pa.float64()
    return pa.int64() if pa.types.is_time(storage) else storage  # as in a snapshot
