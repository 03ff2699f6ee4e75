"""What a noisy histogram most likely says: between its cells noise is averaged out, and steps and spikes that it shows stay.

The density is taken to be constant, or nothing, on unknown runs of neighbouring cells. Every way to cut the cells into runs
is weighed by how well it explains the noisy counts, and the estimates are averaged over all of them: exactly, by forward and
backward sums (Fearnhead 2006, "Exact and efficient Bayesian inference for multiple changepoint problems"). How often runs
end is learnt from the same counts, so that a rough histogram is left rough. Post-processing, so free.
"""

from __future__ import annotations

import numpy as np

FITTED, EMPTY = 1.25, 0.75
"""Log-odds against a run with a density of its own, for its fit to noise, and against one that holds nothing. Tried on
bells, decays, steps, islands, spikes and rough densities of 120 cells: from 1 to 1.5 they do alike."""

FIRST, LEAST, MOST = 0.05, 0.005, 0.97
"""Chance that a run ends after a cell: before it is learnt, and its bounds."""

ROUNDS = 3
"""Passes over all runs in which it is learnt how often they end."""

TOGETHER = 384
"""Cells that are cut into runs together, at most: memory and time grow with their square."""

NARROW = 1e-100
"""Width of a cell, as a part of the widest, at least: its square is still a number."""


def smooth(noisy: np.ndarray, widths: np.ndarray, scale: float) -> np.ndarray:
    """Return estimates of the true counts of neighbouring cells; an all but noiseless histogram comes back as it is.

    Args:
        noisy: (n,) counts with independent noise. More than `TOGETHER` are taken piece by piece.
        widths: (n,) how much of the line each cell covers, above 0.
        scale: standard deviation of the noise.

    Returns:
        (n,) counts of at least 0.
    """
    n, ends = len(noisy), FIRST
    if n < 2:
        return np.maximum(noisy, 0.0)
    if n > TOGETHER:
        pieces = -(-n // TOGETHER)
        parts = zip(np.array_split(noisy, pieces), np.array_split(widths, pieces), strict=True)
        return np.concatenate([smooth(*part, scale) for part in parts])
    relative = np.maximum(widths / widths.max(), NARROW)
    # squares[i, j] and the like are sums over the run of cells i to j - 1; rows and columns are the places between cells.
    squares, products, energy = (_runs(part) for part in (relative**2, relative * noisy, noisy**2))
    run = np.triu(np.ones((n + 1, n + 1), bool), 1)
    density = np.where(run, np.maximum(products, 0.0) / np.where(run, squares, 1.0), 0.0)
    misfit = np.maximum(energy - 2 * density * products + density**2 * squares, 0.0)
    fitted = np.where(run, -misfit / (2 * scale**2) - FITTED, -np.inf)
    either = np.logaddexp(fitted, np.where(run, -energy / (2 * scale**2) - EMPTY, -np.inf))
    for _ in range(ROUNDS):
        price = np.log((1 - ends) / ends)
        ends = np.clip((np.exp(either - price + _around(either - price)).sum() - 0.5) / n, LEAST, MOST)
    price = np.log((1 - ends) / ends)
    chance = np.exp(fitted - price + _around(either - price))
    mean = np.cumsum(chance * density, axis=0)  # over the runs that begin by each cell ...
    mean = np.cumsum(mean[:, ::-1], axis=1)[:, ::-1]  # ... and end after it
    return mean[np.arange(n), np.arange(n) + 1] * relative


def _around(logs: np.ndarray) -> np.ndarray:
    """Return the log-weight of all ways to cut what lies before and after each run, less that of all ways to cut it all."""
    n = len(logs) - 1
    before, after = np.full(n + 1, -np.inf), np.full(n + 1, -np.inf)
    before[0] = after[n] = 0.0
    for k in range(1, n + 1):
        before[k] = np.logaddexp.reduce(before[:k] + logs[:k, k])
        after[n - k] = np.logaddexp.reduce(logs[n - k, n - k + 1 :] + after[n - k + 1 :])
    return before[:, None] + after[None, :] - before[n]


def _runs(parts: np.ndarray) -> np.ndarray:
    """Return sums over the run of cells i to j - 1, (n + 1, n + 1); each added up by itself, so that none cancels."""
    n, sums = len(parts), np.zeros((len(parts) + 1, len(parts) + 1))
    sums[:n, 1:] = np.cumsum(np.triu(np.broadcast_to(parts, (n, n))), axis=1)
    return sums
