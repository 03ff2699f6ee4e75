"""Finds columns that are the same in all rows of one parent row, and has the parent carry them.

A patient's sex stands in each of their visits, and is a fact about the patient. Drawn visit by visit, it would change now
and then. So it moves to the parent: there it is measured and modelled as a column of that row, and each drawn row below
gets its parent's. A person may declare which columns are static, which is free, or have them found by noisy counts: of the
persons who have several rows under one parent row, and of those among them in whose rows a column varies. One person adds
at most one to each count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations.relating import PARENT, PLACE, ROW, RelatedRows
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted

STATIC = "static"
"""The fact of a column that a person declares: true or false."""

VARIES = 0.05
"""Part of the persons with several rows in whose rows a static column may vary: typing errors, and a name that changed."""

SURE = 2.0
"""Deviations of noise by which the counts must tell that fewer do."""


@dataclass(frozen=True)
class StaticPlan:
    """The counts that tell static columns, and their noise; from public facts alone.

    Attributes:
        columns: by table, the columns that are looked at.
        scale: noise of each count, in persons.
    """

    columns: Mapping[str, tuple[str, ...]]
    scale: float

    @property
    def events(self) -> tuple[Event, ...]:
        """What all counts together cost, whatever the rows are."""
        return (Gaussian(self.scale, weight(self.columns)),)


def weight(columns: Mapping[str, Sequence[str]]) -> int:
    """Return how many counts are made of so many tables and columns; a person moves each by one at most."""
    return sum(1 + len(names) for names in columns.values())


def candidates(
    table: Related, source: TableSchema, parent: TableSchema, declared: Mapping[str, bool]
) -> tuple[str, ...]:
    """Return the columns of which nobody said whether they are static, and that might be.

    Args:
        parent: the columns of the source of its parent.
        declared: what a person said of some columns.
    """
    if table.max_rows == 1:
        return ()
    return tuple(c.name for c in source.learned if c.name not in declared and not _why_not(c, table, source, parent))


def check(table: Related, source: TableSchema, parent: TableSchema | None) -> None:
    """Refuse declared static columns that no parent can carry.

    Args:
        parent: the columns of the source of its parent; None for the root.

    Raises:
        InvalidInput: naming the column, and what to do.
    """
    columns = {c.name: c for c in source}
    for name in table.static:
        said = f"tables.{table.name}.columns.{name}: {STATIC}:"
        if parent is None:
            raise InvalidInput(f"{said} rows of the root have no parent that could carry it; leave static out.")
        if name not in columns:
            raise InvalidInput(f"{said} there is no column {name!r}; the source has: {', '.join(columns)}.")
        if columns[name].kind.regenerated and name not in table.keys:
            continue  # made up once for each parent row
        if why_not := _why_not(columns[name], table, source, parent):
            raise InvalidInput(f"{said} {why_not}")
    if table.static and not modelled_below(table, source, table.static):
        raise InvalidInput(
            f"tables.{table.name}: all columns are declared {STATIC}, and none is left to learn; let one vary, or leave the "
            f"table out."
        )


def modelled_below(table: Related, source: TableSchema, static: Collection[str]) -> bool:
    """Say whether a table has something to learn besides static columns."""
    return table.order is not None or any(c.name not in static for c in source.learned)


def _why_not(column: Column, table: Related, source: TableSchema, parent: TableSchema) -> str:
    """Say why the parent's row cannot carry a column; empty if it can."""
    if table.carried(column.name).casefold() in {name.casefold() for name in parent.names}:  # as SQL takes names
        return f"{table.parent} has a column {table.carried(column.name)!r} already; rename one of them."
    if column.name in table.keys or not column.kind.learned:
        return "it is a key or left out, and not learned; leave static out."
    if column.name == table.order:
        return "rows are ordered by it, so that it varies; leave static out."
    if column.name in offsets.tied(source):
        return "it hangs on another column of its row, or another one on it; declare one of the two."
    if column.kind.composed:
        return "it is text, which is written for each row; leave static out."
    if column.nulls not in (NullPolicy.KEEP, NullPolicy.DROP):
        return f"nulls: {column.nulls} fills each row by itself; write nulls: keep, or drop."
    return ""


