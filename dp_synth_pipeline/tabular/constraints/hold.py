"""Says for each row of a table whether a rule holds; a row with a null in the rule's columns is not judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.constraints.parse import Comparison, Dependency, Formula, Literal, Rule
from dp_synth_pipeline.tabular.durations import duration
from dp_synth_pipeline.tabular.storage import is_length

DAY = 86_400_000_000
"""Microseconds of a day."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COMPARE = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal"}

Digits = Mapping[str, int]
"""Digits after the point of decimal columns, by name."""

Key = tuple[Any, ...]
Mapped = dict[Key, Any]
"""What each left-hand side of a dependency gives."""


def holds(rule: Rule, table: pa.Table, digits: Digits | None = None) -> np.ndarray:
    """Return whether each row keeps the rule, bool `(rows,)`; true where a null leaves nothing to judge.

    Args:
        table: with the rule's columns, of kinds that `fit.check` accepts.
        digits: for sums and products, how many digits the target is written with: it may be off by half of the last one.
    """
    if isinstance(rule, Dependency):
        return _agrees(rule, table)
    if isinstance(rule, Formula):
        expected, slack = expected_of(rule, table, digits or {})
        off = np.abs(numbers(table, rule.target) - expected)
        return ~(off > slack)
    left, right = points(column(table, rule.left)), _right(rule, table)
    return np.asarray(pc.fill_null(pc.call_function(_COMPARE[rule.operator], [left, right]), True))


def column(table: pa.Table, name: str) -> pa.Array:
    """Return one column in one piece."""
    values = table.column(name)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def points(values: pa.Array) -> pa.Array:
    """Return values that can be compared: moments and durations as microseconds, NaN as null, others as they are."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_duration(kind):
        return values.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if pa.types.is_time(kind):
        return values.cast(pa.time64("us"), safe=False).cast(pa.int64())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))  # type: ignore[attr-defined]
    return values


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """Return a column with an axis as float64 `(rows,)`, NaN where null."""
    return points(column(table, name)).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def expected_of(rule: Formula, table: pa.Table, digits: Digits) -> tuple[np.ndarray, np.ndarray]:
    """Return what the target should be, and by how much it may be off: float64 `(rows,)` each.

    Both are NaN where a column on the right is null, and infinite or NaN where a divisor is 0: nothing can be told there.
    """
    expected = solved(rule, rule.target, table)
    with np.errstate(all="ignore"):
        rounding = 8 * np.finfo(np.float64).eps * rule.size(partial(numbers, table))
    return expected, step(table.schema.field(rule.target).type, digits.get(rule.target), expected) / 2 + rounding


def solved(rule: Formula, name: str, table: pa.Table) -> np.ndarray:
    """Return what one of a rule's columns should be, from the others: float64 `(rows,)`, as `expected_of`."""
    with np.errstate(all="ignore"):
        return np.asarray(rule.solved(name, partial(numbers, table)), dtype=np.float64)


def step(kind: pa.DataType, decimals: int | None, near: np.ndarray) -> np.ndarray:
    """Return the distance of neighbouring values of a storage type, around `near`, as `points` places them."""
    if pa.types.is_date(kind):
        return np.full(len(near), float(DAY))
    if pa.types.is_timestamp(kind) or is_length(kind):
        return np.full(len(near), {"s": 1e6, "ms": 1e3}.get(kind.unit, 1.0))
    if pa.types.is_integer(kind):
        return np.ones(len(near))
    if pa.types.is_decimal(kind):
        return np.full(len(near), 10.0**-kind.scale)
    written = 0.0 if decimals is None else 10.0**-decimals
    eps = 1e-9 if kind == pa.float64() else 1e-6
    return written + eps * np.abs(near)


def literal(value: Literal, kind: pa.DataType) -> Any:
    """Return a literal as `points` places the column that it is compared with.

    Raises:
        ValueError: if it is none of the column's.
    """
    given = value.value
    if is_length(kind):
        return round(duration(given) / timedelta(microseconds=1))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if not isinstance(given, str):
            raise ValueError("not a date")
        moment = datetime.fromisoformat(given)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if pa.types.is_date(kind) and moment.time() != time():
            raise ValueError("not a date")
        return round((moment - EPOCH) / timedelta(microseconds=1))
    if isinstance(given, str) or not math.isfinite(given):
        raise ValueError("not a number")
    return given


def usual(rule: Dependency, table: pa.Table, known: Mapped | None = None) -> Mapped:
    """Return the most frequent target of each left-hand side; what is `known` already stays as it is.

    Of equally frequent targets it is the first in the order of their text, so that two runs over one table agree.
    """
    names = [*rule.given, rule.target]
    whole = pa.table({n: _present(column(table, n)) for n in names}).drop_null()
    counted = whole.group_by(names).aggregate([([], "count_all")]).to_pylist()
    mapping: Mapped = dict(known or {})
    for row in sorted(counted, key=lambda r: (-r["count_all"], str(r[rule.target]))):
        mapping.setdefault(tuple(row[n] for n in rule.given), row[rule.target])
    return mapping


def given(rule: Dependency, table: pa.Table, mapped: Mapped) -> pa.Array:
    """Return what the mapping gives for each row's left-hand side, in the target's type; null where it gives nothing."""
    kind = table.schema.field(rule.target).type
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in rule.given:
        encoded = _present(column(table, name)).dictionary_encode(null_encoding="encode")
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    keys = zip(*(_present(column(table, n)).take(pa.array(first)).to_pylist() for n in rule.given), strict=True)
    return pa.array([mapped.get(key) for key in keys], kind).take(pa.array(inverse))


def _agrees(rule: Dependency, table: pa.Table) -> np.ndarray:
    expected = given(rule, table, usual(rule, table))
    same = pc.equal(points(column(table, rule.target)), points(expected))  # type: ignore[attr-defined]
    return np.asarray(pc.fill_null(same, True))


def _present(values: pa.Array) -> pa.Array:
    """Return values with NaN as null, dictionaries unpacked."""
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return points(values) if pa.types.is_floating(values.type) else values


def _right(rule: Comparison, table: pa.Table) -> Any:
    if isinstance(rule.right, Literal):
        return pa.scalar(literal(rule.right, table.schema.field(rule.left).type))
    return points(column(table, rule.right))
