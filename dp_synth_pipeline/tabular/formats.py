"""Formats of dates and times, as a CSV writes them: which are accepted, what they write, and where they are kept."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sql import literal, quoted, readable

FORMAT = b"dp_synth.format"
"""The key of a format in the Arrow schema of a synthetic file."""

UTC = ("Z", "+00", "+00:00", "+0000")
"""Endings which say that a datetime is in UTC."""

POINT, COMMA = "1,234.5", "1.234,5"
NOTATIONS = (POINT, COMMA)
"""How people write numbers: with a decimal point or a decimal comma, and then also currency and percent signs."""

DAYS, CLOCK = {"Y", "y", "m", "d", "b", "B", "j"}, {"H", "I", "p", "M", "S", "f", "g", "z"}
BARE = {"m", "d", "y", "j", "H", "I", "M", "S"}
"""Directives that a person may declare, and those that `%-` writes without a leading zero."""

NO_DAY = "2000-01-01"


def check(name: str, format: Any) -> str:
    """Return a declared format if it is one.

    Raises:
        InvalidInput: unless it is one of `NOTATIONS`, or text with the directives of a whole day or of a time of day, and
            none that DuckDB does not know.
    """
    if format in NOTATIONS:
        return format
    parts = re.findall(r"%(-?.?)", format.replace("%%", "")) if isinstance(format, str) else []
    bare = {p.removeprefix("-") for p in parts}
    known = bare <= DAYS | CLOCK and all(p[1:] in BARE for p in parts if p.startswith("-"))
    a_day = bare & {"Y", "y"} and ("j" in bare or ("d" in bare and bare & {"m", "b", "B"}))
    a_time = "M" in bare and ("H" in bare or {"I", "p"} <= bare) and not bare & (DAYS | {"z"})
    if not (known and (a_day or a_time)):
        raise InvalidInput(
            f"column {name!r}: format: expected the directives of a day, as in '%d.%m.%Y' or '%Y-%m-%dT%H:%M:%SZ', or of a "
            f"time of day, as in '%H:%M', or a number's, {' or '.join(map(repr, NOTATIONS))}, got {format!r}."
        )
    return format


def of_day(format: str) -> bool:
    """Whether a format writes days, or days and times, and not times of day alone."""
    return bool(_directives(format) & DAYS)


def of_clock(format: str) -> bool:
    """Whether a format writes a time, alone or after a day."""
    return bool(_directives(format) & CLOCK)


def in_utc(format: str) -> bool:
    """Whether what a format writes says that it is in UTC."""
    return format.endswith(UTC) or "%z" in format.replace("%%", "")


def text(value: str, format: str) -> str:
    """Write the SQL of a date or time in its format; DuckDB formats a time of day only with a day before it."""
    return f"strftime({value if of_day(format) else f'DATE {literal(NO_DAY)} + {value}'}, {literal(format)})"


def written(schema: pa.Schema) -> str:
    """List the columns of a synthetic file for a SELECT that writes text, with dates and times in their format.

    Numbers are written plainly, whatever their notation in the source.

    Example:
        >>> written(pa.schema([pa.field("born", pa.date32(), metadata={FORMAT: "%d.%m.%Y"})]))
        'strftime("born", \\'%d.%m.%Y\\') AS "born"'
    """
    return ", ".join(
        f"{text(quoted(f.name), f.metadata[FORMAT].decode())} AS {quoted(f.name)}"
        if f.metadata and f.metadata.get(FORMAT, POINT.encode()).decode() not in NOTATIONS
        else readable(pa.schema([f]))
        for f in schema
    )


def _directives(format: str) -> set[str]:
    return set(re.findall(r"%-?(.)", format.replace("%%", "")))
