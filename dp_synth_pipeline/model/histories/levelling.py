"""Brings drawn histories to released shares of codes, by moving the biases that a network draws its codes by. Free.

The noise of DP-SGD makes each code a little too frequent or too rare, and histories add to that, since each row is drawn
upon the one before. How often a code is there was released with less noise, in the profile. So histories are drawn, and
each code's log-odds move by a part of the log-ratio of both shares, again and again (iterative proportional fitting: Deming
& Stephan 1940), each time upon histories that were drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

ROUNDS, RATE = 6, 0.4
"""How often histories are drawn, and the part of a log-ratio that is made good each time: the next row adds its own."""

MOST = 1.0
"""Log-ratio beyond which a code moves no faster."""

CLEAR = 4
"""Noises that a share is as large as before its code moves freely; found on baseball seasons, where 1 was a little worse."""

LEAST = 1e-4
"""Share that a code is taken to have at least, where there is no noise."""


def level(
    model: GenerativeModel,
    draw: Callable[[], tuple[np.ndarray, np.ndarray]],
    shares: Sequence[np.ndarray],
    noise: float,
) -> None:
    """Move a model's own codes until what `draw` returns has the released shares; the model changes.

    Args:
        draw: returns codes that the model as it is draws, int64 (rows, own columns), and the weight of each row, (rows,).
        shares: released 1-way probabilities of each own column's codes.
        noise: standard deviation of a released share: a code of a share near it moves little.
    """
    for _ in range(ROUNDS):
        codes, weights = draw()
        if not len(codes):
            return
        whole = weights.sum()
        pairs = zip(codes.T, shares, strict=True)
        found = [np.bincount(column, weights, minlength=len(share)) / whole for column, share in pairs]
        model.lean([moves(f, s, noise) for f, s in zip(found, shares, strict=True)])


def moves(found: np.ndarray, share: np.ndarray, noise: float) -> np.ndarray:
    """Return what to add to the log-odds of each code of a column, of `found` shares that ought to be `share`.

    Example:
        >>> moves(np.array([0.5, 0.5]), np.array([0.4, 0.6]), 0.0).round(3)
        array([-0.089,  0.073])
    """
    held = np.maximum(np.asarray(share, dtype=np.float64), 0.0)
    least = max(CLEAR * noise, LEAST)
    return RATE * np.clip(np.log((held / max(held.sum(), LEAST) + least) / (found + least)), -MOST, MOST)
