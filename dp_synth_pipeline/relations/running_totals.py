"""Numbers that go on from the row before by what other columns of their row hold, such as the balance of an account.

Drawn like any other number, a balance would be about as large as the one before, and agree with no amount. So a row may say
that its total is that of the row before it, plus or minus what its terms hold: an amount of either direction, or what came
in and what went out. Before the first row of a parent, a total is 0. Other rows hold a total that does not follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.kinds.base import NUMBER, Column
from dp_synth_pipeline.tabular.recognition import words_of
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sql import quoted
from dp_synth_pipeline.tabular.storage import is_text

RUNNING = "running"
"""The fact of a column that a person declares: the column by which it goes on, two of them, or false."""

FORTH, BACK = 1, 2
"""A total follows by its first term less its second one, or by the opposite of that."""

TOTALS = """
balance bal saldo solde kontostand stock inventory hand running cumulative cumulated cum remaining outstanding odometer
mileage
"""
"""Words of which one is in the name of what may be a running total: few, since each is counted with all other numbers."""

IN = "in deposit deposits credit credits received receipts inflow added earned bought income"
OUT = "out withdrawal withdrawals debit debits sold issued outflow removed spent used expense"
"""Words of which one is in the names of what comes in, and of what goes out, where two columns hold that."""

MOSTLY = 0.5
"""Part of a parent's rows that hold an amount of which the total follows, at least, where it is a running one."""

CLOSE = 1e-9
"""How far a total may lie off, as a part of it, since numbers with digits after the point are added up in doubles."""


def terms_of(declared: Any) -> tuple[str, ...] | None:
    """Return the columns that a person declares a total to go on by: one, or two; None if these are none.

    Example:
        >>> terms_of("amount"), terms_of(["paid_in", "paid_out"]), terms_of(False), terms_of(7)
        (('amount',), ('paid_in', 'paid_out'), (), None)
    """
    names = [declared] if isinstance(declared, str) else [] if declared in (None, False) else declared
    told = isinstance(names, list | tuple) and len(names) <= 2 and all(isinstance(n, str) for n in names)
    return tuple(names) if told else None


def why_not(column: Column, terms: Sequence[Column], table: Related, untyped: Collection[str] = ()) -> str:
    """Say why a column cannot be a running total of others; empty if it can, as far as is known without its rows.

    Args:
        terms: the columns by which it would go on.
        untyped: the columns of a CSV whose types are not measured yet.
    """
    if table.order is None:
        return f"rows of {table.name} have no order in which it could go on; declare order: COLUMN, or leave {RUNNING} out."
    if len({column.name, *(c.name for c in terms)}) <= len(terms):
        return f"it goes on by other columns, each once; it names {', '.join(c.name for c in terms)}."
    for one in (column, *terms):
        if one.name in (*table.keys, table.order) or not one.kind.learned:
            return f"{one.name!r} is a key, the order or left out, and not learned; leave {RUNNING} out."
        if one.name not in untyped and one.kind.family != NUMBER:
            return f"{one.name!r} is of kind {one.kind}, and numbers alone are added up; leave {RUNNING} out."
    return ""


def check(table: Related, source: TableSchema, untyped: Collection[str] = ()) -> None:
    """Refuse declared running totals that cannot be such.

    Args:
        source: the columns of the table's source.
        untyped: the columns of a CSV whose types are not measured yet.

    Raises:
        InvalidInput: naming the column, and what to do.
    """
    columns = {c.name: c for c in source}
    for name, terms in table.running:
        said = f"tables.{table.name}.columns.{name}: {RUNNING}:"
        if table.parent is None:
            raise InvalidInput(f"{said} the root has one row for each person, so that nothing goes on; leave it out.")
        for one in (name, *terms):
            if one not in columns:
                raise InvalidInput(
                    f"{said} there is no column {one!r}; the source has: {', '.join(columns)}.{nearest(one, list(columns))}"
                )
        if found := why_not(columns[name], [columns[term] for term in terms], table, untyped):
            raise InvalidInput(f"{said} {found}")
        if hanging := {name, *terms}.intersection(offsets.tied(source)):
            raise InvalidInput(
                f"{said} {sorted(hanging)[0]!r} hangs on another column of its row, or one on it; declare one of the two."
            )


