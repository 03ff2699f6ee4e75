"""Lays out the burn-down of a privacy account: the steps, dots and labels that the statement's template draws."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Any

WIDTH, HEIGHT = 1000.0, 100.0
"""The drawing's own units; the page stretches it, and keeps the lines' width."""

MOST_TICKS = 5

YOUNG = timedelta(days=4)
"""A history so short is drawn in the left half; on the right is what the account still allows, if nothing is planned."""

MOST_AHEAD = 12
"""Further releases that are drawn."""


def when(text: Any) -> datetime | None:
    """Read an ISO time, in UTC; None if it is missing or not one."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def day(at: datetime) -> str:
    """Write a date for a person.

    Example:
        >>> day(datetime(2026, 3, 4, tzinfo=UTC))
        '4 Mar 2026'
    """
    return f"{at.day} {at:%b %Y}"


def moment(text: Any) -> str:
    """Write an ISO time for a person; what is none stays as it is."""
    at = when(text)
    return f"{day(at)}, {at:%H:%M} UTC" if at else str(text or "")


def layout(history: list[dict[str, Any]], forecast: dict[str, Any] | None, now: Any) -> dict[str, Any] | None:
    """Lay out an account's history, or return None if there are not two points in time to draw.

    The steps start at the left edge, run flat to `now`, and end there; beyond it lie the forecast's dates only. A young
    account without planned dates has the time up to `now` in its left half. In the other one, which has no dates, are
    further releases that each take as much as the last, so that its first day says how long it lasts.
    """
    points: list[tuple[datetime, float, dict[str, Any]]] = sorted(
        ((at, _share(h), h) for h in history if (at := when(h.get("at")))), key=lambda p: p[0]
    )
    dates = sorted(at for text in (forecast or {}).get("dates") or [] if (at := when(text)))
    if not points or len(points) + len(dates) < 2:
        return None
    refusal_date = when((forecast or {}).get("first_refused"))
    first, newest = points[0][0], points[-1][0]
    today: datetime = max(newest, when(now) or newest)
    last: datetime = max([today, *dates, *([refusal_date] if refusal_date else [])])
    is_young = last == today and today - first < YOUNG
    span, wide = max((last - first).total_seconds(), 1.0), WIDTH / 2 if is_young else WIDTH

    def x(at: datetime) -> float:
        return round(wide * max(0.0, (at - first).total_seconds()) / span, 1)

    end = wide if is_young else x(today)
    fits = _fitting(dates, forecast or {}, refusal_date)
    line, raises = _steps([(x(at), share, h) for at, share, h in points], end)
    return {
        "line": line,
        "area": f"{line}V{HEIGHT:g}H0Z",
        "raises": raises,
        "fits": _dots(x(at) for at in fits),
        "refused": _dots(x(at) for at in dates[len(fits) :]),
        "ahead": _ahead([(share, h) for _, share, h in points], end) if is_young else "",
        "now": end / 10 if is_young or last > today else None,
        "out": {"x": x(refusal_date) / 10, "day": day(refusal_date)} if refusal_date else None,
        "left": {"x": end / 10, "y": _y(points[-1][1]), "share": points[-1][1]},
        "ticks": _ticks(first, last, lambda at: x(at) / 10),
        "first": day(first),
        "last": day(today),
    }


def _fitting(dates: list[datetime], forecast: dict[str, Any], refusal_date: datetime | None) -> list[datetime]:
    """Return the planned dates before the first refusal."""
    if refusal_date is not None:
        return [at for at in dates if at < refusal_date]
    return dates[: forecast.get("fits", 0)]


def drawing(chart: dict[str, Any], limit: str, wide: int = 640, high: int = 220) -> str:
    """Return what `layout` laid out as one SVG picture of its own, with its words, for light and dark pages.

    Args:
        limit: the account's limit in words, such as 'ε 6'.
        wide, high: size in pixels.
    """
    left, top, w, h = 52, 30, wide - 76, high - 64
    labels = [
        f'<text x="{left - 8}" y="{top + h * (1 - s) + 4:g}" text-anchor="end">{s:.0%}</text>' for s in (0, 0.5, 1)
    ]
    for tick in chart["ticks"]:
        at = f'x="{left + w * tick["x"] / 100:g}" y="{top + h + 20}" text-anchor="{_anchor(tick["x"])}"'
        labels.append(f"<text {at}>{escape(tick['label'])}</text>")
    if chart["ahead"]:
        labels.append(
            f'<text x="{left + w}" y="{top + h + 20}" text-anchor="end">further releases like the last</text>'
        )
    ahead = f'<path class="ahead" d="{chart["ahead"]}"/>' if chart["ahead"] else ""
    labels.append(f'<text x="{left + w}" y="{top - 10}" text-anchor="end">limit, {escape(limit)}</text>')
    labels.append(f'<text x="{left}" y="{top - 10}">left of the account</text>')
    raises = "".join(f'<path class="up" d="{up["path"]}"/>' for up in chart["raises"])
    dots = "".join(f'<path class="{c}" d="{d}"/>' for c, d in (("dot", chart["fits"]), ("no", chart["refused"])) if d)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img">'
        f"<title>Left of the account, {escape(chart['first'])} to {escape(chart['last'])}: "
        f"{math.floor(100 * chart['left']['share'])} %</title><style>{_STYLE}</style>"
        f'<rect class="page" width="{wide}" height="{high}" rx="8"/>'
        f'<svg x="{left}" y="{top}" width="{w}" height="{h}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'preserveAspectRatio="none" overflow="visible"><path class="grid" d="M0 0H1000M0 50H1000M0 100H1000"/>'
        f'<path class="area" d="{chart["area"]}"/><path class="line" d="{chart["line"]}"/>{ahead}{raises}{dots}</svg>'
        f"{''.join(labels)}</svg>"
    )


