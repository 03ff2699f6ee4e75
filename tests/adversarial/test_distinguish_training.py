"""Training passes a distinguishing test against a canary that nothing hides but the noise; its mistakes are caught.

The canary is the strongest that DP-SGD allows: everybody else's gradient is next to zero, the canary's is clipped and points
the same way in every step, and the attacker measures how far the weights went along it, given the weights at the start.
Nasr et al. 2023, "Tight Auditing of Differentially Private Machine Learning".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.batches import Batch, UnitRows
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.optimization import LatticeOptimizer
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.work import Training
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.adversarial.distinguish import Claim, Distinguished, check, check_in_turn, unprobed  # noqa: F401
from tests.lanes import one_now

COLUMNS, OTHERS = 4, 30
SPEC = GeneratorSpec(hidden=2, embedding=2, optimizer="sgd", learning_rate=1e-3, max_grad_norm=0.5, averaging=0.0)
CANARY = torch.ones(1, COLUMNS, dtype=torch.int64)
USUAL = [np.array([0.9999, 0.0001])] * COLUMNS
"""Released marginals at which everybody but the canary is already foreseen."""

ONE = TrainingPlan(1.0, 1, float(OTHERS), 0.8)
"""Everybody joins one step, so that the plain Gaussian mechanism is put to the test."""

TWO = TrainingPlan(1.0, 2, float(OTHERS), 1.5)

SAMPLED = TrainingPlan(0.1, 2, 0.1 * OTHERS, 0.8)

Patch = pytest.MonkeyPatch
Data = tuple[np.ndarray, np.ndarray | None]


def others(rows_each: int = 1) -> Data:
    codes = np.zeros((OTHERS * rows_each, COLUMNS), dtype=np.int16)
    return codes, None if rows_each == 1 else np.arange(OTHERS).repeat(rows_each)


def with_canary(rows_each: int = 1) -> Data:
    """The same, and one unit more, whose rows are all alike and like nobody else's."""
    codes, units = others(rows_each)
    more = np.concatenate([codes, np.ones((rows_each, COLUMNS), dtype=np.int16)])
    return more, None if units is None else np.concatenate([units, np.full(rows_each, OTHERS)])


def score(data: Data, plan: TrainingPlan, spec: GeneratorSpec) -> float:
    """How far training went along the gradient of the canary's loss at the first weights."""
    codes, units = data
    network = AutoregressiveNetwork((2,) * COLUMNS, spec)
    network.start_from(USUAL)
    grads = torch.autograd.grad(network.losses(CANARY).sum(), list(network.parameters()))
    first = [p.detach().clone() for p in network.parameters()]
    last = training.train(network, Training(codes, plan, spec, units=units)).network.parameters()
    moved, way = (torch.cat([x.detach().flatten() for x in many]) for many in (last, grads))
    return float((moved - torch.cat([x.flatten() for x in first])) @ way / way.norm())


def attack(
    plan: TrainingPlan, runs: int, rows_each: int = 1, spec: GeneratorSpec = SPEC
) -> tuple[np.ndarray, np.ndarray]:
    """Train often on both tables."""
    first, second = (
        np.array([[score(data, plan, spec)] for _ in range(runs)])
        for data in (others(rows_each), with_canary(rows_each))
    )
    return first, second


def claimed(plan: TrainingPlan) -> Claim:
    """Return what the event costs that training reports."""
    event = SubsampledGaussian(plan.noise_multiplier, plan.sample_rate, plan.steps)
    return Claim.of(event, (0.01, 0.05, 0.1, 0.2, 0.35, 0.5))


