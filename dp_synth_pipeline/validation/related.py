"""Checks of related tables: keys are unique, each row has its parent, no parent has too many rows, and rows are in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.relations import aggregates, ruling, unique_rows
from dp_synth_pipeline.relations.periods import NEXT
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.checks import DOMAIN, TYPE, Check, CheckName, stems_of
from dp_synth_pipeline.validation.rules import rule_names

KEY, PARENT, ROWS, ORDER, STATIC, MONOTONE, UNIQUE, REFERS = (
    "keys_unique",
    "rows_have_parents",
    "rows_per_parent",
    "rows_in_order",
    "static_columns_stay",
    "monotone_columns_keep_direction",
    "rows_unique_within_parents",
    "rows_refer_to_public_rows",
)
"""The checks' names, and the columns of `facts_of` that they look at."""


def related_names(table: Related, rules: Sequence[Rule] = ()) -> list[CheckName]:
    """Return the checks of one table that its relations, and rules that judge its rows, ask for, before anything is read."""
    own = [CheckName(c.name, c.blocking, None, c.description.rstrip(".").lower()) for c in related_checks(table)]
    return [*own, *rule_names(rules)]


def related_checks(table: Related) -> list[Check]:
    """Return the expectations about the facts that `facts_of` collects."""
    checks = []
    if table.key is not None:
        text = f"Each {table.key} names one row."
        checks.append(Check(KEY, KEY, "uniqueness", True, text, "expect_column_values_to_be_unique", {"column": KEY}))
    if table.parent is not None:
        text = f"Each {table.reference} names a row of {table.parent}."
        checks.append(_true(PARENT, text))
        text = f"No row of {table.parent} has more than {table.max_rows:,} rows here."
        between = {"column": ROWS, "max_value": table.max_rows}
        checks.append(Check(ROWS, ROWS, "range", True, text, "expect_column_values_to_be_between", between))
    if table.order is not None:
        checks.append(
            _true(
                ORDER,
                f"Rows of one row of {table.parent} follow each other in the order of {table.order}{_ends(table)}.",
            )
        )
    if table.max_rows > 1:
        checks.append(_true(STATIC, f"Static columns are the same in all rows of one row of {table.parent}."))
        if table.order is not None:
            text = f"Within one row of {table.parent}, increasing columns never fall, and decreasing ones never rise."
            checks.append(_true(MONOTONE, text))
    if table.unique:
        text = f"No two rows of one row of {table.parent} are the same in {', '.join(table.unique)}."
        checks.append(_true(UNIQUE, text))
    if table.refers:
        refers = ", ".join(f"{column} a row of {public}" for column, public in table.refers)
        checks.append(_true(REFERS, f"What is not null names a row of a public table: {refers}."))
    return checks


