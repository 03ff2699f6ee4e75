"""Gives each row of related tables the person that it belongs to, and each parent the shape of its children; restricted.

A person's rows follow from that person's keys alone: no row of somebody else decides which of them are kept, so that adding
or removing a person changes what is theirs and nothing more. Rows without an owner are left out, one by one. A key that
several rows of the root have names one person, of whom one row is kept by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import public_groups
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import offsets, text_lengths
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.kinds.base import NUMBER
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import KEY_OF, UNIT
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted
from dp_synth_pipeline.tabular.storage import is_text

ROW, PARENT, PLACE, LEFT, TIME, NEXT = "__row", "__parent", "__place", "__left", "__time", "__next"
"""Columns of related rows: their own number and their parent's, their place in their parent's rows, how many follow, what
they are ordered by, and that of their parent's next row, whether it is kept or not. Rows are ordered by person, parent and
place."""

NUMBERS = (UNIT, ROW, PARENT, PLACE, LEFT, TIME, NEXT)
"""All of them, and the number of the person."""

CHANCE = "__chance"
"""A random number of each row, fresh in every run, by which rows are chosen."""

POSITION = "__position"
"""Where a row stands in its snapshot, by which rows of one time are ordered. The rows of other persons can move it, but not
the order of one person's rows: that is theirs if it is a file's, and chance otherwise (`ingestion`)."""

DAY_OF = "date", "datetime"
"""Days of rows that hang on a moment: which day that moment is on depends on a zone, so no distance is taken."""

DRAWN = "random()"
"""How it is drawn: for each row by itself."""


@dataclass(frozen=True)
class RelatedRows:
    """The rows of one table, each with its person; restricted.

    Attributes:
        path: Parquet of the modelled columns and the numbers above.
        schema: the modelled columns: those that are learned, and what carries the shape of histories.
        units: how many persons have rows here; private.
        unit: the column of their persons' numbers.
    """

    path: Path
    schema: TableSchema
    units: int
    unit: str = UNIT


def modelled(relations: Relations, name: str, sources: Mapping[str, TableSchema]) -> TableSchema:
    """Return the columns of a table that a model sees: its own, its children's counts and beginnings, and its gaps.

    Of a text it sees the length, which stands beside it.

    Args:
        sources: the schema of each table's source.

    Raises:
        InvalidInput: if an order is of no kind that has one, or is not typed yet; if a key is not made anew.
    """
    table, source = relations[name], sources[name]
    _check_keys(table, source)
    # Rows that `nulls: drop` leaves out are left out before they are related, so that no null of these columns stays.
    texts = {text_lengths.name_of(column): column for column in source if column.kind.composed}
    own = [texts.get(column.name, column) for column in _own(source, table.order).learned]
    columns = [_with_nulls(column) for column in own if column.name != table.order]
    for group in public_groups.of(table, sources):  # drawn before the key that it tells
        if group.refers in (names := [column.name for column in columns]):
            columns.insert(names.index(group.refers), _with_nulls(group.column))
    bases = _bases(relations, table, sources)
    for child in relations.children(name):
        columns.append(_integer(child.count, 0, child.max_rows))
        if child.order is not None:  # a parent without rows here keeps its null
            columns.append(_beginning(relations, child, bases, sources))
    if table.order is not None:
        columns.append(gap_of(table, source))
    if not columns:
        raise InvalidInput(f"tables.{name}: no column is left to learn; leave the table out.")
    return TableSchema(tuple(columns))


def _own(source: TableSchema, order: str | None) -> TableSchema:
    """Return the columns that a model sees of a table's own: parts of dates among them, by which these are placed.

    Parts of the order are not: they follow from each row's time, which is drawn before the row.
    """
    base = {part.name: date for date, parts in offsets.placed_by(source).items() for part in parts}
    columns = [c for c in offsets.modelled(source) if order is None or base.get(c.name) != order]
    hanging = {name: {"same_as": date, "part": source[name].part} for name, date in base.items()}
    return TableSchema(tuple(replace(c, **hanging.get(c.name, {})) for c in columns))


def _bases(relations: Relations, parent: Related, sources: Mapping[str, TableSchema]) -> dict[str, Related | None]:
    """Return, for each child with an order, the table from whose time a parent says how far off its rows begin.

    That is the parent itself, if their orders can be compared, or else the first child beside it of which that is so. It is
    None for a child whose rows begin at a time.
    """
    found: dict[str, Related | None] = {}
    children = [child for child in relations.children(parent.name) if child.order is not None]
    for child in children:
        order = _ordered(child, sources[child.name])
        at_times = [other for other in children if other.name in found and found[other.name] is None]
        starts = [(t, _ordered(t, sources[t.name])) for t in (parent, *at_times) if t.order is not None]
        found[child.name] = next((t for t, start in starts if _comparable(order, start, siblings=t != parent)), None)
    return found


def _comparable(order: Column, start: Column, *, siblings: bool) -> bool:
    """Say whether distances are taken from values of one order to those of another.

    Nobody says that numbers of siblings, such as an age and a year, count the same thing unless they have one name. A
    decimal of few digits cannot hold other numbers.
    """
    if order.kind.family != start.kind.family or (order.kind.name, start.kind.name) == DAY_OF:
        return False
    if siblings and order.kind.family == NUMBER and order.name != start.name:
        return False
    return order.arrow_type == start.arrow_type or not pa.types.is_decimal(start.arrow_type)


def _beginning(
    relations: Relations, child: Related, bases: Mapping[str, Related | None], sources: Mapping[str, TableSchema]
) -> Column:
    """Return the column that says when the rows of a parent begin in a table: a time, or a distance from one.

    Args:
        bases: of each child of that parent, the table from whose time the distance is.
    """
    order, base = _ordered(child, sources[child.name]), bases[child.name]
    if base is not None:
        start = _ordered(base, sources[base.name])
        return replace(offsets.distance(_distance_name(child, base), order, start), lower=None)
    others = _others(relations, child, bases)
    orders = [_ordered(other, sources[other.name]) for other in others]
    lower = order.lower if all(other.lower == order.lower for other in orders) else None
    upper = order.upper if all(other.upper == order.upper for other in orders) else None
    common = replace(order, name=child.first(others), lower=lower, upper=upper)
    return replace(common, nulls=NullPolicy.KEEP, constant=None)


def _distance_name(child: Related, base: Related) -> str:
    return child.to_first(None if base.name == child.parent else base)


def _others(relations: Relations, child: Related, bases: Mapping[str, Related | None]) -> list[Related]:
    """Return the children of which a parent says how far from a child's first row they begin."""
    return [other for other in relations.children(str(child.parent)) if bases.get(other.name) == child]


