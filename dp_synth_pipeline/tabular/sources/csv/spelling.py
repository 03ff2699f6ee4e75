"""How a CSV writes its dates and times: public lists of spellings, into which each cell falls by itself.

A cell's *day* and its *clock* have a spelling each. The spelling of a day says in which shape it is, in which orders of day,
month and year it can be read, and whether leading zeros are written. That of a clock says what stands before it, how exact
it is, and which suffix for UTC follows it. A column's format is chosen from noisy counts of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.sql import literal

NONE = "none"
"""The spelling of what is no day, or no clock."""

FITS = 0.99
"""The part of a column's cells that a type or a format must fit."""

EITHER, PADDED, BARE, MIXED = range(4)
"""Whether numbers below ten are written with a leading zero: cannot be told, yes, no, now this and now that."""


@dataclass(frozen=True)
class Shape:
    """One shape of a day.

    Attributes:
        pattern: the regular expression of the whole day.
        orders: formats by which it can be read, the one to be preferred first.
        short: the regular expression whose first group is the part in which a number below ten may be padded.
    """

    pattern: str
    orders: tuple[str, ...]
    short: str


def _shapes() -> list[Shape]:
    shapes = []
    for mark in "-/.":
        sep = f"[{mark}]"
        month_first = [] if mark == "." else [f"%m{mark}%d{mark}%Y"]  # a dot is day first
        forms = {
            rf"\d{{4}}{sep}\d{{1,2}}{sep}\d{{1,2}}": [f"%Y{mark}%m{mark}%d"],
            rf"\d{{1,2}}{sep}\d{{1,2}}{sep}\d{{4}}": [f"%d{mark}%m{mark}%Y", *month_first],
            rf"\d{{1,2}}{sep}\d{{1,2}}{sep}\d{{2}}": [
                *(order.replace("%Y", "%y") for order in (f"%d{mark}%m{mark}%Y", *month_first)),
                f"%y{mark}%m{mark}%d",
            ],
        }
        for pattern, orders in forms.items():
            short = rf"^\d+{sep}(.*)$" if orders[0].startswith("%Y") else rf"^(.*){sep}\d+$"
            shapes.append(Shape(pattern, tuple(orders), short))
    return [*shapes, Shape(r"\d{1,2}-[A-Z][a-z]{2}-\d{4}", ("%d-%b-%Y",), r"^(\d+)-.*$")]


SHAPES = _shapes()
CERTAIN = tuple(shape.orders[0] for shape in SHAPES if len(shape.orders) == 1)
"""The orders of shapes that can be read in one way only."""

DAYS = [
    NONE,
    *(
        f"{i} {padding} {orders}"
        for i, shape in enumerate(SHAPES)
        for padding in range(4)
        for orders in range(1, 2 ** len(shape.orders))
    ),
]
"""The spellings of days: the shape's number, padding, and a bit for each order by which the day can be read."""

BETWEEN = ("", " ", "T")
PARTS = ("%M", "%M:%S", "%M:%S.%g", "%M:%S.%f", "")
"""What follows the hour; the last for a fraction of another length, which no format writes."""
ZONES = ("", *formats.UTC, "other")
CLOCK_SPELLINGS = [
    NONE, *(" ".join(map(str, c)) for c in product(range(3), range(3), range(5), range(2), range(len(ZONES))))
]  # fmt: skip
"""The spellings of clocks: what stands before it, padding, what follows the hour, 24 hours or AM and PM, and the zone."""

CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%g", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
TIME = r"\d{1,2}:\d{2}(:\d{2}([.]\d+)?)?( [AP]M)?"
ZONE = r"(Z|[-+]\d{2}(:?\d{2})?)"


def day_of(cell: str) -> str:
    """Write the SQL of the part of a cell that is its day; empty for a time of day."""
    return rf"regexp_extract({cell}, '^([^T :]+)([T ].*)?$', 1)"


def rest_of(cell: str) -> str:
    """Write the SQL of the part of a cell that follows its day."""
    after_day = f"regexp_extract({cell}, '^[^T :]+([T ].*)$', 1)"
    return rf"CASE WHEN regexp_full_match({cell}, '\d{{1,2}}:.*') THEN {cell} ELSE {after_day} END"


def is_day(day: str) -> str:
    """Write a condition that holds where `day` is a day of the calendar in one of the shapes."""
    readings = ", ".join(literal(order) for shape in SHAPES for order in shape.orders)
    anyhow = "|".join(f"({shape.pattern})" for shape in SHAPES)
    return f"(regexp_full_match({day}, {literal(anyhow)}) AND try_strptime({day}, [{readings}]) IS NOT NULL)"


def is_time(text: str) -> str:
    """Write a condition that holds where `text` is a time of day."""
    readings = ", ".join(map(literal, CLOCKS))
    return (
        f"(regexp_full_match({text}, {literal(TIME)}) AND "
        f"(TRY_CAST({text} AS TIME) IS NOT NULL OR try_strptime({text}, [{readings}]) IS NOT NULL))"
    )