def rule_rows(
    table: Related,
    relations: Relations,
    rules: Sequence[Rule],
    read: Callable[[str, list[str]], pa.Table],
    digits: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return the columns that rules across tables speak of, one cell for each row of the table that they judge.

    Args:
        read: reads some columns of a synthetic table.
        digits: digits after the point of columns, by TABLE.COLUMN, where they are released.
    """
    wanted = {pair for rule in rules for pair in ruling.columns_of(rule)}
    of_public = [pair for pair in wanted if relations.public_key(pair[0]) is not None]
    refers = {pair for public, _ in of_public for pair in ruling.referring(relations, table.name, public)}
    found, at = {}, None  # the number of the row above, for each row of the table; none if it has no parent
    for one in (table, *relations.ancestors(table.name)) if rules else ():
        names = {name for owner, name in (*wanted, *refers) if owner == one.name}
        rows = read(one.name, list(dict.fromkeys([*names, *one.keys])))
        found |= {(one.name, name): rows[name] if at is None else rows[name].take(at) for name in names}
        if one.parent is not None:
            above = _above(one, relations, read)
            at = above if at is None else above.take(at)
    public = {name: read(name, _wanted(name, of_public, relations)) for name in dict(of_public)}
    found |= ruling.looked_up(of_public, relations, table.name, found, public)
    named = {f"{owner}.{name}": found[owner, name] for owner, name in wanted}
    return named | _come_to(table, relations, rules, read, digits)


def _wanted(public: str, columns: Sequence[tuple[str, str]], relations: Relations) -> list[str]:
    """Return the columns of a public table that rules look up, and its key."""
    return [
        *dict.fromkeys([str(relations.public_key(public)), *(column for name, column in columns if name == public)])
    ]


def _above(table: Related, relations: Relations, read: Callable[[str, list[str]], pa.Table]) -> pa.ChunkedArray:
    """Return the number of the row above each row of a table; null if there is none."""
    key, reference = str(relations[str(table.parent)].key), str(table.reference)
    keys = read(str(table.parent), [key])[key]
    return pc.index_in(read(table.name, [reference])[reference].cast(keys.type), value_set=keys)  # type: ignore[attr-defined]


def _come_to(
    table: Related,
    relations: Relations,
    rules: Sequence[Rule],
    read: Callable[[str, list[str]], pa.Table],
    digits: Mapping[str, int],
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return what rows below come to of which rules speak, for each row of the table that they judge."""
    found: dict[str, pa.Array | pa.ChunkedArray] = {}
    for one in dict.fromkeys(a for rule in rules for a in aggregates.of_rule(rule)):
        below = relations[one.table]
        owner = _above(below, relations, read)
        while below.parent != table.name:
            below = relations[str(below.parent)]
            owner = _above(below, relations, read).take(owner)
        cells = None if one.column is None else read(one.table, [one.column])[one.column]
        numbers = pc.fill_null(owner, -1).to_numpy().astype(np.int64)  # type: ignore[attr-defined]
        rows = read(table.name, [str(table.key)]).num_rows
        found[one.name] = aggregates.values(one, cells, numbers, rows, digits.get(f"{one.table}.{one.column}"))
    return found


def _true(name: str, text: str) -> Check:
    kwargs = {"column": name, "value_set": [True]}
    return Check(name, name, "domain", True, text, "expect_column_values_to_be_in_set", kwargs)


def facts_of(
    table: Related,
    rows: pa.Table,
    parent_keys: pa.ChunkedArray | None,
    made: Sequence[Column] = (),
    public_keys: Mapping[str, pa.ChunkedArray] = MappingProxyType({}),
) -> pa.Table:
    """Return what `related_checks` looks at, one row for each synthetic row.

    Args:
        rows: the synthetic rows, those of one parent in their order.
        parent_keys: the keys of the parent's rows; None for the root.
        made: the columns that `made_for_parents` tells.
        public_keys: the keys of each public table's rows.
    """
    facts: dict[str, pa.Array | pa.ChunkedArray] = {}
    if table.key is not None:
        facts[KEY] = rows[table.key]
    if table.parent is not None:
        reference = rows[str(table.reference)]
        known = pa.array([], reference.type) if parent_keys is None else parent_keys.cast(reference.type)
        facts[PARENT] = pc.is_in(reference, value_set=known)  # type: ignore[attr-defined]
        facts[ROWS] = _rows_of_parent(reference)
        if table.order is not None:
            facts[ORDER] = _until_next(table, reference, rows, _in_order(reference, rows[table.order]))
        if table.max_rows > 1:
            at = pc.index_in(reference, value_set=known)  # type: ignore[attr-defined]
            stay = _stay(reference, [rows[name] for name in table.static])
            facts[STATIC] = pc.and_(stay, _from_parents(rows, made, at, len(known)))  # type: ignore[attr-defined]
            if table.order is not None:
                facts[MONOTONE] = _keep_direction(table, reference, rows)
        if table.unique:
            parents = reference.combine_chunks().dictionary_encode().indices.to_numpy()
            columns = [rows[name].combine_chunks() for name in table.unique]
            facts[UNIQUE] = pa.array(~unique_rows.repeated(parents, columns))
    if table.refers:
        facts[REFERS] = pa.array(np.logical_and.reduce([_names(rows[c], public_keys[t]) for c, t in table.refers]))
    return pa.table(facts)


def _names(cells: pa.ChunkedArray, keys: pa.ChunkedArray) -> np.ndarray:
    """Say of each cell whether it is null or one of some keys, bool (rows,)."""
    known = pc.is_in(cells.cast(keys.type), value_set=keys)  # type: ignore[attr-defined]
    return pc.or_(known, pc.is_null(cells)).to_numpy()  # type: ignore[attr-defined]


def _rows_of_parent(reference: pa.ChunkedArray) -> pa.Array:
    """Return how many rows have each row's parent."""
    codes = reference.combine_chunks().dictionary_encode()
    counts = pa.array(codes.indices.to_pandas().value_counts(sort=False).sort_index().to_numpy())
    return counts.take(codes.indices)


def _in_order(reference: pa.ChunkedArray, order: pa.ChunkedArray, *, falling: bool = False) -> pa.Array:
    """Say of each row whether it is not before the one above it, if both have one parent and a place in the order.

    Args:
        falling: whether it must not be after that one instead.
    """
    if len(reference) == 0:
        return pa.array([], pa.bool_())
    same = pc.equal(reference[1:].combine_chunks(), reference[:-1].combine_chunks())  # type: ignore[attr-defined]
    compare = pc.less_equal if falling else pc.greater_equal  # type: ignore[attr-defined]
    follows = compare(order[1:].combine_chunks(), order[:-1].combine_chunks())
    kept = pc.or_kleene(pc.invert(same), pc.fill_null(follows, True))  # type: ignore[attr-defined]
    return pa.concat_arrays([pa.array([True]), kept])


def _ends(table: Related) -> str:
    """Say which columns hold when the next row begins; empty if none does."""
    told = [f"{column} is {'its time' if way == NEXT else 'the day before it'}" for column, way in table.until]
    return f"; where one follows, {' and '.join(told)}" if told else ""


def _until_next(table: Related, reference: pa.ChunkedArray, rows: pa.Table, good: pa.Array) -> pa.Array:
    """Return which rows are good, and hold when the next row of their parent begins where they say it."""
    if not table.until or rows.num_rows == 0:
        return good
    same = pc.equal(reference[1:].combine_chunks(), reference[:-1].combine_chunks()).to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    order = rows[str(table.order)]
    whole = pa.int32() if pa.types.is_date32(order.type) else pa.int64()
    begins = order.cast(whole)[1:]
    for column, way in table.until:
        held = pc.add(rows[column].cast(order.type).cast(whole)[:-1], int(way != NEXT))  # type: ignore[attr-defined]
        ends = pc.fill_null(pc.equal(held, begins), False).to_numpy()  # type: ignore[attr-defined]
        good = pc.and_(good, pa.array(np.append(~same | ends, True)))  # type: ignore[attr-defined]
    return good


def _keep_direction(table: Related, reference: pa.ChunkedArray, rows: pa.Table) -> pa.Array:
    """Say of each row whether none of its monotone columns turns back from the row above it, if both have one parent."""
    kept = pa.array(np.ones(len(reference), bool))
    for name in table.monotone:
        held = _in_order(reference, rows[name], falling=name in table.decreasing)
        kept = pc.and_(kept, held)  # type: ignore[attr-defined]
    return kept


def _stay(reference: pa.ChunkedArray, static: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Say of each row whether its static columns are those of the row above it, if both have one parent."""
    if len(reference) == 0:
        return pa.array([], pa.bool_())
    codes = [values.combine_chunks().dictionary_encode("encode").indices.to_numpy() for values in (reference, *static)]
    parents, *cells = [of_rows[1:] == of_rows[:-1] for of_rows in codes]
    return pa.array(np.append(True, ~parents | np.logical_and.reduce([parents, *cells])))


def _from_parents(rows: pa.Table, made: Sequence[Column], at: pa.ChunkedArray, parents: int) -> pa.Array:
    """Say of each row whether columns that are made anew hold what the number of its parent's row makes."""
    kept = np.ones(rows.num_rows, bool)
    for column in made:
        wanted = pa.chunked_array([column.kind.generated(column, 0, parents)]).take(at)
        same = pc.equal(rows[column.name], wanted)  # type: ignore[attr-defined]
        kept &= pc.fill_null(same, False).to_numpy()
    return pa.array(kept)


def made_for_parents(table: Related, schema: TableSchema) -> list[Column]:
    """Return the static columns that are made anew: once for each row of the parent, and not for each row."""
    return [c for c in schema.published if c.name in table.static and c.kind.regenerated]


def suite(
    table: Related, schema: TableSchema, profile: TableProfile, rows: int, computed: Collection[str] = ()
) -> list[Check]:
    """Return what is expected of a table's own columns.

    The column that holds the parent's key, monotone columns, what the next row tells, the order and what hangs on it are no
    columns of the model, and what is made anew for each parent follows from no number of these rows. So of these the type
    alone is expected here, and `related_checks` the rest. The profile of a child reads one row of each person, so it tells
    no null rate of its rows.

    Args:
        schema: the source's columns.
        profile: what was released of the columns that are modelled.
        rows: how many synthetic rows were drawn.
        computed: columns that rules compute, so that their own ends and names do not bind.
    """
    from dp_synth_pipeline.validation.expectations import columns_check, suite_for, type_check

    names = {table.reference, table.order, *table.monotone, *dict(table.until)}
    names |= {c.name for c in made_for_parents(table, schema)}
    names |= {c.name for c in offsets.ordered(schema) if offsets.root(c, schema).name == table.order}
    apart = [c for c in schema.published if c.name in names]
    own_columns = TableSchema(tuple(c for c in schema.columns if c not in apart))
    own_names = set(offsets.modelled(own_columns, parts=False).names)
    own_profile = replace(profile, columns=tuple(c for c in profile.columns if c.name in own_names))
    columns = columns_check([c.name for c in schema.published])
    checks = [columns if c.name == columns.name else c for c in suite_for(own_columns, own_profile, rows)]
    stems = stems_of(c.name for c in schema.published)
    types = [type_check(c, f"{stems[c.name]}__{TYPE}") for c in apart]
    dropped = {f"{stems[name]}__{DOMAIN}" for name in computed} | {
        c.name for c in checks if c.kind == "null_rate" and table.parent
    }
    return [c for c in (*checks, *types) if c.name not in dropped]


def columns_of(table: Related) -> Sequence[str]:
    """Return the columns that a table's relations speak of."""
    own = [table.key, table.reference, table.order, *table.carries, *dict(table.until)]
    names = dict.fromkeys([*own, *table.unique, *dict(table.refers)])
    return [name for name in names if name is not None]
