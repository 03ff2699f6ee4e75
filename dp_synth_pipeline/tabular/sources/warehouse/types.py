"""The Arrow types that every warehouse can store, and synthetic rows cast to them batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.storage import is_length

ROWS = 65_536
"""Rows of a batch on its way into a warehouse."""


def portable(arrow_type: pa.DataType) -> pa.DataType:
    """Return the narrowest type that warehouses have and that holds every value of this one.

    Example:
        >>> portable(pa.uint16()), portable(pa.timestamp("ns"))
        (DataType(int32), TimestampType(timestamp[us]))
    """
    wider = {
        pa.int8(): pa.int16(),
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
        pa.large_string(): pa.string(),
    }
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", "UTC" if arrow_type.tz else None)
    if pa.types.is_duration(arrow_type):
        return pa.duration("us")
    if pa.types.is_time(arrow_type):
        return pa.time64("us")
    return wider.get(arrow_type, arrow_type)


def portable_without_durations(arrow_type: pa.DataType) -> pa.DataType:
    """Return the portable type, with durations and times of day as whole microseconds, for engines that store none."""
    return pa.int64() if is_length(arrow_type) else portable(arrow_type)


def batches(parquet: Path, stored: Callable[[pa.DataType], pa.DataType]) -> pa.RecordBatchReader:
    """Return the rows of a Parquet file as a stream whose columns have the types that `stored` names."""
    file = pq.ParquetFile(parquet)
    schema = pa.schema([pa.field(f.name, stored(f.type)) for f in file.schema_arrow])
    return cast(schema, file.iter_batches(ROWS))


def cast(schema: pa.Schema, source: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return the batches with their columns cast, in order, to the types of `schema`."""

    def fitted() -> Iterator[pa.RecordBatch]:
        for batch in source:
            columns = [_plain(c).cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, fitted())


def _plain(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column
