"""Early stopping by private queries of the loss: each is charged, and was planned before training began.

An answer is the mean clipped loss over a Poisson sample of units, with Gaussian noise. A unit's loss is the mean of its
rows'. Each clipped loss is rounded down to a multiple of one spacing, so that their sum is exact, and so is the noise (see
`lattice`). Only the noisy value is used, so stopping by it is post-processing. Stopping by the loss itself would be private
at no epsilon. Ledgers call these queries "looks", and so does the setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from dp_synth_pipeline.model.dpsgd.batches import Batch, Sizes, UnitRows, parts, rows_of
from dp_synth_pipeline.model.dpsgd.clipping import halved_sum
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
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
        deviation: of the noise in each of them; 0 before the first.
    """

    plan: LossQueriesPlan
    population: int
    team: Team = field(default_factory=Team)
    answers: list[float] = field(default_factory=list)
    deviation: float = 0.0

    @torch.no_grad()
    def query(self, network: Trainable, rows: UnitRows, sizes: Sizes) -> bool:
        """Make the next query; return whether training should go on.

        Args:
            sizes: of the parts that losses are computed in; see `batches.parts`.

        Raises:
            IndexError: if all planned queries were made.
        """
        if len(self.answers) == self.plan.count:
            raise IndexError("all planned queries of the loss were made; one more was not charged.")
        lattice = Lattice.under(loss_bound(network), self.plan.noise_multiplier)
        chosen = self.team.own(PoissonSampler(self.team.count(len(rows)), self.plan.sample_rate).draw())
        total = lattice.rounded(clipped_losses(network, rows, chosen, lattice, sizes))
        if self.team.leads:
            total = total + lattice.noise(self.plan.noise_multiplier, 1, total.device)[0]
        divisor = self.plan.sample_rate * self.population
        self.answers.append(float(lattice.noisy_values(self.team.add(total))) / divisor)
        self.deviation = self.plan.noise_multiplier * lattice.bound / divisor
        return self._falls(self.deviation)

    def _falls(self, deviation: float) -> bool:
        """Whether the last two answers lie below the two before by more than noise explains."""
        if len(self.answers) < 4:
            return True
        fell = np.mean(self.answers[-4:-2]) - np.mean(self.answers[-2:])
        return bool(fell > deviation)


@torch.no_grad()
def clipped_losses(
    network: Trainable, rows: UnitRows, chosen: np.ndarray, lattice: Lattice, sizes: Sizes
) -> torch.Tensor:
    """Return the sum of chosen units' clipped losses, int64 () in spacings: private.

    A unit moves it by 2**bits, which is `loss_bound`, at most: it adds that or less, and all sums are exact.
    """
    bound, device = lattice.bound, next(network.parameters()).device
    total = torch.zeros((), dtype=torch.int64, device=device)
    for start in range(0, len(chosen), BATCH):
        for codes, there in _parts(rows.take(chosen[start : start + BATCH]), network, sizes):
            losses = network.losses(codes.to(device)).double().nan_to_num(nan=bound, posinf=bound).clamp(0, bound)
            share = there.to(device, torch.float64)
            present = share if share.dim() == 1 else (share.sum(1) > 0).double()
            if share.dim() == 2:  # the mean of a unit's rows: how many the longest unit has is private
                losses = halved_sum(losses * share) / share.sum(1).clamp(min=1)
            whole = (losses / bound * 2.0**lattice.bits).floor().clamp(max=2**lattice.bits)
            total += (whole * present).to(torch.int64).sum()
    return total


def _parts(batches: list[Batch], network: Trainable, sizes: Sizes) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for codes, weight in batches:
        yield from parts(codes, weight, sum(network.cardinalities), sizes.get(rows_of(codes), ()))


def loss_bound(network: Trainable) -> float:
    """Return where a row's loss is clipped: twice that of guessing each code blindly. Public: cardinalities only."""
    return 2 * math.fsum(math.log(max(c, 2)) for c in network.cardinalities)
