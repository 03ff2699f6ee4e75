"""Sums that are exact: whole multiples of one spacing, to which rounded Gaussian noise is added as whole numbers.

A unit's clipped gradient is rounded to a fine lattice by itself, so that the sum of a batch is a sum of whole numbers:
exact, in any order, in parts and on any device. One unit then moves it by at most 2**bits spacings in L2 norm, which is the
clip (see `clipping`). The sum is rounded once more, to a lattice on which noise is drawn fast: in d coordinates, that adds
at most the root of d of its spacings to what one unit moves, and noise grows with it (see `privacy.noise`).
docs/training-noise.md has the theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.privacy.noise import rounded_gaussian

FINEST = 40
"""Bits of the lattice that sums lie on: a clip of 2**40 spacings."""

NOISE_BITS = 32
"""Noise has a deviation of at most 2**32 spacings of its lattice: beyond, exact arithmetic would be asked too often."""

COARSEST = 12
"""Least bits of the lattice of noise that training accepts; fewer would serve only noise that drowns everything."""

EXACT = 2**53
"""Whole numbers up to here, and their sums while they stay below, are exact in double precision."""


@dataclass(frozen=True)
class Lattice:
    """Multiples of bound / 2**bits, and those of them on which noise is drawn.

    Attributes:
        bound: most, in L2 norm, by which one unit may move a sum.
        bits: how fine the lattice of the sums is.
        noise_bits: how fine that of the noise is; at most `bits`.
    """

    bound: float
    bits: int = FINEST
    noise_bits: int = FINEST

    @classmethod
    def under(cls, bound: float, noise_multiplier: float) -> Lattice:
        """Return the lattices for noise of this multiple of the bound.

        Raises:
            TrainingError: if there is so much noise that no lattice is fine enough for what it hides.
        """
        noise_bits = NOISE_BITS - math.ceil(math.log2(noise_multiplier)) if noise_multiplier > 0 else FINEST
        if noise_bits < COARSEST:
            raise TrainingError(f"a noise multiplier of {noise_multiplier:g} would drown everything; ask for less.")
        return cls(bound, FINEST, min(noise_bits, FINEST))

    @property
    def spacing(self) -> float:
        """What 1 is worth in a sum."""
        return self.bound * 2.0**-self.bits

    @property
    def input_bits(self) -> int:
        """Binary digits after the point that a layer's input keeps; its output's gradient has the others, of the bound."""
        return self.bits * 9 // 20

    @property
    def gradient_bits(self) -> int:
        """Binary digits after the point that an output's gradient keeps, in bounds."""
        return self.bits - self.input_bits

    def whole(self, values: torch.Tensor) -> torch.Tensor:
        """Return the nearest multiples, int64 in spacings."""
        return (values.double() / self.spacing).round().to(torch.int64)

    def values(self, sums: torch.Tensor) -> torch.Tensor:
        """Return what int64 sums are worth, as 32-bit floats."""
        return (sums.double() * self.spacing).float()

    def rounded(self, sums: torch.Tensor) -> torch.Tensor:
        """Return the nearest multiples of the noise's spacing to int64 sums, int64 in these."""
        shift = self.bits - self.noise_bits
        return sums if shift == 0 else (sums + (1 << (shift - 1))) >> shift

    def sensitivity(self, size: int) -> float:
        """Return by how much one unit moves `size` coordinates of `rounded` sums at most, in the noise's spacings.

        Each of the two roundings that are compared is off by at most a half in each coordinate.
        """
        return 2.0**self.noise_bits + (math.sqrt(size) if self.noise_bits < self.bits else 0.0)

    def noise(self, noise_multiplier: float, size: int, device: torch.device) -> torch.Tensor:
        """Return noise of `noise_multiplier` sensitivities in each of `size` coordinates, int64 in its spacings."""
        return torch.from_numpy(rounded_gaussian(noise_multiplier * self.sensitivity(size), size)).to(device)

    def noisy_values(self, noisy: torch.Tensor) -> torch.Tensor:
        """Return what int64 noisy sums, in the noise's spacings, are worth, in double precision."""
        return noisy.double() * (self.bound * 2.0**-self.noise_bits)


def exact_ranges(loads: torch.Tensor, most: float) -> list[slice]:
    """Cut rows into runs whose loads add up to at most `most`, but for rounding, or that are one row.

    Where it cuts changes no sum: all of them are exact.

    Args:
        loads: float64 (rows,), at least 0.
    """
    upto = np.append(0.0, np.cumsum(loads.cpu().numpy()))
    cuts = [0]
    while upto[-1] - upto[cuts[-1]] > most and cuts[-1] + 1 < len(loads):
        after = int(np.searchsorted(upto, upto[cuts[-1]] + most, side="right")) - 1
        cuts.append(max(after, cuts[-1] + 1))
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(loads)], strict=True)]
