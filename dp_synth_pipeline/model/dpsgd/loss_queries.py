"""Early stopping by private queries of the loss: each is charged, and was planned before training began.

An answer is the mean clipped loss over a Poisson sample of units, with Gaussian noise. A unit's loss is the mean of its
rows'. Only the noisy value is used, so stopping by it is post-processing. Stopping by the loss itself would be private at no
epsilon. Ledgers call these queries "looks", and so does the setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from dp_synth_pipeline.model.dpsgd.batches import UnitRows, parts
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

BATCH = 1 << 14
"""Units whose loss is computed at a time."""


@dataclass
class LossQueries:
    """Decides after each query whether the loss still falls by more than its noise explains.

    Args:
        plan: how many queries, at which rate and noise.
        population: released number of units, the divisor.
        team: the processes that answer together, each of its own units.
        answers: the noisy ones so far.
    """

    plan: LossQueriesPlan
    population: int
    team: Team = field(default_factory=Team)
    answers: list[float] = field(default_factory=list)

    @torch.no_grad()
    def query(self, network: Trainable, rows: UnitRows, noise: torch.Generator) -> bool:
        """Make the next query; return whether training should go on.

        Raises:
            IndexError: if all planned queries were made.
        """
        if len(self.answers) == self.plan.count:
            raise IndexError("all planned queries of the loss were made; one more was not charged.")
        spread = self.plan.noise_multiplier * loss_bound(network)
        chosen = self.team.own(PoissonSampler(self.team.count(len(rows)), self.plan.sample_rate).draw())
        total = clipped_losses(network, rows, chosen)
        if self.team.leads:
            total += spread * torch.randn((), generator=noise, dtype=torch.float64, device=noise.device)
        divisor = self.plan.sample_rate * self.population
        self.answers.append(float(self.team.add(total)) / divisor)
        return self._falls(spread / divisor)

    def _falls(self, deviation: float) -> bool:
        """Whether the last two answers lie below the two before by more than noise explains."""
        if len(self.answers) < 4:
            return True
        fell = np.mean(self.answers[-4:-2]) - np.mean(self.answers[-2:])
        return bool(fell > deviation)


@torch.no_grad()
def clipped_losses(network: Trainable, rows: UnitRows, chosen: np.ndarray) -> torch.Tensor:
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


def loss_bound(network: Trainable) -> float:
    """Return where a row's loss is clipped: twice that of guessing each code blindly. Public: cardinalities only."""
    return 2 * math.fsum(math.log(max(c, 2)) for c in network.cardinalities)
