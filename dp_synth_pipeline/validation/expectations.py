"""A Great Expectations suite from the public schema and the released profile; it costs no privacy.

Nothing here sees a row. `suite_for` says what is expected, `run.validate` asks the synthetic table, and `checks` names
both before either has run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Kind
from dp_synth_pipeline.tabular.kinds.constant import scalar
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.validation import regenerated, texts
from dp_synth_pipeline.validation.checks import DOMAIN, NULLS, TYPE, Check, stems_of

NULL_RATE_SLACK = 0.02
"""How far a null rate may be off beyond what drawing `rows` rows explains."""

SAMPLING_DEVIATIONS = 4.0
"""How many standard deviations of that drawing are allowed."""

ANY_RATE = {"min_value": 0.0, "max_value": 1.0}

STORAGE_EXPECTATION = "expect_column_storage_to_be"
"""Our own expectation, in `run`: the exact Arrow type of a column."""


def suite_for(schema: TableSchema, profile: TableProfile, rows: int, *, conditional: bool = False) -> list[Check]:
    """Return every expectation about a synthetic table of `rows` rows, named as `check_names` names them.

    Args:
        schema: the declared facts, which are public.
        profile: what the private pass released.
        rows: how many synthetic rows were asked for.
        conditional: they were drawn on a condition or by shares, so that any null rate is as expected.
    """
    names = [c.name for c in schema.published]
    stems = stems_of(names)
    measured = {c.name: c for c in offsets.published(schema, profile).columns if schema[c.name].kind.learned}
    checks = [columns_check(names), _row_count(rows), regenerated.check_for(schema, profile)]
    for column in schema.published:
        stem, facts = stems[column.name], measured.get(column.name)
        checks.append(type_check(column, f"{stem}__{TYPE}"))
        checks.append(_domain(column, facts, f"{stem}__{DOMAIN}"))
        checks.append(_nulls(column, facts, None if conditional else rows, f"{stem}__{NULLS}"))
    return checks


def suite_json(checks: Sequence[Check], name: str = "synthetic") -> str:
    """Return the suite as Great Expectations' JSON, to be read by people, edited, and kept in version control."""
    expectations = [
        {
            "type": c.expectation,
            "kwargs": c.kwargs,
            "meta": {"check": c.name, "kind": c.kind, "column": c.column},
            "description": c.description,
            "severity": "critical" if c.blocking else "warning",
        }
        for c in checks
        if c.kind not in ("regenerated", "quality", "drift", "text")  # these look at more than the drawn rows
    ]
    return json.dumps({"name": name, "expectations": expectations}, indent=2, ensure_ascii=False)


def columns_check(names: list[str]) -> Check:
    """Expect these columns, in this order."""
    text = f"The table has these {len(names)} columns, in this order: {', '.join(names)}."
    recipe = ("expect_table_columns_to_match_ordered_list", {"column_list": names})
    return Check("columns", None, "columns", True, text, *recipe)


def _row_count(rows: int) -> Check:
    recipe = ("expect_table_row_count_to_equal", {"value": rows})
    return Check("row_count", None, "row_count", True, f"The table has {rows:,} rows, as asked for.", *recipe)


def type_check(column: Column, name: str) -> Check:
    """Expect a column's storage type."""
    text = f"{column.name} is stored as {column.storage}."
    recipe = (STORAGE_EXPECTATION, {"column": column.name, "storage": str(column.arrow_type)})
    return Check(name, column.name, "types", True, text, *recipe)