@pytest.mark.parametrize("runs", [300, pytest.param(12_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("plan", "rows_each"), [(ONE, 1), (SAMPLED, 1), (ONE, 4)], ids=["full", "sampled", "units"])
def test_training_tells_no_more_of_a_canary_than_its_event_costs(plan: TrainingPlan, rows_each: int, runs: int) -> None:
    check(*attack(plan, runs, rows_each), claimed(plan))


def quieter(factor: float) -> Callable[[Patch], None]:
    class Quieter(LatticeOptimizer):
        def add_noise(self) -> None:
            multiplier, self.noise_multiplier = self.noise_multiplier, factor * self.noise_multiplier
            super().add_noise()
            self.noise_multiplier = multiplier

    return lambda patch: patch.setattr(descent, "LatticeOptimizer", Quieter)


def always_last(patch: Patch) -> None:
    honest = PoissonSampler.draw

    def draw(self: PoissonSampler) -> np.ndarray:
        return np.union1d(honest(self), [self.units - 1])

    patch.setattr(PoissonSampler, "draw", draw)


def unclipped(patch: Patch) -> None:
    class Unclipped(OnePassClipping):
        def __init__(self, module: torch.nn.Module, max_grad_norm: float, lattice: Lattice) -> None:
            super().__init__(module, 1e6, lattice)

    patch.setattr(descent, "OnePassClipping", Unclipped)


def clipped_by_layer(patch: Patch) -> None:
    """Each of five weights under the clip by itself, so all of them together up to the root of five over it."""

    class ByLayer(OnePassClipping):
        def backward(self, losses: torch.Tensor) -> None:
            self.max_grad_norm *= 5**0.5
            super().backward(losses)
            self.max_grad_norm /= 5**0.5

    patch.setattr(descent, "OnePassClipping", ByLayer)


def same_noise_again(patch: Patch) -> None:
    """Noise of the second step takes back that of the first."""

    class Cancelling(LatticeOptimizer):
        def add_noise(self) -> None:
            super().add_noise()
            last = getattr(self, "last", None)
            sums = [self.lattice.values(p.summed_grad) for p in self.params]  # type: ignore[attr-defined]
            noise = [p.grad - total for p, total in zip(self.params, sums, strict=True)]
            if last is not None:
                for p, total, n in zip(self.params, sums, last, strict=True):
                    p.grad = total - n
            self.last = noise if last is None else None

    patch.setattr(descent, "LatticeOptimizer", Cancelling)


# Noise hides a mistake from the attacker if there are too few runs: half of the noise in 1 to 7 trials of 100 with 500 runs,
# and noise that is taken back in 1. With as many as here, each mistake is missed with a probability below 1e-5.
MUTANTS: dict[str, tuple[TrainingPlan, int, Callable[[Patch], None]]] = {
    "adds no noise": (ONE, 200, quieter(1e-9)),
    "adds a third of the noise": (ONE, 250, quieter(0.3)),
    "adds half of the noise": (ONE, 1000, quieter(0.5)),
    "always draws one of the units": (SAMPLED, 500, always_last),
    "does not clip": (ONE, 200, unclipped),
    "clips each layer by itself": (ONE, 600, clipped_by_layer),
    "takes its noise back in the next step": (TWO, 1000, same_noise_again),
}


@pytest.mark.parametrize("mutant", one_now(MUTANTS))
def test_training_is_caught_that(monkeypatch: Patch, mutant: str) -> None:
    plan, runs, install = MUTANTS[mutant]
    install(monkeypatch)
    with pytest.raises(Distinguished):
        check_in_turn(lambda many: attack(plan, many), claimed(plan), runs)


def rows_for_units(patch: Patch) -> None:
    """Units forgotten: each row is drawn and clipped by itself."""
    honest = UnitRows.__init__
    patch.setattr(UnitRows, "__init__", lambda self, codes, units: honest(self, codes, None))


def clipped_by_row(patch: Patch) -> None:
    """Units drawn whole, but each of their rows clipped by itself."""
    honest = UnitRows.take

    def take(self: UnitRows, chosen: np.ndarray) -> list[Batch]:
        batches = [(codes, present) for codes, present in honest(self, chosen) if present is not None]
        rows = torch.cat([codes[present.bool()] for codes, present in batches])[:, None]
        return [(rows, torch.ones(len(rows), 1))]

    patch.setattr(UnitRows, "take", take)


@pytest.mark.parametrize("mutant", one_now([rows_for_units, clipped_by_row]))
def test_training_is_caught_that_takes_rows_for_units(monkeypatch: Patch, mutant: Callable[[Patch], None]) -> None:
    mutant(monkeypatch)
    with pytest.raises(Distinguished):
        check_in_turn(lambda many: attack(ONE, many, rows_each=4), claimed(ONE), 250)
