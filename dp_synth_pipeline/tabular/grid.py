"""Grids of cells on a number line: one that no data chose, and its refinement by noisy counts.

Every learned number lives on one axis of float64: integers and decimals as they are, dates as day numbers, datetimes as
microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.schema import Kind

DAY = 86_400_000_000
"""Microseconds in a day."""

SUBDIVISIONS = 8
"""Equal cells in each power of two of the public number grid."""

REFINED_CELLS = 256
"""About how many cells the second pass spreads over the support found by the first."""


@cache
def public_edges(kind: Kind) -> np.ndarray:
    """Return the ascending edges of a grid that covers every value of `kind` and depends on no data.

    Numbers: powers of two, each cut in 8 (integers from 1, decimals from 2^-30, up to 2^62 and 2^100). Dates and
    datetimes: calendar months of the years 1800 to 2200.
    """
    if kind in (Kind.DATE, Kind.DATETIME):
        months = np.arange("1800-01", "2200-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
        return months * (DAY if kind is Kind.DATETIME else 1.0)
    low, high = (0, 62) if kind is Kind.INTEGER else (-30, 100)
    octaves = np.exp2(np.arange(low, high))[:, None] * (1 + np.arange(SUBDIVISIONS) / SUBDIVISIONS)
    positive = np.append(octaves.ravel(), 2.0**high)
    if kind is Kind.INTEGER:
        positive = np.unique(np.ceil(positive))
        return np.concatenate([-positive[::-1] + 1, positive])
    return np.concatenate([-positive[::-1], positive])


def to_axis(values: pa.Array | pa.ChunkedArray, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Return `(x float64 (rows,), null bool (rows,))`; x is 0 where null."""
    null = np.asarray(values.is_null())
    if kind is Kind.DATE:
        values = values.cast(pa.date32()).cast(pa.int32())
    elif kind is Kind.DATETIME:
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    x = values.fill_null(0).to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.fill_null(0).to_numpy()
    return x.astype(np.float64), null


def axis_value(value: float | date | datetime) -> float:
    """Place one declared number, date or datetime on its axis."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.timestamp() * 1e6
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    return float(value)


def step(kind: Kind, decimals: int | None) -> float:
    """Return the distance between neighbouring values of a kind; 0 for a continuum."""
    if kind in (Kind.INTEGER, Kind.DATE, Kind.DATETIME):
        return 1.0
    return 0.0 if decimals is None else 10.0**-decimals


def count_cells(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count values per half-open cell; values beyond the ends count in the end cells. Row-wise, so sensitivity is 1."""
    cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(cell, minlength=len(edges) - 1).astype(np.int64)


def support(noisy: np.ndarray, scale: float) -> tuple[int, int]:
    """Return the first and last cell (inclusive) that noise of `scale` does not explain: post-processing, so free."""
    sure = np.flatnonzero(noisy > 4.5 * scale)
    if len(sure) == 0:
        best = int(np.argmax(noisy))
        return best, best
    return int(sure[0]), int(sure[-1])


def refine(edges: np.ndarray, noisy: np.ndarray, scale: float, width: float) -> np.ndarray:
    """Cut the supported cells of a grid in proportion to their noisy mass, each cut no narrower than `width`.

    Args:
        edges: (cells + 1,) ascending.
        noisy: (cells,) noisy counts.
        scale: their noise, in rows.
        width: least distance between values; cuts fall on its multiples. 0 for a continuum.
    """
    first, last = support(noisy, scale)
    mass = np.clip(noisy[first : last + 1], 0, None).astype(float)
    wanted = max(mass.sum() / REFINED_CELLS, 3 * scale)
    pieces = []
    for i, m in enumerate(mass):
        low, high = edges[first + i], edges[first + i + 1]
        parts = max(1, min(int(round(m / wanted)), int((high - low) / width) if width else 1 << 20))
        cuts = np.linspace(low, high, parts + 1)[:-1]
        pieces.append(np.ceil(cuts / width) * width if width >= 1 else cuts)
    return np.unique(np.append(np.concatenate(pieces), edges[last + 1]))


def to_probabilities(noisy: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest non-negative vector with sum 1 to `noisy / total` (Euclidean projection on the simplex)."""
    if len(noisy) == 0:
        return np.zeros(0)
    v = noisy / max(total, 1.0)
    ordered = np.sort(v)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(v) + 1)
    shift = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.clip(v - shift, 0, None)
