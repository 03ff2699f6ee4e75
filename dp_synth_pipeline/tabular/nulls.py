"""What becomes of nulls: kept and modelled, filled with a private figure or a constant, or their rows left out.

Every policy acts on each row by itself with released numbers only, so it changes neither sensitivity nor cost. Leaving a
row out under add/remove is a row-wise transformation: neighbours stay neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import exact, grid
from dp_synth_pipeline.tabular.kinds import duration
from dp_synth_pipeline.tabular.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.source import UNIT
from dp_synth_pipeline.tabular.sql import literal, quoted


def fill_value(column: Column, profile: ColumnProfile) -> Any:
    """Return what replaces a null of `column`, as its snapshot holds values; None if nulls stay.

    Nulls also stay where the profile found nothing else: there is no figure to fill in.

    Raises:
        InvalidInput: if noise hides the figure to fill in; nothing is trained then.
    """
    if column.nulls is NullPolicy.CONSTANT:
        return _micros(duration(column.constant)) if column.kind is Kind.DURATION else column.constant
    if not column.nulls.measured:
        return None
    if profile.hidden and column.kind.numeric:
        raise InvalidInput(
            f"column {column.name!r}: nulls: {column.nulls} needs a private {column.nulls}, but noise hides where the "
            f"numbers lie; declare its lower and upper, spend more epsilon, or use nulls: keep."
        )
    if column.kind.numeric:
        figure = {NullPolicy.MEAN: profile.mean, NullPolicy.MEDIAN: profile.median, NullPolicy.MODE: profile.mode}
        point = figure[column.nulls]
        return None if point is None else _value(column, profile, point)
    if profile.mode is None and profile.null_rate < 1:
        raise InvalidInput(
            f"column {column.name!r}: nulls: {column.nulls} needs a private mode, but no category is frequent enough to be "
            f"named; declare its categories, or use nulls: keep."
        )
    return profile.median if column.nulls is NullPolicy.MEDIAN and column.kind is Kind.ORDINAL else profile.mode


def _value(column: Column, profile: ColumnProfile, point: int | float | str) -> Any:
    """Bring a point of the number line to the nearest value that the column can hold; a named value is one."""
    if isinstance(point, str):
        return point
    if column.kind is Kind.DATE:
        return date(1970, 1, 1) + timedelta(days=round(point))
    if column.kind in (Kind.DATETIME, Kind.DURATION):
        step = profile.resolution or 1
        micros = point if isinstance(point, int) else round(point / step) * step
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return micros if column.kind is Kind.DURATION else epoch + timedelta(microseconds=micros)
    if column.kind is Kind.INTEGER:
        return round(point)
    return round(point, profile.decimals if profile.decimals is not None else 9)


def _micros(length: timedelta) -> int:
    return round(length / timedelta(microseconds=1))


def scalar(column: Column, value: Any) -> pa.Scalar:
    """Return a declared value as a scalar of the column's storage type; naive datetimes of a zone are UTC."""
    target = column.arrow_type
    if value is None:
        return pa.scalar(None, target)
    if pa.types.is_duration(target):
        return pa.scalar(duration(value), target)
    if pa.types.is_time(target):
        return pa.scalar(_micros(duration(value)), pa.int64()).cast(target)
    if pa.types.is_date(target):
        return pa.scalar(datetime.fromisoformat(str(value)).date(), target)
    if pa.types.is_timestamp(target):
        moment = datetime.fromisoformat(str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return pa.scalar(aware if target.tz else aware.astimezone(UTC).replace(tzinfo=None), target)
    return pa.scalar(str(value).lower() if isinstance(value, bool) else str(value)).cast(target)


def filled(column: Column, profile: ColumnProfile) -> ColumnProfile:
    """Return the profile as it is after `complete`: what fills the nulls takes their share, and so keeps its own code."""
    value = fill_value(column, profile)
    if value is None or profile.null_rate == 0:
        return profile
    weights = dict(zip(profile.values, profile.weights, strict=True))
    point = _point(column, value)
    weights[point] = weights.get(point, 0.0) + profile.null_rate
    ordered = list(weights) if column.kind is Kind.ORDINAL else sorted(weights, key=lambda v: -weights[v])
    if column.kind is Kind.ORDINAL and column.categories is None:
        ordered = sorted(weights, key=int)
    return replace(profile, values=tuple(ordered), weights=tuple(weights[v] for v in ordered), null_rate=0.0)


def _point(column: Column, value: Any) -> Any:
    """Return a fill value as the profile writes it: text, a boolean, or a point of the number line."""
    if column.kind.named:
        return str(value)
    if column.kind is Kind.BOOLEAN:
        return str(value).lower() == "true"
    if column.kind in (Kind.DATE, Kind.DATETIME):
        moment = datetime.fromisoformat(str(value))
        return grid.axis_value(moment.date() if column.kind is Kind.DATE else moment)
    return exact.point(column, value)


def complete(snapshot: Path, schema: TableSchema, profile: TableProfile, out: Path) -> Path:
    """Write the snapshot with its nulls handled as the schema says; the result is restricted like the snapshot."""
    columns, values = [], []
    for column in schema.learned:
        fill = fill_value(column, profile[column.name])
        name = quoted(column.name)
        if fill is None:
            columns.append(name)
        else:
            columns.append(f"coalesce({name}, TRY_CAST(? AS {_sql_type(column)})) AS {name}")
            values.append(str(fill).lower() if isinstance(fill, bool) else str(fill))
    kept = [f"{quoted(c.name)} IS NOT NULL" for c in schema.learned if c.nulls is NullPolicy.DROP]
    if UNIT in pq.ParquetFile(snapshot).schema_arrow.names:
        columns.append(quoted(UNIT))
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    query = f"SELECT {', '.join(columns)} FROM snapshot{where}"
    partial = out.with_suffix(".partial")
    try:
        _copy(snapshot, query, values, partial)
        partial.chmod(0o400)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return out


def _copy(snapshot: Path, query: str, values: list[Any], out: Path) -> None:
    with duckdb.connect() as con:
        con.execute("SET threads = 2")
        con.execute("SET memory_limit = '768MB'")
        con.execute("SET TimeZone = 'UTC'")
        con.from_parquet(str(snapshot)).create_view("snapshot")
        con.execute(f"COPY ({query}) TO {literal(out)} (FORMAT parquet)", values)


_WIDTHS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def _sql_type(column: Column) -> str:
    kinds = {
        Kind.CATEGORY: "VARCHAR",
        Kind.ORDINAL: "VARCHAR",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.DURATION: "BIGINT",
        Kind.DATE: "DATE",
        Kind.DATETIME: "TIMESTAMP",
    }
    if column.kind is Kind.DATETIME and "tz=" in column.storage:
        return "TIMESTAMPTZ"
    if column.storage.startswith("decimal128("):
        return column.storage.replace("decimal128", "DECIMAL")
    if exact.is_whole(column):  # a wider type would make the column one of doubles
        return {"u": "U"}.get(column.storage[0], "") + _WIDTHS[column.arrow_type.bit_width]
    return kinds.get(column.kind, "DOUBLE")
