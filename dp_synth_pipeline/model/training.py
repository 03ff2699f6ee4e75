"""DP-SGD: Poisson samples, exact clipping, Gaussian noise and accounting by Opacus; returns weights and what was done.

Public: the plan, the number of steps done, the released weights. Private, and never returned, logged or stored: batch
sizes, losses, gradients.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from opacus.accountants import RDPAccountant
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.clipping import OnePassClipping
from dp_synth_pipeline.model.network import AutoregressiveNetwork
from dp_synth_pipeline.model.sampling import PoissonSampler
from dp_synth_pipeline.model.spec import GeneratorSpec, TrainingPlan
from dp_synth_pipeline.privacy.events import SubsampledGaussian

CHUNK = 50
"""Steps between two write-ahead marks."""


@dataclass(frozen=True)
class Trained:
    """Released weights and the event that was performed to get them."""

    network: AutoregressiveNetwork
    event: SubsampledGaussian


def train(
    codes: np.ndarray,
    cardinalities: Sequence[int],
    plan: TrainingPlan,
    spec: GeneratorSpec,
    *,
    units: np.ndarray | None = None,
    marginals: Sequence[np.ndarray] | None = None,
    mark: Callable[[int], None] = lambda steps: None,
    progress: Callable[[int, int], None] = lambda done, steps: None,
    device: str | None = None,
) -> Trained:
    """Fit the network to `codes` by DP-SGD, exactly as `plan` says.

    Args:
        codes: int (rows, columns), each below its column's cardinality; may be memory-mapped.
        units: int64 (rows,) ascending unit numbers; None when each row is a unit.
        marginals: released 1-way probabilities to start from, which cost nothing here.
        mark: called *before* a chunk of steps runs, with the number of steps that will then have started. It must make
            that number durable: a crash is charged up to it.
        progress: called with steps done and planned; public facts.

    Raises:
        TrainingError: if the plan has no noise, the accountant disagrees with the plan, or weights are not finite.
    """
    if not plan.noise_multiplier > 0:
        raise TrainingError("the training plan has no noise; calibrate it to a target epsilon first.")
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with _few_threads():
        network = AutoregressiveNetwork(cardinalities, spec).to(where)
        if marginals is not None:
            network.start_from(marginals)
        rows = UnitRows(codes, units)
        accountant = _descend(network, rows, plan, spec, where, mark, progress)
    done = sum(steps for *_, steps in accountant.history)
    if done != plan.steps or {h[:2] for h in accountant.history} != {(plan.noise_multiplier, plan.sample_rate)}:
        raise TrainingError("the steps that Opacus accounted for are not those of the plan; nothing was released.")
    if not all(torch.isfinite(p).all() for p in network.parameters()):
        raise TrainingError("training diverged; lower training.learning_rate. The charge stands: noise was drawn.")
    network.forget_unused()
    return Trained(network.cpu().eval(), SubsampledGaussian(plan.noise_multiplier, plan.sample_rate, done))


def _descend(
    network: AutoregressiveNetwork,
    rows: UnitRows,
    plan: TrainingPlan,
    spec: GeneratorSpec,
    where: torch.device,
    mark: Callable[[int], None],
    progress: Callable[[int, int], None],
) -> RDPAccountant:
    noise = torch.Generator(where)
    optimizer = DPOptimizerFastGradientClipping(
        _inner_optimizer(network, spec),
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=spec.max_grad_norm,
        expected_batch_size=plan.expected_batch,  # type: ignore[arg-type]
        generator=noise,
    )
    accountant = RDPAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(plan.sample_rate))
    clipping = OnePassClipping(network, spec.max_grad_norm)
    sampler = PoissonSampler(len(rows), plan.sample_rate)
    average = _Average(network, spec, plan.steps)
    for step in range(plan.steps):
        if step % CHUNK == 0:
            mark(min(step + CHUNK, plan.steps))
            progress(step, plan.steps)
        batch, present = rows.take(sampler.draw())
        losses = network.losses(batch.to(where))
        if present is not None:
            losses = (losses * present.to(where)).sum(1)
        clipping.backward(losses)
        rekey(noise)
        _decay(optimizer, spec, step / plan.steps)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update(step)
    progress(plan.steps, plan.steps)
    average.copy_to(network)
    return accountant


class UnitRows:
    """The rows of each unit, padded to the longest, ready to be sampled by unit."""

    def __init__(self, codes: np.ndarray, units: np.ndarray | None) -> None:
        self.codes = codes
        self.starts: np.ndarray | None = None
        if units is not None:
            if len(units) != len(codes) or (units[1:] < units[:-1]).any():
                raise TrainingError(
                    "unit numbers must ascend, one for each row, so that all rows of a unit are clipped as one."
                )
            self.starts = np.append(np.flatnonzero(np.append(True, units[1:] != units[:-1])), len(units))[
                : _n(units) + 1
            ]
            self.longest = int(np.diff(self.starts).max()) if len(units) else 1

    def __len__(self) -> int:
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    def take(self, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return codes (units, D), or (units, rows, D) with a mask (units, rows) of the rows that exist."""
        if self.starts is None:
            return torch.from_numpy(np.asarray(self.codes[np.sort(chosen)], dtype=np.int64)), None
        index = self.starts[chosen][:, None] + np.arange(self.longest)
        present = index < self.starts[chosen + 1][:, None]
        rows = np.asarray(self.codes[np.minimum(index, len(self.codes) - 1)], dtype=np.int64)
        return torch.from_numpy(rows), torch.from_numpy(present.astype(np.float32))