def _domain(column: Column, facts: ColumnProfile | None, name: str) -> Check:
    if column.kind.fixed:
        return _constant(column, name)
    if column.kind.composed:
        return texts.check_for(column, name)
    if facts is None and not column.kind.unique:
        recipe = ("expect_column_values_to_not_be_null", {"column": column.name})
        return Check(name, column.name, "domain", True, f"{column.name} is made up anew in every row.", *recipe)
    if facts is None:
        recipe = ("expect_column_values_to_be_unique", {"column": column.name})
        return Check(name, column.name, "uniqueness", True, f"Every value of {column.name} occurs once.", *recipe)
    if column.kind.numeric:
        return _range(column, facts, name)
    values = _allowed(column, facts)
    if not values:
        recipe = ("expect_column_values_to_be_null", {"column": column.name})
        text = f"{column.name} is empty: no value of it is common enough to be named."
        return Check(name, column.name, "domain", True, text, *recipe)
    text = f"Every value of {column.name} is one of the {len(values)} that are declared or were released."
    recipe = ("expect_column_values_to_be_in_set", {"column": column.name, "value_set": values})
    return Check(name, column.name, "domain", True, text, *recipe)


def _constant(column: Column, name: str) -> Check:
    """Expect the one declared value in every row; nulls, if that is what was declared."""
    text = f"{column.name} holds its declared constant alone."
    recipe: tuple[str, dict[str, Any]] = ("expect_column_values_to_be_null", {"column": column.name})
    if column.constant is None:
        return Check(name, column.name, "domain", True, text, *recipe)
    value = scalar(column, column.constant).as_py()
    if isinstance(value, time):
        value = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    if isinstance(value, (date, timedelta)):
        end = round(value / timedelta(microseconds=1)) if isinstance(value, timedelta) else value.isoformat()
        ends = {"min_value": end, "max_value": end}
        recipe = ("expect_column_values_to_be_between", {"column": column.name, **ends})
    else:
        kept = value if isinstance(value, (bool, int, float, str)) else str(value)
        recipe = ("expect_column_values_to_be_in_set", {"column": column.name, "value_set": [kept]})
    return Check(name, column.name, "domain", True, text, *recipe)


def _allowed(column: Column, facts: ColumnProfile) -> list[Any]:
    """Return the values a column may hold, in its storage type where JSON has that type, else as text."""
    if column.kind.names is not None:
        return list(column.kind.released(column.kind.names))
    values = [str(v) for v in (column.categories if column.categories is not None else facts.values)]
    if column.nulls is NullPolicy.CONSTANT and str(column.constant) not in values:
        values.append(str(column.constant))
    if column.label is not None and facts.other > 0 and column.label not in values:
        values.append(column.label)
    kind = column.arrow_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return values
    try:
        return pa.array(values, pa.string()).cast(kind).to_pylist()
    except pa.ArrowInvalid:  # a category that the storage type cannot hold can never occur
        return values


def _range(column: Column, facts: ColumnProfile, name: str) -> Check:
    low, high = _ends(column, facts)
    text = (
        f"Every value of {column.name} lies between {column.kind.check_label(low)} and {column.kind.check_label(high)}."
    )
    if low is None and high is None:
        recipe = ("expect_column_values_to_be_null", {"column": column.name})
        text = f"{column.name} is empty: the profile has no value of it."
        return Check(name, column.name, "range", True, text, *recipe)
    recipe = ("expect_column_values_to_be_between", {"column": column.name, "min_value": low, "max_value": high})
    return Check(name, column.name, "range", True, text, *recipe)


def _ends(column: Column, facts: ColumnProfile) -> tuple[Any, Any]:
    """Return the least and largest value allowed: what was declared, else what was released; a constant widens both."""
    low = _axis(column.lower if column.lower is not None else facts.lower, column.kind)
    high = _axis(column.upper if column.upper is not None else facts.upper, column.kind)
    if column.nulls is NullPolicy.CONSTANT:
        constant = _axis(column.constant, column.kind)
        low = min((x for x in (low, constant) if x is not None), default=None)
        high = max((x for x in (high, constant) if x is not None), default=None)
    unit = _unit(column, facts)
    return (
        None if low is None else column.kind.json_end(_below(low, unit, column), column),
        None if high is None else column.kind.json_end(-_below(-high, unit, column), column),
    )


