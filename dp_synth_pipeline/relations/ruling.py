"""Rules across related tables, `visits.visited >= patients.born`: each judges the rows of one table beside those above it.

They are written as rules of one table are, with TABLE.COLUMN in place of a column. They are declared by a person, so they
are public.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import aggregates
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.constraints import Comparison, Rule
from dp_synth_pipeline.tabular.schema import TableSchema

Cells: TypeAlias = pa.Array | pa.ChunkedArray


def read(text: str, relations: Relations) -> Rule:
    """Return a rule across tables; an equality has a column of the table that it judges on its left, to be computed.

    So `products.price == orders.price` is read the other way round, as an order's price can follow from the catalogue alone.

    Raises:
        InvalidInput: if it is no rule, or judges no table.
    """
    rule = constraints.parse(text)
    own = f"{judged(rule, relations).name}."
    if not isinstance(rule, Comparison) or rule.operator != "==" or not isinstance(rule.right, str):
        return rule
    turned = rule.right.startswith(own) and not rule.left.startswith(own)
    return replace(rule, left=rule.right, right=rule.left) if turned else rule


def columns_of(rule: Rule) -> list[tuple[str, str]]:
    """Return the table and the name of each column that a rule speaks of, but for what rows below come to.

    Raises:
        InvalidInput: if a column is written without its table.
    """
    come_to = [aggregate.name for aggregate in aggregates.of_rule(rule)]
    names = [name for name in rule.columns if name not in come_to]
    found = [tuple(name.split(".", 1)) for name in names]
    for name, parts in zip(names, found, strict=True):
        if len(parts) != 2:
            raise InvalidInput(
                f"rule {rule.text!r}: {name!r} names no table; write TABLE.COLUMN, as in visits.visited >= patients.born."
            )
    return [(table, column) for table, column in found]


def judged(rule: Rule, relations: Relations) -> Related:
    """Return the table whose rows a rule judges: every other table that it names is above that one.

    Raises:
        InvalidInput: if there is no such table, or two are named of which neither is above the other.
    """
    names = list(dict.fromkeys(table for table, _ in columns_of(rule)))
    if not names and (table := aggregates.judged(rule, relations)) is not None:
        aggregates.check(rule, table, relations)
        return table
    known = [table.name for table in relations.everything]
    for name in names:
        if name not in known:
            raise InvalidInput(f"rule {rule.text!r}: there is no table {name!r}; there are: {', '.join(known)}.")
    public = [name for name in names if relations.public_key(name) is not None]
    learnt = [name for name in names if name not in public]
    for name in learnt:
        if set(learnt) <= {name, *(above.name for above in relations.ancestors(name))}:
            for other in public:
                _check_reference(rule, relations, name, other)
            aggregates.check(rule, relations[name], relations)
            return relations[name]
    raise InvalidInput(
        f"rule {rule.text!r}: of {' and '.join(learnt)}, none hangs on all others, so no row of the one goes with a row of "
        f"the other; name columns of one table and of those above it."
        if learnt
        else f"rule {rule.text!r}: it names public tables alone, which are copied as they are; leave it out."
    )


def _check_reference(rule: Rule, relations: Relations, name: str, public: str) -> None:
    """Refuse a rule about a public table that not exactly one column of the row it judges, or of one above, refers to."""
    found = referring(relations, name, public)
    if len(found) != 1:
        several = f"{' and '.join(f'{table}.{column}' for table, column in found)} refer to it, so" if found else ""
        raise InvalidInput(
            f"rule {rule.text!r}: {several or f'no column of {name}, or of a table above, refers to {public}, so'} no one "
            f"row of {public} goes with a row of {name}."
        )


def referring(relations: Relations, name: str, public: str) -> list[tuple[str, str]]:
    """Return the columns of a table and of those above it that refer to a public one, each with its table."""
    path = (relations[name], *relations.ancestors(name))
    return [(table.name, column) for table in path for column, other in table.refers if other == public]


def looked_up(
    wanted: Iterable[tuple[str, str]],
    relations: Relations,
    name: str,
    columns: Mapping[tuple[str, str], Cells],
    public: Mapping[str, pa.Table],
) -> dict[tuple[str, str], Cells]:
    """Return columns of public tables beside the rows of a table: of the rows that these, or those above, refer to.

    Args:
        wanted: the columns, each with its public table.
        name: the table.
        columns: columns of it and of those above it, a cell for each of its rows; those that refer among them.
        public: the rows of public tables.

    Returns:
        the cells of each column; null where a row refers to none.
    """
    found = {}
    for table, column in wanted:
        (reference,) = referring(relations, name, table)
        rows = public[table]
        keys = rows[str(relations.public_key(table))]
        at = pc.index_in(columns[reference].cast(keys.type), value_set=keys)  # type: ignore[attr-defined]
        found[table, column] = rows[column].take(at)
    return found


def computed(rules: Iterable[Rule], table: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of a table that rules compute, each with the table's own columns that it is computed from."""
    own = f"{table}."
    return {
        target.removeprefix(own): tuple(part.removeprefix(own) for part in parts if part.startswith(own))
        for target, parts in constraints.computed([*rules]).items()
        if target.startswith(own)
    }


def joined_schema(rules: Iterable[Rule], sources: Mapping[str, TableSchema]) -> TableSchema:
    """Return the columns that rules speak of, named as they do, and what rows below come to."""
    rules = list(rules)
    columns = dict.fromkeys(pair for rule in rules for pair in columns_of(rule))
    come_to = {a.name: aggregates.column(a, rule, sources) for rule in rules for a in aggregates.of_rule(rule)}
    named = (replace(sources[table][name], name=f"{table}.{name}") for table, name in columns)
    return TableSchema((*named, *come_to.values()))


def named(rules: Iterable[Rule]) -> set[tuple[str, str | None]]:
    """Return the table and the name of each column that rules speak of; no name where rows are counted."""
    rules = list(rules)
    come_to = {(aggregate.table, aggregate.column) for rule in rules for aggregate in aggregates.of_rule(rule)}
    return come_to | {pair for rule in rules for pair in columns_of(rule)}


def tables_of(rules: Iterable[Rule]) -> set[str]:
    """Return the tables that rules speak of."""
    return {table for table, _ in named(rules)}


def check(
    rules: Iterable[Rule], sources: Mapping[str, TableSchema], untyped: Mapping[str, Collection[str]] | None = None
) -> None:
    """Refuse rules about columns that are not there, are made anew, or cannot be compared, before anything is read.

    Args:
        untyped: columns of a CSV by table, of which nobody said what they hold: their types are measured later.
    """
    for rule in rules:
        below = [(a.table, a.column) for a in aggregates.of_rule(rule) if a.column is not None]
        for table, name in (*columns_of(rule), *below):
            published = [column.name for column in sources[table].published]
            if name not in published:
                raise InvalidInput(
                    f"rule {rule.text!r}: there is no column {name!r} to publish in {table}; there are: "
                    f"{', '.join(published)}."
                )
            if name in (untyped or {}).get(table, ()):
                raise InvalidInput(
                    f"rule {rule.text!r}: the type of {table}.{name} is measured, which comes after the rule must be "
                    f"understood. Declare what it holds: "
                    f"tables.{table}.columns: {{{name}: {{kind: date, format: '%Y-%m-%d'}}}}, or another kind."
                )
        constraints.check([rule], joined_schema([rule], sources))