def _n(units: np.ndarray) -> int:
    return int((units[1:] != units[:-1]).sum()) + 1 if len(units) else 0


class _Average:
    """Exponential average of the weights over the last steps, without bias from the start."""

    def __init__(self, network: AutoregressiveNetwork, spec: GeneratorSpec, steps: int) -> None:
        self.decay = 1 - 1 / max(1.0, spec.averaging * steps)
        self.weights = [p.detach().clone() for p in network.parameters()]
        self.network = network

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, step / (step + 10))
        for average, p in zip(self.weights, self.network.parameters(), strict=True):
            average.lerp_(p, 1 - decay)

    @torch.no_grad()
    def copy_to(self, network: AutoregressiveNetwork) -> None:
        for p, average in zip(network.parameters(), self.weights, strict=True):
            p.copy_(average)


def _inner_optimizer(network: AutoregressiveNetwork, spec: GeneratorSpec) -> torch.optim.Optimizer:
    if spec.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), lr=spec.learning_rate)
    return torch.optim.SGD(network.parameters(), lr=spec.learning_rate / spec.max_grad_norm, momentum=0.9)


def _decay(optimizer: DPOptimizerFastGradientClipping, spec: GeneratorSpec, done: float) -> None:
    """Keep the rate for half the steps, then lower it linearly to a tenth: a public schedule."""
    full = spec.learning_rate if spec.optimizer == "adam" else spec.learning_rate / spec.max_grad_norm
    for group in optimizer.param_groups:
        group["lr"] = full * min(1.0, 1.9 - 1.8 * done)


def rekey(generator: torch.Generator) -> None:
    """Give a noise generator a wholly new state from the operating system, so that no two steps or runs share noise.

    On the CPU, torch's own seeding would keep 32 bits of entropy only; the whole Mersenne state is replaced instead.
    """
    generator.seed()
    if generator.device.type == "cpu":
        state = generator.get_state()
        words = np.frombuffer(os.urandom(4 * 624), dtype=np.uint32).astype(np.uint64)
        state[24 : 24 + 8 * 624] = torch.from_numpy(words.view(np.uint8).copy())
        generator.set_state(state)


@contextmanager
def _few_threads():
    """Use half the cores, at most four: matrices here are small, and threads that wait for each other cost more."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(before, (os.cpu_count() or 1) // 2, 4)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
