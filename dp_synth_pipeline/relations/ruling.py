"""Rules across related tables, `visits.visited >= patients.born`: each judges the rows of one table beside those above it.

They are written as rules of one table are, with TABLE.COLUMN in place of a column. They are declared by a person, so they
are public.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.schema import TableSchema


def columns_of(rule: Rule) -> list[tuple[str, str]]:
    """Return the table and the name of each column that a rule speaks of.

    Raises:
        InvalidInput: if a column is written without its table.
    """
    found = [tuple(name.split(".", 1)) for name in rule.columns]
    for name, parts in zip(rule.columns, found, strict=True):
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
    known = [table.name for table in relations]
    for name in names:
        if name not in known:
            raise InvalidInput(f"rule {rule.text!r}: there is no table {name!r}; there are: {', '.join(known)}.")
    for name in names:
        if set(names) <= {name, *(above.name for above in relations.ancestors(name))}:
            return relations[name]
    raise InvalidInput(
        f"rule {rule.text!r}: of {' and '.join(names)}, none hangs on all others, so no row of the one goes with a row of "
        f"the other; name columns of one table and of those above it."
    )


def computed(rules: Iterable[Rule], table: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of a table that rules compute, each with the table's own columns that it is computed from."""
    of_tables = constraints.computed([*rules])
    named = {target: [name.split(".", 1) for name in parts] for target, parts in of_tables.items()}
    return {
        target.removeprefix(f"{table}."): tuple(column for above, column in parts if above == table)
        for target, parts in named.items()
        if target.startswith(f"{table}.")
    }


def joined_schema(rules: Iterable[Rule], sources: Mapping[str, TableSchema]) -> TableSchema:
    """Return the columns that rules speak of, named as they do."""
    columns = dict.fromkeys(pair for rule in rules for pair in columns_of(rule))
    return TableSchema(tuple(replace(sources[table][name], name=f"{table}.{name}") for table, name in columns))


def check(
    rules: Iterable[Rule], sources: Mapping[str, TableSchema], untyped: Mapping[str, Collection[str]] | None = None
) -> None:
    """Refuse rules about columns that are not there, are made anew, or cannot be compared, before anything is read.

    Args:
        untyped: columns of a CSV by table, of which nobody said what they hold: their types are measured later.
    """
    for rule in rules:
        for table, name in columns_of(rule):
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
