"""What a released profile suggests that a person declare: kinds, categories and round bounds, each with a remark.

Only storage types and noisy shares are looked at, so a suggestion costs nothing beyond the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile

SUPPRESSED = 0.9
"""Share of suppressed text from which a column has next to nothing to publish."""

FEW, FEW_SHARE = 20, 0.98
"""An integer column of at most so many released values with at least that share is a scale, not a number line."""

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
        return Suggestion({"kind": "excluded"}, ("holds nothing but nulls",))
    if column.kind.numeric:
        _number(draft, column, profile, population)
    elif column.kind.categorical:
        _category(draft, profile)
    if profile.null_rate > 0:
        draft.facts["nulls"] = str(column.nulls)
        draft.remarks.append(f"{_percent(profile.null_rate)} null: keep, mean, median, mode, constant or drop")
    if len(profile.values) == 1 and profile.weights[0] >= ONE * _present(profile):
        only = profile.values[0]
        shown = column.kind.shown(only) if column.kind.numeric else only
        draft.remarks.append(f"one value only: {{kind: constant, constant: {shown}}} leaves nothing to learn")
    return Suggestion(draft.facts, tuple(draft.remarks))


def _category(draft: _Draft, profile: ColumnProfile) -> None:
    present = _present(profile)
    if not profile.values or profile.other >= SUPPRESSED * present:
        draft.facts["kind"] = "excluded"
        draft.remarks.append("nearly all of it is too rare to be named; if it is a key, declare kind: identifier")
        return
    draft.facts["categories"] = list(profile.values)
    shares = [f"{v} {_percent(w)}" for v, w in zip(profile.values, profile.weights, strict=True)]
    draft.remarks.append(", ".join(shares[:FEW]) + (f" and {len(shares) - FEW} more" if len(shares) > FEW else ""))
    if profile.other:
        draft.remarks.append(f"{_percent(profile.other)} too rare to be named; other: draw keeps their share")


def _number(draft: _Draft, column: Column, profile: ColumnProfile, population: int) -> None:
    present = _present(profile)
    released = math.fsum(profile.weights)
    if column.kind.countable and 1 < len(profile.values) <= FEW and released >= FEW_SHARE * present:
        cells = sorted(zip(profile.values, profile.weights, strict=True))
        draft.facts |= {"kind": "ordinal", "categories": [str(round(v)) for v, _ in cells]}
        draft.remarks.append(", ".join(f"{round(v)} {_percent(w)}" for v, w in cells))
        draft.remarks.append("few values: a scale; kind: integer keeps it a number line")
        return
    low, high = profile.lower, profile.upper
    if low is None or high is None:
        return
    draft.facts |= _bounds(column, low, high)
    if profile.values:
        top = sorted(zip(profile.weights, profile.values, strict=True), reverse=True)[:3]
        draft.remarks.append("often " + ", ".join(f"{column.kind.shown(v)} {_percent(w)}" for w, v in top))
    if column.kind.fractional and profile.decimals is not None and not pa.types.is_decimal(column.arrow_type):
        draft.facts["decimals"] = profile.decimals
    if "tz=" in column.storage:
        draft.facts["zone"] = column.storage.partition("tz=")[2].rstrip("]")
    if column.kind.countable and not profile.values and abs((high - low) / population - 1) < 0.25:
        draft.remarks.append("looks like a running number; if it is a key, declare kind: identifier")


def _bounds(column: Column, low: float, high: float) -> dict[str, Any]:
    try:
        return column.kind.suggested_bounds(low, high)
    except (ValueError, OverflowError):  # beyond the years of a calendar; the grid's ends hold then
        return {}


def _present(profile: ColumnProfile) -> float:
    return 1 - profile.null_rate


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"
