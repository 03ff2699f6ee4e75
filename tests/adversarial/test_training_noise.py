"""The noise that training really adds, measured from outside, and the mistakes that this would catch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
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


class Quieter(DPOptimizerFastGradientClipping):
    """The mistake: nine tenths of the noise."""

    def __init__(self, *args: Any, noise_multiplier: float, **rest: Any) -> None:
        super().__init__(*args, noise_multiplier=0.9 * noise_multiplier, **rest)


class SomeWeightsOnly(DPOptimizerFastGradientClipping):
    """The mistake: one layer is forgotten."""

    def add_noise(self) -> None:
        super().add_noise()
        self.params[0].grad = self.params[0].summed_grad


class DrawnBatch(DPOptimizerFastGradientClipping):
    """The mistake: the sum is divided by another number than the public one."""

    def __init__(self, *args: Any, expected_batch_size: float, **rest: Any) -> None:
        super().__init__(*args, expected_batch_size=expected_batch_size * 1.1, **rest)


@pytest.mark.parametrize("mutant", [Quieter, SomeWeightsOnly, DrawnBatch])
def test_noise_that_is_added_wrong_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: type) -> None:
    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", mutant)
    with pytest.raises((AssertionError, TrainingError)):
        check_one_step(monkeypatch, 1.0, 64.0)


class Twice(DPOptimizerFastGradientClipping):
    """The mistake: two steps for each one that was planned."""

    def step(self, closure: Any = None) -> Any:
        again = [p.grad.clone() for p in self.params]
        super().step(closure)
        self.zero_grad(set_to_none=True)
        for parameter, grad in zip(self.params, again, strict=True):
            parameter.grad = grad
        return super().step(closure)


class Louder(DPOptimizerFastGradientClipping):
    """Accounts for other noise than was planned."""

    def __init__(self, *args: Any, noise_multiplier: float, **rest: Any) -> None:
        super().__init__(*args, noise_multiplier=1.5 * noise_multiplier, **rest)


class Silent(DPOptimizerFastGradientClipping):
    """The mistake: a step that nobody accounts for."""

    def attach_step_hook(self, fn: Any) -> None:
        pass


@pytest.mark.parametrize("mutant", [Twice, Louder, Silent])
def test_steps_that_are_not_those_of_the_plan_release_nothing(monkeypatch: pytest.MonkeyPatch, mutant: type) -> None:
    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", mutant)
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

    class Watched(DPOptimizerFastGradientClipping):
        def add_noise(self) -> None:
            super().add_noise()
            drawn.append(torch.cat([p.grad.flatten() for p in self.params]).double().numpy())

    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", Watched)
    training.train(AutoregressiveNetwork(CARDINALITIES, SPEC), Training(CODES, TrainingPlan(NOBODY, 6, 1.0, 1.0), SPEC))
    correlations = np.corrcoef(drawn)[np.triu_indices(6, 1)]
    assert len(drawn) == 6
    assert np.abs(correlations).max() < 7 / math.sqrt(len(drawn[0]))


def test_rekeying_replaces_the_whole_state_and_not_only_a_short_seed() -> None:
    streams = set()
    for _ in range(4):
        generator = torch.Generator()
        generator.manual_seed(1)
        descent.rekey(generator)
        short = torch.Generator()
        short.manual_seed(generator.initial_seed())
        mine, theirs = torch.randn(64, generator=generator), torch.randn(64, generator=short)
        assert not torch.equal(mine, theirs), "the stream does not follow from the seed that torch remembers"
        streams.add(mine.numpy().tobytes())
    assert len(streams) == 4
    words = [torch.Generator().get_state() for _ in range(2)]
    assert torch.equal(*words), "torch itself starts every generator alike"


def test_every_word_of_a_rekeyed_state_is_fresh() -> None:
    states = []
    for _ in range(12):
        generator = torch.Generator()
        descent.rekey(generator)
        state = generator.get_state()[24 : 24 + 8 * 624].numpy().view(np.uint64)
        assert (state < 2**32).all()
        states.append(state)
    # Each of 32 bits of each of 624 words takes both values within 12 draws but with probability 2^-11; of 19,968 bits
    # about ten do not, and 60 or more has a probability below 1e-20.
    ones = sum((s[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1) for s in states)
    assert ((ones == 0) | (ones == 12)).sum() < 60


def test_noise_is_drawn_anew_before_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    honest = descent.rekey
    monkeypatch.setattr(descent, "rekey", lambda g: (calls.append("rekey"), honest(g))[1])

    class Watched(DPOptimizerFastGradientClipping):
        def add_noise(self) -> None:
            calls.append("noise")
            super().add_noise()

    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", Watched)
    training.train(AutoregressiveNetwork(CARDINALITIES, SPEC), Training(CODES, TrainingPlan(NOBODY, 5, 1.0, 1.0), SPEC))
    assert calls == ["rekey", "noise"] * 5
