"""Columns that say when the parent's next row begins, such as the end of a period, and dates by which all rows lie.

A salary is paid until the next one is. Drawn row by row, periods would overlap. So a row's own end is computed from the next
row's time, and what the parent's last row holds, such as a null or a date far away, is learnt. And no sample is taken
after a stay has ended: rows that would be drawn later are drawn before that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.relations.relating import LEFT
from dp_synth_pipeline.relations.relating import NEXT as NEXT_TIME
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sql import quoted

UNTIL = "until"
"""The fact of a column that a person declares: one of `WAYS`, or false."""

BEFORE = "before"
"""The fact of an order that a person declares: the dates of the parent after which no row lies, or false."""

NEXT, DAY_BEFORE = WAYS = "next", "day_before"
"""It holds the time of the next row, or the day before it."""


def why_not(column: Column, table: Related, source: TableSchema, untyped: Collection[str] = ()) -> str:
    """Say why a column cannot hold when the next row begins; empty if it can, as far as is known without its rows.

    Args:
        source: the columns of the table's source.
        untyped: the columns of a CSV whose types are not measured yet.
    """
    if table.order is None:
        return f"rows of {table.name} have no order, so none is the next; declare order: COLUMN, or leave {UNTIL} out."
    order = source[table.order]
    if column.name in untyped or column.kind.name != order.kind.name or column.kind.name not in ("date", "datetime"):
        return (
            f"it is of kind {column.kind} and {table.order!r} of kind {order.kind}; both must be dates, or both datetimes. "
            f"Of a CSV, declare its kind as well."
        )
    taken = {name.casefold() for name in source.names}.intersection(  # as SQL takes names
        table.ending(column.name, way).casefold() for way in ways(column)
    )
    return f"{table.name} has a column {taken.pop()!r} already; rename one of them." if taken else ""


def dates_of(bounds: object) -> tuple[str, ...] | None:
    """Return the dates that a person declares as `before`: one, or a list of them; None if these are none.

    Example:
        >>> dates_of("died"), dates_of(["died", "left"]), dates_of(False), dates_of(7)
        (('died',), ('died', 'left'), (), None)
    """
    names = [bounds] if isinstance(bounds, str) else [] if bounds in (None, False) else bounds
    return tuple(names) if isinstance(names, list | tuple) and all(isinstance(n, str) for n in names) else None


def may_bound(date: Column, order: Column) -> bool:
    """Say whether rows may be known to lie by a date of their parent: both are dates, or moments with or without a zone."""
    kinds, zones = {date.kind.name, order.kind.name}, {getattr(c.arrow_type, "tz", None) is None for c in (date, order)}
    return len(kinds) == len(zones) == 1 and date.kind.name in ("date", "datetime")


def ways(column: Column) -> tuple[str, ...]:
    """Return the ways in which a column may hold when the next row begins."""
    return WAYS if column.kind.name == "date" else (NEXT,)


def last_of(column: Column, table: Related) -> Column:
    """Return the column that rows have in its place: what the last row holds, and null in the others."""
    name = table.ending(column.name, dict(table.until)[column.name])
    return replace(column, name=name, nulls=NullPolicy.KEEP, constant=None)


def last_sql(column: Column, table: Related) -> str:
    """Write that as a column."""
    return f"CASE WHEN {LEFT} = 0 THEN {quoted(column.name)} END AS {quoted(last_of(column, table).name)}"


def broken_sql(column: Column, way: str) -> str:
    """Write whether a row that another one follows does not hold when that begins."""
    wanted = f"CAST({NEXT_TIME} AS DATE) - {int(way == DAY_BEFORE)}" if column.kind.name == "date" else NEXT_TIME
    return f"{NEXT_TIME} IS NOT NULL AND {quoted(column.name)} IS DISTINCT FROM {wanted}"


def endings(table: Related, names: Iterable[str], until: Iterable[tuple[str, str]] | None = None) -> list[str]:
    """Return the columns, of those that rows have, that tell what the last ones hold: itself, or how long after a date.

    Args:
        until: the columns of which they tell it, each with its way; by default those of the table that are so.
    """
    own = [table.ending(column, way) for column, way in (table.until if until is None else until)]
    return [n for n in names if any(n == name or n.startswith(offsets.before_base(name)) for name in own)]


def restored(
    values: Mapping[str, pa.Array], parent: np.ndarray, table: Related, source: TableSchema
) -> dict[str, pa.Array]:
    """Return the columns that hold when the parent's next row begins; the last row holds what was learnt of last ones.

    A value that no row may lack is that of another last row, where none was drawn.

    Args:
        values: of the rows: their order, their dates, and the `endings`.
        parent: number of each row's parent, ascending; its rows in their order.
        source: the columns of the table's source.
    """
    found: dict[str, pa.Array] = {}
    follows = np.append(parent[1:] == parent[:-1], False)[: len(parent)]
    for name, way in table.until:
        column, last = source[name], _last(values, table.ending(name, way), source[name], source)
        times, unknown = offsets.points_of(values[str(table.order)], source[str(table.order)])
        there = np.flatnonzero(~follows & np.asarray(last.is_valid()))
        if column.nulls is NullPolicy.DROP and len(there):
            others = np.random.default_rng().choice(there, len(last))
            last = last.take(pa.array(np.where(np.asarray(last.is_null()), others, np.arange(len(last)))))
        following, none = np.append(times[1:], 0)[: len(times)], np.append(unknown[1:], True)[: len(times)]
        ends = offsets.values_at(following - int(way == DAY_BEFORE), none, column)
        found[name] = pc.if_else(pa.array(follows), ends, last)  # type: ignore[attr-defined]
    return found


def _last(values: Mapping[str, pa.Array], name: str, column: Column, source: TableSchema) -> pa.Array:
    """Return what last rows hold, of which rows may tell how long it is after another date of theirs."""
    if name in values:
        return values[name]
    since = next(other for other in values if other.startswith(offsets.before_base(name)))
    base = replace(source[since.removeprefix(offsets.before_base(name))], after=None, same_as=None, part=None)
    both = TableSchema((base, replace(column, name=name, after=base.name, nulls=NullPolicy.KEEP)))
    return offsets.restored({base.name: values[base.name], since: values[since]}, both)[name]
