"""The Arrow types that a source stores, where DuckDB tells less: zones of datetimes, and durations.

DuckDB reads every zone as UTC and a Parquet file's durations as bare integers. Both stand in the Arrow schema of the
file's footer, which is public like all storage types. Snapshots hold durations as microseconds, in 64 bits. What no number
line holds becomes a null, row by row: infinite and NaN numbers, infinite dates, durations that 64 bits do not hold, and
whole numbers of more than 38 digits. A day or a moment beyond the years 1 to 9999 becomes the nearest within them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.encoding import exact
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
    held = {name: _held(quoted(name), arrow_type, read_as[name]) for name, arrow_type in types.items()}
    values = ", ".join(f"{value} AS {quoted(name)}" for name, value in held.items() if value != quoted(name))
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
        if len(zones) != 1:
            return read_as
        _check_zone(name, zone := zones.pop())
        return pa.timestamp(read_as.unit, zone)
    if any(pa.types.is_duration(t) for t in stored_as):
        if len(set(stored_as)) > 1:
            raise InvalidInput(f"column {name!r} is a duration in one file and another type or unit in another.")
        return stored_as[0]
    return read_as


def _check_zone(name: str, zone: str) -> None:
    """Refuse a zone that nobody can tell the time of; it stands in the type, so it is public."""
    try:
        pa.scalar(0, pa.timestamp("us", zone)).as_py()
    except Exception:  # of whichever library looks zones up
        raise InvalidInput(
            f"column {name!r}: there is no time zone {zone!r}; write the column in one of the tz database, such as UTC."
        ) from None


def _held(cell: str, arrow_type: pa.DataType, read_as: pa.DataType) -> str:
    """Write a cell as snapshots hold it: finite, a length of time in microseconds, a day or a moment within the calendar."""
    if is_length(arrow_type):
        return _micros(cell, arrow_type, read_as)
    if pa.types.is_floating(read_as):
        return f"CASE WHEN isfinite({cell}) THEN {cell} END"
    if not (pa.types.is_date(read_as) or pa.types.is_timestamp(read_as)):
        return cell
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns" and arrow_type.tz is not None:
        # DuckDB has next to no functions for its own type, and codes know microseconds.
        cell = f"CAST({cell} AS TIMESTAMPTZ)"
    return f"CASE WHEN isfinite({cell}) THEN {_within_calendar(cell, arrow_type)} END"


def _within_calendar(cell: str, arrow_type: pa.DataType) -> str:
    """Write a day or a moment at the nearest end of the calendar if it lies beyond; what many a program has no value for."""
    first, last = exact.calendar(arrow_type)
    if pa.types.is_date(arrow_type):
        ends = [f"DATE '1970-01-01' + {days}" for days in (first, last)]
    elif arrow_type.tz is not None:
        ends = [f"make_timestamptz({micros})" for micros in (first, last)]
    elif arrow_type.unit == "ns":
        return cell
    else:
        unit = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP"}[arrow_type.unit]
        step = {"s": 1_000_000, "ms": 1000, "us": 1}[arrow_type.unit]
        ends = [f"CAST(make_timestamp({micros}) AS {unit})" for micros in (first, last - last % step)]
    return f"greatest(least({cell}, {ends[1]}), {ends[0]})"


def _micros(cell: str, arrow_type: pa.DataType, read_as: pa.DataType) -> str:
    """Write a length of time in microseconds; a month of an SQL interval counts 30 days, as everywhere in DuckDB.

    One that 64 bits do not hold becomes a null.
    """
    if pa.types.is_integer(read_as):
        return f"TRY_CAST({_MICROSECONDS[arrow_type.unit].format(f'CAST({cell} AS HUGEINT)')} AS BIGINT)"
    return f"TRY(CAST(epoch_us({cell}) AS BIGINT))"
