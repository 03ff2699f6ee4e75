"""Poisson sampling of units: each joins each step independently, with the same probability.

Accounting for Poisson sampling while shuffling is wrong by a factor of 4 to 5 in epsilon (Chua et al. 2024), so this is
the only sampler that training accepts.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_synth_pipeline.privacy.noise import secure_bytes, secure_words


class PoissonSampler:
    """Draws exact Poisson samples of `units`: each joins with exactly the probability `sample_rate`, by itself.

    A unit joins if a uniform number in [0, 1) lies below the rate. The first 8 of its binary digits decide for all but one
    unit in 256; those have 64 more drawn, until the rate has no digits left. All digits are random bits of AES in counter
    mode, keyed by the operating system for each sample. Sizes and members are private.

    Args:
        units: the true number of units, private.
        sample_rate: inclusion probability, public; any double from 0 to 1, taken as the exact number that it is.
    """

    def __init__(self, units: int, sample_rate: float) -> None:
        self.units, self.sample_rate = units, sample_rate

    def draw(self) -> np.ndarray:
        """Return the indices of one sample, int64 and ascending; often empty when `units * sample_rate` is small."""
        scaled = Fraction(self.sample_rate) * 256
        first = np.frombuffer(secure_bytes(self.units), dtype=np.uint8)
        if scaled >= 256:
            return np.arange(self.units)
        below, tied = np.flatnonzero(first < int(scaled)), np.flatnonzero(first == int(scaled))
        joined = np.concatenate([below, tied[_below(scaled - int(scaled), len(tied))]])
        return np.sort(joined).astype(np.int64, copy=False)


def _below(rate: Fraction, size: int) -> np.ndarray:
    """Return for each of `size` uniform numbers in [0, 1) whether it lies below `rate`, which has finitely many digits."""
    scaled = rate * 2**64
    digits, whole = secure_words(size), np.uint64(int(scaled))
    below, tied = digits < whole, np.flatnonzero(digits == whole)
    if len(tied) and scaled > int(scaled):
        below[tied] = _below(scaled - int(scaled), len(tied))
    return below
