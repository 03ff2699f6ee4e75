"""Composes what the rows of one table are learnt from, and drawn upon, and says how many persons have rows there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.histories import history_counts, so_far
from dp_synth_pipeline.model.histories.context import NONE, Beside, Context, RowsBeside
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.relations import running_totals
from dp_synth_pipeline.relations.adding_up import columns_of, totals_of
from dp_synth_pipeline.relations.clock import clock
from dp_synth_pipeline.relations.relating import LEFT, PARENT, PLACE, TIME
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis import retention
from dp_synth_pipeline.synthesis.database.beside import (
    Matched,
    Neighbours,
    above_of,
    alike_of,
    beside_of,
    numbers_beside,
    turns,
)
from dp_synth_pipeline.synthesis.database.table_release import Given, HistoryRows, RowsAbove, TableRelease
from dp_synth_pipeline.synthesis.release import Columns
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile
from dp_synth_pipeline.tabular.schema import TableSchema

MOSTLY = 0.5
"""Part of the rows whose code stands for one value, at least, of a column that may determine others."""

LEAST_MOVING = 3
"""Codes in an order, at least, of a column that is learnt by how far it moves from the row before."""


def persons(relations: Relations, name: str, tables: Mapping[str, TableRelease]) -> int:
    """Return how many persons have rows in a table, as the released profile of its parent tells: free."""
    table = relations[name]
    parent = tables[str(table.parent)]
    none = _share_of_zero(parent.profile[table.count])
    return max(2, round(parent.profile.population * (1 - none)))


def _share_of_zero(counts: ColumnProfile) -> float:
    found = sum(w for v, w in zip(counts.values, counts.weights, strict=True) if v == 0)
    for (lower, upper), weight in zip(counts.bins, counts.bin_weights, strict=True):
        if lower <= 0 < upper:
            found += weight / max(upper - max(lower, 0), 1)
    return min(max(found, 0.0), 1.0)


def rows_each(
    relations: Relations, name: str, tables: Mapping[str, TableRelease], *, over_persons: bool = False
) -> float:
    """Return how many rows a person has in a table, as the released counts above tell: free.

    Args:
        over_persons: on an average over those who have any, instead of over rows, of which most are of those who have many.
    """
    found = 1.0
    for table in (relations[name], *relations.ancestors(name)):
        if table.parent is not None:
            counts = tables[table.parent].profile[table.count]
            rows = np.array([*map(float, counts.values), *((low + high - 1) / 2 for low, high in counts.bins)])
            many = rows > 0 if over_persons else np.maximum(rows, 0.0)
            weights = np.maximum([*counts.weights, *counts.bin_weights], 0.0) * many
            found *= max(float(weights @ rows) / max(float(weights.sum()), np.finfo(float).tiny), 1.0)
    return found


def bound(relations: Relations, name: str, tables: Mapping[str, TableRelease], layout: Layout) -> float:
    """Return how long the counts of a usual person's rows in a table are as a vector, in rows, as was released: free."""
    return history_counts.bound_of(tables[name].codec.marginals(), rows_each(relations, name, tables), layout)


def history_rows(
    release: TableRelease, relations: Relations, tables: Mapping[str, TableRelease], context: Context
) -> HistoryRows:
    """Return what is counted of all rows of a table; restricted."""
    persons = pq.read_table(release.rows.path, columns=[release.rows.unit])[release.rows.unit].to_numpy()
    layout = _counted(release, relations, tables, context.agreements)
    most, codes = bound(relations, release.name, tables, layout), encoded(release)
    if context.agreeing:
        drawn = given_rows(release, relations, tables, context).codes[:, len(context.cardinalities) :]
        codes = np.concatenate([codes, context.agreed(drawn).astype(codes.dtype)], 1)
    return HistoryRows(codes, persons.astype(np.int64), layout, most)


def _counted(
    release: TableRelease, relations: Relations, tables: Mapping[str, TableRelease], agreements: Sequence[int]
) -> Layout:
    """Return what is counted of all rows of a table: by released facts alone.

    Pairs of which one column may determine the other are counted whatever the noise, since all of their cells tell that
    together. Any others of the source's columns are where noise does not hide one cell from the next.
    """
    shares, population = release.codec.marginals(), release.profile.population
    sizes, first = [len(s) for s in shares], history_counts.pairs_of(shares, determining(release))
    layout = history_counts.layout_of(sizes, first, agreements)
    rows = population * rows_each(relations, release.name, tables, over_persons=True)
    noise = release.allocation.history_counts(population, release.spent) * bound(
        relations, release.name, tables, layout
    )
    source = [i for i, name in enumerate(release.codec.encoded) if name in release.source.names]
    others = history_counts.clear_pairs(shares, source, noise / rows)
    return history_counts.layout_of(sizes, sorted({*first, *others}), agreements)


