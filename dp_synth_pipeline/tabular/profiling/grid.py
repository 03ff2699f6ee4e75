"""Grids of cells on a number line: one that no data chose, and its refinement by noisy counts.

Every learned number lives on one axis of float64: integers and decimals as they are, dates as day numbers, datetimes as
microseconds since 1970-01-01 UTC, durations and times of day as microseconds.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from statistics import NormalDist
from typing import Any

import numpy as np

DAY = 86_400_000_000
"""Microseconds in a day."""

SURE = 4.5
"""Standard deviations of noise above which a cell is believed to hold somebody."""

MISTAKEN = 1e-4
"""Chance, of a whole grid, that noise alone has cells believed in beside those that are likelier."""

FURTHER = 0.2
"""Log-odds by which a cell of a public grid is less expected to hold somebody than its neighbour nearer to usual values."""

DOUBTED = 2.5
"""Standard deviations of noise above which cells beside those that surely hold somebody are believed to."""

DUST = 0.1
"""Part of the noise's deviation that a cell at either end must hold: smoothing leaves less where there is nobody."""

MOST_ROOM = 1e300
"""Points of a cell, at most, so that cells at the end of double precision can be compared."""

THINNER, NEIGHBOURS = 8.0, 4
"""How many times as thin values lie in an outermost cell as in the cells beside it, at most; and in how many of them."""


def axis_value(value: float | date | datetime | timedelta) -> int | float:
    """Place one declared number, date, datetime or duration on its axis; a whole one exactly."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return value


def is_coarse(low: Any, high: Any, width: float) -> Any:
    """Whether doubles at these ends of a cell lie further apart than `width`, so that its multiples mean nothing."""
    return np.maximum(np.abs(low), np.abs(high)) >= 2.0**52 * width


def first_multiple(x: np.ndarray, step: float | np.ndarray) -> np.ndarray:
    """Return which multiple of a step comes first from x on; a few last digits below one count as it."""
    q = x / step
    return np.ceil(q - 8 * np.spacing(np.abs(q)))


def written(x: np.ndarray, decimals: int | None) -> np.ndarray:
    """Return numbers as they are written with so many digits after the point, so that sums of cents are those cents."""
    if decimals is None:
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(is_coarse(x, x, 10.0**-decimals), x, np.round(x, decimals))


def respelled(x: np.ndarray, decimals: int | None) -> np.ndarray:
    """Return numbers as they are written with so many digits, but those that need more digits as they are.

    Example:
        >>> respelled(np.array([10.357019999999999, 5.5]), 5), respelled(np.array([5.5, 6.0]), 0)
        (array([10.35702,  5.5    ]), array([5.5, 6. ]))
    """
    near = written(x, decimals)
    return np.where(np.isclose(x, near, rtol=1e-12, atol=0), near, x)


def count_cells(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count values per half-open cell; values beyond the ends count in the end cells. Each value counts once."""
    if len(edges) < 2:
        return np.zeros(0, dtype=np.int64)
    cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(cell, minlength=len(edges) - 1).astype(np.int64)


