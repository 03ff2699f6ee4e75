"""Finds columns that are the same in all rows of one parent row, and numbers that never fall, for the parent to carry.

A patient's sex stands in each of their visits, and is a fact about the patient. Drawn visit by visit, it would change now
and then. So it moves to the parent: there it is measured and modelled as a column of that row, and each drawn row below
gets its parent's. Of a number that never falls, such as an age, the parent carries the first value (`monotone_columns`).

A person may declare which columns are so, which is free, or have them found by noisy counts: of the persons who have several
rows under one parent row, of those among them in whose rows a column varies, and of those in whose rows a number falls. One
person adds at most one to each count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import monotone_columns
from dp_synth_pipeline.relations.monotone_columns import MONOTONE
from dp_synth_pipeline.relations.relating import PARENT, PLACE, RelatedRows
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted
from dp_synth_pipeline.tabular.storage import is_text

STATIC = "static"
"""The fact of a column that a person declares: true or false."""

VARIES = 0.05
"""Part of the persons with several rows in whose rows a static column may vary: typing errors, and a name that changed. Of
those in whose rows a number varies, the part in whose it may fall."""

SURE = 2.0
"""Deviations of noise by which the counts must tell that fewer do."""


class Candidates(NamedTuple):
    """The columns of one table that its parent might carry, of those of which nobody said whether they are so.

    Attributes:
        columns: those that may be static.
        numbers: those among them that may be numbers which never fall.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...] = ()


class Found(NamedTuple):
    """The columns of one table that noisy counts told to be the same in all rows of one parent row, or never to fall.

    Attributes:
        static: those that are the same.
        increasing: those that never fall, and are not the same.
        hidden: whether so few persons have several rows that noise hides even what holds for all of them.
    """

    static: tuple[str, ...] = ()
    increasing: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class StaticPlan:
    """The counts that tell static and increasing columns, and their noise; from public facts alone.

    Attributes:
        candidates: by table, the columns that are looked at.
        scale: noise of each count, in persons.
    """

    candidates: Mapping[str, Candidates]
    scale: float

    @property
    def events(self) -> tuple[Event, ...]:
        """What all counts together cost, whatever the rows are."""
        return (Gaussian(self.scale, weight(self.candidates)),)


def weight(candidates: Mapping[str, Candidates]) -> int:
    """Return how many counts are made of so many tables and columns; a person moves each by one at most."""
    return sum(1 + len(found.columns) + len(found.numbers) for found in candidates.values())


def candidates(
    table: Related, source: TableSchema, parent: TableSchema, declared: Collection[str], untyped: Collection[str] = ()
) -> Candidates:
    """Return the columns that might be static or increasing, and of which nobody said so.

    Args:
        parent: the columns of the source of its parent.
        declared: the columns of which a person said something.
        untyped: the columns of a CSV whose types are not measured yet.
    """
    if table.max_rows == 1:
        return Candidates(())
    able = [c for c in source.learned if c.name not in declared and not _why_not(c, table, source, parent)]
    of_dates = ordered_dates.parts(source)  # such as a year, which follows from a date of its row
    numbers = [c for c in able if c.name not in of_dates and not monotone_columns.why_not(c, table, source, untyped)]
    return Candidates(tuple(c.name for c in able), tuple(c.name for c in numbers))


def check(table: Related, source: TableSchema, parent: TableSchema | None, untyped: Collection[str] = ()) -> None:
    """Refuse declared static and monotone columns that no parent can carry.

    Args:
        parent: the columns of the source of its parent; None for the root.
        untyped: the columns of a CSV whose types are not measured yet.

    Raises:
        InvalidInput: naming the column, and what to do.
    """
    columns = {c.name: c for c in source}
    for name in table.carries:
        said = f"tables.{table.name}.columns.{name}: {STATIC if name in table.static else MONOTONE}:"
        if parent is None:
            raise InvalidInput(f"{said} rows of the root have no parent that could carry it; leave it out.")
        if name not in columns:
            raise InvalidInput(f"{said} there is no column {name!r}; the source has: {', '.join(columns)}.")
        if name in table.static and columns[name].kind.regenerated and name not in table.keys:
            continue  # made up once for each parent row
        why_not = _why_not(columns[name], table, source, parent)
        if name in table.monotone:
            why_not = why_not or monotone_columns.why_not(columns[name], table, source, untyped)
        if why_not:
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
        return "it is a key or left out, and not learned; leave this fact out."
    if column.name == table.order:
        return "rows are ordered by it, so that it varies; leave this fact out."
    if column.name in offsets.tied(source):
        return "it hangs on another column of its row, or another one on it; declare one of the two."
    if column.kind.composed:
        return "it is text, which is written for each row; leave this fact out."
    if column.nulls not in (NullPolicy.KEEP, NullPolicy.DROP):
        return f"nulls: {column.nulls} fills each row by itself; write nulls: keep, or drop."
    return ""