def _check_keys(table: Related, source: TableSchema) -> None:
    """Refuse a key that would be learnt, left out or repeated: synthetic rows belong to each other by keys made anew."""
    published = {column.name: column.kind for column in source.published}
    for key in table.keys:
        kind = published.get(key)
        if kind is None or kind.learned or (key == table.key and not kind.unique):
            raise InvalidInput(
                f"tables.{table.name}: columns: {key!r} is a key, which is made anew, each value once; leave its kind away, "
                f"or declare kind: identifier."
            )


def _with_nulls(column: Column) -> Column:
    return replace(column, nulls=NullPolicy.KEEP) if column.nulls is NullPolicy.DROP else column


def _integer(name: str | None, lower: int, upper: int | None = None) -> Column:
    facts = {"lower": lower, "kind": "integer", **({} if upper is None else {"upper": upper})}
    return schema_lib.build({str(name): pa.int64()}, {str(name): facts}).columns[0]


def _ordered(table: Related, source: TableSchema) -> Column:
    """Return the column that a table is ordered by.

    Raises:
        InvalidInput: if it is no number, date or datetime, or the cells of a CSV of which nobody said what they are.
    """
    column = source[str(table.order)]
    if column.base is not None:
        raise InvalidInput(
            f"tables.{table.name}: order: {table.order!r} hangs on {column.base!r}, and rows follow each other by their "
            f"order. Declare it the other way round: columns: {{{column.base}: {{after: {table.order}}}}}."
        )
    if not column.kind.numeric or pa.types.is_time(column.arrow_type):  # a time of day begins again every day
        hint = "a number, a date or a datetime"
        if is_text(column.arrow_type):
            raise InvalidInput(
                f"tables.{table.name}: order: {table.order!r} is text, and an order needs {hint}. Declare what it "
                f"holds: columns: {{{table.order}: {{kind: date}}}}, or kind: datetime, or kind: integer; with format: "
                f"'%d.%m.%Y' and the like where dates are not written as ISO writes them."
            )
        raise InvalidInput(f"tables.{table.name}: order: {table.order!r} is a {column.kind}; name {hint}.")
    return column


