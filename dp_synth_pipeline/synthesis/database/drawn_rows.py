"""The drawn rows of related tables before they have keys: whose they are, what they hold, and those of some persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations import monotone_columns, periods
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import Column, TableSchema


@dataclass
class Rows:
    """The drawn rows of one table.

    Attributes:
        values: the modelled columns.
        codes: their codes, int64 (rows, columns).
        parent: number of each row's parent, ascending; None for the root.
        root: number of each row's person.
        times: what rows are ordered by, on a line of whole or real numbers; None without an order.
    """

    values: pa.Table
    codes: np.ndarray
    parent: np.ndarray | None
    root: np.ndarray
    times: np.ndarray | None = None

    def with_value(self, name: str, values: pa.Array) -> Rows:
        """Return the rows with one more value each."""
        return replace(self, values=self.values.append_column(name, values))

    def take(self, numbers: np.ndarray, parent: np.ndarray | None, root: np.ndarray) -> Rows:
        """Return rows by their numbers, with other parents and persons."""
        times = None if self.times is None else self.times[numbers]
        return Rows(self.values.take(pa.array(numbers)), self.codes[numbers], parent, root, times)


def of_persons(drawn: Mapping[str, Rows], parents: Mapping[str, str | None], persons: np.ndarray) -> dict[str, Rows]:
    """Return the rows of some persons in that order; one who is named twice comes twice.

    Args:
        drawn: the rows of each table, each table after its parent.
        parents: the name of each table's parent; None of the root.
        persons: their numbers, int64 (persons,).
    """
    found: dict[str, Rows] = {}
    taken: dict[str, np.ndarray] = {}
    for name, rows in drawn.items():
        above = parents[name]
        if above is None or rows.parent is None:
            taken[name], parent, root = persons, None, np.arange(len(persons))
        else:
            taken[name], parent = _below(rows.parent, taken[above])
            root = found[above].root[parent]
        found[name] = rows.take(taken[name], parent, root)
    return found


def _below(parent: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows that hang on some, and which of these each hangs on; both int64 (rows,).

    Args:
        parent: number of each row's parent, ascending.
        above: numbers of parents, each as often as its rows are wanted.
    """
    start, end = (np.searchsorted(parent, above, side) for side in ("left", "right"))
    counts = end - start
    at = np.repeat(np.arange(len(above)), counts)
    return np.repeat(start, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts), at


def together(parts: Sequence[Mapping[str, Rows]], parents: Mapping[str, str | None]) -> dict[str, Rows]:
    """Return the rows of several draws as those of one."""
    found: dict[str, Rows] = {}
    for name, above in parents.items():
        rows = [part[name] for part in parts]
        whose = [
            _following([part[above] for part in parts]) if above else None,
            _following([p[_root(p)] for p in parts]),
        ]
        parent = None if whose[0] is None else _moved([r.parent for r in rows], whose[0])
        times = None if rows[0].times is None else np.concatenate([r.times for r in rows if r.times is not None])
        values, codes = pa.concat_tables([r.values for r in rows]), np.concatenate([r.codes for r in rows])
        found[name] = Rows(values, codes, parent, _moved([r.root for r in rows], whose[1]), times)
    return found


def _root(part: Mapping[str, Rows]) -> str:
    return next(name for name, rows in part.items() if rows.parent is None)


def _following(parts: Sequence[Rows]) -> list[int]:
    """Return by how much the numbers of each draw's rows move."""
    return [0, *np.cumsum([len(rows.codes) for rows in parts])[:-1].tolist()]


def _moved(numbers: Sequence[np.ndarray | None], by: list[int] | None) -> np.ndarray:
    return np.concatenate([n + more for n, more in zip(numbers, by or [], strict=True) if n is not None])


def drawn_columns(table: Related, drawn: Mapping[str, Rows], schema: TableSchema) -> dict[str, pa.Array]:
    """Return what was drawn of a source's columns, as they are published: all but keys, texts and what is made anew.

    Its order is among them, and what hangs on other columns, and what its parents carry.
    """
    rows, carried = drawn[table.name], _carried(table, drawn, schema)
    values = {n: rows.values[n].combine_chunks() for n in rows.values.column_names} | carried
    if rows.times is not None:
        values[str(table.order)] = at_points(rows.times, schema[str(table.order)])
    values = offsets.restored(values, TableSchema(tuple(c for c in schema if not c.kind.composed)))
    if rows.parent is not None:
        values |= periods.restored(values, rows.parent, table, schema)
    learned = [c.name for c in schema if c.kind.learned and not c.kind.composed]
    return {name: values[name] for name in dict.fromkeys([*learned, *carried])}


def _carried(table: Related, drawn: Mapping[str, Rows], schema: TableSchema) -> dict[str, pa.Array]:
    """Return what a table's parents carry: static columns, of which one that is made anew is so once for each parent, and
    monotone ones, of which rows tell the steps.
    """
    rows, found = drawn[table.name], {}
    if rows.parent is None:
        return {}
    above = drawn[str(table.parent)].values
    for column in schema.published:
        if column.name in table.carries:
            learned = column.kind.learned
            values = above[table.carried(column.name)].combine_chunks() if learned else _made(column, above.num_rows)
            found[column.name] = values.take(pa.array(rows.parent))
        if column.name in table.monotone:
            steps = rows.values[table.step(column.name)].combine_chunks()
            found[column.name] = monotone_columns.restored(found[column.name], steps, rows.parent, column, table)
    return found


def _made(column: Column, rows: int) -> pa.Array:
    return column.kind.generated(column, 0, rows)


def carrying(table: Related, parents: Rows, rows: Rows, schema: TableSchema, rng: np.random.Generator) -> Rows:
    """Return parents that carry no null in a column of which no row may be null, if they have rows.

    A parent without rows carries a null, so a model knows nulls of a column that has none. In its place comes what another
    parent with rows carries.
    """
    assert rows.parent is not None
    values = parents.values
    for column in schema.published:
        name = table.carried(column.name)
        if column.name in table.carries and column.kind.learned and column.nulls is NullPolicy.DROP:
            carried = _without_nulls(values[name].combine_chunks(), rows.parent, rng)
            values = values.set_column(values.column_names.index(name), name, carried)
    return Rows(values, parents.codes, parents.parent, parents.root, parents.times)


def _without_nulls(values: pa.Array, parents: np.ndarray, rng: np.random.Generator) -> pa.Array:
    """Return values of which none is null that a row has, in the place of nulls those of other parents that have rows."""
    null, donors = np.asarray(values.is_null()), np.unique(parents)
    needy = np.isin(np.arange(len(values)), donors) & null
    donors = donors[~null[donors]]
    if not len(donors):
        return values
    return values.take(pa.array(np.where(needy, rng.choice(donors, len(values)), np.arange(len(values)))))


def at_points(points: np.ndarray, column: Column) -> pa.Array:
    """Return the values of an order's column that lie on its number line."""
    return offsets.values_at(points, np.zeros(len(points), dtype=bool), column)
