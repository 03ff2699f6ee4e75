"""Rules across columns as expectations: one check each, named before anything is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.tabular.constraints import Comparison, Dependency, Formula, Literal, Rule
from dp_synth_pipeline.tabular.constraints.hold import literal
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.storage import is_length
from dp_synth_pipeline.validation.checks import Check, CheckName, ascii_name

RULE_EXPECTATION = "expect_multicolumn_values_to_keep_rule"
"""Our own expectation, in `custom`: what Great Expectations has no word for."""

LONGEST = 60
"""Characters of a rule in its check's name."""


def rule_names(rules: Sequence[Rule]) -> list[CheckName]:
    """Return the check of each rule, in order, such as `rule_1__start_le_end`."""
    return [CheckName(_name(i, rule), True, None, f"the rule {rule.text}") for i, rule in enumerate(rules, 1)]


def rule_checks(rules: Sequence[Rule], schema: TableSchema, digits: Mapping[str, int] | None = None) -> list[Check]:
    """Return one expectation for each rule, named as `rule_names` names them.

    Args:
        schema: with every column that a rule speaks of.
        digits: digits after the point of decimal columns: what is computed may be off by half of its last one.
    """
    checks = []
    for i, rule in enumerate(rules, 1):
        expectation, kwargs = _recipe(rule, schema, digits or {})
        checks.append(Check(_name(i, rule), None, "rule", True, _told(rule), expectation, kwargs))
    return checks


def _name(number: int, rule: Rule) -> str:
    slug = re.sub(r"_+", "_", ascii_name(rule.slug))[:LONGEST].strip("_")
    return f"rule_{number}__{slug}"


def _told(rule: Rule) -> str:
    if isinstance(rule, Dependency):
        return f"Each {' and '.join(rule.given)} goes with one {rule.target}, as in the rule {rule.text}."
    return f"Every row keeps the rule {rule.text}; a row with a null in it is not judged."


def _recipe(rule: Rule, schema: TableSchema, digits: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    if isinstance(rule, Comparison) and isinstance(rule.right, Literal):
        return "expect_column_values_to_be_between", _bounds(rule, schema)
    if isinstance(rule, Comparison):
        left, right = str(rule.left), str(rule.right)
        if _alike(schema[left].arrow_type, schema[right].arrow_type):
            return _pair(rule.operator, left, right)
    own: dict[str, Any] = {"column_list": list(rule.columns), "rule": rule.text, "ignore_row_if": "never"}
    if isinstance(rule, Formula) and rule.target in digits:
        own["digits"] = digits[rule.target]
    return RULE_EXPECTATION, own


def _pair(operator: str, left: str, right: str) -> tuple[str, dict[str, Any]]:
    judged = {"ignore_row_if": "either_value_is_missing"}
    if operator == "==":
        return "expect_column_pair_values_to_be_equal", {"column_A": left, "column_B": right, **judged}
    larger, smaller = (left, right) if operator in (">", ">=") else (right, left)
    pair = {"column_A": larger, "column_B": smaller, "or_equal": operator in ("<=", ">=")}
    return "expect_column_pair_values_a_to_be_greater_than_b", {**pair, **judged}


def _alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether Great Expectations compares columns of these storage types as they are."""
    plain = (pa.types.is_integer, pa.types.is_floating)
    return left == right or all(any(is_(kind) for is_ in plain) for kind in (left, right))


def _bounds(rule: Comparison, schema: TableSchema) -> dict[str, Any]:
    assert isinstance(rule.right, Literal)
    kind = schema[rule.left].arrow_type
    value: Any = literal(rule.right, kind) if is_length(kind) else rule.right.value
    kwargs: dict[str, Any] = {"column": rule.left}
    if rule.operator in (">", ">=", "=="):
        kwargs["min_value"] = value
    if rule.operator in ("<", "<=", "=="):
        kwargs["max_value"] = value
    if rule.operator in ("<", ">"):
        kwargs["strict_max" if rule.operator == "<" else "strict_min"] = True
    return kwargs
