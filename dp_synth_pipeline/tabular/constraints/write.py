"""Writes values into a column in its own storage type: computed ones, swapped ones, and those next to a literal."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.constraints.hold import DAY, column, holds, literal, points, step
from dp_synth_pipeline.tabular.constraints.parse import Comparison, Literal


def copies(rule: Comparison) -> bool:
    return rule.operator == "==" and not isinstance(rule.right, Literal)


def mend(rule: Comparison, table: pa.Table) -> pa.Table:
    """Swap the two values, or move the one to the literal, in the rows that break a comparison."""
    broken = pa.array(~holds(rule, table))
    kind = table.schema.field(rule.left).type
    if isinstance(rule.right, Literal):
        moved = stored(np.array([_nearest(rule, float(literal(rule.right, kind)), kind)]), kind, None)
        return put(table, rule.left, pa.repeat(moved[0], table.num_rows), broken)
    if copies(rule):
        return table
    left, right = column(table, rule.left), column(table, rule.right)
    table = put(table, rule.left, cast(right, left.type), broken)
    return put(table, rule.right, cast(left, right.type), broken)


def _nearest(rule: Comparison, end: float, kind: pa.DataType) -> float:
    """Return the value nearest to a literal that keeps the rule, among those that a storage type can hold."""
    if rule.operator == "==":
        return end
    sign = 1 if rule.operator in (">", ">=") else -1
    unit = 0.01 if pa.types.is_floating(kind) else float(step(kind, None, np.zeros(1))[0])
    nearest = end if pa.types.is_floating(kind) else sign * math.ceil(sign * end / unit) * unit
    return nearest + sign * unit if nearest == end and rule.operator in ("<", ">") else nearest


def put(table: pa.Table, name: str, values: pa.Array, where: pa.Array | None = None) -> pa.Table:
    """Write values where both the old and the new one are there; a null stays a null."""
    old = column(table, name)
    both = pc.and_(pc.is_valid(old), pc.is_valid(values))  # type: ignore[attr-defined]
    mask = both if where is None else pc.and_(both, where)  # type: ignore[attr-defined]
    return table.set_column(table.schema.get_field_index(name), name, pc.if_else(mask, values, old))  # type: ignore[attr-defined]


def stored(values: np.ndarray, kind: pa.DataType, decimals: int | None) -> pa.Array:
    """Bring points of an axis to a storage type, rounded; null where they are missing or do not fit."""
    scale = kind.scale if pa.types.is_decimal(kind) else decimals
    if pa.types.is_floating(kind):
        rounded = values if scale is None else np.round(values, scale)
        return pa.array(rounded, mask=~np.isfinite(rounded)).cast(kind, safe=False)
    if pa.types.is_decimal(kind):
        rounded = np.round(values, kind.scale)
        fits = np.abs(rounded) < 10.0 ** min(kind.precision - kind.scale, 300)
        return pa.array(np.where(fits, rounded, 0.0), mask=~fits).cast(kind, safe=False)
    unit = step(kind, None, values)
    whole = np.rint(values) if pa.types.is_integer(kind) else np.floor(values / unit) * unit
    low, high = _ends(kind)
    fits = (whole >= low) & (whole <= high)
    micros = pa.array(np.where(fits, whole, 0).astype(np.int64), mask=~fits)
    if pa.types.is_integer(kind) or pa.types.is_time(kind):
        return micros.cast(kind)
    between = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", getattr(kind, "tz", None))
    return micros.cast(between).cast(kind, safe=False)


def _ends(kind: pa.DataType) -> tuple[float, float]:
    """Return the least and largest whole number or microsecond that a storage type holds and int64 can carry."""
    if pa.types.is_time(kind):
        return 0.0, float(DAY - 1)
    if not pa.types.is_integer(kind):
        return (-(2.0**53), 2.0**53)
    held = np.iinfo(kind.to_pandas_dtype())
    return float(held.min), min(float(held.max), 2.0**62)


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bring one column's values to another's type, as near as that type comes; null where it has no such value."""
    if values.type == kind:
        return values
    numbers = points(values)
    if not (
        pa.types.is_integer(numbers.type) or pa.types.is_floating(numbers.type) or pa.types.is_decimal(numbers.type)
    ):
        return numbers.cast(kind)
    return stored(numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), kind, None)
