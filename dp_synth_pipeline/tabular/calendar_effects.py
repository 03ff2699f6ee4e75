"""Calendar effects: on which weekdays, days of a month and hours dates fall, where released cells are wider than those.

A column of two years has cells of days, and one of a century has cells of months. Spread evenly within them, visits would
be on Sundays and payments at night. So the days of a week, those of a month and the hours of a day are each counted with
noise. A cell's days then take so large a part of what it holds as their weekday and their day of the month have it, and a
day's hours likewise. No date leaves its cell, so no released share is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np

FIRST_OF_YEAR, LAST_OF_MONTH = 0, 31
"""Cells of the days of a month: that of 1 January, which people write who know the year alone, and the last day of each."""

MIDNIGHT = 24
"""Cell after the hours: of what is at midnight, which people write who know the day alone."""

CELLS: Mapping[str, int] = {"weekdays": 7, "days": LAST_OF_MONTH + 1, "hours": MIDNIGHT + 1}
"""Cells of each histogram: Monday first; 1 January, days 1 to 30 before a month's last one, and that; hours and midnight."""

BY_CHANCE = 1e-3
"""Chance at which noise and sampling alone make an effect that is believed in."""

SURE = 3.0
"""Deviations of noise that a class falls short of which holds few dates or none: such classes are taken as alike, and as
empty if all together fall short of it."""

ROUNDS = 30
"""Times that weights are fitted to one histogram after the other."""

CYCLE = 10_227
"""Days of the 28 years after which weekdays fall on the same days of a month again."""

MOST_PIECES = 1_000_000
"""Days or hours in a column's cells up to which effects are found: some 114 years of hours."""

LEAST = 1e-6
"""Weight that every day and hour has, at least, so that cells of nothing else keep what they hold."""


@dataclass(frozen=True)
class CalendarEffects:
    """How many times as likely as others dates of each class are, where cells hold several; empty for no effect.

    Attributes:
        weekdays: (7,) weights, Monday first.
        days: (32,) of 1 January, of days 1 to 30 before the last one of their month, and of that.
        hours: (24,) of hours of the day, in UTC.
    """

    weekdays: tuple[float, ...] = ()
    days: tuple[float, ...] = ()
    hours: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        """Say whether there is any effect."""
        return any(astuple(self))

    @classmethod
    def from_dict(cls, facts: Mapping[str, Sequence[float]]) -> Self:
        """Return the effects that `asdict` wrote."""
        return cls(**{name: tuple(float(w) for w in weights) for name, weights in facts.items()})

    def of_days(self, days: np.ndarray) -> np.ndarray:
        """Return the weight of each day, float64 (days,), by its number since 1970-01-01, int64 (days,)."""
        weights = np.ones(len(days))
        for name in ("weekdays", "days"):
            if found := getattr(self, name):
                weights *= np.array(found)[_class_of_days(name, days)]
        return np.maximum(weights, LEAST)


