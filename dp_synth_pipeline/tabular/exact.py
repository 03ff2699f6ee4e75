"""Numbers that doubles would alter: which columns have them, how they are named, and what is not kept of the others.

Every number line is one of doubles, which are exact to 2^53 or 15 digits. Values that have a name are kept beside it as they
are. Which columns are concerned follows from storage types and declarations, which are public.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import grid
from dp_synth_pipeline.tabular.facts import Column, TableSchema
from dp_synth_pipeline.tabular.kinds import Kind, is_text

DIGITS = 15
"""Decimal digits that every double keeps."""

SHOWN = 5
"""Columns that a limit names; a wide table's card should not be a list of its columns."""

YEARS = "years 1 to 9999"
MOST_NANOSECONDS = 2**63 // 1000 - 1
"""Microseconds from 1970 that a datetime in nanoseconds can lie, at most."""


def is_whole(column: Column) -> bool:
    """Whether values are stored as integers."""
    return pa.types.is_integer(column.arrow_type)


def is_long(column: Column) -> bool:
    """Whether values are decimals of more digits than a double keeps."""
    return pa.types.is_decimal(column.arrow_type) and column.arrow_type.precision > DIGITS  # type: ignore[attr-defined]


def point(column: Column, value: Any) -> int | float | str:
    """Return a number as a profile names it: whole ones and long decimals exactly."""
    if is_long(column):
        return str(value)
    if column.kind in (Kind.DATE, Kind.DATETIME, Kind.DURATION) or is_whole(column):
        return int(value) if isinstance(value, (int, float)) else int(Decimal(str(value)))
    return float(value)


def named(column: Column, values: tuple[Any, ...]) -> pa.Array | None:
    """Return the named values of a number line in the column's storage type, exactly; None if doubles are exact enough."""
    kind, target = column.kind, column.arrow_type
    if is_long(column):
        with localcontext(prec=target.precision + 1):  # type: ignore[attr-defined]
            scale = Decimal(1).scaleb(-target.scale)  # type: ignore[attr-defined]
            return pa.array([Decimal(str(v)).quantize(scale) for v in values], target) if values else None
    if not values or not all(isinstance(v, int) or v.is_integer() for v in values):
        return None
    whole = [int(v) for v in values]
    if is_whole(column):
        return pa.array(whole, target)
    if kind is Kind.DATE:
        return pa.array(whole, pa.int64()).cast(pa.int32()).cast(pa.date32()).cast(target)
    if kind is Kind.DATETIME:
        most = MOST_NANOSECONDS if target.unit == "ns" else 2**63 - 1  # type: ignore[attr-defined]
        moments = pa.array([min(max(v, -most), most) for v in whole], pa.timestamp("us")).cast(
            pa.timestamp("us", getattr(target, "tz", None))
        )
        return moments.cast(target, safe=False)
    if kind is Kind.DURATION:
        return pa.array(whole, pa.int64()).cast(target if pa.types.is_time(target) else pa.duration("us"))
    return None


def long_decimals(x: np.ndarray, null: np.ndarray, target: Any) -> pa.Array:
    """Write doubles as decimals of more digits than they have: the digits that doubles keep, and zeros beyond."""
    with localcontext(prec=target.precision + 1):
        scale = Decimal(1).scaleb(-target.scale)
        most = (10**target.precision - 1) * scale

        def fitted(value: float) -> Decimal:
            return min(max(Decimal(f"{value:.{DIGITS}g}"), -most), most).quantize(scale)

        return pa.array([None if n else fitted(v) for v, n in zip(x.tolist(), null, strict=True)], target)


def ends(storage: pa.DataType) -> tuple[int, int]:
    """Return the least and largest value of an integer type.

    Example:
        >>> ends(pa.int8()), ends(pa.uint16())
        ((-128, 127), (0, 65535))
    """
    bits = storage.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(storage) else (0, 2**bits - 1)


def declared_ends(column: Column, low: int, high: int) -> tuple[int, int]:
    """Return the least and largest whole number of a column: those given, or what was declared within them."""
    told = [None if v is None else grid.axis_value(v) for v in (column.lower, column.upper)]
    low = low if told[0] is None else min(max(low, math.ceil(told[0])), high)
    return low, high if told[1] is None else max(min(high, math.floor(told[1])), low)


def check(name: str, arrow_type: pa.DataType, kind: Kind, declared: dict[str, Any]) -> None:
    """Refuse declared bounds and categories that the storage type cannot hold.

    Raises:
        InvalidInput: naming the fact; all of it is public.
    """
    for end in ("lower", "upper"):
        value = declared.get(end)
        if value is not None and kind.numeric and not _held(value, arrow_type):
            raise InvalidInput(
                f"column {name!r}: {end}: {value} lies beyond storage type {arrow_type}; declare a bound within it, or cast "
                f"the column in the source."
            )
    for text in declared.get("categories") or () if kind.named and not is_text(arrow_type) else ():
        try:
            pa.scalar(text).cast(arrow_type)
        except pa.ArrowException:
            raise InvalidInput(
                f"column {name!r}: category {text!r} is not a value of storage type {arrow_type}; remove it, or cast the "
                f"column in the source."
            ) from None


def _held(value: Any, arrow_type: Any) -> bool:
    if pa.types.is_integer(arrow_type):
        low, high = ends(arrow_type)
        return low <= value <= high
    if pa.types.is_decimal(arrow_type):
        return abs(Decimal(str(value))) < Decimal(10) ** (arrow_type.precision - arrow_type.scale)
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns" and isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return abs(
            (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        ) <= timedelta(microseconds=MOST_NANOSECONDS)
    return True


def limits_of(schema: TableSchema) -> list[str]:
    """Say, from storage types and declarations alone, what the synthetic table cannot hold as exactly as its source."""
    said = []
    wide = [
        c.name
        for c in schema.learned
        if c.kind.numeric and is_whole(c) and c.arrow_type.bit_width == 64 and not _small(c)
    ]
    if wide:
        said.append(f"Whole numbers beyond 2^53 that were not named are drawn to the nearest double: {_some(wide)}.")
    if long := [c.name for c in schema.learned if c.kind.numeric and is_long(c)]:
        said.append(f"Decimals that were not named keep {DIGITS} digits: {_some(long)}.")
    dates = [c.name for c in schema.learned if c.kind in (Kind.DATE, Kind.DATETIME) and not (c.lower and c.upper)]
    if dates:
        said.append(f"Dates are of the {YEARS}; one beyond comes out within them: {_some(dates)}.")
    fine = [c.name for c in schema.learned if c.kind is Kind.DATETIME and not (c.lower and c.upper)]
    if fine:
        said.append(
            f"Microseconds of datetimes before 1684 or after 2255 that were not named are rounded: {_some(fine)}."
        )
    finer = [c.name for c in schema.learned if c.kind is Kind.DATETIME and "ns" in c.storage]
    if finer:
        said.append(f"Nanoseconds are cut to microseconds: {_some(finer)}.")
    return said


def _some(names: list[str]) -> str:
    shown, more = names[:SHOWN], len(names) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _small(column: Column) -> bool:
    """Whether declared bounds keep a column where doubles are exact."""
    return all(isinstance(v, (int, float)) and abs(v) <= 2**53 for v in (column.lower, column.upper))
