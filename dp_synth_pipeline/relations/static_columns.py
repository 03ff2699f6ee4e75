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
from typing import Any, NamedTuple

import numpy as np

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import monotone_columns, periods, running_totals
from dp_synth_pipeline.relations.monotone_columns import INCREASING, MONOTONE
from dp_synth_pipeline.relations.periods import BEFORE, UNTIL
from dp_synth_pipeline.relations.relating import PARENT, PLACE, ROW, TIME, RelatedRows
from dp_synth_pipeline.relations.running_totals import RUNNING
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
        ends: those among them that may hold when the next row begins, each in one way.
        bounds: the dates of the parent after which no row may lie.
        order: the column that rows are ordered by, if there are such.
        totals: those that may be running totals, each with the columns by which it may go on.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    ends: tuple[tuple[str, str], ...] = ()
    bounds: tuple[str, ...] = ()
    order: str = ""
    totals: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Found(NamedTuple):
    """The columns of one table that noisy counts told to be the same in all rows of one parent row, or never to fall.

    Attributes:
        static: those that are the same.
        increasing: those that never fall, and are not the same.
        until: those that hold when the next row begins, each with the way in which, and are not the same.
        before: the dates of the parent after which no row lies, by the column that rows are ordered by.
        hidden: whether so few persons have several rows that noise hides even what holds for all of them.
        running: those that are running totals, and not the same, each with the columns by which it goes on.
    """

    static: tuple[str, ...] = ()
    increasing: tuple[str, ...] = ()
    until: tuple[tuple[str, str], ...] = ()
    before: tuple[tuple[str, tuple[str, ...]], ...] = ()
    hidden: bool = False
    running: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What was found by column, as a person would declare it."""
        told = {name: {STATIC: True} for name in self.static} | {n: {MONOTONE: INCREASING} for n in self.increasing}
        told |= {name: {UNTIL: way} for name, way in self.until}
        told |= {name: {RUNNING: list(terms)} for name, terms in self.running}
        return told | {order: {BEFORE: list(dates)} for order, dates in self.before}


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
    counts = ((f.columns, f.numbers, f.ends, f.bounds, f.totals) for f in candidates.values())
    return sum(1 + sum(map(len, of_table)) for of_table in counts)


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
    dates = [c for c in able if not periods.why_not(c, table, source, untyped)]
    ends = tuple((c.name, way) for c in dates for way in periods.ways(c))
    order = None if table.order is None or table.order in declared else source[table.order]
    bounds = tuple(c.name for c in parent.learned if order is not None and periods.may_bound(c, order))
    totals = tuple(running_totals.candidates(table, source, declared, untyped))
    return Candidates(
        tuple(c.name for c in able), tuple(c.name for c in numbers), ends, bounds, table.order or "", totals
    )


def check(table: Related, source: TableSchema, parent: TableSchema | None, untyped: Collection[str] = ()) -> None:
    """Refuse declared static and monotone columns that no parent can carry.

    Args:
        parent: the columns of the source of its parent; None for the root.
        untyped: the columns of a CSV whose types are not measured yet.

    Raises:
        InvalidInput: naming the column, and what to do.
    """
    columns = {c.name: c for c in source}
    facts = {**dict.fromkeys(dict(table.until), UNTIL), **dict.fromkeys(table.monotone, MONOTONE)}
    for name in (*table.carries, *dict(table.until)):
        said = f"tables.{table.name}.columns.{name}: {facts.get(name, STATIC)}:"
        if parent is None:
            raise InvalidInput(f"{said} rows of the root have no parent by which they would be so; leave it out.")
        if name not in columns:
            raise InvalidInput(f"{said} there is no column {name!r}; the source has: {', '.join(columns)}.")
        if name in table.static and columns[name].kind.regenerated and name not in table.keys:
            continue  # made up once for each parent row
        why_not = _why_not(columns[name], table, source, parent)
        if name in table.monotone:
            why_not = why_not or monotone_columns.why_not(columns[name], table, source, untyped)
        if name in dict(table.until):
            why_not = why_not or periods.why_not(columns[name], table, source, untyped)
        if why_not:
            raise InvalidInput(f"{said} {why_not}")
    for name in table.before:
        said, order = f"tables.{table.name}.columns.{table.order}: {BEFORE}:", columns[str(table.order)]
        dates = [c for c in parent.learned if periods.may_bound(c, order)] if parent is not None else []
        if name not in [c.name for c in dates]:
            raise InvalidInput(
                f"{said} {name!r} is no date of {table.parent} that is stored as {table.order} is; "
                f"{'it has: ' + ', '.join(c.name for c in dates) if dates else 'it has none'}. Of a CSV, declare its kind."
            )
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


def measure(
    rows: Mapping[str, RelatedRows], plan: StaticPlan, odometer: Odometer, above: RelatedRows | None = None
) -> dict[str, Found]:
    """Return what noisy counts tell of the columns of each table.

    Args:
        rows: of each table that the plan names.
        odometer: of the plan's events, as they were charged.
        above: the rows of their parent; needed if there are dates by which they may lie.
    """
    exact = [_counts(rows[name], looked_at, above) for name, looked_at in plan.candidates.items()]
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
    increasing = [n for n, count in falling.items() if n not in static and _few(count, varying[n], scale)]
    broken = {end: next(noisy) for end in looked_at.ends}
    until = {n: way for (n, way), count in broken.items() if n not in static and _few(count, several, scale)}
    late = {name: next(noisy) for name in looked_at.bounds}
    dates = tuple(name for name, count in late.items() if _few(count, several, scale))
    before = ((looked_at.order, dates),) if dates else ()
    follow = {total: next(noisy) for total in looked_at.totals}
    most = {t: count for t, count in follow.items() if t[0] not in static and _most(count, several, scale)}
    running, hidden = running_totals.most_likely(most), not _few(0, several, scale)
    increasing = [n for n in increasing if n not in running]
    return Found(static, tuple(increasing), tuple(until.items()), before, hidden, tuple(running.items()))


def _few(some: float, several: float, scale: float) -> bool:
    """Say whether so few persons, of so many, are among some that noise does not explain it.

    Example:
        >>> _few(30, 10_000, 50), _few(30, 1_000, 50), _few(9_000, 10_000, 50)
        (True, False, False)
    """
    return some - VARIES * several <= -SURE * scale * math.hypot(1, VARIES)


def _most(some: float, several: float, scale: float) -> bool:
    """Say whether so many persons, of so many, are among some that noise does not explain that more than half are.

    Example:
        >>> _most(9_000, 10_000, 50), _most(60, 100, 50), _most(4_000, 10_000, 50)
        (True, False, False)
    """
    return some - several / 2 >= SURE * scale * math.hypot(1, 0.5)


def _counts(rows: RelatedRows, looked_at: Candidates, above: RelatedRows | None = None) -> np.ndarray:
    """Count persons with several rows under one parent row, and those in whose rows a column varies, a number falls, a date
    is not when the next row begins, a row lies after a date of its parent, or a total mostly follows from the one before.

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
    for i, (name, way) in enumerate(looked_at.ends):
        compared.append(f", {periods.broken_sql(rows.schema[name], way)} AS __e{i}")
        flags[f"e{i}"] = f"coalesce(bool_or(__e{i}), false)"
    source, late = f"read_parquet({literal(rows.path)})", [f"__b{i}" for i in range(len(looked_at.bounds))]
    if above is not None and late:
        flags |= {f"b{i}": f"coalesce(bool_or({TIME} > {bound}), false)" for i, bound in enumerate(late)}
        dates = ", ".join(f"{quoted(n)} AS {bound}" for n, bound in zip(looked_at.bounds, late, strict=True))
        source += f" JOIN (SELECT {ROW} AS {PARENT}, {dates} FROM read_parquet({literal(above.path)})) USING ({PARENT})"
    for i, (total, terms) in enumerate(looked_at.totals):
        compared.append(f", {running_totals.follows_sql(total, terms, rows.schema)} AS __t{i}")
        flags[f"t{i}"] = running_totals.mostly_sql(f"__t{i}")
    placed = f"SELECT *{''.join(compared)} FROM {source} WINDOW w AS (PARTITION BY {PARENT} ORDER BY {PLACE})"
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
