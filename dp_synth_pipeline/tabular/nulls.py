"""What becomes of nulls: kept and modelled, filled with a private mean or a constant, or their rows left out.

Every policy acts on each row by itself with released numbers only, so it changes neither sensitivity nor cost. Leaving a
row out under add/remove is a row-wise transformation: neighbours stay neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import grid
from dp_synth_pipeline.tabular.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.source import UNIT
from dp_synth_pipeline.tabular.sql import literal, quoted


def fill_value(column: Column, profile: ColumnProfile) -> Any:
    """Return what replaces a null of `column`, as a value of its storage type; None if nulls stay."""
    if column.nulls is NullPolicy.CONSTANT:
        return column.constant
    if column.nulls is not NullPolicy.MEAN:
        return None
    if not column.kind.numeric:
        if profile.mode is None:
            raise InvalidInput(
                f"column {column.name!r}: nulls: mean needs a private mode, but no category is frequent enough to be "
                f"named; declare its categories, or use nulls: keep."
            )
        return profile.mode
    mean = profile.mean or 0.0
    if column.kind is Kind.DATE:
        return date(1970, 1, 1) + timedelta(days=round(mean))
    if column.kind is Kind.DATETIME:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(mean))
    return (
        round(mean)
        if column.kind is Kind.INTEGER
        else round(mean, profile.decimals if profile.decimals is not None else 9)
    )


def filled(column: Column, profile: ColumnProfile) -> ColumnProfile:
    """Return the profile as it is after `complete`: what fills the nulls takes their share, and so keeps its own code."""
    value = fill_value(column, profile)
    if value is None or profile.null_rate == 0:
        return profile
    weights = dict(zip(profile.values, profile.weights, strict=True))
    point = _point(column, value)
    weights[point] = weights.get(point, 0.0) + profile.null_rate
    likeliest = sorted(weights, key=lambda v: -weights[v])
    return replace(profile, values=tuple(likeliest), weights=tuple(weights[v] for v in likeliest), null_rate=0.0)


def _point(column: Column, value: Any) -> Any:
    """Return a fill value as the profile writes it: text, a boolean, or a point of the number line."""
    if column.kind is Kind.CATEGORY:
        return str(value)
    if column.kind is Kind.BOOLEAN:
        return str(value).lower() == "true"
    if column.kind in (Kind.DATE, Kind.DATETIME):
        moment = datetime.fromisoformat(str(value))
        return grid.axis_value(moment.date() if column.kind is Kind.DATE else moment)
    return float(value)


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


def _sql_type(column: Column) -> str:
    kinds = {
        Kind.CATEGORY: "VARCHAR",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.INTEGER: "BIGINT",
        Kind.DATE: "DATE",
        Kind.DATETIME: "TIMESTAMP",
    }
    if column.kind is Kind.DATETIME and "tz=" in column.storage:
        return "TIMESTAMPTZ"
    if column.storage.startswith("decimal128("):
        return column.storage.replace("decimal128", "DECIMAL")
    return kinds.get(column.kind, "DOUBLE")