def gap_of(table: Related, source: TableSchema) -> Column:
    """Return the column of gaps from row to row: days between dates, lengths of time between datetimes, else numbers."""
    return offsets.distance(str(table.gap), _ordered(table, source))


def relate(
    relations: Relations, files: Mapping[str, Path], sources: Mapping[str, TableSchema], folder: Path
) -> dict[str, RelatedRows]:
    """Write the rows of each table with the person that they belong to, ordered by person, parent and place.

    Args:
        files: a restricted snapshot of each table, with its keys; and a copy of each public one.
        sources: the schema of each.
        folder: where the files are written, TABLE.parquet each; as restricted as the snapshots.
    """
    schemas = {table.name: modelled(relations, table.name, sources) for table in relations}
    con = connection_beside(folder / "related")
    try:
        for table in relations:
            con.execute(_source(table, files[table.name], sources[table.name]))
            con.execute(f"CREATE TABLE {_view('kept', table)} AS {_kept(relations, table)}")
        for name in (public.name for public in relations.public):
            con.execute(f"CREATE VIEW {quoted(f'public {name}')} AS SELECT * FROM read_parquet({literal(files[name])})")
        return {t.name: _written(con, relations, t, (sources, schemas[t.name]), folder) for t in relations}
    finally:
        con.close()