_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#596273}.page{fill:#fff}path{fill:none;vector-effect:non-scaling-stroke}"
    ".ahead{stroke:#2563eb;stroke-width:1.5;stroke-dasharray:4 4}"
    ".grid{stroke:#e1e5eb}.line{stroke:#2563eb;stroke-width:2}.area{fill:#2563eb;fill-opacity:.12}"
    ".up{stroke:#14804a;stroke-width:3}.dot,.no{stroke:#2563eb;stroke-width:8;stroke-linecap:round}.no{stroke:#c02626}"
    "@media(prefers-color-scheme:dark){text{fill:#98a2b3}.page{fill:#171b22}.grid{stroke:#2a303a}.line,.dot,.ahead{stroke:#6ea8fe}"
    ".area{fill:#6ea8fe}.up{stroke:#4ade94}.no{stroke:#ff8a80}}"
)


def _anchor(x: float) -> str:
    return "start" if x < 6 else "end" if x > 94 else "middle"


def _share(point: dict[str, Any]) -> float:
    share = point.get("left_share")
    return min(1.0, max(0.0, share)) if isinstance(share, (int, float)) and math.isfinite(share) else 0.0


def _y(share: float) -> float:
    return round(HEIGHT * (1 - share), 2)


def _dots(places: Any) -> str:
    """Return a path of points: with round caps and a width of their own, they stay round however it is stretched."""
    return "".join(f"M{x:g} {HEIGHT:g}h0" for x in places)


def _steps(points: list[tuple[float, float, dict[str, Any]]], end: float) -> tuple[str, list[dict[str, Any]]]:
    """Return the path of the steps, and each raise as the line it goes up by."""
    line, y, raises = f"M0 {_y(points[0][1]):g}", _y(points[0][1]), []
    for x, share, point in points[1:]:
        line += f"H{x:g}V{_y(share):g}"
        if str(point.get("what")).startswith("raise"):
            raises.append({"path": f"M{x:g} {y:g}V{_y(share):g}", "x": x / 10, "y": _y(share)})
        y = _y(share)
    return f"{line}H{end:g}", raises


def _ahead(points: list[tuple[float, dict[str, Any]]], start: float) -> str:
    """Return the path of further releases that each take as much as the last; empty if none was made or none fits."""
    taken = [
        before[0] - after[0] for before, after in pairwise(points) if str(after[1].get("what")).startswith("release")
    ]
    left = points[-1][0]
    count = min(MOST_AHEAD, int(left / taken[-1] + 1e-9)) if taken and taken[-1] > 0 else 0
    if not count:
        return ""
    places = [round(start + (WIDTH - start) * (i + 1) / (count + 1), 1) for i in range(count)]
    steps = "".join(f"H{x:g}V{_y(max(0.0, left - (i + 1) * taken[-1])):g}" for i, x in enumerate(places))
    return f"M{start:g} {_y(left):g}{steps}H{WIDTH:g}"


def _ticks(first: datetime, last: datetime, x: Any) -> list[dict[str, Any]]:
    """Return at most `MOST_TICKS` round dates; the two ends, with the hour, of a history of a few days."""
    if last - first < YOUNG:
        ends = [first] if last - first < timedelta(minutes=1) else [first, last]
        return [{"x": x(at), "label": f"{at.day} {at:%b %H:%M}"} for at in ends]
    if last - first < timedelta(days=75):
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        days = [midnight + timedelta(days=i) for i in range((last - midnight).days + 1)]
        stride = next(k for k in (1, 2, 7, 14, 28) if len(days[::k]) <= MOST_TICKS)
        return [{"x": x(at), "label": f"{at.day} {at:%b}"} for at in days[::stride]]
    months = []
    year, month = first.year, first.month
    while (at := datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)) <= last:
        months.append(at)
        year, month = at.year, at.month
    for stride in (1, 2, 3, 6, *range(12, 12 * 200, 12)):
        ticks = [at for at in months if (12 * at.year + at.month - 1) % stride == 0]
        if len(ticks) <= MOST_TICKS:
            return [{"x": x(at), "label": f"{at:%b %Y}"} for at in ticks]
    return []
