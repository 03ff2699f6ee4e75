"""Poisson sampling of units: each joins each step independently, with the same probability.

Accounting for Poisson sampling while shuffling is wrong by a factor of 4 to 5 in epsilon (Chua et al. 2024), so this is
the only sampler that training accepts.
"""

from __future__ import annotations

import numpy as np


class PoissonSampler:
    """Draws exact Poisson samples of `units` at a cost that does not grow with their number.

    The size of a sample is Binomial(units, rate), and given its size a Poisson sample is a uniform subset. Both come from
    a generator with the operating system's entropy. Sizes and members are private.

    Args:
        units: the true number of units, private.
        sample_rate: inclusion probability, public.
    """

    def __init__(self, units: int, sample_rate: float) -> None:
        self.units, self.sample_rate = units, sample_rate
        self._rng = np.random.default_rng()

    def draw(self) -> np.ndarray:
        """Return the indices of one sample, int64; often empty when `units * sample_rate` is small."""
        size = self._rng.binomial(self.units, self.sample_rate)
        return self._rng.choice(self.units, size, replace=False, shuffle=False)
