"""Lengths of time as people write them: `2 days 03:00:00`, `PT36H`, `18:30`, or seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

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
        length = pd.Timedelta(text) if isinstance(text, str) else pd.Timedelta(seconds=text)
    except OverflowError as error:
        raise ValueError("too long a duration") from error
    if not isinstance(length, pd.Timedelta):
        raise ValueError("not a duration")
    return length.to_pytimedelta()


def microseconds(length: timedelta) -> int:
    """Return a length of time in microseconds.

    Example:
        >>> microseconds(timedelta(seconds=2))
        2000000
    """
    return round(length / timedelta(microseconds=1))
