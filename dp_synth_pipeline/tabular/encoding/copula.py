"""Within-bin copula sampling of numbers: columns that rise together between cells rise together within them.

A code says in which cell of a number line a value lies; where in the cell is drawn by the released fine histogram. Drawn
column by column, a carat and its price would agree to a fortieth of the diamonds and no further. Here each row gets a
point of a normal distribution whose correlations are those between the drawn codes (a Gaussian copula), kept within its
cells by Gibbs sweeps over truncated normals (Geweke 1991). Within each cell its ranks then take the place of uniform
draws, so every column's own distribution stays exactly what was released. Reads nothing but drawn codes: it costs nothing.

Of histories, the numbers of the row before are such columns, too: a weight that moves little from cell to cell moves little
within them. Rows are then placed one after the other, each upon the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

TIED = 0.5
"""Part of a column's variance that the others must explain for its quantiles to follow theirs; cells are narrow."""

SWEEPS = 4
"""Gibbs sweeps. Correlations are taken anew after each: between cells they are weaker than between quantiles."""

ENOUGH = 50
"""Rows for each column from which correlations are looked at; with fewer, chance would tie columns."""

LEAST = 1e-4
"""Least eigenvalue of a correlation matrix, so that equal columns do not make it singular."""


class Succession(NamedTuple):
    """How the rows of histories follow each other; those of one history lie beside each other, the first one first.

    Attributes:
        begins: which rows begin a history, bool (rows,).
        stays: which values are those of the row before, bool (rows, columns).
    """

    begins: np.ndarray
    stays: np.ndarray


def quantiles(
    codes: np.ndarray,
    centres: Sequence[np.ndarray],
    rng: np.random.Generator,
    succession: Succession | None = None,
) -> dict[int, np.ndarray]:
    """Return, for each column that others, or the row before, explain, where in its cell each row lies.

    Args:
        codes: int (rows, columns) drawn codes of columns on number lines.
        centres: for each column, where on its line each code lies, (cardinality,); NaN for null.
        succession: how rows follow each other; by default each is for itself.

    Returns:
        by column number, float64 (rows,) in [0, 1): the share of the cell's mass below the row; uniform within each cell.
    """
    from scipy.special import ndtri

    columns, follow = codes.shape[1], succession or Succession(np.ones(len(codes), bool), np.zeros(codes.shape, bool))
    explaining = columns if follow.begins.all() else 2 * columns
    if explaining < 2 or len(codes) < ENOUGH * explaining:
        return {}
    lower, upper = (np.stack(s, 1) for s in zip(*map(_span, codes.T, centres), strict=True))
    null = np.stack([np.isnan(c)[k] for c, k in zip(centres, codes.T, strict=True)], 1)
    middle = _middle(lower, upper)
    known = np.where(null, np.nan, middle)
    correlation = _correlation(_with_rows_before(known, follow))
    tied = np.flatnonzero(1 / np.diag(np.linalg.inv(correlation))[:columns] <= 1 - TIED)
    if len(tied) * explaining // columns < 2:  # nothing to draw a column upon
        return {}
    follow = follow._replace(stays=follow.stays[:, tied])
    ends = ndtri(lower[:, tied]), ndtri(upper[:, tied])
    z = np.where(null, 0.0, middle)[:, tied]
    for _ in range(SWEEPS):
        _sweep(z, ends, _correlation(_with_rows_before(z, follow)), follow, rng)
    return {int(c): _ranks(z[:, k], codes[:, c], rng) for k, c in enumerate(tied)}


def _with_rows_before(z: np.ndarray, follow: Succession) -> np.ndarray:
    """Return z (rows, columns) beside the rows before, (rows, 2 columns); NaN where none is, or a value stays.

    Where each row is for itself, there is nothing beside them.
    """
    if follow.begins.all():
        return z
    before = np.roll(z, 1, axis=0)
    return np.concatenate([z, np.where(follow.begins[:, None] | follow.stays, np.nan, before)], 1)