def determining(release: TableRelease) -> list[int]:
    """Return which of a table's columns may determine others, or follow from them: whose codes are a value each, mostly.

    What is derived of the source's columns, such as distances between rows, is not among them.
    """
    columns = enumerate(zip(release.codec.encoded, release.codec.columns, strict=True))
    return [
        i
        for i, (name, codec) in columns
        if name in release.source.names and codec.marginal[codec.single].sum() >= MOSTLY * codec.marginal.sum()
    ]


def encoded(release: TableRelease) -> np.ndarray:
    """Return the codes of all rows of a table, int16 (rows, columns), in the order of their numbers; restricted."""
    path = release.restricted / "rows.npy"
    if not path.exists():
        with retention.private():
            release.codec.encode_file(release.whole_rows(), partial := path.with_suffix(".partial"))
            partial.replace(path)
    return np.load(path, mmap_mode="r")


def context_of(
    relations: Relations,
    name: str,
    codecs: Mapping[str, TableCodec],
    sources: Mapping[str, TableSchema] | None = None,
) -> Context:
    """Return how the rows of a table are composed from released facts alone.

    Args:
        codecs: the codec of the table, of all above it, and of the one beside which its rows lie.
        sources: the columns of each source, whose values may be as in another row; what is derived of them is not. None if
            what rows are drawn upon is counted, which takes few codes: numbers then neither stay nor move, of times nothing
            is given but how late they are, and nothing of what histories were like so far.
    """
    table, own, above = relations[name], codecs[name], hung_on(relations, name)
    source = None if sources is None else sources[name]
    of_parents = [(share, _ordered(codecs[t], i)) for t in above for i, share in enumerate(codecs[t].marginals())]
    shares = own.marginals()
    unordered = (
        [i for i, (_, ordered) in enumerate(of_parents) if not ordered],
        [i for i in range(len(shares)) if not _ordered(own, i)],
    )
    times = clock(relations, name, codecs.__getitem__, source)
    beside = _how_beside(relations, name, codecs, sources)
    shape = {"rows": table.max_rows, "categories": unordered, "beside": beside}
    shape["times"] = () if times is None else times.cardinalities
    if source is not None:
        staying = [i for i, c in enumerate(own.encoded) if c in source.names and own.modelled[i].kind.numeric]
        moving = [i for i, order in enumerate(own.orders()) if len(order) >= LEAST_MOVING]
        shape["following"] = staying, moving
    context = Context.of([s for s, _ in of_parents], shares, **shape)
    running = tuple(total.column for total in totals_of(table, own))
    return context if source is None else replace(context, levels=tuple(_levels(own)), running=running)


def _how_beside(
    relations: Relations,
    name: str,
    codecs: Mapping[str, TableCodec],
    sources: Mapping[str, TableSchema] | None,
) -> Beside | None:
    """Return how a table's rows are drawn upon those of one beside it, or else upon their parents'; None if upon neither.

    What totals go on by gets its values as soon as a row is drawn, so that it is as in no other row.
    """
    table, own = relations[name], codecs[name]
    other = relations.beside(name, codecs[str(table.parent)].schema.names)
    there = str(table.parent) if other is None else other.name
    alike = {} if sources is None else alike_of(own, codecs[there], (sources[name], sources[there]))
    for column in columns_of(totals_of(table, own)):
        alike.pop(own.encoded[column], None)
    if other is not None:
        return beside_of(own, codecs[there], str(table.gap), alike)
    return None if sources is None else above_of(own, codecs[there], alike)


def alike_columns(
    release: TableRelease, relations: Relations, tables: Mapping[str, TableRelease], context: Context
) -> list[str]:
    """Say which of a table's columns may have values of rows above or beside theirs, each with the column there."""
    how, parent = context.beside, tables[str(relations[release.name].parent)]
    if how is None:
        return []
    other = parent.name if how.above else _known_beside(relations, release.name, parent).name
    both = zip(release.codec.encoded, how.names, how.namesakes, strict=True)
    return [f"{own} as {other}.{there}" for own, there, namesake in both if namesake >= 0]


def _levels(codec: TableCodec) -> list[tuple[float, ...]]:
    """Return the place of each code of a column's among its values, of numbers, scales and one of two; else none."""
    found = []
    for order, column in zip(codec.orders(), codec.columns, strict=True):
        values = order if len(order) > 1 else np.flatnonzero(column.single).tolist()
        found.append(so_far.places(column.marginal, values) if len(order) > 1 or len(values) == 2 else ())
    return found


