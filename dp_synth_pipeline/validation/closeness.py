"""How near synthetic rows come to real ones: distances to the closest record and identical rows, against a holdout.

Restricted: every figure is an exact function of real rows. Pure: arrays of codes in, a JSON-ready dict out.

The question is not whether synthetic rows are near the rows that were learnt from, which good ones are, but whether they
are nearer to those than to rows of the same population that were not learnt from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MOST = 5000
"""Rows of each table that are compared."""

BLOCK = 256
"""Rows whose distances to all others are held at a time."""

MEANING = (
    "Shows whether synthetic rows lie nearer to the rows that were learnt from than to rows that were not: copying. "
    "Cannot show that nobody's data leaks otherwise, and proves no guarantee; that is what epsilon is for."
)


@dataclass(frozen=True)
class Closeness:
    """Distances from synthetic rows to real ones; a distance is the mean over columns of a difference between 0 and 1.

    Attributes:
        compared: rows of training, holdout and synthetic table that were compared.
        closest_training, closest_holdout: 5 %, 25 % and 50 % quantiles of the distance to the closest record.
        identical_training, identical_holdout: share of synthetic rows that equal a row there.
        nearer_training: share of synthetic rows nearer to the training rows, ties counted half; 0.5 if nothing is copied.
        low, high: its 99 % interval.
        warns: whether the interval lies above 0.5: more was copied than chance explains.
        meaning: what this shows and what it does not.
    """

    compared: tuple[int, int, int]
    closest_training: tuple[float, ...]
    closest_holdout: tuple[float, ...]
    identical_training: float
    identical_holdout: float
    nearer_training: float
    low: float
    high: float
    warns: bool
    meaning: str = MEANING

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, JSON-ready."""
        return asdict(self)


def closeness(
    training: np.ndarray, holdout: np.ndarray, synthetic: np.ndarray, ordered: np.ndarray, *, most: int = MOST
) -> Closeness:
    """Compare synthetic rows with as many rows that were learnt from and that were not.

    Args:
        training, holdout, synthetic: int codes (rows, columns), coded alike; the holdout was drawn like the training rows.
        ordered: bool (columns,); whether a column's codes are ordered, so that near codes are near values.
        most: rows of each that are compared, drawn at random.

    Raises:
        ValueError: if a table has no rows, or shapes do not agree.
    """
    check(training, holdout, synthetic, ordered)
    reals = min(len(training), len(holdout), most)  # as many of each, since more records are nearer
    trained, held = (sample(x, reals) for x in (training, holdout))
    drawn = sample(synthetic, most)
    scale = spans(training, holdout, synthetic)
    here, there = (nearest(drawn, x, ordered, scale) for x in (trained, held))
    nearer = (here < there) + 0.5 * (here == there)
    middle, deviation = float(nearer.mean()), float(nearer.std())
    # Synthetic rows near one real row move together, so the smaller of the two numbers of rows sets the width.
    width = 2.576 * max(deviation, 0.05) / np.sqrt(min(len(drawn), reals))
    quantiles = [tuple(float(q) for q in np.quantile(x, (0.05, 0.25, 0.5))) for x in (here, there)]
    return Closeness(
        compared=(len(trained), len(held), len(drawn)),
        closest_training=quantiles[0],
        closest_holdout=quantiles[1],
        identical_training=float((here == 0).mean()),
        identical_holdout=float((there == 0).mean()),
        nearer_training=middle,
        low=middle - width,
        high=middle + width,
        warns=bool(middle - width > 0.5),
    )


def check(training: np.ndarray, holdout: np.ndarray, synthetic: np.ndarray, ordered: np.ndarray) -> None:
    """Refuse tables that cannot be compared."""
    shapes = {x.shape[1:] for x in (training, holdout, synthetic)}
    if shapes != {(len(ordered),)} or min(map(len, (training, holdout, synthetic))) == 0:
        raise ValueError("expected three tables of codes with the same columns and at least a row each.")


def sample(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` rows, drawn at random without replacement."""
    if len(rows) <= most:
        return rows
    return rows[np.random.default_rng().choice(len(rows), most, replace=False)]


def spans(*tables: np.ndarray) -> np.ndarray:
    """Return for each column the distance between its lowest and highest code in any table, at least 1."""
    high = np.max([t.max(0) for t in tables], 0)
    low = np.min([t.min(0) for t in tables], 0)
    return np.maximum(high - low, 1).astype(np.float32)


def nearest(rows: np.ndarray, others: np.ndarray, ordered: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return for each row its distance to the nearest of `others`, (rows,): 0 if and only if one is identical."""
    return np.concatenate([distances(b, others, ordered, scale).min(1) for b in blocks(rows)])


def distances(rows: np.ndarray, others: np.ndarray, ordered: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return Gower distances (rows, others): per column, the difference of ordered codes over the span, else unequal or not.

    Args:
        scale: float (columns,), from `spans`.
    """
    total = np.zeros((len(rows), len(others)), dtype=np.float32)
    for column in range(rows.shape[1]):
        a, b = rows[:, column, None], others[None, :, column]
        if ordered[column]:
            total += np.abs(a.astype(np.float32) - b.astype(np.float32)) / scale[column]
        else:
            total += a != b
    return total / rows.shape[1]


def blocks(rows: np.ndarray) -> list[np.ndarray]:
    """Return the rows in blocks whose distances to all others fit into memory."""
    return [rows[i : i + BLOCK] for i in range(0, len(rows), BLOCK)]