def _below(end: float, unit: float, column: Column) -> float:
    """Return the point that rounding to the column's type may bring an end down to; a whole one exactly."""
    if exact.is_long(column):  # its values are named exactly, and its ends are doubles
        return float(np.nextafter(end - unit / 2, -np.inf))
    if unit < 1:
        return end - unit / 2
    if not column.kind.ends_as_text and abs(end) > 2**53:  # Great Expectations makes doubles of such ends
        return int(np.nextafter(float(end), -np.inf))
    return math.floor(end) // int(unit) * int(unit)


def _axis(value: Any, kind: Kind) -> int | float | None:
    """Place a declared or released end on the profile's number line."""
    point = kind.point(value)
    return point if point is None or isinstance(point, int) else float(point)


def _unit(column: Column, facts: ColumnProfile) -> float:
    """Return the step that storing a value may round it by, on the profile's number line."""
    largest = max(abs(facts.lower or 0.0), abs(facts.upper or 0.0))
    return column.kind.storage_step(column, facts.decimals, largest)


def _nulls(column: Column, facts: ColumnProfile | None, rows: int | None, name: str) -> Check:
    """Expect the profile's null rate, as nearly as so many rows have it; any rate, without a number of rows."""
    empty = column.constant is None if column.kind.fixed else facts is not None and _stays_empty(column, facts)
    if empty:
        recipe = ("expect_column_values_to_be_null", {"column": column.name})
        return Check(name, column.name, "null_rate", True, f"{column.name} holds nulls alone.", *recipe)
    composed = column.kind.composed
    if facts is not None and facts.hidden and column.label is None and rows is not None and not composed:
        return _hidden(column, facts, name)
    if facts is None or column.nulls is not NullPolicy.KEEP:
        unlearned = f"{column.kind} columns have a value in every row"
        why = unlearned if facts is None else f"the null policy is {column.nulls.value}"
        recipe = ("expect_column_values_to_not_be_null", {"column": column.name})
        return Check(name, column.name, "null_rate", True, f"{column.name} has no nulls: {why}.", *recipe)
    if rows is None:
        recipe = ("expect_column_proportion_of_non_null_values_to_be_between", {"column": column.name, **ANY_RATE})
        text = f"{column.name} may have any part of nulls, since the rows were drawn on a condition or by shares."
        return Check(name, column.name, "null_rate", False, text, *recipe)
    rate = facts.null_rate
    spread = SAMPLING_DEVIATIONS * math.sqrt(max(rate * (1 - rate), 1 / max(rows, 1)) / max(rows, 1))
    tolerance = NULL_RATE_SLACK + spread
    text = f"{rate:.1%} of {column.name} is null, as in the profile, give or take {100 * tolerance:.1f} points."
    bounds = {"min_value": max(0.0, 1 - rate - tolerance), "max_value": min(1.0, 1 - rate + tolerance)}
    recipe = ("expect_column_proportion_of_non_null_values_to_be_between", {"column": column.name, **bounds})
    return Check(name, column.name, "null_rate", False, text, *recipe)


def _hidden(column: Column, facts: ColumnProfile, name: str) -> Check:
    """Warn of a column whose values noise hid, so that the synthetic table has none of them."""
    told = "lower and upper" if column.kind.numeric else "categories"
    text = (
        f"{column.name} should have values, but noise hid each of them: no single value or range holds enough rows at this "
        f"epsilon, so all are null. Declare its {told}, spend more epsilon, or leave it out (kind: excluded)."
    )
    least = {"min_value": max(1e-9, (1 - facts.null_rate) / 2), "max_value": 1.0}
    recipe = ("expect_column_proportion_of_non_null_values_to_be_between", {"column": column.name, **least})
    return Check(name, column.name, "null_rate", False, text, *recipe)


def _stays_empty(column: Column, facts: ColumnProfile) -> bool:
    """Whether nothing but nulls was found, and there is nothing to fill them with."""
    return facts.null_rate == 1 and column.nulls.measured and not facts.values and not facts.bins
