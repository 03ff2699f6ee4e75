"""Kinds of columns, what becomes of their nulls and of their unnamed values, and the kind a storage type suggests.

Storage types are public: a kind follows from them or from a declaration, never from a value.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput


class Kind(StrEnum):
    """What a column means to the codec."""

    CATEGORY = "category"
    ORDINAL = "ordinal"
    """Categories with an order; the rarest are merged with a neighbour."""
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    DURATION = "duration"
    IDENTIFIER = "identifier"
    """Regenerated as a running number, never read and never learned."""
    CONSTANT = "constant"
    """One declared, public value in every synthetic row; never read and never learned."""
    EXCLUDED = "excluded"
    """Neither read nor published."""

    @property
    def learned(self) -> bool:
        """Whether the profile and the generator look at this column."""
        return self not in (Kind.IDENTIFIER, Kind.CONSTANT, Kind.EXCLUDED)

    @property
    def numeric(self) -> bool:
        """Whether values lie on an axis, so that bounds, bins and a mean make sense."""
        return self in (Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.DURATION)

    @property
    def named(self) -> bool:
        """Whether values are names, kept as text from the snapshot on."""
        return self in (Kind.CATEGORY, Kind.ORDINAL)


class NullPolicy(StrEnum):
    """What becomes of a null before training."""

    KEEP = "keep"
    """Missingness is modelled and reproduced."""
    MEAN = "mean"
    """The private mean; the private mode where values lie on no axis."""
    MEDIAN = "median"
    """The private median; the private mode of a category or boolean."""
    MODE = "mode"
    """The likeliest named value, else the middle of the densest cell."""
    DROP = "drop"
    """The whole row is left out."""
    CONSTANT = "constant"
    """A declared value."""

    @property
    def measured(self) -> bool:
        """Whether nulls are filled with a figure of the private histogram."""
        return self in (NullPolicy.MEAN, NullPolicy.MEDIAN, NullPolicy.MODE)


class OtherPolicy(StrEnum):
    """What becomes of the values that are too rare to be named."""

    DROP = "drop"
    """Generation writes a named value that fits the rest of the row in their place."""
    DRAW = "draw"
    """Generation draws them as often as they occur, and writes a public label."""


_READABLE_AS = {
    Kind.BOOLEAN: (Kind.BOOLEAN, Kind.CATEGORY),
    Kind.INTEGER: (Kind.INTEGER, Kind.DECIMAL, Kind.CATEGORY, Kind.ORDINAL, Kind.IDENTIFIER),
    Kind.DECIMAL: (Kind.INTEGER, Kind.DECIMAL, Kind.CATEGORY, Kind.IDENTIFIER),
    Kind.DATE: (Kind.DATE, Kind.CATEGORY),
    Kind.DATETIME: (Kind.DATETIME, Kind.DATE, Kind.CATEGORY),
    Kind.DURATION: (Kind.DURATION,),
    Kind.CATEGORY: (Kind.CATEGORY, Kind.ORDINAL, Kind.IDENTIFIER),
}
"""For the kind that a storage type suggests, the kinds that its values can be read as and written back from."""


def readable(arrow_type: pa.DataType, kind: Kind, name: str) -> bool:
    """Whether values of this storage type can be read as `kind` and written back."""
    if kind is Kind.EXCLUDED:
        return True
    suggested = kind_of(name, arrow_type)
    return kind is Kind.CONSTANT or kind in _READABLE_AS[suggested]


def kind_of(name: str, arrow_type: pa.DataType) -> Kind:
    """Infer a column's kind from its storage type alone, which is public; values are never looked at."""
    t = pa.types
    tests = (
        (t.is_boolean, Kind.BOOLEAN),
        (t.is_integer, Kind.INTEGER),
        (lambda a: t.is_floating(a) or t.is_decimal(a), Kind.DECIMAL),
        (t.is_date, Kind.DATE),
        (t.is_timestamp, Kind.DATETIME),
        (lambda a: t.is_duration(a) or t.is_interval(a) or t.is_time(a), Kind.DURATION),
        (is_text, Kind.CATEGORY),
    )
    for holds, kind in tests:
        if holds(arrow_type):
            return kind
    raise InvalidInput(
        f"column {name!r} has storage type {arrow_type}, which cannot be synthesized; cast it in the source, such as to a "
        f"number, or leave it out: columns: {{{name}: {{kind: excluded}}}}. In a CSV, kind: category takes it as text."
    )


def is_length(arrow_type: pa.DataType) -> bool:
    """Whether values are lengths of time, which a snapshot holds as microseconds; a time of day is one since midnight."""
    return pa.types.is_duration(arrow_type) or pa.types.is_time(arrow_type)


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether values are text; a column of which the source knows nothing but nulls counts as text."""
    t = pa.types
    return (
        t.is_string(arrow_type) or t.is_large_string(arrow_type) or t.is_dictionary(arrow_type) or t.is_null(arrow_type)
    )


def format_storage(arrow_type: pa.DataType, kind: Kind) -> str:
    """Name the storage type of the synthetic column; text of every width becomes `string`, lengths of time microseconds.

    Identifiers number the synthetic rows, of which there may be more than a narrow integer can count.
    """
    if kind is Kind.EXCLUDED:
        return str(arrow_type)
    if is_text(arrow_type):
        return "string"
    if pa.types.is_duration(arrow_type) or pa.types.is_interval(arrow_type):
        return "duration[us]"
    if pa.types.is_time(arrow_type):
        return "time64[us]"
    if kind is Kind.IDENTIFIER and pa.types.is_integer(arrow_type) and arrow_type.bit_width < 32:
        return "int64"
    return str(arrow_type)


def parse_storage(storage: str) -> pa.DataType:
    """Read back an Arrow type that `format_storage` wrote."""
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


CLOCK = re.compile(r"\d{1,2}:\d{2}")
"""Hours and minutes, of which pandas wants seconds too."""


def duration(value: Any) -> timedelta:
    """Read a declared duration: a `timedelta`, seconds as a number, or text such as `2 days 03:00:00`, `PT36H` or `18:30`.

    Raises:
        ValueError: if it is none of these.
    """
    import pandas as pd

    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a duration")
    try:
        text = f"{value}:00" if isinstance(value, str) and CLOCK.fullmatch(value) else value
        found = pd.Timedelta(text) if isinstance(text, str) else pd.Timedelta(seconds=text)
    except OverflowError as error:
        raise ValueError("too long a duration") from error
    if not isinstance(found, pd.Timedelta):
        raise ValueError("not a duration")
    return found.to_pytimedelta()
