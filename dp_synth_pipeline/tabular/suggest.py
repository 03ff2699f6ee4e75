"""What a released profile suggests that a person declare: kinds, categories and round bounds, each with a remark.

Only storage types and noisy shares are looked at, so a suggestion costs nothing beyond the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.tabular.facts import Column
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profile import ColumnProfile

UNNAMED = 0.9
"""Share of unnamed text from which a column has next to nothing to publish."""

FEW, FEW_SHARE = 20, 0.98
"""An integer column of at most so many named values with at least that share is a scale, not a number line."""

ONE = 0.99
"""Share of one value from which a column looks constant."""


@dataclass(frozen=True)
class Suggestion:
    """What to declare about one column.

    Attributes:
        facts: as `columns: {NAME: ...}` takes them: text, numbers and lists.
        remarks: what a person should know before they edit it.
    """

    facts: dict[str, Any]
    remarks: tuple[str, ...] = ()


@dataclass
class _Draft:
    facts: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def suggest(column: Column, profile: ColumnProfile, population: int) -> Suggestion:
    """Return what the profile of a column suggests that a person declare.

    Args:
        population: the noisy number of units, to tell running numbers.
    """
    # Times of day are told from the cells themselves; declared as durations, a CSV's would be read as lengths of time.
    draft = _Draft({} if pa.types.is_time(column.arrow_type) else {"kind": str(column.kind)})
    if profile.null_rate >= 1:
        return Suggestion({"kind": str(Kind.EXCLUDED)}, ("holds nothing but nulls",))
    if column.kind.numeric:
        _number(draft, column, profile, population)
    elif column.kind.named:
        _category(draft, profile)
    if profile.null_rate > 0:
        draft.facts["nulls"] = str(column.nulls)
        draft.remarks.append(f"{_percent(profile.null_rate)} null: keep, mean, median, mode, constant or drop")
    if len(profile.values) == 1 and profile.weights[0] >= ONE * _present(profile):
        only = profile.values[0]
        shown = _shown(column, only) if column.kind.numeric else only
        draft.remarks.append(f"one value only: {{kind: constant, constant: {shown}}} leaves nothing to learn")
    return Suggestion(draft.facts, tuple(draft.remarks))


def _category(draft: _Draft, profile: ColumnProfile) -> None:
    present = _present(profile)
    if not profile.values or profile.other >= UNNAMED * present:
        draft.facts["kind"] = str(Kind.EXCLUDED)
        draft.remarks.append("nearly all of it is too rare to be named; if it is a key, declare kind: identifier")
        return
    draft.facts["categories"] = list(profile.values)
    shares = [f"{v} {_percent(w)}" for v, w in zip(profile.values, profile.weights, strict=True)]
    draft.remarks.append(", ".join(shares[:FEW]) + (f" and {len(shares) - FEW} more" if len(shares) > FEW else ""))
    if profile.other:
        draft.remarks.append(f"{_percent(profile.other)} too rare to be named; other: draw keeps their share")


def _number(draft: _Draft, column: Column, profile: ColumnProfile, population: int) -> None:
    present = _present(profile)
    named = math.fsum(profile.weights)
    if column.kind is Kind.INTEGER and 1 < len(profile.values) <= FEW and named >= FEW_SHARE * present:
        cells = sorted(zip(profile.values, profile.weights, strict=True))
        draft.facts |= {"kind": str(Kind.ORDINAL), "categories": [str(round(v)) for v, _ in cells]}
        draft.remarks.append(", ".join(f"{round(v)} {_percent(w)}" for v, w in cells))
        draft.remarks.append("few values: a scale; kind: integer keeps it a number line")
        return
    low, high = profile.lower, profile.upper
    if low is None or high is None:
        return
    draft.facts |= _bounds(column, low, high)
    if profile.values:
        top = sorted(zip(profile.weights, profile.values, strict=True), reverse=True)[:3]
        draft.remarks.append("often " + ", ".join(f"{_shown(column, v)} {_percent(w)}" for w, v in top))
    if column.kind is Kind.DECIMAL and profile.decimals is not None and not pa.types.is_decimal(column.arrow_type):
        draft.facts["decimals"] = profile.decimals
    if "tz=" in column.storage:
        draft.facts["zone"] = column.storage.partition("tz=")[2].rstrip("]")
    if column.kind is Kind.INTEGER and not profile.values and abs((high - low) / population - 1) < 0.25:
        draft.remarks.append("looks like a running number; if it is a key, declare kind: identifier")


def _bounds(column: Column, low: float, high: float) -> dict[str, Any]:
    try:
        if column.kind in (Kind.DATE, Kind.DATETIME):
            return _calendar(_day(column, low), _day(column, high), to_midnight=column.kind is Kind.DATETIME)
        if column.kind is Kind.DURATION:
            step = 3_600_000_000 if high - low >= 24 * 3_600_000_000 else 60_000_000
            return {"lower": _length(math.floor(low / step) * step), "upper": _length(math.ceil(high / step) * step)}
    except (ValueError, OverflowError):  # beyond the years of a calendar; the grid's ends hold then
        return {}
    lower, upper = outward(low, high)
    whole = column.kind is Kind.INTEGER or (lower.is_integer() and upper.is_integer())
    return {"lower": int(lower), "upper": int(upper)} if whole else {"lower": lower, "upper": upper}


def outward(low: float, high: float) -> tuple[float, float]:
    """Round an interval outward to two digits of its length.

    Example:
        >>> outward(17, 90.5), outward(-3.172, 99_412.7)
        ((17.0, 91.0), (-1000.0, 100000.0))
    """
    length = high - low or abs(high) or 1.0
    exponent = math.floor(math.log10(length)) - 1
    step = 10.0**exponent
    digits = max(0, -exponent)
    return round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)


def _calendar(first: date, last: date, *, to_midnight: bool) -> dict[str, str]:
    """Round outward to whole years, or to whole months within two years.

    Args:
        to_midnight: the upper end is the midnight that ends the last day, not that day.
    """
    if (last - first).days > 730:
        start, end = date(first.year, 1, 1), date(last.year, 12, 31)
    else:
        start = first.replace(day=1)
        end = date(last.year + last.month // 12, last.month % 12 + 1, 1) - timedelta(days=1)
    return {"lower": start.isoformat(), "upper": (end + timedelta(days=int(to_midnight))).isoformat()}


def _day(column: Column, value: float) -> date:
    if column.kind is Kind.DATE:
        return date(1970, 1, 1) + timedelta(days=math.floor(value))
    return _moment(value).date()


def _moment(value: float) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=round(value))


def _length(microseconds: float) -> str:
    return str(pd.Timedelta(microseconds=round(microseconds)))


def _shown(column: Column, value: float) -> str:
    if column.kind is Kind.DATE:
        return _day(column, value).isoformat()
    if column.kind is Kind.DATETIME:
        return _moment(value).isoformat(sep=" ")[:19]
    return _length(value) if column.kind is Kind.DURATION else f"{float(value):.10g}"


def _present(profile: ColumnProfile) -> float:
    return 1 - profile.null_rate


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"