def day_spelling(cell: str) -> str:
    """Write the SQL of the spelling of a cell's day, one of `DAYS`."""
    day = day_of(cell)
    cases = []
    for i, shape in enumerate(SHAPES):
        short = f"regexp_extract({day}, {literal(shape.short)}, 1)"
        padded = rf"regexp_matches({short}, '(^|[^0-9])0[0-9]([^0-9]|$)')::INT"
        bare = rf"regexp_matches({short}, '(^|[^0-9])[0-9]([^0-9]|$)')::INT"
        bits = " + ".join(
            f"{2**j} * (try_strptime({day}, {literal(order)}) IS NOT NULL)::INT" for j, order in enumerate(shape.orders)
        )
        cases.append(
            f"WHEN regexp_full_match({day}, {literal(shape.pattern)}) AND {bits} > 0 "
            f"THEN concat('{i} ', {padded} + 2 * {bare}, ' ', {bits})"
        )
    return f"CASE {' '.join(cases)} ELSE '{NONE}' END"


def clock_spelling(cell: str) -> str:
    """Write the SQL of the spelling of a cell's clock, one of `CLOCK_SPELLINGS`."""
    rest = rest_of(cell)
    time = f"regexp_extract({rest}, '^[T ]?(.*?){ZONE}?$', 1)"
    zone = f"regexp_extract({rest}, '^[T ]?.*?({ZONE})?$', 1)"
    fraction = f"length(regexp_extract({time}, '[.]([0-9]+)', 1))"
    seconds = rf"regexp_matches({time}, '^\d+:\d+:\d+')"
    hour = f"regexp_extract({time}, '^[0-9]+')"
    zones = " ".join(f"WHEN {literal(z)} THEN {i}" for i, z in enumerate(ZONES[:-1]))
    parts = (
        f"CASE left({rest}, 1) WHEN ' ' THEN 1 WHEN 'T' THEN 2 ELSE 0 END",
        f"CASE WHEN length({hour}) = 1 THEN {BARE} WHEN {hour} LIKE '0%' THEN {PADDED} ELSE {EITHER} END",
        f"CASE WHEN NOT {seconds} THEN 0 ELSE CASE {fraction} WHEN 0 THEN 1 WHEN 3 THEN 2 WHEN 6 THEN 3 ELSE 4 END END",
        f"({time} LIKE '%M')::INT",
        f"CASE {zone} {zones} ELSE {len(ZONES) - 1} END",
    )
    return (
        f"CASE WHEN regexp_full_match({time}, {literal(TIME)}) THEN concat_ws(' ', {', '.join(parts)}) "
        f"ELSE '{NONE}' END"
    )


def day_orders(seen: Mapping[str, float]) -> list[str]:
    """Return the orders that read nearly all days; of several, such as those of `04/05/2013`, day first comes first.

    Args:
        seen: noisy counts of spellings, without those that noise would explain.
    """
    days = _days(seen)
    least = FITS * sum(days.values())
    return [
        order
        for i, shape in enumerate(SHAPES)
        for j, order in enumerate(shape.orders)
        if days and _sum(days, lambda s, i=i, j=j: s[0] == i and s[2] >> j & 1 == 1) >= least
    ]


def padded(order: str, seen: Mapping[str, float]) -> str:
    """Return an order of day, month and year with leading zeros, or without if more days are written so."""
    days = _days(seen)
    bare = _sum(days, lambda s: s[1] == BARE) > _sum(days, lambda s: s[1] == PADDED)
    return order.replace("%m", "%-m").replace("%d", "%-d") if bare else order


def _days(seen: Mapping[str, float]) -> dict[tuple[int, ...], float]:
    return {tuple(map(int, s.split())): n for s, n in seen.items() if s != NONE}


def clock_format(seen: Mapping[str, float]) -> str | None:
    """Return the format that most clocks are written in, with what stands before it; None if no format writes it."""
    clocks = {tuple(map(int, s.split())): n for s, n in seen.items() if s != NONE}

    def most(place: int, default: int) -> int:
        totals: dict[int, float] = {}
        for spelling, count in clocks.items():
            totals[spelling[place]] = totals.get(spelling[place], 0) + count
        return max(sorted(totals), key=totals.__getitem__, default=default)

    between, part, half, zone = most(0, 1), most(2, 1), most(3, 0), most(4, 0)
    if not PARTS[part] or ZONES[zone] == "other":
        return None
    bare = _sum(clocks, lambda s: s[1] == BARE) > _sum(clocks, lambda s: s[1] == PADDED)
    hour = f"%{'-' if bare else ''}{'I' if half else 'H'}"
    return f"{BETWEEN[between]}{hour}:{PARTS[part]}{' %p' if half else ''}{ZONES[zone]}"


def _sum(counts: Mapping[tuple[int, ...], float], holds: Callable[[tuple[int, ...]], bool]) -> float:
    return sum(n for spelling, n in counts.items() if holds(spelling))