def named_roots(relations: Relations, files: Mapping[str, Path], path: Path) -> Path:
    """Write a row of the root for each of its keys that a child's rows name; as restricted as these.

    Args:
        files: a restricted snapshot of each other table.
    """
    root = relations.root
    named = " UNION ".join(
        f"SELECT {_key(child.reference)} AS {_key(root.key)} FROM read_parquet({literal(files[child.name])})"
        for child in relations.children(root.name)
    )
    con = connection_beside(path)
    try:
        con.execute(f"COPY ({named}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
    finally:
        con.close()
    path.chmod(0o400)
    return path


def _source(table: Related, file: Path, source: TableSchema) -> str:
    """Write the view of a table's rows, each with its chance and its position; `nulls: drop` leaves out row by row."""
    own = _own(source, table.order).learned
    wanted = [f" AND {quoted(c.name)} IS NOT NULL" for c in own if c.nulls is NullPolicy.DROP]
    return (
        f"CREATE VIEW {_view('source', table)} AS SELECT *, {DRAWN} AS {CHANCE}, row_number() OVER () AS {POSITION} "
        f"FROM read_parquet({literal(file)}) WHERE true{''.join(wanted)}"
    )


def _view(stage: str, table: Related) -> str:
    return quoted(f"{stage} {table.name}")


def _key(column: str | None) -> str:
    return quoted(f"{KEY_OF}{column}")


def _kept(relations: Relations, table: Related) -> str:
    """Write the query of the rows that stay, with their numbers; chance is fresh in every run."""
    rows = _view("source", table)
    if table.parent is None:
        one = (
            f"SELECT * FROM {rows} WHERE {_key(table.key)} IS NOT NULL "
            f"QUALIFY row_number() OVER (PARTITION BY {_key(table.key)} ORDER BY {CHANCE}) = 1"
        )
        return f"SELECT *, row_number() OVER () - 1 AS {ROW}, {ROW} AS {UNIT} FROM ({one})"
    parent = relations[table.parent]
    time = "CAST(NULL AS BIGINT)" if table.order is None else f"r.{quoted(table.order)}"
    first = f"{time} NULLS LAST, r.{POSITION}" if table.keep_first else f"r.{CHANCE}"
    bounded = (
        f"SELECT r.*, p.{ROW} AS {PARENT}, p.{UNIT} AS {UNIT}, {time} AS {TIME}, lead({time}) OVER (PARTITION BY p.{ROW} "
        f"ORDER BY {time} NULLS LAST, r.{POSITION}) AS {NEXT} FROM {rows} r "
        f"JOIN {_view('kept', parent)} p ON r.{_key(table.reference)} = p.{_key(parent.key)} "
        f"QUALIFY row_number() OVER (PARTITION BY p.{ROW} ORDER BY {first}) <= {table.max_rows}"
    )
    placed = (
        f"SELECT *, row_number() OVER (PARTITION BY {PARENT} ORDER BY {TIME} NULLS LAST, {POSITION}) - 1 AS {PLACE}, "
        f"count(*) OVER (PARTITION BY {PARENT}) - {PLACE} - 1 AS {LEFT} FROM ({bounded})"
    )
    return f"SELECT *, row_number() OVER (ORDER BY {UNIT}, {PARENT}, {PLACE}) - 1 AS {ROW} FROM ({placed})"


def _written(
    con: duckdb.DuckDBPyConnection,
    relations: Relations,
    table: Related,
    schemas: tuple[Mapping[str, TableSchema], TableSchema],
    folder: Path,
) -> RelatedRows:
    """Write a table's rows with what they say of their children and of the next row.

    Args:
        schemas: of each table's source, and of what is modelled of this one.
    """
    sources, schema = schemas
    kept, joins, derived, firsts = _view("kept", table), "", {}, {}
    for number, child in enumerate(relations.children(table.name)):
        first = "" if child.order is None else f", min({TIME}) AS first"
        of_child = f"SELECT {PARENT}, count(*) AS n{first} FROM {_view('kept', child)} GROUP BY 1"
        joins += f" LEFT JOIN ({of_child}) c{number} ON c{number}.{PARENT} = t.{ROW}"
        derived[child.count] = f"CAST(coalesce(c{number}.n, 0) AS BIGINT)"
        firsts[child.name] = f"c{number}.first"
    for number, group in enumerate(g for g in public_groups.of(table, sources) if g.column.name in schema.names):
        key = quoted(str(relations.public_key(group.table)))
        joins += f" LEFT JOIN {quoted(f'public {group.table}')} g{number} ON g{number}.{key} = t.{quoted(group.refers)}"
        derived[group.column.name] = f"g{number}.{quoted(group.name)}"
    derived |= _begun(relations, table, schemas, firsts)
    if table.gap is not None:
        following = f"lead(t.{TIME}) OVER (PARTITION BY t.{PARENT} ORDER BY t.{PLACE})"
        derived[table.gap] = _distance(schema[table.gap], sources[table.name][str(table.order)], following)
    columns = ", ".join(
        f"{derived[name]} AS {quoted(name)}" if name in derived else f"t.{quoted(name)}" for name in _stored(schema)
    )
    numbers = NUMBERS[:2] if table.parent is None else NUMBERS
    path = folder / f"{table.name}.parquet"
    query = f"SELECT {columns}, {', '.join(f't.{n}' for n in numbers)} FROM {kept} t{joins} ORDER BY t.{ROW}"
    con.execute(f"COPY ({query}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
    path.chmod(0o400)
    units = con.execute(f"SELECT count(DISTINCT {UNIT}) FROM {kept}").fetchall()[0][0]
    return RelatedRows(path, schema, units)


def _begun(
    relations: Relations,
    table: Related,
    schemas: tuple[Mapping[str, TableSchema], TableSchema],
    firsts: Mapping[str, str],
) -> dict[str, str]:
    """Write, by column, what a table's rows say of when those below begin.

    A column that speaks of several tables holds the first time of the first of them in which a parent has rows. A time that
    it cannot hold is a null, as a distance is.

    Args:
        schemas: of each table's source, and of what is modelled of this one.
        firsts: the first time of each child's rows.
    """
    sources, schema = schemas
    bases = _bases(relations, table, sources)
    found, times = {}, {table.name: f"t.{TIME}"}
    for child in (relations[name] for name, base in bases.items() if base is None):
        others = _others(relations, child, bases)
        name = child.first(others)
        casts = [f"TRY_CAST({firsts[other.name]} AS {nulls.sql_type(schema[name])})" for other in others]
        found[name] = times[child.name] = f"coalesce({', '.join([firsts[child.name], *casts])})"
    for child, base in ((relations[name], base) for name, base in bases.items() if base is not None):
        name, order = _distance_name(child, base), sources[child.name][str(child.order)]
        found[name] = _distance(schema[name], order, firsts[child.name], times[base.name])
    return found


def _stored(schema: TableSchema) -> list[str]:
    """Return the columns that a file of rows has: theirs, and the length of each text."""
    return [*schema.names, *(text_lengths.name_of(column) for column in schema if column.kind.composed)]


def _distance(gap: Column, order: Column, following: str, start: str = f"t.{TIME}") -> str:
    """Write the distance from a row, or another time, to what follows, as a column of gaps holds it; null if nothing does.

    A distance that the column cannot hold is a null as well: whether any is so large is a fact about somebody's rows.
    """
    end = following
    if pa.types.is_floating(gap.arrow_type):
        distance = f"CAST({end} AS DOUBLE) - CAST({start} AS DOUBLE)"
        return f"CASE WHEN isfinite({distance}) THEN {distance} END"
    if order.kind.name == "date":
        return f"CAST(CAST({end} AS DATE) - CAST({start} AS DATE) AS BIGINT)"
    if order.kind.name == "datetime":
        end, start = f"epoch_us({end})", f"epoch_us({start})"
    return f"TRY_CAST(CAST({end} AS HUGEINT) - CAST({start} AS HUGEINT) AS BIGINT)"


def one_row_each(rows: RelatedRows, path: Path, order: Column | None = None) -> Path:
    """Write one row of each person, chosen uniformly by chance, without its numbers: a table of which a row is a unit.

    Args:
        order: what rows are ordered by, which is written as well, and the last of it that each person has; None for neither.
    """
    con = connection_beside(path)
    columns = ", ".join(map(quoted, _stored(rows.schema)))
    if order is not None:
        last = TableSchema((), order).last
        assert last is not None
        columns += f", {TIME} AS {quoted(order.name)}, max({TIME}) OVER (PARTITION BY {UNIT}) AS {quoted(last.name)}"
    path.unlink(missing_ok=True)
    try:
        con.execute(f"COPY ({_one_each(rows, columns)}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
    finally:
        con.close()
    path.chmod(0o400)
    return path


def one_number_each(rows: RelatedRows) -> np.ndarray:
    """Return the number of one row of each person, chosen uniformly by chance, int64 (persons,); restricted."""
    with connection_beside(rows.path) as con:
        return con.execute(f"{_one_each(rows, ROW)} ORDER BY {ROW}").fetchnumpy()[ROW].astype(np.int64)


def _one_each(rows: RelatedRows, columns: str) -> str:
    """Write the query of some columns of one row of each person; chance is fresh in every run."""
    return (
        f"SELECT {columns} FROM (SELECT *, {DRAWN} AS {CHANCE} FROM read_parquet({literal(rows.path)})) "
        f"QUALIFY row_number() OVER (PARTITION BY {UNIT} ORDER BY {CHANCE}) = 1"
    )


def hang(rows: RelatedRows, dated: TableSchema, order: str | None, path: Path) -> RelatedRows:
    """Write rows with offsets in the place of columns that hang on others; restricted.

    Args:
        dated: the source's columns that rows have, and their order, with what they hang on.
        order: the name of what rows are ordered by, which they may hang on.
    """
    schema = hung(rows.schema, dated, order)
    dropped = [*(c.name for c in dated if c.base is not None and c.name not in schema.names), order]

    def change(batch: pa.Table) -> pa.Table:
        if order is not None:
            batch = batch.append_column(order, batch.column(TIME).cast(dated[order].arrow_type))
        whole = offsets.with_offsets(batch, dated)
        return whole.drop_columns([name for name in dropped if name is not None])

    offsets.rewrite(rows.path, change, path)
    return replace(rows, path=path, schema=schema)


def hung(schema: TableSchema, dated: TableSchema, order: str | None) -> TableSchema:
    """Return a schema of rows with offsets in the place of columns that hang on others, and without what follows from them.

    Args:
        dated: the source's columns that rows have, and their order, with what they hang on.
        order: the name of what rows are ordered by.
    """
    hanging, own = {c.name: c for c in dated if c.base is not None}, {c.name: c for c in _own(dated, order)}
    names = [offsets.modelled_name(hanging[c.name]) if c.name in hanging else c.name for c in schema]
    found = [
        own[name] if c.name in hanging else c
        for c, name in zip(schema, names, strict=True)
        if c.name not in hanging or name in own
    ]
    return TableSchema(tuple(found))


def rows_of(path: Path) -> int:
    """Return how many rows a restricted file has; private."""
    return pq.ParquetFile(path).metadata.num_rows
