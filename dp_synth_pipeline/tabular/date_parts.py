"""Parts of dates and datetimes, such as the month: what they are, which names columns of them have, and dates with some.

A table that is partitioned by year and month has both beside the date itself. Drawn each by itself, they would contradict
it. Declared or found to be `same_as` the date with a `part`, they are what the date has, which is placed by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAY = np.timedelta64(1, "D")


class _Part(NamedTuple):
    """One part of a moment.

    Attributes:
        of: computes it from moments without a zone.
        least, most: its ends; a year has those of its dates.
        aliases: how names of columns end that hold it; for each, the words of the name.
        of_day: whether a date has it, too.
    """

    of: Callable[[pa.Array], pa.Array]
    least: int | None
    most: int | None
    aliases: tuple[str, ...]
    of_day: bool = True


def _weekday(*, first: int, from_zero: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the days of a week, counted from 0 or 1; Monday is first with 1, Sunday with 7."""
    return lambda moments: pc.day_of_week(moments, count_from_zero=from_zero, week_start=first)  # type: ignore[attr-defined]


_DAYS = ("weekday", "wday", "dow", "day of week", "dayofweek", "isoweekday", "isodow")

PARTS: Mapping[str, _Part] = {
    "year": _Part(pc.year, None, None, ("year", "yr", "yyyy")),  # type: ignore[attr-defined]
    "quarter": _Part(pc.quarter, 1, 4, ("quarter", "qtr")),  # type: ignore[attr-defined]
    "month": _Part(pc.month, 1, 12, ("month", "mon")),  # type: ignore[attr-defined]
    "week": _Part(pc.iso_week, 1, 53, ("week", "isoweek", "week of year", "weekofyear")),  # type: ignore[attr-defined]
    "day": _Part(pc.day, 1, 31, ("day", "mday", "dom", "day of month", "dayofmonth")),  # type: ignore[attr-defined]
    "yearday": _Part(pc.day_of_year, 1, 366, ("yday", "doy", "day of year", "dayofyear")),  # type: ignore[attr-defined]
    "weekday": _Part(_weekday(first=1, from_zero=True), 0, 6, _DAYS),
    "isoweekday": _Part(_weekday(first=1, from_zero=False), 1, 7, _DAYS),
    "dow": _Part(_weekday(first=7, from_zero=True), 0, 6, _DAYS),
    "dayofweek": _Part(_weekday(first=7, from_zero=False), 1, 7, _DAYS),
    "hour": _Part(pc.hour, 0, 23, ("hour", "hr"), of_day=False),  # type: ignore[attr-defined]
    "minute": _Part(pc.minute, 0, 59, ("minute",), of_day=False),  # type: ignore[attr-defined]
    "second": _Part(pc.second, 0, 59, ("second",), of_day=False),  # type: ignore[attr-defined]
}
"""Each part by its name. Weekdays are counted in four ways: Monday is 0 or 1, or Sunday is."""


def named(column: str) -> list[str]:
    """Return the parts that a column may hold by its name: those whose words it ends with, or begins with before `of`.

    Example:
        >>> named("ArrivalMonth"), named("month_of_birth"), named("monthly_income")
        (['month'], ['month'], [])
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", column)
    name = f" {' '.join(words).lower()} "
    found = []
    for part, known in PARTS.items():
        longer = [a for other in PARTS.values() for a in other.aliases if len(a) > len(part)]
        ends = [a for a in known.aliases if name.endswith(f" {a} ") or name.startswith(f" {a} of ")]
        if ends and not any(name.endswith(f" {a} ") for a in longer if len(a) > max(map(len, ends))):
            found.append(part)
    return found


def of_moments(moments: pa.Array, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return `(part int64 (rows,), null bool (rows,))` of dates, or of moments without a zone; 0 where null."""
    values = PARTS[part].of(moments.cast(pa.timestamp("us"), safe=False))
    return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), np.asarray(values.is_null())


def ends(part: str, low: np.datetime64 | None, high: np.datetime64 | None) -> tuple[int, int] | None:
    """Return the least and largest value of a part of moments that lie between two ends; None of a year without any."""
    known = PARTS[part]
    if known.least is not None and known.most is not None:
        return known.least, known.most
    if low is None or high is None:
        return None
    return _year(low), _year(high)


def _year(moment: np.datetime64) -> int:
    return int(moment.astype("datetime64[Y]").astype(np.int64)) + 1970


def moved(moments: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    """Return the moments near to some that have a part; what has no such part stays as it is.

    Args:
        moments: datetime64[us] (rows,).
        values: the part of each, int64 (rows,).
    """
    day, time = moments.astype("datetime64[D]"), moments - moments.astype("datetime64[D]").astype(moments.dtype)
    known = PARTS[part]
    fits = np.ones(len(values), bool) if known.least is None else (values >= known.least) & (values <= known.most)
    if not known.of_day:
        found = day + _at_clock(time, part, values)
    elif part in ("year", "quarter", "month"):
        found = _in_month(day, part, values) + time
    elif part == "day":
        found = _on_day(day, values) + time
    else:
        found = _shifted(day, part, values) + time
    return np.where(fits, found.astype(moments.dtype), moments)


def _at_clock(time: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    unit, size = {"hour": ("h", 24), "minute": ("m", 60), "second": ("s", 60)}[part]
    now = (time // np.timedelta64(1, unit)).astype(np.int64) % size
    return time + (values - now) * np.timedelta64(1, unit).astype("timedelta64[us]")


def _in_month(day: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    """Return days of another month, as late in it, or its last."""
    months = day.astype("datetime64[M]").astype(np.int64)
    year, month = months // 12, months % 12
    if part == "year":
        year = values - 1970
    else:
        month = values - 1 if part == "month" else 3 * (values - 1) + month % 3
    first = (12 * year + month).astype("datetime64[M]")
    length = (first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")
    offset = np.minimum(day - day.astype("datetime64[M]").astype("datetime64[D]"), length - DAY)
    return first.astype("datetime64[D]") + offset


def _on_day(day: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a day of the month; of a month that is too short, one of the next, which never is."""
    month = day.astype("datetime64[M]")
    length = ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
    return (month + (values > length)).astype("datetime64[D]") + (values - 1) * DAY


def _shifted(day: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    """Return days so many days, or weeks, later; of a week the nearest that stays within its month, if one does."""
    now, _ = of_moments(pa.array(day), part)
    if part in ("week", "yearday"):
        return day + (values - now) * (7 if part == "week" else 1) * DAY
    ahead = (values - now) % 7
    later, before = day + ahead * DAY, day + (ahead - 7) * np.where(ahead > 0, 1, 0) * DAY
    month = day.astype("datetime64[M]")
    stays, near = [d.astype("datetime64[M]") == month for d in (later, before)], ahead <= 3
    return np.where((near & stays[0]) | ~stays[1], later, before)