def orders_of(
    relations: Relations, name: str, codecs: Mapping[str, TableCodec], context: Context, source: TableSchema
) -> list[Sequence[int]]:
    """Return the codes that have an order, of each column that a row is learnt from: by released facts alone."""
    of_parents = [order for t in hung_on(relations, name) for order in codecs[t].orders()]
    times = clock(relations, name, codecs.__getitem__, source)
    known = [] if times is None else times.orders[: len(context.times)]
    return context.orders(of_parents, known, codecs[name].orders())


def hung_on(relations: Relations, name: str) -> list[str]:
    """Return the tables whose codes are given with each row: its parent, and the root."""
    return list(dict.fromkeys([str(relations[name].parent), relations.root.name]))


def _ordered(codec: TableCodec, column: int) -> bool:
    kind = codec.modelled[column].kind
    return kind.numeric or kind.ordered


def given_rows(
    release: TableRelease,
    relations: Relations,
    tables: Mapping[str, TableRelease],
    context: Context,
    shares: Sequence[np.ndarray] | None = None,
) -> Given:
    """Return each row's codes after those that it hangs on; restricted.

    Args:
        shares: of the codes of the table's own columns, as they were released; by default the profile's.
    """
    table, own = relations[release.name], encoded(release).astype(np.int64)
    numbers = _numbers(release)
    parent, place, left = (numbers[n].to_numpy() for n in (PARENT, PLACE, LEFT))
    units = numbers[release.rows.unit].to_numpy()
    above = {str(table.parent): parent, relations.root.name: units}
    codes = np.concatenate([encoded(tables[t])[above[t]] for t in hung_on(relations, release.name)], 1)
    previous = np.where((place > 0)[:, None], np.roll(own, 1, axis=0), -1)
    times = clock(relations, release.name, lambda name: tables[name].codec, release.source)
    time = None if times is None else times.coded(numbers[TIME].combine_chunks())
    beside, alike = (
        (None, None) if context.beside is None else _beside(release, relations, tables, context.beside, numbers)
    )
    begun = context.histories(int(parent.max(initial=-1)) + 1)
    told, most = (None, None) if begun is None else begun.before(own, parent, place)
    given = context.given(codes, place, left, previous, time, beside, told)
    same = _same(release, context) if context.numbers else None
    drawn = context.relative(own, previous, alike, same, most, _follows(release, table, parent))
    whole = np.concatenate([given, drawn], 1).astype(np.int16)
    about = (release, relations, tables, context)
    columns = _columns(*about, shares or release.codec.marginals())
    return Given(whole, units.astype(np.int64), columns, _meaning(*about))


def _same(release: TableRelease, context: Context) -> np.ndarray:
    """Return which values of numbers are those of the row above, whoever's it is, bool (rows, numbers); restricted."""
    names = [release.codec.encoded[i] for i in context.numbers]
    cells = pq.read_table(release.whole_rows(), columns=names).combine_chunks().columns
    coded = [c.combine_chunks().dictionary_encode("encode").indices.to_numpy(zero_copy_only=False) for c in cells]
    return np.stack([codes == np.roll(codes, 1) for codes in coded], 1)


def _beside(
    release: TableRelease,
    relations: Relations,
    tables: Mapping[str, TableRelease],
    how: Beside,
    numbers: pa.Table,
) -> tuple[RowsBeside, np.ndarray]:
    """Return the rows beside a table's, and which of its codes are as there, bool (rows, own columns); restricted.

    Args:
        numbers: whose each row is, its place, and its time, as `_numbers` returns them.
    """
    parent = tables[str(relations[release.name].parent)]
    if how.above:
        other, matched, ends = parent, Matched.above(numbers[PARENT].to_numpy()), None
    else:
        other = tables[_known_beside(relations, release.name, parent).name]
        matched, ends = _matched(release, numbers, other, relations)
    rows = matched.taken(encoded(other))
    alike = how.copied(rows.codes) == encoded(release)
    if ends is not None:
        alike[:, how.gap] = ends
    if how.numbers:
        names = [release.codec.encoded[i] for i in how.numbers]
        theirs = pq.read_table(other.whole_rows(), columns=[how.names[i] for i in how.numbers])
        there = numbers_beside(release.codec, how, matched.rows, theirs)
        alike[:, how.numbers] = there.same(pq.read_table(release.whole_rows(), columns=names).itercolumns())
        rows = rows._replace(numbers=there.codes)
    return rows, alike


