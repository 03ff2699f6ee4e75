"""The optimizer inside DP-SGD: weights as one vector, noise on a lattice, learning rates and averages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec


class Flat(nn.Module):
    """The trained weights of a network as one vector, so that noise, update, average and all-reduce are one operation each.

    A step's matrices are small: with some thirty tensors, a third of its time went into starting operations on each.
    Until `release`, the network's trained weights are views of `vector` and move with it.

    Attributes:
        trained, frozen: the network's weights that have gradients, and those that have none and are not in `vector`. In
            tuples: they are not to be found here as parameters once more.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.trained = tuple(p for p in network.parameters() if p.requires_grad)
        self.frozen = tuple(p for p in network.parameters() if not p.requires_grad)
        self.vector = nn.Parameter(parameters_to_vector(self.trained).detach())
        vector_to_parameters(self.vector, self.trained)

    def gather(self) -> None:
        """Move the gradients of the network's trained weights, added up so far, to that of the vector."""
        self.vector.grad = torch.cat([p.grad.flatten() for p in self.trained])  # type: ignore[union-attr]
        for p in self.trained:
            p.grad = None

    def release(self) -> None:
        """Give the network weights of its own again."""
        for p in self.trained:
            p.data = p.data.clone()


class LatticeOptimizer(DPOptimizerFastGradientClipping):
    """Opacus' optimizer for clipped sums, which it divides and accounts for, with exact noise on whole numbers.

    A step's sums are int64 multiples of the lattice's spacing in `p.summed_grad`; of a parameter that has none there, the
    multiples nearest to `p.grad`. Each worker rounds its own to the lattice of the noise. These and the noise of the
    whole step, which the first adds, are added up as whole numbers: a unit lives in one worker, so one rounding counts.
    What the inner optimizer sees, and so every weight, is a function of these noisy sums alone.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        noise_multiplier: float,
        expected_batch_size: float,
        lattice: Lattice,
        team: Team,
    ) -> None:
        super().__init__(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=lattice.bound,
            expected_batch_size=expected_batch_size,  # type: ignore[arg-type]
        )
        self.lattice, self.team = lattice, team

    @torch.no_grad()
    def accumulate(self) -> None:
        """Take the step's sums."""
        for p in self.params:
            if p.summed_grad is None:  # type: ignore[attr-defined]
                p.summed_grad = self.lattice.whole(p.grad)  # type: ignore[attr-defined, arg-type]

    @torch.no_grad()
    def add_noise(self) -> None:
        """Put the noisy sums, of all workers together, into `p.grad`."""
        sums = self.lattice.rounded(torch.cat([p.summed_grad.flatten() for p in self.params]))  # type: ignore[attr-defined]
        if self.team.leads:
            sums = sums + self.lattice.noise(self.noise_multiplier, len(sums), sums.device)
        noisy = self.lattice.noisy_values(self.team.add(sums)).float().split([p.numel() for p in self.params])
        for p, values in zip(self.params, noisy, strict=True):
            p.grad = values.view_as(p)


class Average:
    """Exponential average of the weights over the last steps, without bias from the start."""

    def __init__(self, network: nn.Module, spec: TrainingSpec, steps: int) -> None:
        self.decay = 1 - 1 / max(1.0, spec.averaging * steps)
        self.network, self.taken = network, 0
        self.weights = [p.detach().clone() for p in network.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights as they are now."""
        decay = min(self.decay, self.taken / (self.taken + 10))
        self.taken += 1
        for average, p in zip(self.weights, self.network.parameters(), strict=True):
            average.lerp_(p, 1 - decay)

    @torch.no_grad()
    def copy_to(self, network: nn.Module) -> None:
        """Put the average in the place of the weights."""
        for p, average in zip(network.parameters(), self.weights, strict=True):
            p.copy_(average)


def inner_optimizer(
    network: nn.Module, spec: TrainingSpec, reserved: Iterable[nn.Parameter] = ()
) -> torch.optim.Optimizer:
    """Return the optimizer that takes the noisy gradients, of the network and of what an audit reserved beside it."""
    parameters = [*network.parameters(), *reserved]
    if spec.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=_full_rate(spec), foreach=True)
    return torch.optim.SGD(parameters, lr=_full_rate(spec), momentum=0.9)


def decay(optimizer: DPOptimizer | torch.optim.Optimizer, spec: TrainingSpec, done: float) -> None:
    """Keep the rate for half the steps, then lower it linearly to a tenth: a public schedule."""
    for group in optimizer.param_groups:
        group["lr"] = _full_rate(spec) * min(1.0, 1.9 - 1.8 * done)


def _full_rate(spec: TrainingSpec) -> float:
    if spec.learning_rate is None:
        raise TrainingError("the spec has no learning rate; take one from plan.learning_rate.")
    return spec.learning_rate if spec.optimizer == "adam" else spec.learning_rate / spec.max_grad_norm
