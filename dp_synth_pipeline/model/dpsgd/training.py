"""DP-SGD: Poisson samples, exact clipping, Gaussian noise and accounting by Opacus; returns weights and what was done.

Public: the plan, the number of steps done, the released weights, noisy looks, the audit. Private, and never returned,
logged or stored: batch sizes, losses, gradients.

All arithmetic is in 32-bit floats, on GPUs too: with 16 bits the norms that clipping relies on would be off by up to 1 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import checkpoint, distributed
from dp_synth_pipeline.model.dpsgd.descent import Descent, Hooks, Job
from dp_synth_pipeline.model.dpsgd.distributed import Shared
from dp_synth_pipeline.model.dpsgd.optimization import few_threads
from dp_synth_pipeline.model.marginals.plan import LooksPlan, TrainingPlan
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.events import SubsampledGaussian

DIVERGED = 1e6
"""Size that no useful weight has."""


@dataclass(frozen=True)
class Trained:
    """Released weights and the event that was performed to get them.

    Attributes:
        network: on the CPU, ready to draw.
        event: the steps that this call ran; None if none were left.
        audit: noise, sampling and clipping as measured while it ran. Whoever publishes the weights has to look at it.
        stopped_at: the step before which a noisy look ended training; None if the plan ran out.
    """

    network: AutoregressiveNetwork
    event: SubsampledGaussian | None
    audit: Audit
    stopped_at: int | None = None


def train(
    codes: np.ndarray,
    cardinalities: Sequence[int],
    plan: TrainingPlan,
    spec: GeneratorSpec,
    *,
    units: np.ndarray | None = None,
    network: AutoregressiveNetwork | None = None,
    looks: LooksPlan | None = None,
    mark: Callable[[int], None] = lambda steps: None,
    mark_look: Callable[[int], None] = lambda looks: None,
    progress: Callable[[int, int], None] = lambda done, steps: None,
    device: str | None = None,
    resume_from: int = 0,
    checkpoints: Path | None = None,
    workers: int = 1,
) -> Trained:
    """Fit a network to the joint distribution of `codes` by DP-SGD, exactly as `plan` says.

    Args:
        codes: int (rows, columns), each below its column's cardinality; may be memory-mapped.
        units: int64 (rows,) ascending unit numbers; None when each row is a unit.
        network: where the weights start, from `initialization.begin`, which is changed; None for a random start.
        looks: charged looks at the loss that may end training early.
        mark: called *before* a chunk of steps runs, with the number of steps that will then have started. It must make
            that number durable: a crash is charged up to it.
        mark_look: called before each look at the loss, with the number of looks that will then have been taken.
        progress: called with steps done and planned; public facts.
        resume_from: steps that an earlier attempt started; they are charged already and are not run again. If they are all
            that were planned, the last checkpoint's network is what was learnt.
        checkpoints: folder for the state from which a killed training resumes; holds noisy weights, never a row.
        workers: processes that share the units, a GPU each if there are GPUs. Under torchrun, its processes are used, and
            each must make this call; the callbacks are called, and checkpoints kept, by rank 0 alone.

    Raises:
        TrainingError: if the plan has no noise, the accountant disagrees with the plan, weights are not finite, or a
            worker failed.
    """
    if not plan.noise_multiplier > 0:
        raise TrainingError("the training plan has no noise; calibrate it to a target epsilon first.")
    kept = checkpoints is not None and checkpoint.exists(checkpoints)
    if not 0 <= resume_from < plan.steps + int(kept):
        raise TrainingError(
            f"the plan has {plan.steps} steps, and {resume_from} were started: none are left to run, and no checkpoint was "
            f"kept of those that ran. What was charged for them stays charged."
        )
    known = (tuple(cardinalities), plan, spec, _device(device), looks, resume_from, checkpoints)
    job = Job(*_shared(codes, units), *known)
    network, done, audit = _run(job, network, Hooks(mark, mark_look, progress), workers)
    if audit is None:
        raise TrainingError("training ended without an audit of its noise; nothing was released.")
    ran = done - resume_from
    event = SubsampledGaussian(plan.noise_multiplier, plan.sample_rate, ran) if ran else None
    return Trained(network, event, audit, done if done < plan.steps else None)


def train_public(
    codes: np.ndarray,
    cardinalities: Sequence[int],
    plan: TrainingPlan,
    spec: GeneratorSpec,
    *,
    units: np.ndarray | None = None,
    network: AutoregressiveNetwork | None = None,
    progress: Callable[[int, int], None] = lambda done, steps: None,
    device: str | None = None,
    workers: int = 1,
) -> AutoregressiveNetwork:
    """Fit a network as `train` does, with the same samples and schedule but WITHOUT clipping and noise: not private.

    For data that a person declared public, and as the yardstick of what privacy costs. There is no event: no epsilon
    describes it. `plan.noise_multiplier` is not used.

    Raises:
        TrainingError: if weights are not finite, or a worker failed.
    """
    job = Job(*_shared(codes, units), tuple(cardinalities), plan, spec, _device(device), private=False)
    return _run(job, network, Hooks(progress=progress), workers)[0]


def _device(asked: str | None) -> str:
    return asked or ("cuda" if torch.cuda.is_available() else "cpu")


def _shared(codes: np.ndarray, units: np.ndarray | None) -> tuple[Shared, Shared | None]:
    return Shared(codes), None if units is None else Shared(units)


def _run(
    job: Job, network: AutoregressiveNetwork | None, hooks: Hooks, workers: int
) -> tuple[AutoregressiveNetwork, int, Audit | None]:
    """Train by one or several processes; return the network, the step before which training ended, and the audit."""
    with distributed.team(workers, _follow, job, device=torch.device(job.device)) as team, few_threads(workers):
        network = (network or AutoregressiveNetwork(job.cardinalities, job.spec)).to(torch.device(job.device))
        descent = Descent(job, network.train(), team)
        done = descent.go(hooks)
        audit = descent.audit()
    if not all(bool((p.abs() < DIVERGED).all()) for p in network.parameters()):
        raise TrainingError("training diverged; lower training.learning_rate. What was charged for it stays charged.")
    network.forget_unused()
    return network.cpu().eval(), done, audit


def _follow(job: Job) -> None:
    """What a worker that does not lead does."""
    _run(job, None, Hooks(), 1)
