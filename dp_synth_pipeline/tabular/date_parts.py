"""Parts of dates and datetimes, such as the month: what they are, which names columns of them have, and dates with some.

A table that is partitioned by year and month has both beside the date itself. Drawn each by itself, they would contradict
it. Declared or found to be `same_as` the date with a `part`, they are what the date has, which is placed by them. Some are
written as texts: the name of a month or of a weekday in English, `Q1`, `2024-05`; and a weekend is a boolean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAY, EPOCH = np.timedelta64(1, "D"), datetime(1970, 1, 1)


class _Part(NamedTuple):
    """One part of a moment.

    Attributes:
        of: computes it from moments without a zone.
        least, most: its ends; a year has those of its dates.
        aliases: how names of columns end that hold it; for each, the words of the name.
        of_day: whether a date has it, too.
        labels: how its values are written, from the least one on, if not as numbers.
    """

    of: Callable[[pa.Array], pa.Array]
    least: int | None
    most: int | None
    aliases: tuple[str, ...]
    of_day: bool = True
    labels: tuple[str, ...] | tuple[bool, ...] = ()


def _weekday(*, first: int, from_zero: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the days of a week, counted from 0 or 1; Monday is first with 1, Sunday with 7."""
    return lambda moments: pc.day_of_week(moments, count_from_zero=from_zero, week_start=first)  # type: ignore[attr-defined]


def _year_month(moments: pa.Array) -> pa.Array:
    """Return years and months as six digits, such as 202405."""
    return pc.add(pc.multiply(pc.year(moments), 100), pc.month(moments))  # type: ignore[attr-defined]


def _date_key(moments: pa.Array) -> pa.Array:
    """Return days as eight digits, such as 20240531."""
    return pc.add(pc.multiply(_year_month(moments), 100), pc.day(moments))  # type: ignore[attr-defined]


def _weekend(moments: pa.Array) -> pa.Array:
    return pc.greater(_weekday(first=1, from_zero=False)(moments), 5).cast(pa.int64())  # type: ignore[attr-defined]


_DAYS = ("weekday", "wday", "dow", "day of week", "dayofweek", "isoweekday", "isodow")
_SIX = ("year month", "yearmonth", "yyyymm", "ym")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_QUARTER = _Part(pc.quarter, 1, 4, ("quarter", "qtr"))  # type: ignore[attr-defined]
_MONTH = _Part(pc.month, 1, 12, ("month", "mon"))  # type: ignore[attr-defined]
_DAY = _Part(_weekday(first=1, from_zero=False), 1, 7, _DAYS)
_OF_DAYS = (*_DAYS, "day", "day name", "weekday name")

PARTS: Mapping[str, _Part] = {
    "year": _Part(pc.year, None, None, ("year", "yr", "yyyy")),  # type: ignore[attr-defined]
    "yearmonth": _Part(_year_month, None, None, _SIX),
    "year_month": _Part(_year_month, None, None, (*_SIX, "month", "period")),
    "quarter": _QUARTER,
    "quarter_label": _QUARTER._replace(labels=("Q1", "Q2", "Q3", "Q4")),
    "month": _MONTH,
    "month_name": _MONTH._replace(labels=_MONTHS, aliases=("month", "month name")),
    "month_abbr": _MONTH._replace(labels=tuple(m[:3] for m in _MONTHS), aliases=("month", "mon", "month name")),
    "week": _Part(pc.iso_week, 1, 53, ("week", "isoweek", "week of year", "weekofyear")),  # type: ignore[attr-defined]
    "day": _Part(pc.day, 1, 31, ("day", "mday", "dom", "day of month", "dayofmonth")),  # type: ignore[attr-defined]
    "yearday": _Part(pc.day_of_year, 1, 366, ("yday", "doy", "day of year", "dayofyear")),  # type: ignore[attr-defined]
    "weekday": _Part(_weekday(first=1, from_zero=True), 0, 6, _DAYS),
    "isoweekday": _DAY,
    "dow": _Part(_weekday(first=7, from_zero=True), 0, 6, _DAYS),
    "dayofweek": _Part(_weekday(first=7, from_zero=False), 1, 7, _DAYS),
    "weekday_name": _DAY._replace(labels=_WEEK, aliases=_OF_DAYS),
    "weekday_abbr": _DAY._replace(labels=tuple(d[:3] for d in _WEEK), aliases=_OF_DAYS),
    "weekend": _Part(_weekend, 0, 1, ("weekend",), labels=(False, True)),
    "date_key": _Part(_date_key, None, None, ("date key", "datekey", "date id", "dateid", "date sk", "yyyymmdd")),
    "hour": _Part(pc.hour, 0, 23, ("hour", "hr"), of_day=False),  # type: ignore[attr-defined]
    "minute": _Part(pc.minute, 0, 59, ("minute",), of_day=False),  # type: ignore[attr-defined]
    "second": _Part(pc.second, 0, 59, ("second",), of_day=False),  # type: ignore[attr-defined]
}
"""Each part by its name. Weekdays are counted in four ways: Monday is 0 or 1, or Sunday is."""


