"""Numbers that doubles would alter: which columns have them, how they are named, and what is not kept of the others.

Every number line is one of doubles, which are exact to 2^53 or 15 digits. Values that have a name are kept beside it as they
are. Which columns are concerned follows from storage types, declarations and released ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.storage import is_text

DIGITS = 15
"""Decimal digits that every double keeps."""

SHOWN = 5
"""Columns that a limit names; a wide table's card should not be a list of its columns."""

WIDE = "Whole numbers beyond 2^53 that were not named are drawn to the nearest double"
LONG = f"Decimals that were not named keep {DIGITS} digits"
CALENDAR = "Dates are of the years 1 to 9999; one beyond comes out within them"
MICROSECONDS = "Microseconds of datetimes before 1684 or after 2255 that were not named are rounded"
NANOSECONDS = "Nanoseconds are cut to microseconds"
HANGING = "A value that hangs on a null one comes out null"
"""What is not kept, in the order in which a card says so."""

MOST_NANOSECONDS = 2**63 // 1000 - 1
"""Microseconds from 1970 that a datetime in nanoseconds can lie, at most."""

EPOCH, DAY = datetime(1970, 1, 1), timedelta(days=1)


def calendar(storage: pa.DataType) -> tuple[int, int]:
    """Return the first and the last day that dates have, or microsecond that datetimes have, from 1970 on.

    They lie in the years 1 to 9999, since Python and many a database know no others, and in what 64 bits of nanoseconds
    hold; in a zone other than UTC, a day within these, so that it moves none out of them.

    Example:
        >>> calendar(pa.date32())
        (-719162, 2932896)
    """
    if pa.types.is_date(storage):
        return (datetime.min - EPOCH) // DAY, (datetime.max - EPOCH) // DAY
    micro = timedelta(microseconds=1)
    inner = 0 if storage.tz in (None, "UTC", "Etc/UTC") else DAY // micro  # type: ignore[attr-defined]
    if storage.unit == "ns":  # type: ignore[attr-defined]
        return -MOST_NANOSECONDS + inner, MOST_NANOSECONDS - inner
    return (datetime.min - EPOCH) // micro + inner, (datetime.max - EPOCH) // micro - inner


def is_whole(column: Column) -> bool:
    """Whether values are stored as integers."""
    return pa.types.is_integer(column.arrow_type)


def is_long(column: Column) -> bool:
    """Whether values are decimals of more digits than a double keeps."""
    return pa.types.is_decimal(column.arrow_type) and column.arrow_type.precision > DIGITS  # type: ignore[attr-defined]


def released(column: Column, values: tuple[Any, ...]) -> pa.Array | None:
    """Return the released values of a number line in their storage type, exactly; None if doubles are exact enough."""
    target = column.arrow_type
    if is_long(column):
        with localcontext(prec=target.precision + 1):  # type: ignore[attr-defined]
            scale = Decimal(1).scaleb(-target.scale)  # type: ignore[attr-defined]
            return pa.array([Decimal(str(v)).quantize(scale) for v in values], target) if values else None
    if not values or not all(isinstance(v, int) or v.is_integer() for v in values):
        return None
    whole = [int(v) for v in values]
    if is_whole(column):
        return pa.array(whole, target)
    return column.kind.exactly(whole, target)


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


def inside(x: float, storage: pa.DataType) -> int:
    """Return a whole number, at the end of its type if it lies beyond: the type holds no larger one to compare with."""
    low, high = ends(storage) if pa.types.is_integer(storage) else (-math.inf, math.inf)
    return int(min(max(round(x), low), high))


def whole(x: np.ndarray, storage: pa.DataType, column: Column) -> np.ndarray:
    """Return whole numbers, at the nearest end of an integer type, or of what was declared, if they lie beyond it."""
    low, high = ends(storage)
    below = np.nextafter(float(high), 0.0) if float(high) > high else float(high)
    made = np.clip(np.round(x), float(low), below).astype(np.int64 if low else np.uint64)
    return np.clip(made, *declared_ends(column, low, high))


def declared_ends(column: Column, low: int, high: int) -> tuple[int, int]:
    """Return the least and largest whole number of a column: those given, or what was declared within them."""
    lower, upper = (None if v is None else grid.axis_value(v) for v in (column.lower, column.upper))
    low = low if lower is None else min(max(low, math.ceil(lower)), high)
    return low, high if upper is None else max(min(high, math.floor(upper)), low)


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
    for text in declared.get("categories") or () if kind.categorical and not is_text(arrow_type) else ():
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


def limits_of(columns: Iterable[Column], ends: Mapping[str, tuple[float, float]] = MappingProxyType({})) -> list[str]:
    """Say what the synthetic table cannot hold as exactly as its source, from types, declarations and released ends.

    Args:
        columns: the learned columns.
        ends: by name, the released ends of numbers and dates, which say of most that nothing of them is altered.
    """
    by_limit: dict[str, list[str]] = {limit: [] for limit in (WIDE, LONG, CALENDAR, MICROSECONDS, NANOSECONDS, HANGING)}
    for column in columns:
        hanging = [HANGING] if column.base is not None and column.nulls is NullPolicy.KEEP else []
        for limit in (*column.kind.limits(column), *hanging):
            if column.name not in ends or not _beyond(limit, *ends[column.name]):
                by_limit.setdefault(limit, []).append(column.name)
    return [f"{limit}: {_some(names)}." for limit, names in by_limit.items() if names]


def _beyond(limit: str, lower: float, upper: float) -> bool:
    """Say whether what a limit alters lies beyond the ends of a column on the number line."""
    return limit == CALENDAR or (limit in (WIDE, MICROSECONDS) and max(abs(lower), abs(upper)) <= 2**53)


def _some(names: list[str]) -> str:
    shown, more = names[:SHOWN], len(names) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def is_small(column: Column) -> bool:
    """Whether declared bounds keep a column where doubles are exact."""
    return all(isinstance(v, (int, float)) and abs(v) <= 2**53 for v in (column.lower, column.upper))
