"""Training without privacy, as yardstick and for public data. What private training lets out is in tests/adversarial."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, learning_rate
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training

SPEC = GeneratorSpec(hidden=8, embedding=4)
EASY = 1.39
"""Nats a row of a table whose columns follow from the first; three independent ones cost 4.16."""


def easy(rows: int = 2000) -> np.ndarray:
    first = np.random.default_rng().integers(0, 4, rows)
    return np.stack([first, first, (first + 1) % 4], 1).astype(np.int16)


def loss(network: AutoregressiveNetwork, codes: np.ndarray) -> float:
    with torch.no_grad():
        return float(network.losses(torch.from_numpy(codes.astype(np.int64))).mean())


@pytest.mark.parametrize(("rows_each", "microbatch"), [(1, 1), (4, 1), (1, 2)])
def test_public_training_learns_without_noise_and_returns_no_event(rows_each: int, microbatch: int) -> None:
    table = easy()
    units = None if rows_each == 1 else np.arange(2000) // rows_each
    plan = TrainingPlan(0.25, 120, 500 / rows_each)
    spec = SPEC.with_(learning_rate=0.03, microbatch=microbatch)
    told: list[tuple[int, int]] = []
    network = training.train_public(
        AutoregressiveNetwork((4, 4, 4), spec),
        Training(table, plan, spec, units=units),
        Hooks(progress=lambda done, steps: told.append((done, steps))),
    )
    assert not network.training
    assert loss(network, table) < EASY + 0.1
    assert told == [(0, 120), (50, 120), (100, 120), (120, 120)]


@pytest.mark.parametrize("private", [True, False])
def test_training_takes_the_plans_learning_rate_unless_the_spec_has_one(
    monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    taken: list[float | None] = []
    honest = descent.inner_optimizer
    monkeypatch.setattr(descent, "inner_optimizer", lambda n, s, r: (taken.append(s.learning_rate), honest(n, s, r))[1])
    plan = TrainingPlan(0.5, 3, 25.0, 1.5)
    for spec in (SPEC.with_(learning_rate=None), SPEC.with_(learning_rate=0.02)):
        fit = training.train if private else training.train_public
        fit(AutoregressiveNetwork((4, 4, 4), spec), Training(easy(50), plan, spec))
    assert taken == [learning_rate(plan, GeneratorSpec()), 0.02]


def test_public_training_neither_clips_nor_adds_noise_nor_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("only private training does this")

    monkeypatch.setattr(OnePassClipping, "__init__", never)
    monkeypatch.setattr(descent, "LatticeOptimizer", never)
    training.train_public(AutoregressiveNetwork((4, 4, 4), SPEC), Training(easy(50), TrainingPlan(0.5, 3, 25.0), SPEC))


def test_public_training_takes_the_same_poisson_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    honest = PoissonSampler.draw
    monkeypatch.setattr(PoissonSampler, "draw", lambda self: (rates.append(self.sample_rate), honest(self))[1])
    training.train_public(AutoregressiveNetwork((4, 4, 4), SPEC), Training(easy(50), TrainingPlan(0.5, 3, 25.0), SPEC))
    assert rates == [0.5] * 3


def test_one_public_step_moves_against_the_sum_of_gradients_over_the_public_divisor() -> None:
    spec = SPEC.with_(optimizer="sgd", learning_rate=1.0, max_grad_norm=1.0, averaging=0.0)
    table, network = easy(60), AutoregressiveNetwork((4, 4, 4), SPEC)
    with torch.no_grad():
        for p in network.parameters():
            p.normal_()
    network.forget_unused()
    first = [p.detach().clone() for p in network.parameters()]
    sums = torch.autograd.grad(
        network.losses(torch.from_numpy(table.astype(np.int64))).sum(), list(network.parameters())
    )
    training.train_public(network, Training(table, TrainingPlan(1.0, 1, 50.0), spec))
    for p, start, g in zip(network.parameters(), first, sums, strict=True):
        assert torch.allclose(p.detach(), start - g / 50, atol=1e-5)


def test_private_training_still_refuses_a_plan_without_noise() -> None:
    with pytest.raises(TrainingError, match="no noise"):
        training.train(AutoregressiveNetwork((4, 4, 4), SPEC), Training(easy(50), TrainingPlan(0.5, 3, 25.0), SPEC))


def test_noise_in_weights_that_no_output_depends_on_is_not_released() -> None:
    network = training.train(
        AutoregressiveNetwork((4, 4, 4), SPEC), Training(easy(50), TrainingPlan(0.5, 3, 25.0, 1.0), SPEC)
    ).network
    for block in network.blocks:
        assert not block.causal.weight[block.causal.mask == 0].any()  # type: ignore[union-attr, index, operator]
        assert block.causal.weight[block.causal.mask == 1].all()  # type: ignore[union-attr, index, operator]


def test_a_trained_network_keeps_no_hook_of_its_training() -> None:
    network = training.train(
        AutoregressiveNetwork((4, 4, 4), SPEC), Training(easy(50), TrainingPlan(0.5, 3, 25.0, 1.0), SPEC)
    ).network
    codes = torch.zeros(2, 3, dtype=torch.int64)
    for _ in range(2):  # a hook would refuse the second
        network.losses(codes)


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize(("optimizer", "names_norm"), [("sgd", True), ("adam", False)])
def test_a_training_that_diverges_names_rate_batch_and_norm_as_far_as_they_help(
    optimizer: str, names_norm: bool, private: bool
) -> None:
    spec = SPEC.with_(optimizer=optimizer, learning_rate=1e30)
    network, work = AutoregressiveNetwork((4, 4, 4), spec), Training(easy(50), TrainingPlan(0.5, 3, 25.0, 1.0), spec)
    with pytest.raises(TrainingError, match=r"Lower training\.learning_rate first \(it was 1e\+30\)") as caught:
        (training.train if private else training.train_public)(network, work)
    said = str(caught.value)
    assert "raise training.batch_share" in said
    assert ("raise training.max_grad_norm" in said) is (names_norm and private)
    assert ("stays charged" in said) is private
    assert all(hasattr(SPEC, name) for name in re.findall(r"training\.(\w+)", said))
