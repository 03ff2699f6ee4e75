"""Brings drawn histories to released shares of codes, by moving the biases that a network draws its codes by. Free.

The noise of DP-SGD makes each code a little too frequent or too rare, and histories add to that, since each row is drawn
upon the one before. How often a code is there was released with less noise, in counts of all rows or in the profile. So
histories are drawn, and each code's log-odds move by a part of the log-ratio of both shares, again and again (iterative
proportional fitting: Deming & Stephan 1940), each time upon histories that were drawn anew. What says "as in another row"
moves where it was counted how often rows agree, and else stays as it is; but a distance "until the next row beside" moves as
those codes do, on an average, for which it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

ROUNDS, RATE = 6, 0.4
"""How often histories are drawn, and the part of a log-ratio that is made good each time: the next row adds its own."""

FASTER = 2
"""So many times as large a part is made good of how often rows agree: the next row hardly adds to it."""

MOST = 1.0
"""Log-ratio beyond which a code moves no faster."""

CLEAR = 4
"""Noises that a share is as large as before its code moves freely; found on baseball seasons, where 1 was a little worse."""

LEAST = 1e-4
"""Share that a code is taken to have at least, where there is no noise."""


class Histories(NamedTuple):
    """Rows that a model drew.

    Attributes:
        drawn: the codes as they were drawn, int64 (rows, own columns).
        codes: those for which they stand, which a column's profile knows, int64 (rows, own columns).
        weights: of each row, (rows,).
    """

    drawn: np.ndarray
    codes: np.ndarray
    weights: np.ndarray


def level(
    model: GenerativeModel,
    draw: Callable[[], Histories],
    shares: Sequence[np.ndarray],
    noise: float,
    standing: Collection[int] = (),
    still: Collection[int] = (),
    agreeing: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> None:
    """Move a model's own codes until what `draw` returns has the released shares; the model changes.

    Args:
        draw: returns what the model draws as it is.
        shares: released 1-way probabilities of each own column's codes.
        noise: standard deviation of a released share: a code of a share near it moves little.
        standing: columns of which codes that stand for others move, too.
        still: columns that stay as they are, since their values mostly follow from other rows.
        agreeing: by column, the released share of rows that agree with no other one, and of each code that says they do.
    """
    for _ in range(ROUNDS):
        drawn, codes, weights = draw()
        if not len(codes):
            return
        moved = [_moves_of(c, weights, share, noise) for c, share in zip(codes.T, shares, strict=True)]
        for column, agree in agreeing.items():
            kinds = np.maximum(drawn[:, column] - len(moved[column]) + 1, 0)
            none, *others = FASTER * _moves_of(kinds, weights, agree, noise)
            moved[column] = np.append(moved[column] + none, others)
        for column in standing:
            moved[column] = _with_others(drawn[:, column], codes[:, column], weights, moved[column])
        model.lean([np.zeros_like(moves) if c in still else moves for c, moves in enumerate(moved)])


def _moves_of(codes: np.ndarray, weights: np.ndarray, share: np.ndarray, noise: float) -> np.ndarray:
    return moves(np.bincount(codes, weights, minlength=len(share)) / weights.sum(), share, noise)


def _with_others(drawn: np.ndarray, codes: np.ndarray, weights: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return the moves of a column's codes, and of those that stand for others, as those do on an average."""
    size = max(int(drawn.max()) + 1, len(moved))
    mass = np.bincount(drawn, weights, minlength=size)[len(moved) :]
    sums = np.bincount(drawn, weights * moved[codes], minlength=size)[len(moved) :]
    return np.append(moved, sums / np.maximum(mass, np.finfo(float).tiny))


def moves(found: np.ndarray, share: np.ndarray, noise: float) -> np.ndarray:
    """Return what to add to the log-odds of each code of a column, of `found` shares that ought to be `share`.

    Example:
        >>> moves(np.array([0.5, 0.5]), np.array([0.4, 0.6]), 0.0).round(3)
        array([-0.089,  0.073])
    """
    held = np.maximum(np.asarray(share, dtype=np.float64), 0.0)
    least = max(CLEAR * noise, LEAST)
    return RATE * np.clip(np.log((held / max(held.sum(), LEAST) + least) / (found + least)), -MOST, MOST)