def spelled(part: str) -> bool:
    """Say whether a part is written as a text or a boolean, and not as a number."""
    return part == "year_month" or bool(PARTS[part].labels)


def written(values: np.ndarray, part: str) -> pa.Array:
    """Return values of a spelled part as they are written; a year and month as `2024-05`.

    Example:
        >>> written(np.array([1, 12]), "month_name").to_pylist(), written(np.array([202405]), "year_month").to_pylist()
        (['January', 'December'], ['2024-05'])
    """
    known = PARTS[part]
    if known.labels:
        return pa.array(known.labels).take(pa.array(np.clip(values, known.least, known.most) - known.least))
    digits = pc.utf8_lpad(pa.array(values).cast(pa.string()), 6, "0")  # type: ignore[attr-defined]
    return pc.replace_substring_regex(digits, r"^(.{4})(.{2})$", r"\1-\2")  # type: ignore[attr-defined]


def read(values: pa.Array, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return `(part int64 (rows,), null bool (rows,))` of what is written so; -1 where it is written otherwise."""
    null, known = np.asarray(values.is_null()), PARTS[part]
    if known.labels:
        found = pc.add(pc.index_in(values, pa.array(known.labels, values.type)), known.least)  # type: ignore[attr-defined]
    else:
        fits = pc.match_substring_regex(values, r"^\d{4}-(0[1-9]|1[0-2])$")  # type: ignore[attr-defined]
        digits = pc.replace_substring(values, "-", "")  # type: ignore[attr-defined]
        found = pc.if_else(fits, digits, None).cast(pa.int64())  # type: ignore[attr-defined]
    return np.where(null, 0, pc.fill_null(found, -1).to_numpy(zero_copy_only=False)).astype(np.int64), null  # type: ignore[attr-defined]


def labels(part: str, ends: tuple[int, int] | None) -> tuple[str, ...] | tuple[bool, ...]:
    """Return all that a spelled part may be written as between two of its values; nothing if it has no ends."""
    if PARTS[part].labels or ends is None:
        return PARTS[part].labels
    years = range(ends[0] // 100, ends[1] // 100 + 1)
    values = np.array([100 * year + month for year in years for month in range(1, 13)])
    return tuple(written(values[(values >= ends[0]) & (values <= ends[1])], part).to_pylist())


def named(column: str, *, as_text: bool = False) -> list[str]:
    """Return the parts that a column may hold by its name: those whose words it ends with, or begins with before `of`.

    Args:
        as_text: return parts that are spelled, and else those that are numbers.

    Example:
        >>> named("ArrivalMonth"), named("month_of_birth"), named("monthly_income"), named("quarter", as_text=True)
        (['month'], ['month'], [], ['quarter_label'])
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", column)
    name = f" {' '.join(words).lower()} "
    found = []
    able = {part: known for part, known in PARTS.items() if spelled(part) == as_text}
    every = {alias for known in able.values() for alias in known.aliases}
    for part, known in able.items():
        ends = [a for a in known.aliases if name.endswith(f" {a} ") or name.startswith(f" {a} of ")]
        if ends and not any(name.endswith(f" {a} ") for a in every if len(a) > max(map(len, ends))):
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
    least, most = (int(known.of(pa.array([end.astype("datetime64[us]")]))[0].as_py()) for end in (low, high))
    return least, most


def moved(moments: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    """Return the moments near to some that have a part; what has no such part stays as it is.

    Args:
        moments: datetime64[us] (rows,).
        values: the part of each, int64 (rows,).
    """
    day, time = moments.astype("datetime64[D]"), moments - moments.astype("datetime64[D]").astype(moments.dtype)
    known = PARTS[part]
    fits = values >= 0 if known.least is None else (values >= known.least) & (values <= known.most)
    if known.of in (_year_month, _date_key):
        fits &= _is_date(values, 8 if part == "date_key" else 6)
    values = np.where(fits, values, of_moments(pa.array([EPOCH], pa.timestamp("us")), part)[0])
    if not known.of_day:
        found = day + _at_clock(time, part, values)
    elif part == "year" or known.of in (_QUARTER.of, _MONTH.of, _year_month):
        found = _in_month(day, part, values) + time
    elif part == "day":
        found = _on_day(day, values) + time
    elif part == "date_key":
        found = _of_digits(values) + time
    else:
        found = _shifted(day, part, values) + time
    return np.where(fits, found.astype(moments.dtype), moments)


def _of_digits(values: np.ndarray) -> np.ndarray:
    """Return days, or other ones where the digits are of none."""
    months = (12 * (values // 10_000 - 1970) + values // 100 % 100 - 1).astype("datetime64[M]")
    return months.astype("datetime64[D]") + (values % 100 - 1) * DAY


def _is_date(values: np.ndarray, digits: int) -> np.ndarray:
    """Say which eight digits are days of the years that dates have, or which six are months of them."""
    near = (values > 0) & (values < 10**digits)  # else six digits made eight may be too large a number
    days = np.where(near, values, 1) if digits == 8 else 100 * np.where(near, values, 0) + 1
    again, _ = of_moments(pa.array(_of_digits(np.where(days >= 1_01_01, days, 1970_01_01))), "date_key")
    return near & (again == days)


def _at_clock(time: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    unit, size = {"hour": ("h", 24), "minute": ("m", 60), "second": ("s", 60)}[part]
    now = (time // np.timedelta64(1, unit)).astype(np.int64) % size
    return time + (values - now) * np.timedelta64(1, unit).astype("timedelta64[us]")


def _in_month(day: np.ndarray, part: str, values: np.ndarray) -> np.ndarray:
    """Return days of another month, as late in it, or its last."""
    months = day.astype("datetime64[M]").astype(np.int64)
    year, month = months // 12, months % 12
    of = PARTS[part].of
    if part == "year":
        year = values - 1970
    elif of is _year_month:
        year, month = values // 100 - 1970, values % 100 - 1
    else:
        month = values - 1 if of is _MONTH.of else 3 * (values - 1) + month % 3
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
    if part == "weekend":  # no other part tells which of its days, or of the others, so they take turns
        weeks, weekday = day.astype(np.int64) // 7, of_moments(pa.array(day), "isoweekday")[0]
        now, values = weekday, np.where(now == values, weekday, np.where(values == 1, 6 + weeks % 2, 1 + weeks % 5))
    ahead = (values - now) % 7
    later, before = day + ahead * DAY, day + (ahead - 7) * np.where(ahead > 0, 1, 0) * DAY
    month = day.astype("datetime64[M]")
    stays, near = [d.astype("datetime64[M]") == month for d in (later, before)], ahead <= 3
    return np.where((near & stays[0]) | ~stays[1], later, before)