def measure(rows: Mapping[str, RelatedRows], plan: StaticPlan, odometer: Odometer) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table that noisy counts tell to be static.

    Args:
        rows: of each table that the plan names.
        odometer: of the plan's events, as they were charged.
    """
    exact = [_counts(rows[name], columns) for name, columns in plan.columns.items()]
    cells = [count for counts in exact for count in np.split(counts, len(counts))]
    noisy, _ = mechanisms.noisy_histograms(cells, scale=plan.scale, sensitivity=1, odometer=odometer)
    found, at = {}, 0
    for name, columns in plan.columns.items():
        several, *varying = (float(cell[0]) for cell in noisy[at : at + 1 + len(columns)])
        at += 1 + len(columns)
        found[name] = tuple(c for c, v in zip(columns, varying, strict=True) if _is_static(v, several, plan.scale))
    return found


def _is_static(varying: float, several: float, scale: float) -> bool:
    """Say whether so few of the persons with several rows vary that noise does not explain it.

    Example:
        >>> _is_static(30, 10_000, 50), _is_static(30, 1_000, 50), _is_static(9_000, 10_000, 50)
        (True, False, False)
    """
    return varying - VARIES * several <= -SURE * scale * math.hypot(1, VARIES)


def _counts(rows: RelatedRows, columns: Sequence[str]) -> np.ndarray:
    """Count the persons with several rows under one parent row, and those in whose rows each column varies; private.

    A null beside a value is another value.
    """
    varies = [
        f"count(DISTINCT {quoted(c)}) + CAST(count({quoted(c)}) BETWEEN 1 AND count(*) - 1 AS INTEGER) > 1 AS v{i}"
        for i, c in enumerate(columns)
    ]
    of_parents = (
        f"SELECT {UNIT}, count(*) > 1 AS several, {', '.join(varies)} FROM read_parquet({literal(rows.path)}) "
        f"GROUP BY {UNIT}, {PARENT}"
    )
    flags = ("several", *(f"v{i}" for i in range(len(columns))))
    of_persons = (
        f"SELECT {', '.join(f'bool_or({flag}) AS {flag}' for flag in flags)} FROM ({of_parents}) GROUP BY {UNIT}"
    )
    with connection_beside(rows.path) as con:
        found = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({flag})' for flag in flags)} FROM ({of_persons})")
        return np.array(found.fetchall()[0], dtype=np.int64)


def carrying(parent: TableSchema, child: TableSchema, table: Related) -> tuple[TableSchema, TableSchema]:
    """Return the columns of a parent's rows with the static ones of a child, and the child's without them."""
    columns = [c for c in child if c.name in table.static]
    moved = [replace(c, name=table.carried(c.name), nulls=NullPolicy.KEEP) for c in columns]
    return TableSchema((*parent, *moved)), TableSchema(tuple(c for c in child if c not in columns))


def carry(parent: RelatedRows, child: RelatedRows, table: Related) -> tuple[RelatedRows, RelatedRows]:
    """Write a parent's rows with the static columns of a child's first rows, and the child's without them; restricted.

    A parent without rows below has nulls there. Where somebody's rows vary all the same, the first one's value stands for
    all of them. Columns that are made anew are in neither.
    """
    columns = [c for c in child.schema if c.name in table.static]
    if not columns:
        return parent, child
    above_schema, below_schema = carrying(parent.schema, child.schema, table)
    above = replace(parent, path=parent.path.with_suffix(f".with-{table.name}.parquet"), schema=above_schema)
    below = replace(child, path=child.path.with_suffix(".static.parquet"), schema=below_schema)
    names = ", ".join(f"c.{quoted(c.name)} AS {quoted(table.carried(c.name))}" for c in columns)
    dropped = ", ".join(quoted(c.name) for c in columns)
    _write(
        above,
        f"SELECT p.*, {names} FROM read_parquet({literal(parent.path)}) p LEFT JOIN "
        f"(SELECT * FROM read_parquet({literal(child.path)}) WHERE {PLACE} = 0) c ON c.{PARENT} = p.{ROW}",
        f"p.{ROW}",
    )
    _write(below, f"SELECT * EXCLUDE ({dropped}) FROM read_parquet({literal(child.path)})", ROW)
    return above, below


def _write(rows: RelatedRows, query: str, order: str) -> None:
    with connection_beside(rows.path) as con:
        con.execute(
            f"COPY ({query} ORDER BY {order}) TO {literal(rows.path)} (FORMAT parquet, COMPRESSION zstd, OVERWRITE true)"
        )
    rows.path.chmod(0o400)
