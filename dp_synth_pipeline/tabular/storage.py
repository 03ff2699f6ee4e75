"""Arrow storage types: what a type holds, which type the synthetic column has, and how that type is named and read back."""

from __future__ import annotations

import pyarrow as pa


def is_real(arrow_type: pa.DataType) -> bool:
    """Whether values are numbers with digits after the point."""
    return pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)


def is_length(arrow_type: pa.DataType) -> bool:
    """Whether values are lengths of time, which a snapshot holds as microseconds; a time of day is one since midnight."""
    return pa.types.is_duration(arrow_type) or pa.types.is_time(arrow_type)


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether values are text; a column of which the source knows nothing but nulls counts as text."""
    t = pa.types
    return (
        t.is_string(arrow_type) or t.is_large_string(arrow_type) or t.is_dictionary(arrow_type) or t.is_null(arrow_type)
    )


def synthetic_type(arrow_type: pa.DataType) -> str:
    """Name the storage type of a synthetic column: text of every width is `string`, and lengths of time are microseconds.

    Example:
        >>> synthetic_type(pa.large_string()), synthetic_type(pa.time32("s")), synthetic_type(pa.int8())
        ('string', 'time64[us]', 'int8')
    """
    if is_text(arrow_type):
        return "string"
    if pa.types.is_duration(arrow_type) or pa.types.is_interval(arrow_type):
        return "duration[us]"
    if pa.types.is_time(arrow_type):
        return "time64[us]"
    return str(arrow_type)


def parse_storage(storage: str) -> pa.DataType:
    """Read back an Arrow type that `synthetic_type` named."""
    if storage.startswith("timestamp["):
        unit, _, zone = storage[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    if storage.startswith("decimal128("):
        precision, scale = storage[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if storage.startswith("date32"):
        return pa.date32()
    if storage.startswith("date64"):
        return pa.date64()
    return pa.type_for_alias(storage)
