"""What the noisy counts of many categories most likely were: small ones lend each other strength. Post-processing, so free.

Of a long list of categories most occur in few rows or in none, and noise hides which. How their true counts are distributed
is estimated from all noisy counts together (Kiefer & Wolfowitz 1956; Efron 2014, "Two modeling strategies for empirical
Bayes estimation"), and each count becomes its mean under that distribution.
"""

from __future__ import annotations

import numpy as np

FEW = 20
"""Small counts, at least: fewer tell nothing of a distribution."""

LARGE = 8
"""Deviations of the noise from which a count stands for itself."""

STEPS = 16
"""Noisy counts are told apart to so many parts of a deviation."""

ROUNDS = 400
"""Steps by which the distribution is fitted; twice as many move no distance by a thousandth."""

_TRUE = np.concatenate([[0.0], np.geomspace(1 / 64, 1 / 2, 20), np.arange(5 / 8, LARGE + 1, 1 / 8)])
"""True counts that a small count may have had, in deviations of the noise."""


def shrunk(noisy: np.ndarray, total: float, scale: float) -> np.ndarray:
    """Return estimates of the true counts of unordered cells; few small cells come back as they are.

    Args:
        noisy: (n,) counts with independent noise.
        total: about how many rows all cells hold together; what large counts leave of it is shared by the small ones.
        scale: standard deviation of the noise, above 0.

    Returns:
        (n,) counts.
    """
    small = noisy < LARGE * scale
    if small.sum() < FEW:
        return noisy
    counts = noisy.astype(float)
    levels, place, often = np.unique(np.rint(counts[small] / scale * STEPS), return_inverse=True, return_counts=True)
    likelihood = np.exp(-((levels[:, None] / STEPS - _TRUE) ** 2) / 2)
    likelihood[likelihood.sum(1) < 1e-290] = np.eye(len(_TRUE))[0]  # so far below 0 that it can only be 0
    prior, share = np.full(len(_TRUE), 1 / len(_TRUE)), often / often.sum()
    for _ in range(ROUNDS):
        prior = prior * ((share / (likelihood @ prior)) @ likelihood)
    posterior = likelihood * prior
    means = (posterior @ _TRUE / posterior.sum(1))[place]
    rest = max(total - counts[~small].sum(), 0.0)
    counts[small] = means * rest / max(means.sum(), 1e-12)
    return counts