def measure(rows: Mapping[str, RelatedRows], plan: StaticPlan, odometer: Odometer) -> dict[str, Found]:
    """Return the columns of each table that noisy counts tell to be static, and those that never fall.

    Args:
        rows: of each table that the plan names.
        odometer: of the plan's events, as they were charged.
    """
    exact = [_counts(rows[name], looked_at) for name, looked_at in plan.candidates.items()]
    cells = [count for counts in exact for count in np.split(counts, len(counts))]
    noisy, _ = mechanisms.noisy_histograms(cells, scale=plan.scale, sensitivity=1, odometer=odometer)
    left = iter(float(cell[0]) for cell in noisy)
    return {name: _found(looked_at, left, plan.scale) for name, looked_at in plan.candidates.items()}


def _found(looked_at: Candidates, noisy: Iterator[float], scale: float) -> Found:
    """Return what the noisy counts of one table tell, which are the next ones."""
    several = next(noisy)
    varying = {name: next(noisy) for name in looked_at.columns}
    falling = {name: next(noisy) for name in looked_at.numbers}
    static = tuple(name for name, count in varying.items() if _few(count, several, scale))
    increasing = (n for n, count in falling.items() if n not in static and _few(count, varying[n], scale))
    return Found(static, tuple(increasing), hidden=not _few(0, several, scale))


def _few(some: float, several: float, scale: float) -> bool:
    """Say whether so few persons, of so many, are among some that noise does not explain it.

    Example:
        >>> _few(30, 10_000, 50), _few(30, 1_000, 50), _few(9_000, 10_000, 50)
        (True, False, False)
    """
    return some - VARIES * several <= -SURE * scale * math.hypot(1, VARIES)


def _counts(rows: RelatedRows, looked_at: Candidates) -> np.ndarray:
    """Count persons with several rows under one parent row, and those in whose rows a column varies, or a number falls.

    The counts are private. A null beside a value is another value. A number falls where a null stands beside a value, and
    where cells of a CSV vary that are no numbers.
    """
    flags = {"several": "count(*) > 1"}
    for i, name in enumerate(looked_at.columns):
        column = quoted(name)
        flags[f"v{i}"] = f"count(DISTINCT {column}) + CAST(count({column}) BETWEEN 1 AND count(*) - 1 AS INTEGER) > 1"
    compared = []
    for i, name in enumerate(looked_at.numbers):
        value = f"TRY_CAST({quoted(name)} AS DOUBLE)" if is_text(rows.schema[name].arrow_type) else quoted(name)
        compared.append(f", {value} AS __x{i}, {value} < lag({value}) OVER w AS __f{i}")
        varies = flags[f"v{looked_at.columns.index(name)}"]
        flags[f"f{i}"] = f"coalesce(bool_or(__f{i}), false) OR ({varies}) AND count(__x{i}) < count(*)"
    placed = (
        f"SELECT *{''.join(compared)} FROM read_parquet({literal(rows.path)}) "
        f"WINDOW w AS (PARTITION BY {PARENT} ORDER BY {PLACE})"
    )
    of_parents = (
        f"SELECT {UNIT}, {', '.join(f'{flag} AS {name}' for name, flag in flags.items())} FROM ({placed}) "
        f"GROUP BY {UNIT}, {PARENT}"
    )
    of_persons = (
        f"SELECT {', '.join(f'bool_or({flag}) AS {flag}' for flag in flags)} FROM ({of_parents}) GROUP BY {UNIT}"
    )
    with connection_beside(rows.path) as con:
        found = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({flag})' for flag in flags)} FROM ({of_persons})")
        return np.array(found.fetchall()[0], dtype=np.int64)
