"""What the rows below a row come to, `sum(items.amount)` or `count(items)`: a column of a rule across tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import schema as schemas
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.kinds.base import NUMBER
from dp_synth_pipeline.tabular.schema import Column, TableSchema

COUNT, SUM = "count", "sum"

ROUNDED = 9
"""Digits after the point of a sum of numbers whose own digits are not known: beyond them it hangs on the order of adding."""

_FORM = re.compile(r"(sum|count|min|max)\(([^.()]+)(?:\.([^()]+))?\)")


class Aggregate(NamedTuple):
    """What the rows of a table below come to, for each row of one above.

    Attributes:
        name: as a rule writes it.
        how: sum, count, min or max.
        table: the table of the rows.
        column: what is added or compared of them; None if they are counted.
    """

    name: str
    how: str
    table: str
    column: str | None


def of_rule(rule: Rule) -> list[Aggregate]:
    """Return what rows come to of which a rule speaks."""
    found = ((name, _FORM.fullmatch(name)) for name in rule.columns)
    return [Aggregate(name, *match.groups()) for name, match in found if match is not None]


def judged(rule: Rule, relations: Relations) -> Related | None:
    """Return the table whose rows a rule judges if it speaks of none but what their rows come to; else None.

    Raises:
        InvalidInput: if there is no table of these rows, or they hang on nothing.
    """
    for aggregate in of_rule(rule):
        table = next((table for table in relations if table.name == aggregate.table), None)
        if table is None or table.parent is None:
            raise InvalidInput(
                f"rule {rule.text!r}: {aggregate.name} is about rows that hang on others, and {aggregate.table!r} is no "
                f"table with a parent."
            )
        if (aggregate.column is None) != (aggregate.how == COUNT):
            raise InvalidInput(
                f"rule {rule.text!r}: rows are counted, as count({table.name}); of others name a column."
            )
        return relations[table.parent]
    return None


def check(rule: Rule, table: Related, relations: Relations) -> None:
    """Refuse what rows come to that hang on no row of the table that a rule judges."""
    for aggregate in of_rule(rule):
        judged(rule, relations)
        if table not in relations.ancestors(aggregate.table):
            raise InvalidInput(f"rule {rule.text!r}: no row of {aggregate.table} hangs on one of {table.name}.")


def column(aggregate: Aggregate, rule: Rule, sources: Mapping[str, TableSchema]) -> Column:
    """Return what a column of such values would be.

    Raises:
        InvalidInput: if the values cannot be added, or have no order.
    """
    if aggregate.column is None:
        return schemas.build({aggregate.name: pa.int64()}, {aggregate.name: {"kind": "integer"}})[aggregate.name]
    own = sources[aggregate.table][aggregate.column]
    if own.kind.family is None or (aggregate.how == SUM and own.kind.family != NUMBER):
        raise InvalidInput(
            f"rule {rule.text!r}: {aggregate.how} takes {'numbers' if aggregate.how == SUM else 'numbers or times'}, but "
            f"{aggregate.column} is {own.kind}, stored as {own.storage}; correct the rule, or declare the column's kind."
        )
    return replace(own, name=aggregate.name, storage=str(_type(aggregate, own.arrow_type)))


def _type(aggregate: Aggregate, own: pa.DataType) -> pa.DataType:
    """Return the type of such values: of sums, one that holds what many rows add up to."""
    if aggregate.how != SUM or pa.types.is_floating(own):
        return own
    return pa.decimal128(38, own.scale) if pa.types.is_decimal(own) else pa.int64()


def values(
    aggregate: Aggregate, cells: pa.Array | pa.ChunkedArray | None, owner: np.ndarray, rows: int, digits: int | None
) -> pa.Array:
    """Return what rows come to, for each of those that they hang on; nothing adds up to 0, and has no least and most value.

    Args:
        cells: their column; None if they are counted.
        owner: number of the row that each hangs on, int64; below 0 if it hangs on none.
        rows: how many rows they hang on.
        digits: digits after the point of the column, if they are known.
    """
    if cells is None:
        return pa.array(np.bincount(owner[owner >= 0], minlength=rows))
    kind = _type(aggregate, cells.type)
    table = pa.table({"owner": owner, "cells": cells}).group_by("owner").aggregate([("cells", aggregate.how)])
    at = pc.index_in(pa.array(np.arange(rows)), value_set=table["owner"])  # type: ignore[attr-defined]
    found = table[f"cells_{aggregate.how}"].combine_chunks().take(at)
    if aggregate.how == SUM:
        found = pc.fill_null(found, 0)  # type: ignore[attr-defined]
    if aggregate.how == SUM and pa.types.is_floating(
        found.type
    ):  # by NumPy, since Arrow leaves what it takes for round already as it is
        rounded = np.round(found.to_numpy(zero_copy_only=False), ROUNDED if digits is None else digits)
        found = pa.array(rounded, from_pandas=True)
    return found.cast(kind)
