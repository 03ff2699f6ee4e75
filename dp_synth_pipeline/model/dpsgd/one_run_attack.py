"""One training on a made-up table of canaries, attacked by somebody who sees every noisy sum.

It reads no real row, so it costs nothing, and its weights are thrown away. Half of some canaries are in the table. Each
has a coordinate of its own, in which its gradient is exactly the clip norm. The table goes through
`training.train` like any other: the same sampler, clipping, sums, noise and optimizer. The attacker reads what the
optimizer gets, which is all that DP-SGD releases, and keeps for each canary the logarithm of the likelihood ratio of
"in" and "out" over all noisy sums. By the lemma of Neyman and Pearson no other score tells the two apart better.

Units are sampled independently, and noise is independent from coordinate to coordinate, so that each canary is a trial of
its own: one training is as many trials as it has canaries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable
from dp_synth_pipeline.model.dpsgd.work import Training
from dp_synth_pipeline.privacy.audit import Audit

CANARIES, FEWEST = 200_000, 50_000
"""Of a training with few steps, and of one with many."""

DRAWS = 200_000_000
"""Noisy coordinates over all steps, unless that leaves fewer than `FEWEST` canaries."""


@dataclass(frozen=True)
class Attacked:
    """What the attacker saw.

    Attributes:
        out, inside: float64 (canaries,); log-likelihood ratios of the canaries that were not in the table, and that were.
        sums: noisy sums that were released.
        audit: the run's own audit.
    """

    out: np.ndarray
    inside: np.ndarray
    sums: int
    audit: Audit


def canaries(plan: TrainingPlan) -> int:
    """Return how many canaries a training by this plan is attacked with."""
    return max(FEWEST, min(CANARIES, DRAWS // plan.steps))


def attack(
    network: Trainable, codes: np.ndarray, plan: TrainingPlan, spec: TrainingSpec, *, device: str | None = None
) -> Attacked:
    """Train once by `plan` on a made-up table that holds half of the canaries, and score all of them.

    Args:
        network: has a weight for each canary, and the gradient of a canary's loss is far above the clip norm, in that
            weight alone.
        codes: int64 (canaries, columns); all canaries, in the order of their weights.
        plan: the audited plan; its divisor is replaced by the made-up table's.
        spec: how the audited training learns. Microbatches are left out: rows are clipped one by one.
    """
    included = np.random.default_rng().permutation(len(codes)) < len(codes) // 2
    members = codes[included]
    made_up = replace(plan, expected_batch=max(1.0, plan.sample_rate * len(members)))
    work = Training(members, made_up, spec.with_(microbatch=1), device=device)
    with _watched(Attacker(made_up, spec.max_grad_norm, len(codes))) as attacker:
        trained = training.train(network, work)
    scores = attacker.scores.cpu().numpy()
    return Attacked(scores[~included], scores[included], attacker.sums, trained.audit)


class Attacker:
    """Adds up each coordinate's log-likelihood ratio over all noisy sums.

    Args:
        plan: what is claimed: in each step a canary is sampled with `sample_rate`, and then adds 1 to its coordinate, in
            clip norms, on which there is noise of `noise_multiplier`.
        coordinates: one for each canary.
    """

    def __init__(self, plan: TrainingPlan, clip: float, coordinates: int) -> None:
        self.plan, self.coordinates, self.sums = plan, coordinates, 0
        self.scale = plan.expected_batch / clip
        self.scores = torch.zeros(coordinates, dtype=torch.float64)

    @torch.no_grad()
    def see(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Look at what an optimizer gets, before it takes its step; other optimizers of this process are left alone."""
        gradient = optimizer.param_groups[0]["params"][0].grad
        if gradient is None or gradient.numel() != self.coordinates:
            return
        noisy = gradient.double() * self.scale
        rate, variance = self.plan.sample_rate, self.plan.noise_multiplier**2
        sampled = (2 * noisy - 1) / (2 * variance)  # of "sampled in this step" against "not"
        ratio = sampled
        if rate < 1:
            ratio = torch.logaddexp(sampled + math.log(rate), torch.full_like(sampled, math.log1p(-rate)))
        self.scores = self.scores.to(noisy.device) + ratio
        self.sums += 1


@contextmanager
def _watched(attacker: Attacker) -> Iterator[Attacker]:
    """Show an attacker what every optimizer gets."""
    handle = register_optimizer_step_pre_hook(attacker.see)
    try:
        yield attacker
    finally:
        handle.remove()