def _sweep(
    z: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    correlation: np.ndarray,
    follow: Succession,
    rng: np.random.Generator,
) -> None:
    """Draw each column anew given the others and the row before, in place: first rows, then those that follow, and so on.

    Args:
        z: (rows, columns); ends: between which each lies, (rows, columns) each.
        correlation: of the columns, and of those of the row before if rows follow each other.
    """
    columns, rows = z.shape[1], np.arange(len(z))
    place = rows - np.maximum.accumulate(np.where(follow.begins, rows, 0))
    alone, after = np.linalg.inv(correlation[:columns, :columns]), np.linalg.inv(correlation)
    for at in range(place.max() + 1):
        now = np.flatnonzero(place == at)
        known, precision = (z[now], alone) if at == 0 else (np.concatenate([z[now], z[now - 1]], 1), after)
        for k in range(columns):
            mean = known[:, k] - known @ precision[k] / precision[k, k]
            drawn = _truncated(mean, precision[k, k] ** -0.5, ends[0][now, k], ends[1][now, k], rng)
            known[:, k] = np.where(follow.stays[now, k], z[now - 1, k], drawn)
        z[now] = known[:, :columns]


def _span(codes: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return between which shares of its column's rows each row's cell lies; all of them, for a null."""
    valued = ~np.isnan(centres)
    count = np.bincount(codes, minlength=len(centres))[: len(centres)] * valued
    order = np.argsort(np.where(valued, centres, np.inf), kind="stable")
    below = np.empty(len(centres))
    below[order] = np.cumsum(count[order]) - count[order]
    total = max(count.sum(), 1)
    lower, upper = np.where(valued, below / total, 0.0), np.where(valued, (below + count) / total, 1.0)
    return lower[codes], upper[codes]


def _middle(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the mean of a standard normal between two of its quantiles."""
    from scipy.special import ndtri

    density = [np.exp(-(ndtri(p) ** 2) / 2) / np.sqrt(2 * np.pi) for p in (lower, upper)]
    return (density[0] - density[1]) / np.maximum(upper - lower, 1e-12)


def _correlation(scores: np.ndarray) -> np.ndarray:
    """Return the positive definite correlation matrix of columns (rows, columns), from the rows where both are known."""
    known = np.ma.masked_invalid(scores)
    one = ~(known.std(0).filled(0.0) > 0)  # columns that do not vary, or of which nothing is known
    with np.errstate(divide="ignore", invalid="ignore"):
        matrix = np.ma.corrcoef(known, rowvar=False).filled(0.0) if known.mask.any() else np.corrcoef(scores.T)
    matrix[one] = matrix[:, one] = 0.0
    np.fill_diagonal(matrix, 1.0)
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, LEAST)) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    return matrix / np.outer(scale, scale)


def _truncated(
    mean: np.ndarray, deviation: float, lower: np.ndarray, upper: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw normals between bounds; in logarithms, and mirrored where they lie above the mean, so that no tail is lost."""
    from scipy.special import log_ndtr, ndtri_exp

    a, b = (lower - mean) / deviation, (upper - mean) / deviation
    mirrored = a > 0
    a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    u = rng.random(len(mean))
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    drawn = ndtri_exp(log_b + np.log(u + (1 - u) * np.exp(log_a - log_b)))
    drawn = np.clip(drawn, a, b)
    return mean + deviation * np.where(mirrored, -drawn, drawn)


def even_quantiles(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return quantiles in no order, float64 (rows,) in [0, 1), one of each code's rows in each equal part of its cell."""
    order = rng.permutation(len(codes))
    return _spread(order[np.argsort(codes[order].astype(np.int16), kind="stable")], codes, rng)


def _ranks(z: np.ndarray, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return each row's rank among those of its code, spread over [0, 1)."""
    return _spread(np.lexsort((rng.random(len(z)), z, codes)), codes, rng)


def _spread(order: np.ndarray, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the quantiles of rows that are in `order`, code after code."""
    sizes = np.bincount(codes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.empty(len(codes))
    place[order] = (np.arange(len(codes)) - first + rng.random(len(codes))) / np.repeat(sizes, sizes)
    return np.minimum(place, np.nextafter(1.0, 0.0))
