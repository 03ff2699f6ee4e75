"""Tells of each row which simple multiple one of two numbers is of the other: a tax is 0.2 times the net price.

The multiple is not known before rows are looked at, so each multiple of at most `DIGITS` digits has a cell of its own. Since
values are rounded, several multiples may give a row's value; the one with the fewest digits counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

DIGITS = 3
"""Digits of a multiple, at most."""

LEAST, DECADES = -4, 8
"""Multiples lie from 10 to the power of the first one on, in so many decades."""

SURELY = 0.01
"""Rounding of a value as a part of it, at most, at which it tells which multiple it is."""

RELATIVE = 5e-7
"""Error of a computed value as a part of it: that of single precision."""

WAYS = 9 * 10 ** (DIGITS - 1) * DECADES
"""Cells of the second column as a multiple of the first; then come as many of the first one as a multiple of the second."""

OPEN, NONE = 2 * WAYS, 2 * WAYS + 1
CELLS = 2 * WAYS + 2
"""The last cells: of rows whose values are too small to tell which multiple, or both 0; and of rows in which none is one."""

UNTOLD = -1
"""Stands for the cell of a multiple beside which another one is as simple."""


def cells(values: Sequence[np.ndarray], halves: Sequence[np.ndarray]) -> np.ndarray:
    """Return in which cell each row lies that has both values, int64 (rows,).

    Where both ways have as few digits, as of 10 and 2, the larger value is the multiple.

    Args:
        values: two columns, float64 (rows,), NaN where null.
        halves: by how much each value may be off by its rounding, float64 (rows,).
    """
    known = np.isfinite(values).all(0)
    (first, second), (half_first, half_second) = [x[known] for x in values], [h[known] for h in halves]
    with np.errstate(all="ignore"):
        of_first, digits = _simplest(second, first, half_second)
        of_second, other_digits = _simplest(first, second, half_first)
        vague = (half_second > SURELY * np.abs(second)) | (half_first > SURELY * np.abs(first))
    ahead = np.where(np.abs(second) >= np.abs(first), digits <= other_digits, digits < other_digits)
    found = np.where(ahead, of_first, np.where(of_second == UNTOLD, UNTOLD, WAYS + of_second))
    found = np.where(found == UNTOLD, OPEN, found)
    none = np.where(vague, OPEN, NONE)
    return np.where(np.minimum(digits, other_digits) <= DIGITS, found, none).astype(np.int64)


def multiple(cell: int) -> tuple[bool, float]:
    """Return whether it is the second column that is a multiple, and which one, of a cell before `OPEN`."""
    decade, mantissa = divmod(cell % WAYS, 9 * 10 ** (DIGITS - 1))
    text = f"{mantissa + 10 ** (DIGITS - 1)}e{decade + LEAST - (DIGITS - 1)}"
    return cell < WAYS, float(text)


@cache
def inverses() -> np.ndarray:
    """Return the cell that says the same the other way, 5 times for 0.2 times, int64 (OPEN,); -1 of those that have none."""
    by = np.array([multiple(cell)[1] for cell in range(WAYS)])
    order = np.argsort(by)
    near = np.clip(np.searchsorted(by, 1 / by, sorter=order), 1, WAYS - 1)
    candidates = order[np.stack([near - 1, near])]
    best = np.take_along_axis(candidates, np.abs(by[candidates] * by - 1).argmin(0)[None], 0)[0]
    found = np.where(np.abs(by[best] * by - 1) < 1e-9, best, -1)
    return np.concatenate([np.where(found < 0, -1, found + WAYS), found])


def _simplest(value: np.ndarray, base: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which multiple of `base` a value is with the fewest digits, by its cell, and how many digits; more if none.

    It is `UNTOLD` where another multiple of as many digits gives the value, too.
    """
    ratio = value / base
    decade = np.floor(np.log10(ratio))
    cell, digits = np.zeros(len(value), dtype=np.int64), np.full(len(value), DIGITS + 1)
    for count in range(DIGITS, 0, -1):
        mantissa = np.rint(ratio / 10.0 ** (decade - count + 1)) * 10 ** (DIGITS - count)
        up = mantissa >= 10**DIGITS
        at = np.where(up, decade + 1, decade)
        mantissa = np.where(up, 10 ** (DIGITS - 1), mantissa)
        off = np.abs(value - mantissa * 10.0 ** (at - DIGITS + 1) * base)
        allowed = np.where(half <= SURELY * np.abs(value), half, 0.0) + RELATIVE * np.abs(value)
        holds = (off <= allowed) & (ratio > 0) & (at >= LEAST) & (at < LEAST + DECADES)
        place = (at - LEAST) * 9 * 10 ** (DIGITS - 1) + mantissa - 10 ** (DIGITS - 1)
        cell = np.where(holds, place, cell).astype(np.int64)
        next_holds = 10.0 ** (at - count + 1) * np.abs(base) - off <= allowed
        cell = np.where(holds & next_holds, UNTOLD, cell)
        digits = np.where(holds, count, digits)
    return cell, digits