def candidates(
    table: Related, source: TableSchema, declared: Collection[str], untyped: Collection[str] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what may be running totals by its name, each with the columns by which it may go on.

    Args:
        source: the columns of the table's source.
        declared: the columns of which a person said whether they are such, or something else that they cannot be as well.
        untyped: the columns of a CSV whose types are not measured yet.
    """
    tied = offsets.tied(source)
    free = [c for c in source.learned if c.name not in tied and not why_not(c, (), table, untyped)]
    named = {words: [c for c in free if {*words.split()} & {*words_of(c.name)}] for words in (TOTALS, IN, OUT)}
    for total in (c for c in named[TOTALS] if c.name not in declared):
        others = [c for c in free if c.name != total.name]
        yield from ((total.name, (c.name,)) for c in others)
        pairs = ((a, b) for a in named[IN] for b in named[OUT] if total.name not in (a.name, b.name) and a is not b)
        yield from ((total.name, (a.name, b.name)) for a, b in pairs)


def follows_sql(total: str, terms: Sequence[str], schema: TableSchema) -> str:
    """Write whether a row's total follows from that of the row before; null where its terms hold nothing, or 0.

    It is an expression over rows of parents, in a query with the window `w` of each parent's rows in their order.
    """
    value, *held = (_number(schema[name]) for name in (total, *terms))
    before = f"coalesce(lag({value} IGNORE NULLS) OVER w, 0)"
    change = " - ".join(f"coalesce({term}, 0)" for term in held)
    far = f"{CLOSE} * (abs({value}) + abs({before}) + abs({change}))"
    return f"CASE WHEN {change} <> 0 THEN coalesce(abs(abs({value} - {before}) - abs({change})) <= {far}, false) END"


def mostly_sql(follows: str) -> str:
    """Write whether totals follow in most of a parent's rows that hold an amount, of which there are several."""
    return f"count({follows}) > 1 AND count(*) FILTER ({follows}) >= {MOSTLY} * count({follows})"


def _number(column: Column) -> str:
    return f"{'TRY_CAST' if is_text(column.arrow_type) else 'CAST'}({quoted(column.name)} AS DOUBLE)"


def change_of(terms: Sequence[np.ndarray]) -> np.ndarray:
    """Return by how much a total goes on, float64 (rows,): the first term less the second one; what is NaN adds nothing."""
    first, *rest = (np.nan_to_num(term, nan=0.0) for term in terms)
    return first - sum(rest, np.zeros(len(first)))


def directions(total: np.ndarray, terms: Sequence[np.ndarray], parent: np.ndarray) -> np.ndarray:
    """Return how each row's total follows from the one before: `FORTH`, `BACK`, or 0 if it does not, int8 (rows,).

    A row whose terms hold nothing, or 0, does not follow: its total may stay.

    Args:
        total: values, float64 (rows,); NaN for null. terms: likewise.
        parent: number of each row's parent, ascending; its rows in their order.

    Example:
        >>> directions(np.array([5.0, 3.0, 9.0, 4.0]), [np.array([5.0, 2.0, 1.0, 4.0])], np.array([0, 0, 0, 1]))
        array([1, 2, 0, 1], dtype=int8)
    """
    with np.errstate(all="ignore"):  # a warning of an overflow would tell that some row holds so large a number
        before, change = _before(total, parent), change_of(terms)
        far = CLOSE * (np.abs(total) + np.abs(before) + np.abs(change))
        forth, back = (np.abs(total - before - sign * change) <= far for sign in (1, -1))
    return np.where(change == 0, 0, np.where(forth, FORTH, np.where(back, BACK, 0))).astype(np.int8)


def _before(total: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Return the last total before each row that is no null; 0 where its parent has none."""
    rows = np.arange(len(total))
    last = np.maximum.accumulate(np.where(np.isnan(total), -1, rows)) if len(rows) else rows
    at = np.append(-1, last[:-1])[: len(rows)]
    known = (at >= 0) & (parent[at] == parent)
    return np.where(known, total[at], 0.0)


def most_likely(noisy: Mapping[tuple[str, tuple[str, ...]], float]) -> dict[str, tuple[str, ...]]:
    """Return the terms of each total of those that noisy counts told: those of which most persons' totals follow."""
    found: dict[str, tuple[str, ...]] = {}
    for (total, terms), _ in sorted(noisy.items(), key=lambda item: item[1]):
        found[total] = terms
    return found
