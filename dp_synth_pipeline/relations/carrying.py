"""Has a parent's rows carry what its rows below share, and leaves in these what is not told by the others.

A parent carries static columns, and the first values of monotone ones. Its rows keep distances of these, and the last one
of them what a column holds that else says when the next row begins.
"""

from __future__ import annotations

from dataclasses import replace

from dp_synth_pipeline.relations import monotone_columns, periods
from dp_synth_pipeline.relations.relating import PARENT, PLACE, ROW, RelatedRows
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted


def carrying(parent: TableSchema, child: TableSchema, table: Related) -> tuple[TableSchema, TableSchema]:
    """Return the columns of a parent's rows with those that it carries for a child, and what remains of the child's."""
    carried = [c for c in child if c.name in table.carries]
    moved = [replace(c, name=table.carried(c.name), nulls=NullPolicy.KEEP) for c in carried]
    instead = {name: monotone_columns.step_of(child[name], table) for name in table.monotone if name in child.names}
    instead |= {name: periods.last_of(child[name], table) for name, _ in table.until if name in child.names}
    remaining = [instead.get(c.name, c) for c in child if c not in carried or c.name in instead]
    return TableSchema((*parent, *moved)), TableSchema(tuple(remaining))


def carry(parent: RelatedRows, child: RelatedRows, table: Related) -> tuple[RelatedRows, RelatedRows]:
    """Write a parent's rows with what a child's first rows hold of carried columns, and the child's without; restricted.

    In the place of a monotone column, the child's rows keep the distance to the next one, and the parent carries the first
    value that is no null. In the place of one that says when the next row begins, the last row alone keeps its value. A
    parent without rows below has nulls. Where somebody's rows vary in a static column all the same, the first one's value
    stands for all of them, null or not. Columns that are made anew are in neither.
    """
    columns = [c for c in child.schema if c.name in table.carries]
    ends = [c for c in child.schema if c.name in dict(table.until)]
    if not columns and not ends:
        return parent, child
    above_schema, below_schema = carrying(parent.schema, child.schema, table)
    above = replace(parent, path=parent.path.with_suffix(f".with-{table.name}.parquet"), schema=above_schema)
    below = replace(child, path=child.path.with_suffix(".static.parquet"), schema=below_schema)
    first = {name: "arg_min" if name in table.monotone else "arg_min_null" for name in table.carries}
    values = (f", {first[c.name]}({quoted(c.name)}, {PLACE}) AS {quoted(table.carried(c.name))}" for c in columns)
    of_parents = f"SELECT {PARENT}{''.join(values)} FROM read_parquet({literal(child.path)}) GROUP BY {PARENT}"
    _write(
        above,
        f"SELECT p.*, c.* EXCLUDE ({PARENT}) FROM read_parquet({literal(parent.path)}) p "
        f"LEFT JOIN ({of_parents}) c ON c.{PARENT} = p.{ROW}",
        f"p.{ROW}",
    )
    steps = [
        f", {monotone_columns.step_sql(c, table)} AS {quoted(table.step(c.name))}"
        for c in columns
        if c.name in table.monotone
    ]
    steps += [f", {periods.last_sql(column, table)}" for column in ends]
    dropped = ", ".join(quoted(c.name) for c in (*columns, *ends))
    _write(below, f"SELECT * EXCLUDE ({dropped}){''.join(steps)} FROM read_parquet({literal(child.path)})", ROW)
    return above, below


def _write(rows: RelatedRows, query: str, order: str) -> None:
    with connection_beside(rows.path) as con:
        con.execute(
            f"COPY ({query} ORDER BY {order}) TO {literal(rows.path)} (FORMAT parquet, COMPRESSION zstd, OVERWRITE true)"
        )
    rows.path.chmod(0o400)
