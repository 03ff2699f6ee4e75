"""The Arrow types that a source stores, where DuckDB tells less: zones of datetimes, and durations.

DuckDB reads every zone as UTC and a Parquet file's durations as bare integers. Both stand in the Arrow schema of the
file's footer, which is public like all storage types. Snapshots hold durations as microseconds, in 64 bits. What no number
line holds becomes a null, row by row: infinite and NaN numbers, infinite dates, and whole numbers of more than 38 digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sql import quoted
from dp_synth_pipeline.tabular.storage import is_length

TEXT = "source_as_text"
"""The cells of a CSV, or of text columns that are declared to be something else, as they stand."""

RAW, ROWS = "source_as_stored", "source"
"""The source as DuckDB reads it, and the same with durations and zoned datetimes in microseconds."""

WIDE = "source_as_stored_wide"
"""The source before whole numbers of 128 bits are decimals, if there are any."""

_MICROSECONDS = {"s": "{} * 1000000", "ms": "{} * 1000", "us": "{}", "ns": "{} // 1000"}


def open_rows(con: duckdb.DuckDBPyConnection, files: Sequence[Path], table: pa.Table | None) -> dict[str, pa.DataType]:
    """Create the view `source` over the relation `source_as_stored` and return its columns' storage types.

    Args:
        files: the Parquet files behind the relation, if any.
        table: the Arrow table behind it, if any.
    """
    _narrow(con)
    read_as = {f.name: f.type for f in con.sql(f"SELECT * FROM {RAW} LIMIT 0").to_arrow_table().schema}
    stored_as = {f.name: [f.type] for f in table.schema} if table is not None else _footers(files)
    types = {name: _merged(name, arrow_type, stored_as.get(name, ())) for name, arrow_type in read_as.items()}
    micros = {
        name: _micros(quoted(name), arrow_type, read_as[name])
        for name, arrow_type in types.items()
        if is_length(arrow_type)
    }
    moments = {n: f"CAST({quoted(n)} AS TIMESTAMPTZ)" for n, arrow_type in types.items() if _is_fine(arrow_type)}
    finite = {n: f"CASE WHEN isfinite({quoted(n)}) THEN {quoted(n)} END" for n, t in read_as.items() if _endless(t)}
    values = ", ".join(f"{value} AS {quoted(name)}" for name, value in {**finite, **micros, **moments}.items())
    replaced = f" REPLACE ({values})" if values else ""
    con.execute(f"CREATE VIEW {ROWS} AS SELECT *{replaced} FROM {RAW}")
    return types


def read_texts(con: duckdb.DuckDBPyConnection, replaced: str, files: Sequence[Path], table: pa.Table | None) -> None:
    """Have the view `source` read text columns as what they are declared to be, each cell by itself.

    Args:
        replaced: what follows `SELECT *`; a cell that is none of its column's type is a null in it.
        files, table: as `open_rows` takes them.
    """
    con.execute(f"DROP VIEW {ROWS}")
    con.execute(f"ALTER VIEW {RAW} RENAME TO {TEXT}")
    con.execute(f"CREATE VIEW {RAW} AS SELECT *{replaced} FROM {TEXT}")
    open_rows(con, files, table)


def _narrow(con: duckdb.DuckDBPyConnection) -> None:
    """Read whole numbers of 128 bits as decimals of 38 digits, since a Parquet file would hold them as doubles."""
    wide = _wide(con, RAW)
    if wide:
        con.execute(f"ALTER VIEW {RAW} RENAME TO {WIDE}")
        replaced = ", ".join(f"TRY_CAST({quoted(n)} AS DECIMAL(38, 0)) AS {quoted(n)}" for n in wide)
        con.execute(f"CREATE VIEW {RAW} AS SELECT * REPLACE ({replaced}) FROM {WIDE}")


def _wide(con: duckdb.DuckDBPyConnection, view: str) -> list[str]:
    described = con.execute(f"DESCRIBE SELECT * FROM {view}").fetchall()
    return [name for name, kind, *_ in described if kind in ("HUGEINT", "UHUGEINT")]


def _footers(files: Sequence[Path]) -> Mapping[str, list[pa.DataType]]:
    types: dict[str, list[pa.DataType]] = {}
    for file in files:
        try:
            schema = pq.read_schema(file)
        except (OSError, pa.ArrowException):  # DuckDB says what is wrong with it
            continue
        for column in schema:
            types.setdefault(column.name, []).append(column.type)
    return types


def _merged(name: str, read_as: pa.DataType, stored_as: Sequence[pa.DataType]) -> pa.DataType:
    """Return DuckDB's type with the zone or the unit that the footers agree on."""
    if pa.types.is_interval(read_as):
        return pa.duration("us")
    if pa.types.is_time(read_as):
        return pa.time64("us")
    if pa.types.is_timestamp(read_as) and read_as.tz is not None:
        zones = {t.tz for t in stored_as if pa.types.is_timestamp(t) and t.tz is not None}
        return pa.timestamp(read_as.unit, zones.pop()) if len(zones) == 1 else read_as
    if any(pa.types.is_duration(t) for t in stored_as):
        if len(set(stored_as)) > 1:
            raise InvalidInput(f"column {name!r} is a duration in one file and another type or unit in another.")
        return stored_as[0]
    return read_as


def _endless(arrow_type: pa.DataType) -> bool:
    """Whether DuckDB knows values of this type without an end."""
    t = pa.types
    return t.is_floating(arrow_type) or t.is_date(arrow_type) or t.is_timestamp(arrow_type)


def _is_fine(arrow_type: pa.DataType) -> bool:
    """Whether a datetime is of a type that DuckDB has next to no functions for; codes know microseconds anyhow."""
    return pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns" and arrow_type.tz is not None


def _micros(name: str, arrow_type: pa.DataType, read_as: pa.DataType) -> str:
    """Write a length of time in microseconds; a month of an SQL interval counts 30 days, as everywhere in DuckDB."""
    if pa.types.is_integer(read_as):
        return f"CAST({_MICROSECONDS[arrow_type.unit].format(name)} AS BIGINT)"
    return f"CAST(epoch_us({name}) AS BIGINT)"
