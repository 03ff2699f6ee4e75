"""DP-SGD: Poisson samples, exact clipping, exact Gaussian noise; returns weights and what was done, as Opacus counted it.

Public: the plan, the number of steps done, the released weights, noisy answers of the loss, the audit. Private, and never
returned, logged or stored: batch sizes, losses, gradients.

Networks compute in 32-bit floats. What privacy rests on is in whole numbers and double precision: docs/training-noise.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from dp_synth_pipeline.errors import Diverged, TrainingError
from dp_synth_pipeline.model.devices import fastest
from dp_synth_pipeline.model.dpsgd import checkpoint, distributed
from dp_synth_pipeline.model.dpsgd.descent import Descent
from dp_synth_pipeline.model.dpsgd.plan import Look
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable, frozen
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.model.threads import few_threads
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.events import SubsampledGaussian

DIVERGED = 1e6
"""Size that no useful weight has."""

Network = TypeVar("Network", bound=Trainable)


@dataclass(frozen=True)
class Trained(Generic[Network]):
    """Released weights and the event that was performed to get them.

    Attributes:
        network: on the CPU, ready to draw.
        event: the steps that this call ran; None if none were left.
        audit: noise, sampling and clipping as measured while it ran. Whoever publishes the weights has to look at it.
        stopped_at: the step before which a noisy answer ended training; None if the plan ran out.
        looks: the noisy answers of the loss that this call asked for.
    """

    network: Network
    event: SubsampledGaussian | None
    audit: Audit
    stopped_at: int | None = None
    looks: tuple[Look, ...] = ()


def train(network: Network, training: Training, hooks: Hooks = Hooks()) -> Trained[Network]:
    """Fit a network to the joint distribution of `training.codes` by DP-SGD, exactly as `training.plan` says.

    Args:
        network: where the weights start; it is changed.

    Raises:
        Diverged: if weights are not finite, or grew beyond use.
        TrainingError: if the plan has no noise, the accountant disagrees with the plan, or a worker failed.
    """
    plan, first = training.plan, training.resume_from
    if not plan.noise_multiplier > 0:
        raise TrainingError("the training plan has no noise; calibrate it to a target epsilon first.")
    kept = training.checkpoints is not None and checkpoint.exists(training.checkpoints)
    if not 0 <= first < plan.steps + int(kept):
        raise TrainingError(
            f"the plan has {plan.steps} steps, and {first} were started: none are left to run, and no checkpoint was "
            f"kept of those that ran. What was charged for them stays charged."
        )
    done, audit, looks = _run(network, _placed(training), hooks, private=True)
    if audit is None:
        raise TrainingError("training ended without an audit of its noise; nothing was released.")
    ran = done - first
    event = SubsampledGaussian(plan.noise_multiplier, plan.sample_rate, ran) if ran else None
    return Trained(network, event, audit, done if done < plan.steps else None, looks)


def train_public(network: Network, training: Training, hooks: Hooks = Hooks()) -> Network:
    """Fit a network as `train` does, with the same samples and schedule but WITHOUT clipping and noise: not private.

    For data that a person declared public, and as the yardstick of what privacy costs. There is no event: no epsilon
    describes it. `plan.noise_multiplier` is not used, nor are queries, resumption and checkpoints.

    Raises:
        TrainingError: if weights are not finite, or a worker failed.
    """
    plain = replace(training, queries=None, resume_from=0, checkpoints=None)
    _run(network, _placed(plain), Hooks(progress=hooks.progress), private=False)
    return network


def _placed(training: Training) -> Training:
    return replace(training, device=training.device or str(fastest()))


def _run(
    network: Trainable, training: Training, hooks: Hooks, *, private: bool
) -> tuple[int, Audit | None, tuple[Look, ...]]:
    """Train by one or several processes; return the step before which training ended, the audit, and noisy losses.

    Args:
        network: is changed; on the CPU and ready to draw in the end.
    """
    device, job = torch.device(training.device or "cpu"), (network.blueprint(), training, private)
    with (
        distributed.team(training.workers, _follow, job, device=device) as team,
        few_threads(training.workers),
        frozen(network),
    ):
        network.mix()
        descent = Descent(training, network.to(device).train(), team, private=private)
        done = descent.go(hooks)
        audit = descent.audit()
    if not all(bool((p.abs() < DIVERGED).all()) for p in network.parameters()):
        raise _diverged(descent.spec, private=private)
    network.settle()
    network.forget_unused()
    network.cpu().eval()
    return done, audit, tuple(descent.looks)


def _diverged(spec: TrainingSpec, *, private: bool) -> Diverged:
    """Return what says which settings to move, in the order in which they help; all of it is public."""
    further = "raise training.batch_share"
    if private:
        further += ", so that a step has less noise"
        if spec.optimizer == "sgd":
            further += "; then raise training.max_grad_norm, by which the rate of sgd is divided"
    charged = " What was charged for it stays charged." if private else ""
    return Diverged(
        f"training diverged: its weights are not finite, or grew beyond use. Lower training.learning_rate first (it was "
        f"{spec.learning_rate:.3g}); then {further}.{charged}"
    )


def _follow(job: tuple[Callable[[], Trainable], Training, bool]) -> None:
    """What a worker that does not lead does."""
    blueprint, training, private = job
    _run(blueprint(), replace(training, workers=1), Hooks(), private=private)
