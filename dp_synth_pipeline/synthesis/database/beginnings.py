"""Where histories begin: how many rows each parent has, and when its first one lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc

from dp_synth_pipeline.relations.structure import Beginning, Related
from dp_synth_pipeline.synthesis.database.dated_gaps import DatedGaps
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.schema import Column, TableSchema

Leading = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Takes distances, which of them there are, and the times they lead from; returns those that lead to where rows lie."""


def leading(
    codec: TableCodec,
    codes: np.ndarray,
    distance: str | None,
    calendar: CalendarEffects | None,
    order: Column | None,
    rng: np.random.Generator,
) -> Leading | None:
    """Return what leads from a parent's time to its first row; None if rows begin at no distance, or on all days alike.

    Args:
        codes: of the parents, int64 (parents, columns); distance: the column of theirs that holds how far off rows begin.
        calendar, order: of the times of the rows.
    """
    if distance is None:
        return None
    number = codec.encoded.index(distance)
    dated = DatedGaps.of(calendar, order, codec.columns[number])
    if dated is None:
        return None

    def lead(distances: np.ndarray, there: np.ndarray, times: np.ndarray) -> np.ndarray:
        found = distances.copy()
        found[there] = dated.placed(distances[there], codes[there, number], times[there], rng)
        return found

    return lead


def beginnings(
    table: Related,
    parents: Rows,
    schema: TableSchema,
    orders: Sequence[Column | None],
    beginning: Beginning,
    lead: Leading | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many rows each parent row has, and when they begin; one that begins at no time has none.

    Args:
        schema: of the parent's values.
        orders: what the parent's rows, and the table's, are ordered by.
        beginning: how the parent says when they begin.
        lead: places distances to first rows; None if they stay as they were drawn.
    """
    counts = pc.fill_null(parents.values[table.count], 0).to_numpy().astype(np.int64)
    counts = np.clip(counts, 0, table.max_rows)
    start, order = orders
    if order is None:
        return counts, None
    begun, points = np.ones(len(counts), bool), parents.times
    if beginning.time is not None:
        start = schema[beginning.time]
        points, begun = _points(parents, start)
    assert points is not None
    assert start is not None
    points = offsets.in_units(points, start, order)
    if beginning.distance is not None:
        distances, valid = _points(parents, schema[beginning.distance])
        begun = begun & valid
        points = points + (distances if lead is None else lead(distances, begun, points))
    low, high = (end if end is None else grid.axis_value(end) for end in (order.lower, order.upper))
    points = points if low is None and high is None else np.clip(points, low, high)
    return np.where(begun, counts, 0), points


def _points(rows: Rows, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawn column's points on its number line, and whether there is a value, bool (rows,)."""
    values = rows.values[column.name].combine_chunks()
    return offsets.points_of(values, column)[0], np.asarray(values.is_valid())