def _known_beside(relations: Relations, name: str, parent: TableRelease) -> Related:
    found = relations.beside(name, parent.codec.schema.names)
    assert found is not None
    return found


def _follows(release: TableRelease, table: Related, parent: np.ndarray) -> np.ndarray:
    """Return how running totals follow from the row before, int8 (rows, totals); restricted."""
    found = [np.zeros((len(parent), 0), np.int8)]
    for total, terms in totals_of(table, release.codec):
        columns = [release.codec.modelled[number] for number in (total, *terms)]
        cells = pq.read_table(release.whole_rows(), columns=[c.name for c in columns])
        points = [offsets.points_of(cells[c.name].combine_chunks(), c) for c in columns]
        value, *held = (np.where(null, np.nan, line) for line, null in points)
        found.append(running_totals.directions(value, held, parent)[:, None])
    return np.concatenate(found, 1)


def _columns(
    release: TableRelease,
    relations: Relations,
    tables: Mapping[str, TableRelease],
    context: Context,
    shares: Sequence[np.ndarray],
) -> Columns:
    """Return the columns that are given with a table's rows, and its own, whose codes have these released shares."""
    above = [share for name in hung_on(relations, release.name) for share in tables[name].codec.marginals()]
    cardinalities = (*context.cardinalities, *context.own_cardinalities)
    return Columns(cardinalities, context.shares(above, shares), len(context.cardinalities))


def _meaning(release: TableRelease, relations: Relations, tables: Mapping[str, TableRelease], context: Context) -> str:
    """Return what says what the codes mean that are given with a table's rows: released facts of the tables about them."""
    about = [tables[table.name].state for table in around(relations, release.name, tables)]
    texts = (state.schema + state.path("profile").read_text(encoding="utf-8") for state in about)
    return json.dumps(context.to_dict(), sort_keys=True) + "".join(texts)


def around(relations: Relations, name: str, tables: Mapping[str, TableRelease]) -> list[Related]:
    """Return the tables that a table's rows are given with: all above it, and the one beside which they lie, if any."""
    beside = relations.beside(name, tables[str(relations[name].parent)].codec.schema.names)
    return [*relations.ancestors(name), *([] if beside is None else [beside])]


def _numbers(release: TableRelease) -> pa.Table:
    """Return whose each row is, its place, and its time; restricted."""
    return pq.read_table(release.rows.path, columns=[release.rows.unit, PARENT, PLACE, LEFT, TIME])


def _matched(
    release: TableRelease, numbers: pa.Table, other: TableRelease, relations: Relations
) -> tuple[Matched, np.ndarray]:
    """Return what lies beside a table's rows, and which of them last until the next row beside begins; restricted."""
    neighbours = _numbers(other)
    order, start = (r.source[str(relations[r.name].order)] for r in (release, other))
    times, unknown = offsets.points_of(numbers[TIME].combine_chunks().cast(order.arrow_type, safe=False), order)
    begun, lost = offsets.points_of(neighbours[TIME].combine_chunks().cast(start.arrow_type, safe=False), start)
    parent = numbers[PARENT].to_numpy()
    found = Neighbours(neighbours[PARENT].to_numpy(), offsets.in_units(begun, start, order), ~lost)
    matched = found.matched(parent, times, turns(parent, times))
    follows = np.append((parent[1:] == parent[:-1]) & ~unknown[1:], False)[: len(parent)]
    distance = np.append(times[1:] - times[:-1], 0)[: len(parent)]
    ends = follows & ~unknown & (matched.until >= 0) & (distance == matched.until)
    rows, when = np.where(unknown, -1, matched.rows), np.where(unknown, NONE, matched.when)
    return matched._replace(rows=rows, when=when), ends


def above_rows(release: TableRelease, relations: Relations, tables: Mapping[str, TableRelease]) -> list[RowsAbove]:
    """Return the tables that a row is given with, each with its row above every row of the table; restricted."""
    table = relations[release.name]
    numbers = pq.read_table(release.rows.path, columns=[release.rows.unit, PARENT])
    rows = {str(table.parent): numbers[PARENT], relations.root.name: numbers[release.rows.unit]}
    return [
        RowsAbove(tables[t].codec, encoded(tables[t]), rows[t].to_numpy().astype(np.int64))
        for t in hung_on(relations, release.name)
    ]


def kept_context(folder: Path, facts: Mapping[str, Any]) -> Context:
    """Return the context that a released generator of a table was learnt in.

    Raises:
        InvalidInput: if it was learnt as a single table.
    """
    if "context" not in facts:
        raise InvalidInput(f"{folder} holds the generator of a single table, and not one of a database.")
    return Context.from_dict(facts["context"])
