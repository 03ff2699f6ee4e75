"""Refuses a rule that the table's columns cannot keep, before anything is read or charged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.constraints.hold import literal
from dp_synth_pipeline.tabular.constraints.parse import Comparison, Literal, Product, Rule, Sum
from dp_synth_pipeline.tabular.constraints.write import copies
from dp_synth_pipeline.tabular.kinds.base import MOMENT, NUMBER
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.storage import is_text


def check_names(rules: Sequence[Rule], columns: Mapping[str, Any], *, complete: bool) -> None:
    """Refuse rules about columns that are declared not to be published, or that a complete declaration lacks.

    Args:
        columns: column name to declared facts.
        complete: whether `columns` names every column of the table.
    """
    unpublished = {n for n, facts in columns.items() if (facts or {}).get("kind") == "excluded"}
    for rule in rules:
        for name in rule.columns:
            if name in unpublished or (complete and name not in columns):
                raise _no_column(rule, name, [n for n in columns if n not in unpublished])


def computed(rules: Sequence[Rule]) -> dict[str, tuple[str, ...]]:
    """Return the columns that rules compute, each with those that it is computed from."""
    written = {r: r.left if isinstance(r, Comparison) else r.target for r in rules}
    computing = [r for r in rules if not isinstance(r, Comparison) or copies(r)]
    return {written[r]: tuple(name for name in r.columns if name != written[r]) for r in computing}


def check(rules: Sequence[Rule], schema: TableSchema) -> None:
    """Refuse rules that the columns' kinds cannot keep.

    Raises:
        InvalidInput: naming the rule, what was expected and what the column is.
    """
    published = {c.name: c for c in schema.published}
    for rule in rules:
        for name in rule.columns:
            if name not in published:
                raise _no_column(rule, name, list(published))
            if published[name].kind.numbered or published[name].kind.composed:
                raise _refused(rule, "columns whose values are drawn one by one", published[name])
        if isinstance(rule, Comparison):
            _comparable(rule, published)
        elif isinstance(rule, Sum):
            _addable(rule, published)
        elif isinstance(rule, Product):
            _multipliable(rule, published)
        _writable(rule, published)


def limits(schema: TableSchema, profile: TableProfile) -> dict[str, tuple[float, float]]:
    """Return the released ends of each column with an axis, as `hold.points` places them: numbers, or microseconds."""
    ends, profile = {}, offsets.published(schema, profile)
    for column in schema.learned:
        facts = profile[column.name] if column.kind.numeric else None
        if facts is not None and facts.lower is not None and facts.upper is not None:
            scale = column.kind.rule_scale
            ends[column.name] = (facts.lower * scale, facts.upper * scale)
    return ends


def digits(schema: TableSchema, profile: TableProfile) -> dict[str, int]:
    """Return the digits after the point that each decimal column is written with, where they are released."""
    profile = offsets.published(schema, profile)
    released = {c.name: profile[c.name].decimals for c in schema.learned if c.kind.fractional}
    scales = {c.name: c.arrow_type.scale for c in schema.learned if pa.types.is_decimal(c.arrow_type)}
    return {n: d for n, d in {**released, **scales}.items() if d is not None}


def _comparable(rule: Comparison, columns: Mapping[str, Column]) -> None:
    left = columns[rule.left]
    family = left.kind.family
    if isinstance(rule.right, Literal):
        if family is None:
            raise _refused(rule, "a number, date, datetime or duration beside a literal", left)
        try:
            literal(rule.right, left.arrow_type)
        except ValueError:
            raise InvalidInput(
                f"rule {rule.text!r}: expected {family} to compare {left.name} with, got {str(rule.right)!r}; write "
                f"18, 2024-01-31 or '2 days'."
            ) from None
        return
    right = columns[rule.right]
    if copies(rule) and {left.kind.family, right.kind.family} == {None} and left.kind.learned:
        if is_text(left.arrow_type) != is_text(right.arrow_type):
            raise _refused(rule, f"{right.storage} on both sides", left)
        return
    if family is None:
        raise _refused(rule, "columns with an order: numbers, dates, datetimes or durations; others may be equal", left)
    if family != right.kind.family:
        raise _refused(rule, f"{family} on both sides", right)


def _addable(rule: Sum, columns: Mapping[str, Column]) -> None:
    target = columns[rule.target].kind.family
    if target is None:
        raise _refused(rule, "numbers or times to add", columns[rule.target])
    moments: Counter[int] = Counter()
    for sign, name in rule.terms:
        family = columns[name].kind.family
        if family is None or (family == NUMBER) != (target == NUMBER):
            raise _refused(rule, "numbers alone, or dates, datetimes and durations alone", columns[name])
        moments[sign] += family == MOMENT
    if moments[1] - moments[-1] != (target == MOMENT):
        raise InvalidInput(
            f"rule {rule.text!r}: expected the times to come out as {target}, as in 'end = start + length' or "
            f"'length = end - start'."
        )


def _multipliable(rule: Product, columns: Mapping[str, Column]) -> None:
    for name in rule.columns:
        if columns[name].kind.family != NUMBER:
            raise _refused(rule, "numbers to multiply", columns[name])


def _writable(rule: Rule, columns: Mapping[str, Column]) -> None:
    """Refuse a rule that no column could be changed to keep."""
    written = list(rule.columns) if isinstance(rule, Comparison) else [rule.target]
    if not any(columns[n].kind.learned for n in written):
        raise _refused(rule, "a learned column that can keep it", columns[written[0]])


def _no_column(rule: Rule, name: str, published: Sequence[str]) -> InvalidInput:
    return InvalidInput(
        f"validation: rules: rule {rule.text!r}: there is no column {name!r} to publish; there are: "
        f"{', '.join(published)}.{nearest(name, published)}"
    )


def _refused(rule: Rule, expected: str, column: Column) -> InvalidInput:
    return InvalidInput(
        f"rule {rule.text!r}: expected {expected}, but {column.name} is {column.kind}, stored as {column.storage}; "
        f"correct the rule, or declare the column's kind."
    )
