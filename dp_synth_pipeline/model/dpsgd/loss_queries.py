"""Early stopping by noisy looks at the loss: each is a charged query that was planned before training began.

A look is the mean clipped loss over a Poisson sample of units, with Gaussian noise; a unit's loss is the mean of its rows'.
Only the noisy value is used, so stopping by it is post-processing. Stopping by the loss itself would be private at no
epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.dpsgd.batches import UnitRows, parts
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.marginals.plan import LooksPlan

BATCH = 1 << 14
"""Units whose loss is computed at a time."""


@dataclass
class Looks:
    """Decides after each look whether the loss still falls by more than its noise explains.

    Args:
        plan: how many looks, at which rate and noise.
        population: released number of units, the divisor.
        team: the processes that look together, each at its own units.
    """

    plan: LooksPlan
    population: int
    team: Team = field(default_factory=Team)
    seen: list[float] = field(default_factory=list)

    @torch.no_grad()
    def look(self, network: AutoregressiveNetwork, rows: UnitRows, noise: torch.Generator) -> bool:
        """Take the next look; return whether training should go on.

        Raises:
            IndexError: if all planned looks were taken.
        """
        if len(self.seen) == self.plan.count:
            raise IndexError("all planned looks were taken; one more was not charged.")
        spread = self.plan.noise_multiplier * loss_bound(network)
        chosen = self.team.own(PoissonSampler(self.team.count(len(rows)), self.plan.sample_rate).draw())
        total = clipped_losses(network, rows, chosen)
        if self.team.leads:
            total += spread * torch.randn((), generator=noise, dtype=torch.float64, device=noise.device)
        divisor = self.plan.sample_rate * self.population
        self.seen.append(float(self.team.add(total)) / divisor)
        return self._falls(spread / divisor)

    def _falls(self, deviation: float) -> bool:
        """Whether the last two looks lie below the two before by more than noise explains."""
        if len(self.seen) < 4:
            return True
        fell = np.mean(self.seen[-4:-2]) - np.mean(self.seen[-2:])
        return bool(fell > deviation)


@torch.no_grad()
def clipped_losses(network: AutoregressiveNetwork, rows: UnitRows, chosen: np.ndarray) -> torch.Tensor:
    """Return the sum of chosen units' clipped losses, float64 (): exact, so private. A unit moves it by `loss_bound`."""
    bound, device = loss_bound(network), next(network.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, len(chosen), BATCH):
        for codes, weight in parts(*rows.take(chosen[start : start + BATCH]), sum(network.cardinalities)):
            losses = network.losses(codes.to(device)).double().nan_to_num(nan=bound, posinf=bound).clamp(0, bound)
            if weight is not None:  # the mean of a unit's rows: how many the longest unit has is private
                share = weight.to(device, torch.float64)
                losses = (losses * share).sum(1) / share.sum(1)
            total += losses.sum()
    return total


def loss_bound(network: AutoregressiveNetwork) -> float:
    """Return where a row's loss is clipped: twice that of guessing each code blindly. Public: cardinalities only."""
    return 2 * math.fsum(math.log(max(c, 2)) for c in network.cardinalities)
