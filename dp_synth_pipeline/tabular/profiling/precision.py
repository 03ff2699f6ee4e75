"""How precisely values are written: digits after the point of decimals, and the resolution of times."""

from __future__ import annotations

import numpy as np

MAX_DECIMALS = 6
"""Digits after the point that are told apart; more means full precision."""

RESOLUTIONS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Microseconds of a day, hour, minute, second, millisecond and microsecond."""


def count_digits(x: np.ndarray, *, single: bool) -> np.ndarray:
    """Count values by the digits after the point that they need, int64 (MAX_DECIMALS + 2,); the last cell is for more.

    Args:
        single: whether values were stored in single precision.
    """
    needed = np.full(len(x), MAX_DECIMALS + 1)
    for d in range(MAX_DECIMALS, -1, -1):
        with np.errstate(over="ignore", invalid="ignore"):  # near the end of double precision, no digit is kept
            rounded = np.round(x, d)
        # 0.1 in single precision is 0.10000000149; in double precision, sums of cents are off by a few last digits.
        same = rounded.astype(np.float32) == x if single else np.isclose(rounded, x, rtol=1e-12, atol=1e-15)
        needed[same] = d
    return np.bincount(needed, minlength=MAX_DECIMALS + 2).astype(np.int64)


def count_resolutions(x: np.ndarray) -> np.ndarray:
    """Count values in microseconds by the coarsest resolution that writes them, int64 (len(RESOLUTIONS),)."""
    needed = np.full(len(x), len(RESOLUTIONS) - 1)
    for i in range(len(RESOLUTIONS) - 1, -1, -1):
        needed[x % RESOLUTIONS[i] == 0] = i
    return np.bincount(needed, minlength=len(RESOLUTIONS)).astype(np.int64)