class Placement:
    """Places dates within cells as calendar effects have it.

    Args:
        effects: how likely days and hours are.
        low, high: all cells that may hold dates, [low, high) on the number line, float64 (cells,).
        day: length of a day on it.
    """

    def __init__(self, effects: CalendarEffects, low: np.ndarray, high: np.ndarray, day: float) -> None:
        wide = high > low
        self._day, self._first = day, int(np.floor(low[wide].min() / day)) if wide.any() else 0
        end = int(np.ceil(high[wide].max() / day)) if wide.any() else 1
        self._weights = effects.of_days(np.arange(self._first, end))
        self._upto = np.append(0.0, np.cumsum(self._weights))
        hours = np.maximum(effects.hours or np.ones(MIDNIGHT), LEAST)
        self._hours = np.append(0.0, np.cumsum(hours) / hours.sum())

    def placed(self, low: np.ndarray, high: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Return a point of each cell, float64 (rows,).

        Args:
            low, high: the cell of each row, [low, high).
            within: the share of the cell's weight that lies before it, float64 (rows,) in [0, 1).
        """
        before = self._mass(low)
        target = before + within * (self._mass(high) - before)
        day = np.clip(np.searchsorted(self._upto, target, side="right") - 1, 0, len(self._weights) - 1)
        share = np.clip((target - self._upto[day]) / self._weights[day], 0, 1)
        hour = np.interp(share, self._hours, np.linspace(0, 1, MIDNIGHT + 1))
        point = (self._first + day + hour) * self._day
        return np.clip(point, low, np.maximum(low, np.nextafter(high, -np.inf)))

    def likely(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return how many times as likely as on an average dates of each cell are; of a point, of its whole day."""
        wide = high > low
        between = (self._mass(high) - self._mass(low)) / np.where(wide, (high - low) / self._day, 1)
        day = np.clip(np.floor(low / self._day).astype(np.int64) - self._first, 0, len(self._weights) - 1)
        return np.where(wide, between, self._weights[day]) / self._weights.mean()

    def _mass(self, x: np.ndarray) -> np.ndarray:
        """Return the weight of all days and hours before each point."""
        days = x / self._day - self._first
        whole = np.clip(np.floor(days).astype(np.int64), 0, len(self._weights) - 1)
        hour = np.interp(days - whole, np.linspace(0, 1, MIDNIGHT + 1), self._hours)
        return self._upto[whole] + self._weights[whole] * hour


def count(x: np.ndarray, day: float, names: Sequence[str]) -> list[np.ndarray]:
    """Count dates in the cells of each named histogram, int64 (its `CELLS`,): each date counts once in each.

    Args:
        x: points of the number line, float64 (rows,).
        day: length of a day on it.
    """
    days = np.floor(x / day).astype(np.int64)
    return [np.bincount(_classes(name, days, x, day), minlength=CELLS[name]).astype(np.int64) for name in names]


def hours(counted: np.ndarray, *, midnights: bool) -> np.ndarray:
    """Return the counts of 24 hours, of which the first has what is at midnight unless that is drawn apart.

    Args:
        counted: of hours and of midnight, (25,).
        midnights: whether what is at midnight is drawn as a day without an hour.
    """
    found = counted[:MIDNIGHT].astype(float)
    found[0] += 0 if midnights else counted[MIDNIGHT]
    return found


def fitted(
    counts: Mapping[str, np.ndarray],
    noise: float,
    bins: tuple[np.ndarray, np.ndarray, np.ndarray],
    day: float,
    released: np.ndarray | Sequence[int] = (),
) -> CalendarEffects | None:
    """Return the effects at which cells hold as many dates of each class as counted; None if there is none. Free.

    An effect is one if chance hardly makes it, and each class is moved towards no effect by the part of what is seen that
    noise explains (James and Stein, 1961).

    Args:
        counts: noisy counts by histogram, of dates in bins alone; of hours as `hours` returns them.
        noise: standard deviation of each count.
        bins: low and high ends of the released cells on the number line, and what each holds, float64 (bins,) each.
        day: length of a day on the number line.
        released: days of which nobody is in a bin, by their number since 1970-01-01: each was released by itself.
    """
    by_hour = "hours" in counts
    found = _pieces(bins[0], bins[1], day / MIDNIGHT if by_hour else day)
    if found is None or not bins[2].sum() > 0:
        return None
    number, which, length = found
    days = number // MIDNIGHT if by_hour else number
    pieces = _Pieces(
        {name: number % MIDNIGHT if name == "hours" else _class_of_days(name, days) for name in counts},
        which,
        np.where(np.isin(days, released), 0.0, length),
        bins[2] / bins[2].sum(),
    )
    targets = {}
    for name, counted in counts.items():
        target = _target(counted, noise, pieces.held(name, len(counted), {}))
        if target is not None:
            targets[name] = target
    weights = pieces.fitted(targets)
    return CalendarEffects(**weights) if weights else None


class _Pieces(NamedTuple):
    """The days, or hours, of which cells consist.

    Attributes:
        classes: the class of each in each histogram, int64 (pieces,).
        which: the cell that each is of, int64 (pieces,).
        length: how much of a day, or hour, it is, float64 (pieces,).
        mass: what each cell holds, float64 (cells,).
    """

    classes: Mapping[str, np.ndarray]
    which: np.ndarray
    length: np.ndarray
    mass: np.ndarray

    def held(self, name: str, cells: int, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what pieces of each class of a histogram hold if dates fall on them by these weights, float64 (cells,)."""
        part = self.length.copy()
        for other, found in weights.items():
            part *= np.maximum(found, LEAST)[self.classes[other]]
        share = part / np.maximum(np.bincount(self.which, part), 1e-300)[self.which]
        return np.bincount(self.classes[name], self.mass[self.which] * share, minlength=cells)

    def fitted(self, targets: Mapping[str, np.ndarray]) -> dict[str, tuple[float, ...]]:
        """Return the weights at which classes hold their targets, by iterative proportional fitting.

        All are fitted together, since a cell may be narrower than a week.
        """
        weights = {name: np.ones(len(target)) for name, target in targets.items()}
        for _ in range(ROUNDS):
            for name, target in targets.items():
                held = self.held(name, len(target), weights)
                weights[name] = weights[name] * np.divide(target, held, out=np.ones(len(held)), where=held > 0)
        return {name: tuple(round(float(x), 4) for x in w / w.mean()) for name, w in weights.items()}


def _target(counted: np.ndarray, noise: float, even: np.ndarray) -> np.ndarray | None:
    """Return the share of each class that is believed in, or None if chance explains what differs from no effect.

    Args:
        counted: noisy counts of each class.
        even: its share if there is no effect; classes of which no cell has any day have none.
    """
    able, total = even > 0, float(counted.sum())
    if able.sum() < 2 or total <= 0:
        return None
    excess = counted[able] - total * even[able]
    variance = noise**2 + total * even[able]
    seen = float((excess**2 / variance).sum())
    if seen <= _by_chance(int(able.sum()) - 1):
        return None
    target = np.zeros(len(even))
    target[able] = np.maximum(even[able] + (1 - (able.sum() - 1) / seen) * excess / total, 0)
    few = able & (counted < SURE * noise)
    held, sure = float(counted[few].sum()), SURE * noise * few.sum() ** 0.5
    if total * even[few].sum() > 2 * sure:
        target[few] = even[few] / even[few].sum() * held / total if held > sure else 0
    return target / target.sum()


def _by_chance(freedom: int) -> float:
    """Return the chi-squared that chance exceeds once in `1 / BY_CHANCE` times (Wilson and Hilferty, 1931)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + NormalDist().inv_cdf(1 - BY_CHANCE) * spread**0.5) ** 3


def _pieces(low: np.ndarray, high: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Cut cells at each whole `unit`; return each piece's unit, cell and length in units. None if there are too many."""
    first = np.floor(low / unit).astype(np.int64)
    many = np.maximum(np.ceil(high / unit).astype(np.int64) - first, 1)
    if many.sum() > MOST_PIECES:
        return None
    which = np.repeat(np.arange(len(low)), many)
    number = np.arange(len(which)) - np.repeat(np.cumsum(many) - many, many) + first[which]
    length = np.minimum(number + 1, high[which] / unit) - np.maximum(number, low[which] / unit)
    return number, which, np.maximum(length, 0.0)


def _classes(name: str, days: np.ndarray, x: np.ndarray, day: float) -> np.ndarray:
    if name != "hours":
        return _class_of_days(name, days)
    rest = x - days * day
    return np.where(rest == 0, MIDNIGHT, np.clip(np.floor(rest / (day / MIDNIGHT)), 0, MIDNIGHT - 1)).astype(np.int64)


def _class_of_days(name: str, days: np.ndarray) -> np.ndarray:
    """Return the cell of each day, by its number since 1970-01-01, which was a Thursday."""
    if name == "weekdays":
        return (days + 3) % 7
    dates = days.astype("datetime64[D]")
    month = dates.astype("datetime64[M]")
    day = (dates - month.astype("datetime64[D]")).astype(np.int64) + 1
    last = (dates + 1).astype("datetime64[M]") != month
    year = dates == dates.astype("datetime64[Y]").astype("datetime64[D]")
    return np.where(year, FIRST_OF_YEAR, np.where(last, LAST_OF_MONTH, day))
