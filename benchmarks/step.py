"""What one training step costs, on the same network and batch, by one command:

    python benchmarks/step.py [--rounds 15] [--threads 1] [--out FILE.md]

Without privacy; with our clipping in one pass; and with Opacus' own `hooks` (per-example gradients) and `ghost` (norms, then
a second backward pass) modes, which run the same layers through the samplers that `opacus_modes` registers. A step
is: losses, gradients, clipping, noise, optimizer. All ways take turns within a round, so that other work on the machine
slows all of them; times are CPU time, and the median step of each is compared. Codes are random; no table is needed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

from dp_synth_pipeline.model.autoregressive import opacus_modes  # noqa: F401  registers what its modes ask for
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.optimization import Flat, LatticeOptimizer, inner_optimizer
from dp_synth_pipeline.model.dpsgd.plan import RATES
from dp_synth_pipeline.model.threads import few_threads

ADULT = (40, 7, 40, 15, 15, 6, 14, 6, 5, 2, 32, 26, 39, 11, 2)
"""Cardinalities like those of the Adult census."""

SIGMA, CLIP = 1.0, 1.0
Step = Callable[[torch.Tensor], None]


class Losses(torch.nn.Module):
    """The network as a module that returns losses, for Opacus to wrap."""

    def __init__(self, network: AutoregressiveNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.network.losses(codes)


def plain(network: AutoregressiveNetwork, spec: GeneratorSpec) -> Step:
    """Ordinary training."""
    flat = Flat(network)
    optimizer = inner_optimizer(flat, spec)

    def step(codes: torch.Tensor) -> None:
        network.losses(codes).mean().backward()
        flat.gather()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def one_pass(network: AutoregressiveNetwork, spec: GeneratorSpec) -> Step:
    """Ours."""
    lattice = Lattice.under(CLIP, SIGMA)
    flat, clipping = Flat(network), OnePassClipping(network, CLIP, lattice)
    optimizer = LatticeOptimizer(
        inner_optimizer(flat, spec),
        noise_multiplier=SIGMA,
        expected_batch_size=asked.batch,
        lattice=lattice,
        team=Team(),
    )

    def step(codes: torch.Tensor) -> None:
        clipping.backward(network.losses(codes))
        flat.vector.summed_grad = clipping.take()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def hooks(network: AutoregressiveNetwork, spec: GeneratorSpec) -> Step:
    """Opacus, with a gradient for each example."""
    module = GradSampleModule(Losses(network), strict=False)  # our buffers hold masks and offsets, not data
    optimizer = DPOptimizer(
        inner_optimizer(network, spec), noise_multiplier=SIGMA, max_grad_norm=CLIP, expected_batch_size=asked.batch
    )

    def step(codes: torch.Tensor) -> None:
        module(codes).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def ghost(network: AutoregressiveNetwork, spec: GeneratorSpec) -> Step:
    """Opacus, with norms first and a second backward pass for the clipped sum."""
    module = GradSampleModuleFastGradientClipping(Losses(network), strict=False, max_grad_norm=CLIP)  # type: ignore[arg-type]
    optimizer = DPOptimizerFastGradientClipping(
        inner_optimizer(network, spec), noise_multiplier=SIGMA, max_grad_norm=CLIP, expected_batch_size=asked.batch
    )

    class PerRow:
        """Opacus asks a criterion for its `reduction`, and wants one loss an example."""

        reduction = "mean"

        def __call__(self, losses: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
            return losses

    criterion = DPLossFastGradientClipping(module, optimizer, PerRow(), loss_reduction="mean")

    def step(codes: torch.Tensor) -> None:
        criterion(module(codes), codes).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


WAYS = {"without DP": plain, "DP, one pass (ours)": one_pass, "DP, Opacus ghost": ghost, "DP, Opacus hooks": hooks}
SLOW = {hooks}


def measure() -> dict[str, list[float]]:
    """Return the seconds of each way's steps, warm-up left out."""
    spec = GeneratorSpec(hidden=asked.hidden, embedding=asked.embedding, learning_rate=RATES["adam"])
    state = AutoregressiveNetwork(ADULT, spec).state_dict()
    codes = torch.stack([torch.randint(0, c, (asked.batch,)) for c in ADULT], 1).to(asked.device)
    steps: dict[str, Step] = {}
    for name, way in WAYS.items():
        network = AutoregressiveNetwork(ADULT, spec).to(asked.device).train()
        network.load_state_dict(state)
        steps[name] = way(network, spec)
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(asked.rounds + 1):
        for name, step in steps.items():
            for _ in range(1 if WAYS[name] in SLOW else asked.steps):
                began = clock()
                step(codes)
                if turn:
                    times[name].append(clock() - began)
    return times


def clock() -> float:
    """CPU seconds of this process; on a GPU, wall seconds once its work is done."""
    if asked.device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Measure and print a Markdown table."""
    with few_threads():
        torch.set_num_threads(asked.threads)
        medians = {name: statistics.median(t) for name, t in measure().items()}
    base = medians["without DP"]
    lines = ["| way | ms a step | rows a second | ratio |", "| --- | --- | --- | --- |"]
    for name, seconds in medians.items():
        lines.append(f"| {name} | {1000 * seconds:.1f} | {asked.batch / seconds:,.0f} | {seconds / base:.2f} |")
    print("\n".join(lines))
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--batch", type=int, default=2048)
    found.add_argument("--hidden", type=int, default=32)
    found.add_argument("--embedding", type=int, default=8)
    found.add_argument("--rounds", type=int, default=15)
    found.add_argument("--steps", type=int, default=10, help="steps of each way in a round; 1 of `hooks`")
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--device", default="cpu")
    found.add_argument("--out", type=Path)
    asked = found.parse_args()
    main()
