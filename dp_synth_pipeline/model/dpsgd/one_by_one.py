"""Exact clipping of units that are computed one by one, so that any module can be trained whose losses autograd can derive.

Guarantee: `OneByOneClipping.backward` adds whole numbers of the lattice's spacing to the sum, whose L2 norm over all
parameters is at most the bound, whatever the gradient was. Numbers that are not finite add nothing. Sums are exact.

How: a unit's gradient is a vector of 32-bit floats. Its norm is computed in double precision and raised by `MARGIN`, which
is more than that can have lost, so what the gradient is scaled to lies under the bound. Each entry is then cut off, which
only shrinks it. No unit's numbers depend on another's, since no other one is there while they are computed.

The layers that `clipping` knows are clipped in one pass for all units of a batch, which is faster for small networks. In a
large one a single unit fills the machine.
"""

from __future__ import annotations

import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

MARGIN = 2.0**-20
"""More than the relative rounding error of a norm of up to 2**31 numbers, and of what is scaled by it."""


class OneByOneClipping:
    """Clips the gradient of one unit after the other.

    Attributes:
        parameters: the trained ones, in the network's order.
        lattice: what the sums are multiples of; its bound is the clip norm.
    """

    def __init__(self, network: Trainable, lattice: Lattice) -> None:
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.lattice = lattice
        self.sum: torch.Tensor | None = None

    def backward(self, losses: torch.Tensor) -> None:
        """Add the clipped gradient of one unit's loss (1,) to the sum.

        Raises:
            TrainingError: if there are several units, whose gradients could not be told apart.
        """
        if len(losses) != 1:
            raise TrainingError(f"units are clipped one by one here, got {len(losses)} at once; compute parts of one.")
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(losses.sum(), self.parameters)])
        clipped = self.clipped(gradient)
        self.sum = clipped if self.sum is None else self.sum + clipped

    @torch.no_grad()
    def clipped(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return a gradient (numbers,) under the bound, int64 in spacings."""
        exact = gradient.double()
        norm = exact.dot(exact).sqrt()
        if not torch.isfinite(norm):
            return torch.zeros_like(gradient, dtype=torch.int64)
        most = 2.0**self.lattice.bits / (norm * (1 + MARGIN))
        return (exact * most.clamp(max=1 / self.lattice.spacing)).trunc().to(torch.int64)

    def take(self) -> torch.Tensor:
        """Return the sum as one vector, int64 in spacings and in the network's order, and begin anew."""
        found, self.sum = self.sum, None
        if found is None:
            size = sum(p.numel() for p in self.parameters)
            return torch.zeros(size, dtype=torch.int64, device=self.parameters[0].device)
        return found

    def close(self) -> None:
        """Leave the network as it was: nothing of it was changed."""
