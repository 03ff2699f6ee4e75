"""Coordinates, units and examples that hold no data, put through training's own calls to measure what it really did.

- Noise: a reserved parameter beside the network's, in the same optimizer. Its summed gradient is zero, so what reaches
  the optimizer's update is noise alone. It has no place in the network, in the average or in the released weights.
- Sampling: the sampler draws from the real units and some reserved ones at once. A Poisson sample of both, without the
  reserved, is a Poisson sample of the real: their draws are independent, so theirs are what they would have been.
- Clipping: made-up examples with large losses go through the same clipping; what one of them adds to the sum is measured.

Nothing here depends on a row, nor on how many there are; what is measured may be released (see `privacy.audit`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.privacy.audit import Observed

DRAWS = 20_000
"""Noisy coordinates that a run watches at least: noise is then known to half a percent."""

COORDINATES = 256
"""Of which in each step, at least."""

INCLUSIONS = 10_000
"""Expected draws of reserved units, unless that needs more than `MOST_UNITS` of them: the rate is then known to 1 %."""

LEAST_UNITS, MOST_UNITS = 512, 4096
"""Reserved units."""

PROBES = 4
"""Times in a run that made-up examples are clipped, at most; once in `PROBE_EVERY` steps, and always before the first."""

PROBE_EVERY = 150

EXAMPLES = 8
"""Made-up examples that are clipped together."""

LOUD = 1e4
"""What their losses are multiplied by, in clip norms, so that the clip has something to do."""


class Canaries:
    """What one process of a training reserves, and what it saw of it.

    Args:
        plan: the whole training's.
        steps: those still to run.
        unit: what one unit of noise is worth in a gradient that the optimizer gets: sensitivity / divisor.
    """

    def __init__(self, plan: TrainingPlan, steps: int, unit: float, device: torch.device) -> None:
        self.plan, self.unit, self.device = plan, unit, device
        coordinates = max(COORDINATES, math.ceil(DRAWS / max(steps, 1)))
        self.parameter = nn.Parameter(torch.zeros(coordinates, device=device))
        expected = plan.steps * plan.sample_rate
        wanted = min(math.ceil(INCLUSIONS / expected), MOST_UNITS) if expected > 0 else MOST_UNITS
        self.units = max(wanted, LEAST_UNITS)
        probes = min(PROBES, 1 + steps // PROBE_EVERY)
        self.probed_at = {plan.steps - steps + i * steps // probes for i in range(probes)}
        self.times = np.zeros(self.units, dtype=np.int64)
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)  # squares, echoes
        self.steps = self.draws = self.pairs = 0
        self.clipped = self.entangled = 0.0
        self._before: torch.Tensor | None = None

    def set_apart(self, chosen: np.ndarray) -> np.ndarray:
        """Count the reserved units in a sample of `units` reserved and then real ones; return the real ones' numbers."""
        reserved = chosen < self.units
        np.add.at(self.times, chosen[reserved], 1)
        return chosen[~reserved] - self.units

    def offer(self) -> None:
        """Let the optimizer find a summed gradient of exactly zero."""
        self.parameter.grad = torch.zeros_like(self.parameter)

    @torch.no_grad()
    def hear(self) -> None:
        """Measure what the optimizer made of that zero; to be called after each step, before gradients are forgotten."""
        if self.parameter.grad is None:
            return
        noise = self.parameter.grad / self.unit
        self.sums[0] += noise.dot(noise)
        if self._before is not None:
            self.sums[1] += noise.dot(self._before)
            self.pairs += len(noise)
        self._before = noise
        self.draws += len(noise)
        self.steps += 1

    def judge_clipping(self, together: torch.Tensor, without: torch.Tensor, alone: torch.Tensor, clip: float) -> None:
        """Note by how much one example moves a clipped sum.

        Args:
            together: clipped sum of some examples, flat over all weights.
            without: the same without the last of them.
            alone: that of the last by itself.
        """
        added = together - without
        norms = torch.stack([added.norm(), alone.norm(), (added - alone).norm()]).double().cpu().numpy() / clip
        norms = np.nan_to_num(norms, nan=math.inf)
        self.clipped = max(self.clipped, float(norms[:2].max()))
        self.entangled = max(self.entangled, float(norms[2]))

    def seen(self, counts: torch.Tensor | None = None) -> Observed:
        """Return what was seen.

        Args:
            counts: all workers' `inclusions`, added up; this process's alone without.
        """
        units, inclusions, spread = (self.inclusions() if counts is None else counts).tolist()
        squares, echoes = self.sums.tolist()
        return Observed(
            steps=self.steps,
            draws=self.draws,
            squares=squares,
            pairs=self.pairs,
            echoes=echoes,
            units=round(units),
            inclusions=round(inclusions),
            spread=spread,
            clipped=self.clipped,
            entangled=self.entangled,
        )

    def inclusions(self) -> torch.Tensor:
        """Return, for workers to add up: reserved units, how often they were drawn, and their counts' spread."""
        expected = self.steps * self.plan.sample_rate
        spread = float(np.square(self.times - expected).sum())
        return torch.tensor([self.units, int(self.times.sum()), spread], dtype=torch.float64, device=self.device)

    def state(self) -> dict[str, torch.Tensor]:
        """Return all that a resumed training needs to go on measuring: sums over noise, and counts of nobody."""
        facts = [self.steps, self.draws, self.pairs, self.clipped, self.entangled]
        return {
            "sums": self.sums,
            "times": torch.from_numpy(self.times),
            "facts": torch.tensor(facts, dtype=torch.float64),
        }

    def resume(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from what an earlier attempt of the same plan saw; from nothing if `state` is empty."""
        if not state or len(state["times"]) != self.units:
            return
        self.sums.copy_(state["sums"])
        self.times[:] = state["times"].numpy()
        *counts, self.clipped, self.entangled = state["facts"].tolist()
        self.steps, self.draws, self.pairs = (round(c) for c in counts)
