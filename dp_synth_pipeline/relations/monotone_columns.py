"""Columns that never fall, or never rise: a parent carries their first value, and its rows the distance to the next one.

A patient's age at a visit follows from the one before. Drawn visit by visit, it would go up and down. So a row holds by how
much the next one differs, as it does of what rows are ordered by, and drawn distances are added up from where they begin. A
value that goes against its column's direction is taken to stay as it was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.relating import PARENT, PLACE
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.kinds.base import NUMBER, Column
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sql import quoted
from dp_synth_pipeline.tabular.storage import is_text

MONOTONE = "monotone"
"""The fact of a column that a person declares: `increasing`, `decreasing`, or false."""

INCREASING, DECREASING = DIRECTIONS = "increasing", "decreasing"

EXACT = "DECIMAL(38, 12)"
"""The SQL type in which numbers with digits after the point are subtracted, as they are written."""


def why_not(column: Column, table: Related, source: TableSchema, untyped: Collection[str] = ()) -> str:
    """Say why a column cannot be monotone; empty if it can, as far as is known without its rows.

    Args:
        source: the columns of the table's source.
        untyped: the columns of a CSV whose types are not measured yet.
    """
    if table.order is None:
        return f"rows of {table.name} have no order in which it could be; declare order: COLUMN, or leave monotone out."
    if column.name not in untyped and column.kind.family != NUMBER:
        return f"it is of kind {column.kind}, and numbers alone are; leave monotone out."
    if table.step(column.name).casefold() in {name.casefold() for name in source.names}:  # as SQL takes names
        return f"{table.name} has a column {table.step(column.name)!r} already; rename one of them."
    return ""


def step_of(column: Column, table: Related) -> Column:
    """Return the column that rows have in the place of a monotone one: numbers from 0; null if no row follows."""
    digits = None if column.kind.whole or is_text(column.arrow_type) else offsets.digits_of(column)
    return replace(offsets.distance(table.step(column.name), column), decimals=digits)


def step_sql(column: Column, table: Related) -> str:
    """Write the distance from a row's value to the next one of its parent's that is no null, as `step_of` holds it."""
    here = quoted(column.name)
    there = f"lead({here} IGNORE NULLS) OVER (PARTITION BY {PARENT} ORDER BY {PLACE})"
    if column.name in table.decreasing:
        here, there = there, here
    if column.kind.whole and not is_text(column.arrow_type):
        return f"TRY_CAST({_from_0(f'CAST({there} AS HUGEINT) - CAST({here} AS HUGEINT)')} AS BIGINT)"
    exact = " - ".join(f"TRY_CAST(CAST({x} AS VARCHAR) AS {EXACT})" for x in (there, here))
    distance = f"coalesce(CAST({exact} AS DOUBLE), TRY_CAST({there} AS DOUBLE) - TRY_CAST({here} AS DOUBLE))"
    return f"CASE WHEN isfinite({distance}) THEN {_from_0(distance)} END"


def _from_0(distance: str) -> str:
    return f"CASE WHEN {distance} < 0 THEN 0 ELSE {distance} END"  # `greatest` would take a null for less than 0


def restored(first: pa.Array, steps: pa.Array, parent: np.ndarray, column: Column, table: Related) -> pa.Array:
    """Return a monotone column's values: where each parent's rows begin, with the distances added up so far.

    Values stay within the column's declared ends and its type's, and a distance that is not known counts as 0.

    Args:
        first: what the parent of each row carries.
        steps: how far the next row is.
        parent: number of each row's parent, ascending; its rows in their order.
        column: what the values are; of another kind than a number, if cells of a CSV were found to be so, all stay.
    """
    if column.kind.family != NUMBER or not len(first):
        return first
    points, null = offsets.points_of(first, column)
    step, _ = offsets.points_of(steps, step_of(column, table))
    step = -step if column.name in table.decreasing else step
    place = np.arange(len(parent)) - np.searchsorted(parent, parent)
    by_place = np.argsort(place, kind="stable")
    for rows in np.split(by_place, np.cumsum(np.bincount(place)))[1:-1]:  # of each place after the first
        points[rows] = offsets.added(points[rows - 1], step[rows - 1], column)
    return offsets.values_at(points, null, column)
