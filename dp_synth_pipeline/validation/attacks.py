"""Two attacks on a synthetic table, with confidence intervals: who was in the table, and what is a person's hidden value?

Restricted: every figure is an exact function of real rows. Pure: arrays of codes in, JSON-ready results out. Both compare
rows that were learnt from with a holdout of the same population, so what is true of everybody counts for nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dp_synth_pipeline.validation.closeness import MOST, blocks, check, distances, nearest, sample, spans

CONFIDENCE = 0.99

NEIGHBOURS = 5
"""Synthetic rows that vote on a hidden value."""

MEMBERSHIP = (
    "Shows how well an attacker who holds full rows tells members from others by their distance to the nearest synthetic "
    "row; 0.5 is a coin. Cannot show that a stronger attack would fail: only epsilon bounds every attack."
)

ATTRIBUTE = (
    "Shows how much better the hidden column is guessed for rows that were learnt from than for rows that were not; 0 is "
    "no leak. Cannot show what is learnt about everybody alike, which is what a good table is for, nor bound other attacks."
)


@dataclass(frozen=True)
class Attack:
    """How one attack went.

    Attributes:
        name: 'membership', or 'attribute: COLUMN'.
        measure: what `value` is.
        value: how well the attacker did.
        low, high: its interval at `CONFIDENCE`.
        chance: what an attacker gets who learns nothing of individuals.
        rows: members and others that were attacked.
        meaning: what this shows and what it does not.
        baseline: accuracy on the holdout, for attribute inference.
    """

    name: str
    measure: str
    value: float
    low: float
    high: float
    chance: float
    rows: tuple[int, int]
    meaning: str
    baseline: float | None = None

    @property
    def warns(self) -> bool:
        """Whether the attack did better than chance beyond doubt."""
        return self.low > self.chance

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, JSON-ready."""
        return {**asdict(self), "warns": self.warns}


def membership(
    training: np.ndarray, holdout: np.ndarray, synthetic: np.ndarray, ordered: np.ndarray, *, most: int = MOST
) -> Attack:
    """Guess that rows near a synthetic row were learnt from, and return the AUC of that guess.

    Args:
        training, holdout, synthetic: int codes (rows, columns), coded alike; the holdout was drawn like the training rows.
        ordered: bool (columns,); whether near codes are near values.
        most: rows of each that are used, drawn at random.

    Raises:
        ValueError: if a table has no rows, or shapes do not agree.
    """
    from scipy.stats import norm

    check(training, holdout, synthetic, ordered)
    members, others, drawn = (sample(x, most) for x in (training, holdout, synthetic))
    scale = spans(training, holdout, synthetic)
    near, far = (nearest(x, drawn, ordered, scale) for x in (members, others))
    value = _auc(near, far)
    width = float(norm.isf((1 - CONFIDENCE) / 2)) * _deviation(value, len(near), len(far))
    rows = (len(near), len(far))
    low, high = max(0.0, value - width), min(1.0, value + width)
    return Attack("membership", "AUC of the distance to the nearest row", value, low, high, 0.5, rows, MEMBERSHIP)


def attribute(
    training: np.ndarray,
    holdout: np.ndarray,
    synthetic: np.ndarray,
    ordered: np.ndarray,
    hidden: int,
    *,
    name: str = "",
    most: int = MOST,
) -> Attack:
    """Guess a hidden column from all others by a vote of the nearest synthetic rows; return the gain from membership.

    Args:
        training, holdout, synthetic, ordered: as for `membership`.
        hidden: the column that the attacker does not know.
        name: what to call it.

    Raises:
        ValueError: if a table has no rows, shapes do not agree, or there is no other column.
    """
    check(training, holdout, synthetic, ordered)
    known = np.arange(len(ordered)) != hidden
    if not known.any() or not 0 <= hidden < len(ordered):
        raise ValueError("expected a hidden column and at least one that the attacker knows.")
    members, others, drawn = (sample(x, most) for x in (training, holdout, synthetic))
    scale = spans(training, holdout, synthetic)[known]
    right = [
        _votes(x[:, known], drawn[:, known], drawn[:, hidden], ordered[known], scale) == x[:, hidden]
        for x in (members, others)
    ]
    hits, counts = [int(r.sum()) for r in right], [len(r) for r in right]
    low, high = _newcombe(hits[0], counts[0], hits[1], counts[1])
    gain = hits[0] / counts[0] - hits[1] / counts[1]
    told = f"attribute: {name or hidden}"
    measure = "accuracy on members less accuracy on others"
    return Attack(told, measure, gain, low, high, 0.0, (counts[0], counts[1]), ATTRIBUTE, hits[1] / counts[1])


def _auc(near: np.ndarray, far: np.ndarray) -> float:
    """Return the probability that a member is nearer than another row, ties counted half (Mann-Whitney)."""
    ordered = np.sort(far)
    below = len(far) - np.searchsorted(ordered, near, side="right")
    ties = np.searchsorted(ordered, near, side="right") - np.searchsorted(ordered, near, side="left")
    return float((below + 0.5 * ties).mean() / len(far))


def _deviation(auc: float, members: int, others: int) -> float:
    """Return the standard error of an AUC (Hanley & McNeil 1982), at least that of one pair."""
    two_near, two_far = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (members - 1) * (two_near - auc**2) + (others - 1) * (two_far - auc**2)
    return math.sqrt(max(variance, 1.0) / (members * others))


def _votes(
    rows: np.ndarray, drawn: np.ndarray, values: np.ndarray, ordered: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Return for each row the value that most of its nearest synthetic rows have; the nearest one's breaks ties."""
    count = min(NEIGHBOURS, len(drawn))
    found = []
    for block in blocks(rows):
        apart = distances(block, drawn, ordered, scale)
        near = np.argpartition(apart, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(near, np.argsort(np.take_along_axis(apart, near, 1), 1, kind="stable"), 1)
        said = values[near]
        # A copy tells the hidden value by itself; so do several, and a vote of strangers must not overrule it.
        exact = np.take_along_axis(apart, near[:, :1], 1)[:, 0] == 0
        agree = (said[:, :, None] == said[:, None, :]).sum(2)
        found.append(np.where(exact, said[:, 0], said[np.arange(len(block)), agree.argmax(1)]))
    return np.concatenate(found)


def _newcombe(hits: int, rows: int, others_hits: int, others: int) -> tuple[float, float]:
    """Return the interval of a difference of two shares (Newcombe 1998, method 10: from two Wilson intervals)."""
    a, b = hits / rows, others_hits / others
    (a_low, a_high), (b_low, b_high) = _wilson(hits, rows), _wilson(others_hits, others)
    low = a - b - math.sqrt((a - a_low) ** 2 + (b_high - b) ** 2)
    high = a - b + math.sqrt((a_high - a) ** 2 + (b - b_low) ** 2)
    return low, high


def _wilson(hits: int, rows: int) -> tuple[float, float]:
    from scipy.stats import norm

    z = float(norm.isf((1 - CONFIDENCE) / 2))
    middle = (hits + z * z / 2) / (rows + z * z)
    width = z / (rows + z * z) * math.sqrt(hits * (rows - hits) / rows + z * z / 4)
    return middle - width, middle + width
