"""Where histories begin: how many rows each parent has, and when its first one lies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.relations.structure import Beginning, Related, Relations
from dp_synth_pipeline.synthesis.database.dated_gaps import DatedGaps
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.synthesis.reading import HANGING
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

Leading = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Takes distances, which of them there are, and the times they lead from; returns those that lead to where rows lie."""


def begun_sentence(relations: Relations, name: str, columns: Collection[str]) -> str:
    """Say after which of its dates the rows below a table were found to begin, and how to have them begin at any time.

    Args:
        columns: of its rows, as they are modelled.
    """
    of_children = (relations.beginning(t.name, columns) for t in relations.children(name) if t.order is not None)
    begun = {b.leader.name: b for b in of_children if b.leader is not None and b.since is not None}
    if not begun:
        return ""
    told = ", ".join(f"rows of {child} begin after {name}.{b.base}" for child, b in begun.items())
    leader = next(b.leader for b in begun.values() if b.leader is not None)
    return (
        f"{HANGING}: {told}. To have them begin at any time, declare after: false for what they are ordered by, as in "
        f"tables.{leader.name}.columns: {{{leader.order}: {{after: false}}}}."
    )


def empty_sentence(relations: Relations, name: str, columns: Collection[str], profile: TableProfile) -> str:
    """Say of which tables no row can be drawn, since noise hid when rows below a table begin; empty if of none.

    Args:
        columns: of its rows, as they are modelled; profile: of these.
    """
    ordered = [child for child in relations.children(name) if child.order is not None]
    times = [str(relations.beginning(child.name, columns).time) for child in ordered]
    hidden = [c for c, time in zip(ordered, times, strict=True) if time in columns and profile[time].hidden]
    if not hidden:
        return ""
    first, names = hidden[0], ", ".join(child.name for child in hidden)
    return (
        f"no row of {names} is drawn, since noise hides when they begin. Declare between which ends they lie, as in "
        f"tables.{first.name}.columns: {{{first.order}: {{lower: ..., upper: ...}}}}; or spend more epsilon."
    )


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
        about = codes[there, number], times[there]
        found[there] = dated.opened(dated.placed(distances[there], *about, rng), *about, rng)
        return found

    return lead


def after_bases(
    parents: Rows,
    distance: Column,
    base: tuple[pa.Array, Column],
    order: Column,
    lead: Leading | None,
    rng: np.random.Generator,
) -> pa.Array:
    """Return when the rows of each parent begin, of which it holds how long that is after a date of its own.

    Of who lacks that date, rows begin when those of another parent do. If no parent has a distance, since noise hid all of
    them, rows begin on the date itself.

    Args:
        distance: the parents' column that holds it.
        base: the dates, and their column.
        order: what the rows are ordered by.
        lead: places distances to first rows; None if they stay as they were drawn.
    """
    (points, lost), (distances, valid) = offsets.placed(*base, order), _points(parents, distance)
    valid = valid | ~valid.any()
    there = valid & ~lost
    if lead is not None:
        distances = lead(distances, there, points)
    times = np.maximum(offsets.added(points, distances, order), points)
    if there.any():
        times[lost] = rng.choice(times[there], int(lost.sum()))
    return offsets.values_at(times, ~(there | lost & there.any()), order)


def beginnings(
    table: Related,
    parents: Rows,
    schema: TableSchema,
    orders: Sequence[Column | None],
    beginning: Beginning,
    lead: Leading | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many rows each parent row has, and when they begin; one that begins at no time has none.

    If no parent has a distance at which its rows begin, since noise hid all of them, rows begin at the time itself.

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
        valid = valid | ~(valid & (counts > 0)).any()
        begun = begun & valid
        points = points + (distances if lead is None else lead(distances, begun, points))
    low, high = (end if end is None else grid.axis_value(end) for end in (order.lower, order.upper))
    points = points if low is None and high is None else np.clip(points, low, high)
    return np.where(begun, counts, 0), points


def _points(rows: Rows, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawn column's points on its number line, and whether there is a value, bool (rows,)."""
    values = rows.values[column.name].combine_chunks()
    return offsets.points_of(values, column)[0], np.asarray(values.is_valid())
