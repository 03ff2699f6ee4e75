"""Exact clipping of gradients that are written out unit by unit, so that any module can be trained that autograd derives.

Guarantee: `OneByOneClipping.backward` adds, for each unit, whole numbers of the lattice's spacing to the sum, whose L2 norm
over all parameters is at most the bound, whatever the gradient was. Units that are not finite add nothing. Sums are exact.

How: a unit's gradient is a vector of 32-bit floats. Its norm is computed in double precision and raised by `MARGIN`, which
is more than that can have lost, so what the gradient is scaled to lies under the bound. Each entry is then cut off, which
only shrinks it. No unit's numbers depend on another's: either no other one is there while they are computed, or parts have
sizes in which `repeatable` found them the same to the last bit in any place and company.

The layers that `clipping` knows are clipped in one pass for all units of a batch, which is faster for small networks. In a
large one a single unit fills a processor, and some dozens fill a GPU.
"""

from __future__ import annotations

import torch

from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

MARGIN = 2.0**-20
"""More than the relative rounding error of a norm of up to 2**31 numbers, and of what is scaled by it."""


class OneByOneClipping:
    """Clips each unit's gradient, as the network derives it, by itself.

    Attributes:
        network: is asked for the gradients.
        lattice: what the sums are multiples of; its bound is the clip norm.
    """

    def __init__(self, network: Trainable, lattice: Lattice) -> None:
        self.network, self.lattice = network, lattice
        self.sum: torch.Tensor | None = None

    def backward(self, losses: torch.Tensor) -> None:
        """Add the clipped gradients of units' losses (units,), summed over a unit's rows already, to the sum.

        Raises:
            TrainingError: if there are more units than the network derives at once.
        """
        clipped = self.clipped(self.network.gradients(losses)).sum(0)
        self.sum = clipped if self.sum is None else self.sum + clipped

    @torch.no_grad()
    def clipped(self, gradients: torch.Tensor) -> torch.Tensor:
        """Return gradients (units, numbers), each under the bound, int64 in spacings."""
        exact = gradients.double()
        norm = exact.square().sum(1, keepdim=True).sqrt()
        most = 2.0**self.lattice.bits / (norm * (1 + MARGIN))
        whole = (exact * most.clamp(max=1 / self.lattice.spacing)).trunc().nan_to_num(0.0, 0.0, 0.0).to(torch.int64)
        return torch.where(torch.isfinite(norm), whole, 0)

    def numbers(self, losses: torch.Tensor, rows: torch.Size) -> list[torch.Tensor]:
        """Return what `backward` adds up for units' losses (units,), as (units, numbers); it adds nothing."""
        return [self.clipped(self.network.gradients(losses))]

    def take(self) -> torch.Tensor:
        """Return the sum as one vector, int64 in spacings and in the network's order, and begin anew."""
        found, self.sum = self.sum, None
        if found is None:
            trained = [p for p in self.network.parameters() if p.requires_grad]
            return torch.zeros(sum(p.numel() for p in trained), dtype=torch.int64, device=trained[0].device)
        return found

    def close(self) -> None:
        """Leave the network as it was: nothing of it was changed."""
