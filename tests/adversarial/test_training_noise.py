"""The noise that training really adds, measured from outside, and the mistakes that this would catch."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.optimization import LatticeOptimizer
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Training

CARDINALITIES = (40,) * 6
SPEC = GeneratorSpec(optimizer="sgd", learning_rate=1.0, hidden=64, embedding=8, max_grad_norm=0.5)
NOBODY = 1e-12
"""A sampling rate at which all samples are empty, so that nothing but noise moves the weights."""

CODES = np.zeros((50, 6), dtype=np.int16)


class Remembering(AutoregressiveNetwork):
    """A network that keeps its first weights."""

    def __init__(self, cardinalities: Any, spec: GeneratorSpec) -> None:
        super().__init__(cardinalities, spec)
        self.first = [p.detach().clone() for p in self.parameters()]


def steps_of_noise(
    monkeypatch: pytest.MonkeyPatch, plan: TrainingPlan, spec: GeneratorSpec = SPEC
) -> dict[str, torch.Tensor]:
    """Train on empty samples at a learning rate of 1 and return how far each weight went.

    Weights that no output depends on are zeroed on release, noise and all; here they are kept, to be measured too.
    """
    monkeypatch.setattr(Remembering, "forget_unused", lambda self: None)
    net = training.train(Remembering(CARDINALITIES, spec), Training(CODES, plan, spec)).network
    return {
        name: (p.detach() - first).flatten()
        for (name, p), first in zip(net.named_parameters(), net.first, strict=True)  # type: ignore[arg-type]
    }


def check_one_step(monkeypatch: pytest.MonkeyPatch, sigma: float, batch: float, spec: GeneratorSpec = SPEC) -> None:
    """Every weight moves by sigma * C / expected batch times a standard normal, over the rate of SGD."""
    moves = steps_of_noise(monkeypatch, TrainingPlan(NOBODY, 1, batch, sigma), spec)
    rate = spec.learning_rate / spec.max_grad_norm
    std = rate * sigma * spec.max_grad_norm / batch
    together = torch.cat(list(moves.values())).double().numpy() / std
    assert len(together) > 15_000
    for name, move in moves.items():
        n = move.numel()
        # A sample deviation of n normals is off by 1 / sqrt(2 n) of itself; 7 of those have probability 3e-12.
        assert float(move.double().square().mean().sqrt()) == pytest.approx(std, rel=7 / math.sqrt(2 * n)), name
    assert np.sqrt((together**2).mean()) == pytest.approx(1, rel=6 / math.sqrt(2 * len(together)))
    assert abs(together.mean()) < 6 / math.sqrt(len(together))
    # The tails are normal too: beyond 3 deviations with probability 0.0027.
    beyond = (np.abs(together) > 3).sum()
    assert beyond == pytest.approx(0.0027 * len(together), abs=6.5 * math.sqrt(0.0027 * len(together)))


@pytest.mark.parametrize(("sigma", "batch", "clip"), [(1.0, 64.0, 0.5), (4.0, 1000.0, 0.5), (2.0, 10.0, 3.0)])
def test_one_step_adds_noise_of_sigma_times_clip_over_the_expected_batch(
    monkeypatch: pytest.MonkeyPatch, sigma: float, batch: float, clip: float
) -> None:
    check_one_step(monkeypatch, sigma, batch, SPEC.with_(max_grad_norm=clip))


class Quieter(LatticeOptimizer):
    """The mistake: nine tenths of the noise."""

    def __init__(self, *args: Any, noise_multiplier: float, **rest: Any) -> None:
        super().__init__(*args, noise_multiplier=0.9 * noise_multiplier, **rest)


class SomeWeightsOnly(LatticeOptimizer):
    """The mistake: one layer is forgotten."""

    def add_noise(self) -> None:
        super().add_noise()
        first = slice(0, 40 * 6 * 8)
        self.params[0].grad[first] = self.lattice.values(self.params[0].summed_grad)[first]


class DrawnBatch(LatticeOptimizer):
    """The mistake: the sum is divided by another number than the public one."""

    def __init__(self, *args: Any, expected_batch_size: float, **rest: Any) -> None:
        super().__init__(*args, expected_batch_size=expected_batch_size * 1.1, **rest)


@pytest.mark.parametrize("mutant", [Quieter, SomeWeightsOnly, DrawnBatch])
def test_noise_that_is_added_wrong_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: type) -> None:
    monkeypatch.setattr(descent, "LatticeOptimizer", mutant)
    with pytest.raises((AssertionError, TrainingError)):
        check_one_step(monkeypatch, 1.0, 64.0)


class Twice(LatticeOptimizer):
    """The mistake: two steps for each one that was planned."""

    def step(self, closure: Any = None) -> Any:
        again = [p.summed_grad for p in self.params]
        super().step(closure)
        for parameter, sums in zip(self.params, again, strict=True):
            parameter.summed_grad = sums
        return super().step(closure)


class Louder(LatticeOptimizer):
    """Accounts for other noise than was planned."""

    def __init__(self, *args: Any, noise_multiplier: float, lattice: Lattice, **rest: Any) -> None:
        louder = 1.5 * noise_multiplier
        super().__init__(*args, noise_multiplier=louder, lattice=Lattice.under(lattice.bound, louder), **rest)


class Silent(LatticeOptimizer):
    """The mistake: a step that nobody accounts for."""

    def attach_step_hook(self, fn: Any) -> None:
        pass


@pytest.mark.parametrize("mutant", [Twice, Louder, Silent])
def test_steps_that_are_not_those_of_the_plan_release_nothing(monkeypatch: pytest.MonkeyPatch, mutant: type) -> None:
    monkeypatch.setattr(descent, "LatticeOptimizer", mutant)
    with pytest.raises(TrainingError, match="not those of the plan; nothing was released"):
        training.train(
            AutoregressiveNetwork(CARDINALITIES, SPEC), Training(CODES, TrainingPlan(0.1, 4, 5.0, 1.0), SPEC)
        )


def test_two_runs_never_share_noise_whatever_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for _ in range(2):
        torch.manual_seed(11)
        np.random.seed(11)
        moves = steps_of_noise(monkeypatch, TrainingPlan(NOBODY, 1, 1.0, 1.0))
        runs.append(torch.cat(list(moves.values())).double().numpy())
    n = len(runs[0])
    assert not np.isin(runs[0][:1000], runs[1]).all()
    assert abs(np.corrcoef(*runs)[0, 1]) < 6.5 / math.sqrt(n)


def test_two_steps_of_a_run_never_share_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray] = []

    class Watched(LatticeOptimizer):
        def add_noise(self) -> None:
            super().add_noise()
            drawn.append(torch.cat([p.grad.flatten() for p in self.params]).double().numpy())

    monkeypatch.setattr(descent, "LatticeOptimizer", Watched)
    training.train(AutoregressiveNetwork(CARDINALITIES, SPEC), Training(CODES, TrainingPlan(NOBODY, 6, 1.0, 1.0), SPEC))
    correlations = np.corrcoef(drawn)[np.triu_indices(6, 1)]
    assert len(drawn) == 6
    assert np.abs(correlations).max() < 7 / math.sqrt(len(drawn[0]))


def test_no_generator_of_torch_or_numpy_has_a_part_in_what_privacy_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights start, made-up rows and draws come from ordinary generators; noise, samples and groups do not."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("an ordinary generator was asked")

    for name in ("normal", "randn", "randn_like"):
        monkeypatch.setattr(torch, name, never)
    monkeypatch.setattr(torch.Tensor, "normal_", never)
    monkeypatch.setattr(np.random, "default_rng", never)
    for microbatch in (1, 4):
        spec = SPEC.with_(microbatch=microbatch)
        training.train(NETWORK, Training(CODES, TrainingPlan(0.5, 3, 25.0, 1.0), spec, queries=QUERIES))


NETWORK = AutoregressiveNetwork(CARDINALITIES, SPEC)
QUERIES = LossQueriesPlan(1, 0.5, 2.0)


def test_weights_are_a_function_of_the_noisy_whole_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noisy sums, a table of other rows ends with the same weights to the last bit."""
    ends, kept = [], []
    honest = Lattice.noisy_values

    def replayed(self: Lattice, sums: torch.Tensor) -> torch.Tensor:
        if len(sums) != total:
            return honest(self, sums)  # the made-up examples of the audit
        if len(ends) == 0:
            kept.append(sums.clone())
            return honest(self, sums)
        return honest(self, kept.pop(0))

    net = AutoregressiveNetwork(CARDINALITIES, SPEC)
    plan = TrainingPlan(0.5, 3, 25.0, 1.0)
    reserved = descent.Canaries(plan, 3, 1.0, torch.device("cpu")).parameter.numel()
    total = sum(p.numel() for p in net.parameters()) + reserved
    monkeypatch.setattr(Lattice, "noisy_values", replayed)
    for codes in (CODES, np.ones((70, 6), dtype=np.int16)):
        found = training.train(copy.deepcopy(net), Training(codes, plan, SPEC)).network
        ends.append(torch.cat([p.detach().flatten() for p in found.parameters()]))
    assert torch.equal(*ends)
    assert kept == []
