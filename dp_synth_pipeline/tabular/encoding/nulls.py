"""What becomes of nulls: kept and modelled, filled with a private figure or a constant, or their rows left out.

Every policy acts on each row by itself with released numbers only, so it changes neither sensitivity nor cost. Leaving a
row out under add/remove is a row-wise transformation: neighbours stay neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.tabular.sql import connection_beside, keep_order, literal, quoted


def fill_value(column: Column, profile: ColumnProfile) -> Any:
    """Return what replaces a null of `column`, as its snapshot holds values; None if nulls stay.

    Nulls also stay where the profile found nothing else: there is no figure to fill in.

    Raises:
        InvalidInput: if noise hides the figure to fill in; nothing is trained then.
    """
    if column.nulls is NullPolicy.CONSTANT:
        return column.kind.fill(column.constant)
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
    return profile.median if column.nulls is NullPolicy.MEDIAN and column.kind.ordered else profile.mode


def _value(column: Column, profile: ColumnProfile, point: int | float | str) -> Any:
    """Bring a point of the number line to the nearest value that the column can hold; a released value is one."""
    if isinstance(point, str) or (profile.respelled and point in profile.values):
        return point
    return column.kind.from_point(point, profile.decimals, profile.resolution)


def filled(column: Column, profile: ColumnProfile) -> ColumnProfile:
    """Return the profile as it is after `complete`: what fills the nulls takes their share, and so keeps its own code."""
    value = fill_value(column, profile)
    if value is None or profile.null_rate == 0:
        return profile
    weights = dict(zip(profile.values, profile.weights, strict=True))
    point = column.kind.released_point(column, value)
    weights[point] = weights.get(point, 0.0) + profile.null_rate
    values = list(weights)
    ordered = [values[i] for i in column.kind.order(column, values, list(weights.values()))]
    return replace(profile, values=tuple(ordered), weights=tuple(weights[v] for v in ordered), null_rate=0.0)


def complete(snapshot: Path, schema: TableSchema, profile: TableProfile, out: Path) -> Path:
    """Write the snapshot with its nulls handled as the schema says; the result is restricted like the snapshot.

    It has the modelled columns, those of the source that hang on others, and texts.

    Raises:
        InvalidInput: for all columns of which noise hides the figure to fill in, at once.
    """
    own = offsets.modelled(schema).learned
    coded = {c.name for c in own}
    hanging = [c.name for c in schema if (c.base is not None or c.kind.composed) and c.name not in coded]
    columns, values, fills = [quoted(name) for name in hanging], [], _fill_values(own, profile)
    for column in own:
        fill = fills[column.name]
        name = quoted(column.name)
        if fill is None:
            columns.append(name)
        else:
            columns.append(f"coalesce({name}, TRY_CAST(? AS {sql_type(column)})) AS {name}")
            values.append(str(fill).lower() if isinstance(fill, bool) else str(fill))
    kept = [f"{quoted(c.name)} IS NOT NULL" for c in own if c.nulls is NullPolicy.DROP]
    if UNIT in pq.ParquetFile(snapshot).schema_arrow.names:
        columns.append(quoted(UNIT))
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    query = f"SELECT {', '.join(columns)} FROM snapshot{where}"
    partial = out.with_suffix(".partial")
    try:
        _copy(snapshot, query, values, partial)
        offsets.write_completed(partial, schema)
        partial.chmod(0o400)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return out


def _fill_values(columns: Iterable[Column], profile: TableProfile) -> dict[str, Any]:
    fills, findings = {}, []
    for column in columns:
        try:
            fills[column.name] = fill_value(column, profile[column.name])
        except InvalidInput as error:
            findings.append(str(error))
    if findings:
        raise InvalidInput(" ".join(findings))
    return fills


def _copy(snapshot: Path, query: str, values: list[Any], out: Path) -> None:
    with connection_beside(snapshot) as con:
        con.execute("SET TimeZone = 'UTC'")
        keep_order(con)  # rows of one unit follow each other
        con.from_parquet(str(snapshot)).create_view("snapshot")
        con.execute(f"COPY ({query}) TO {literal(out)} (FORMAT parquet)", values)


_WIDTHS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def sql_type(column: Column) -> str:
    """Name the SQL type of a column's values in a snapshot, where categories are text, whatever their source stores."""
    if column.kind.categorical:
        return "VARCHAR"
    if column.storage.startswith("decimal128("):
        return column.storage.replace("decimal128", "DECIMAL")
    if exact.is_whole(column):  # a wider type would make the column one of doubles
        return {"u": "U"}.get(column.storage[0], "") + _WIDTHS[column.arrow_type.bit_width]
    return column.kind.sql_type(column.storage)