def support(
    noisy: np.ndarray, scale: float, near: tuple[int, int] | None = None, least: float = SURE
) -> tuple[int, int] | None:
    """Return the first and last cell (inclusive) that noise of `scale` does not explain; None if noise explains all.

    Cells too light to be sure of alone are looked at in windows of 2, 4, 8 and 16, each of which overlaps its neighbours by
    half. One needs so many deviations that noise alone hardly makes any of all windows. If none has them, the support is the
    likeliest window, if that is likelier than one of a few deviations where values are expected. Post-processing, so free.

    Args:
        near: the first and last cell (inclusive) of where values are expected: the further off, the less. All by default.
            Either may lie beyond the grid.
        least: how many deviations are a few; 0 if some cell surely holds somebody.
    """
    windows = [(first, size) for size in (1, 2, 4, 8, 16) for first in range(0, len(noisy), max(size // 2, 1))]
    strict = max(SURE, NormalDist().inv_cdf(1 - MISTAKEN / max(len(windows), 1)))
    sure = np.zeros(len(noisy), bool)
    start, end = near or (0, len(noisy) - 1)
    likeliest, most = None, least**2 / 2 if least else -math.inf
    for first, size in windows:
        window, last = slice(first, first + size), min(first + size, len(noisy)) - 1
        open_cells = ~sure[window]
        excess = noisy[window][open_cells].sum() / (scale * math.sqrt(max(open_cells.sum(), 1)))
        log_odds = excess**2 / 2 - FURTHER * max(start - first, last - end, 0)
        if excess > strict:
            sure[window] = True
        elif excess > 0 and log_odds > most:
            likeliest, most = (first, last), log_odds
    cells = np.flatnonzero(sure)
    return (int(cells[0]), int(cells[-1])) if len(cells) else likeliest


def without_tails(
    edges: np.ndarray, noisy: np.ndarray, mass: np.ndarray, scale: float, width: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Cut a histogram to its `ends`, and to cells that hold more than dust; what the others hold is shared out.

    Args:
        edges: (n + 1,) ascending.
        noisy: (n,) counts with noise of `scale`.
        mass: (n,) what they were smoothed to.
        width: least distance between values; 0 for a continuum.
    """
    first, last = ends(edges, noisy, scale)
    held = first + np.flatnonzero(mass[first : last + 1] > DUST * scale)
    if len(held) == 0:
        return edges, mass
    kept, cut = mass[held[0] : held[-1] + 1], edges[held[0] : held[-1] + 2].copy()
    if len(kept) > 1:
        with np.errstate(over="ignore"):
            widths = np.diff(cut)
        cut[-1] = min(cut[-1], _outward(cut[-2] + _spread(widths, kept), width))
        cut[0] = max(cut[0], -_outward(_spread(widths[::-1], kept[::-1]) - cut[1], width))
    return cut, kept * (mass.sum() / kept.sum())


def _spread(widths: np.ndarray, mass: np.ndarray) -> float:
    """Return how wide the last cell may be: values lie `THINNER` times as thin there as in those before it, at most.

    What is left of a column beyond a power of two lies at its near end, and not over all the numbers up to the next one.

    Args:
        widths: (n,) of neighbouring cells; mass: (n,) what they hold.
    """
    near = slice(max(len(mass) - 1 - NEIGHBOURS, 0), -1)
    density = min(mass[-2] / widths[-2], mass[near].sum() / widths[near].sum())
    return THINNER * float(mass[-1] / density) if density > 0 else math.inf


def _outward(end: float, width: float) -> float:
    """Return the first multiple of a width from an end on; the end itself on a continuum, or where there are none."""
    if width == 0 or not math.isfinite(end) or is_coarse(end, end, width):
        return end
    return float(_multiples(first_multiple(np.array(end), width), width))


def ends(edges: np.ndarray, noisy: np.ndarray, scale: float) -> tuple[int, int]:
    """Return the first and last cell (inclusive) to keep: what lies beyond may be noise, which would make the ends loose.

    They are the support's, without outer ones that only lie in a window with others, and on either side, up to as far again,
    those that together hold more than noise makes likely. Where noise explains each cell, all are kept. Post-processing, so
    free.

    Args:
        edges: (n + 1,) ascending.
        noisy: (n,) counts with noise of `scale`.
    """
    found = support(noisy, scale)
    if found is None:
        return 0, len(noisy) - 1
    first, last = found
    inside = noisy[first : last + 1]
    first, last = first + _idle(inside, scale), last - _idle(inside[::-1], scale)
    with np.errstate(over="ignore"):
        room = edges[last + 1] - edges[first]
        before = noisy[:first][edges[:first] >= edges[first] - room]
        after = noisy[last + 1 :][edges[last + 2 :] <= edges[last + 1] + room]
    return first - _reach(before[::-1], scale), last + _reach(after, scale)


def _idle(noisy: np.ndarray, scale: float) -> int:
    """Return how many cells come before the first one up to which the sum exceeds its noise; 0 if none does."""
    return int(np.argmax(np.cumsum(noisy) > DOUBTED * scale * np.sqrt(np.arange(1, len(noisy) + 1))))


def _reach(noisy: np.ndarray, scale: float) -> int:
    """Return of how many cells, the first and those that follow it, the sum exceeds its noise by most; 0 if none's does."""
    excess = np.cumsum(noisy) - DOUBTED * scale * np.sqrt(np.arange(1, len(noisy) + 1))
    return int(excess.argmax()) + 1 if len(noisy) and excess.max() > 0 else 0


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


def calendar(first: date, last: date, *, to_midnight: bool) -> dict[str, str]:
    """Round an interval of days outward to whole years, or to whole months within two years.

    Args:
        to_midnight: the upper end is the midnight that ends the last day, not that day.
    """
    if (last - first).days > 730:
        start, end = date(first.year, 1, 1), date(last.year, 12, 31)
    else:
        start = first.replace(day=1)
        end = date(last.year + last.month // 12, last.month % 12 + 1, 1) - timedelta(days=1)
    return {"lower": start.isoformat(), "upper": (end + timedelta(days=int(to_midnight))).isoformat()}


def free(edges: np.ndarray, width: float, released: np.ndarray) -> np.ndarray:
    """Return how much of the line each cell [low, high) covers without the `released` points, float64 (n,).

    Where values are multiples of `width`, that is how many of those there are: 0 if each of them has a name.
    """
    low, high = edges[:-1], edges[1:]
    if width == 0:
        return high - low
    with np.errstate(over="ignore", invalid="ignore"):
        on_grid = np.unique(released[np.abs(released / width - np.round(released / width)) < 1e-6])
        points = np.diff(np.ceil(np.round(edges / width, 6)))
        wide = np.minimum((high - low) / width, MOST_ROOM)
    taken = np.histogram(on_grid, edges)[0] if len(edges) > 1 else 0
    return np.where(is_coarse(low, high, width), wide, np.maximum(points - taken, 0))


def refine(edges: np.ndarray, noisy: np.ndarray, *, scale: float, width: float, cells: int) -> np.ndarray:
    """Cut cells in proportion to their noisy mass into about `cells` pieces, none lighter than next round's noise.

    Args:
        edges: (n + 1,) ascending.
        noisy: (n,) noisy counts.
        scale: noise of the round that will count the pieces, in rows.
        width: least distance between values; cuts fall on its multiples. 0 for a continuum.
    """
    mass = np.clip(noisy, 0, None).astype(float)
    target = max(mass.sum() / cells, 3 * scale)
    pieces = []
    for low, high, m in zip(edges[:-1], edges[1:], mass, strict=True):
        own = 0.0 if is_coarse(low, high, width) else width
        most = (high - low) / own if own else cells
        parts = int(max(1, min(round(m / target), most, cells)))
        cuts = low + (high - low) * (np.arange(parts) / parts)
        pieces.append(np.append(low, _multiples(np.ceil(cuts[1:] / own), own)) if own else cuts)
    return np.unique(np.append(np.concatenate(pieces), edges[-1]))


def _multiples(number: np.ndarray, width: float) -> np.ndarray:
    """Return multiples of a width as they are written: 3 tenths are 0.3, where 3 * 0.1 is the next number above it."""
    return number * width if width >= 1 else number / round(1 / width)


def reconcile(
    parent_edges: np.ndarray,
    parents: np.ndarray,
    parent_scale: float,
    edges: np.ndarray,
    cells: np.ndarray,
    scale: float,
) -> np.ndarray:
    """Return cell counts moved so that each parent's sum is the best blend of its own count and its cells'.

    Weighted by inverse variance, the correction shared equally (Hay et al. 2010, "Boosting the Accuracy of Differentially
    Private Histograms Through Consistency"). Post-processing, so free.
    """
    parent = np.clip(np.searchsorted(parent_edges, edges[:-1], side="right") - 1, 0, len(parents) - 1)
    number = np.bincount(parent, minlength=len(parents))
    sums = np.bincount(parent, weights=cells, minlength=len(parents))
    trust = number * scale**2 / (number * scale**2 + parent_scale**2)
    correction = trust * (parents - sums) / np.maximum(number, 1)
    return cells + correction[parent]


def to_probabilities(noisy: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest non-negative vector with sum 1 to `noisy / total` (Euclidean projection on the simplex)."""
    if len(noisy) == 0:
        return np.zeros(0)
    v = noisy / max(total, 1.0)
    ordered = np.sort(v)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(v) + 1)
    shift = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.clip(v - shift, 0, None)
