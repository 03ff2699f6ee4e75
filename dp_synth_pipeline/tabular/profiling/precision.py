"""How precisely values are written: the step that all are multiples of, and the coarser ones that some are rounded to.

Steps are a ladder, each of which divides the next coarser one: 1, 5, 10, 50 and so on for numbers, and a minute, five
minutes and more for times. A value is counted by the coarsest one that it is a multiple of. Of values that nobody rounded,
one in ten is a multiple of 10 as well. Where more are, people rounded them, as they do with incomes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MAX_DECIMALS = 6
"""Digits after the point that are told apart; more means full precision."""

STEPS = (
    *(float(f"{first}e{zeros}") for zeros in range(8, -1, -1) for first in (5, 1)),
    0.5,
    *(float(f"1e-{digits}") for digits in range(1, MAX_DECIMALS + 1)),
)
"""Steps of numbers, the coarsest first."""

ONE = STEPS.index(1)

MINUTE = 60_000_000

RESOLUTIONS = (1440 * MINUTE, 60 * MINUTE, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE, MINUTE, 1_000_000, 1_000, 1)
"""Microseconds of a day, an hour, parts of it, a minute, a second, a millisecond and a microsecond."""

SURE, LEAST = 4.0, 0.02
"""Deviations of noise, and part of the values, by which more values than chance explains are multiples of a step."""

MULTIPLES = 10
"""Multiples of a step that must lie among most values: of years about 2000, it is one that is a multiple of 1,000."""


def digits(step: int) -> int | None:
    """Return how many digits after the point multiples of a step have, by its number in `STEPS`; None beyond the last."""
    if step == len(STEPS):
        return None
    return next(d for d in range(MAX_DECIMALS + 1) if round(STEPS[step], d) == STEPS[step])


def count_steps(x: np.ndarray, *, single: bool) -> np.ndarray:
    """Count numbers by the coarsest step that writes them, int64 (len(STEPS) + 1,); the last cell is for finer ones.

    A 0 is a multiple of all, and counts for none.

    Args:
        single: whether values were stored in single precision.
    """
    x, counts = x[x != 0], np.zeros(len(STEPS) + 1, dtype=np.int64)
    is_whole = _written(x, 0, single=single)
    whole, others = np.rint(x[is_whole]), x[~is_whole]
    for i in reversed(range(ONE)):
        multiple = np.rint(whole / STEPS[i]) * STEPS[i] == whole
        counts[i + 1], whole = len(whole) - multiple.sum(), whole[multiple]
    for i in range(ONE + 1, len(STEPS)):
        written = (
            _written(others / 0.5, 0, single=single) if STEPS[i] == 0.5 else _written(others, digits(i), single=single)
        )
        counts[i], others = written.sum(), others[~written]
    counts[0], counts[-1] = len(whole), len(others)
    return counts


def _written(x: np.ndarray, digits: int | None, *, single: bool) -> np.ndarray:
    """Return which numbers are written with so many digits after the point, bool (rows,)."""
    with np.errstate(over="ignore", invalid="ignore"):  # near the end of double precision, no digit is kept
        rounded = np.round(x, digits or 0)
    # 0.1 in single precision is 0.10000000149; in double precision, sums of cents are off by a few last digits.
    return rounded.astype(np.float32) == x if single else np.isclose(rounded, x, rtol=1e-12, atol=1e-15)


def count_resolutions(x: np.ndarray) -> np.ndarray:
    """Count values in microseconds by the coarsest resolution that writes them, int64 (len(RESOLUTIONS),)."""
    needed = np.full(len(x), len(RESOLUTIONS) - 1)
    for i in range(len(RESOLUTIONS) - 1, -1, -1):
        needed[x % RESOLUTIONS[i] == 0] = i
    return np.bincount(needed, minlength=len(RESOLUTIONS)).astype(np.int64)


def rounded_to(
    steps: Sequence[float], counts: np.ndarray, noise: float, *, own: float, spread: float
) -> tuple[tuple[float, float], ...]:
    """Return the steps that some values are rounded to, and the share of the values that are, `((10, 0.3), (100, 0.2))`.

    The others are multiples of the column's own step. Of those that are rounded to a step, some are multiples of a coarser
    one by chance, as many as there are such multiples among its own.

    Args:
        steps: the ladder, the coarsest first.
        counts: noisy counts of values by step; values finer than the last step may have a cell of their own.
        noise: standard deviation of a count.
        own: the step that all values are multiples of; 0 if there is none.
        spread: how far apart most values lie.
    """
    coarser = [i for i, step in enumerate(steps) if own * (1 + 1e-9) < step <= spread / MULTIPLES]
    if not coarser:
        return ()
    least, most = coarser[0], coarser[-1]
    cells = [counts[most + 1 :], *(counts[i : i + 1] for i in range(most, least, -1)), counts[: least + 1]]
    rungs, meant = [own, *(steps[i] for i in reversed(coarser))], np.zeros(len(coarser) + 1)
    for k, (step, held) in enumerate(zip(rungs, cells, strict=True)):
        after = rungs[k + 1] if k + 1 < len(rungs) else np.inf
        excess = held.sum() - sum(meant[r] * (rungs[r] / step - rungs[r] / after) for r in range(k))
        enough = max(SURE * noise * math.sqrt(len(held)), LEAST * float(counts.sum()))
        if excess > (enough if k else 0):
            meant[k] = excess / (1 - step / after)
    shares = meant / max(meant.sum(), 1e-300)
    return tuple((rungs[k], float(shares[k])) for k in range(1, len(rungs)) if meant[k])
