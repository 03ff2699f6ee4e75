"""The optimizers of the studies are what they say: Adam less the noise, and Adam whose moments are looked at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.studies import adam, moments
from dp_synth_pipeline.model.dpsgd import descent
from dp_synth_pipeline.model.dpsgd.optimization import inner_optimizer
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec


def walked(optimizer: torch.optim.Optimizer, weight: nn.Parameter, gradients: torch.Tensor) -> torch.Tensor:
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach()


def test_where_there_is_no_noise_to_subtract_it_is_adam() -> None:
    gradients, one, other = torch.randn(30, 5), nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(5))
    theirs = walked(torch.optim.Adam([one], lr=0.1), one, gradients)
    ours = walked(adam.Corrected([other], 0.1, noise=0.0, floor=1.0), other, gradients)
    torch.testing.assert_close(ours, theirs)


def test_what_is_subtracted_leaves_the_moment_of_the_signal_and_never_less_than_the_floor() -> None:
    signal = torch.tensor([3.0, 0.0])  # with a noise of variance 16, here in the mean of equal shares of +4 and -4
    gradients = signal + torch.tensor([4.0, -4.0]).repeat(500)[:, None]
    weight, optimizer = nn.Parameter(torch.zeros(2)), None
    optimizer = adam.Corrected([weight], 1.0, noise=16.0, floor=0.25)
    before = walked(optimizer, weight, gradients[:-1]).clone()
    last = walked(optimizer, weight, gradients[-1:]) - before
    first = optimizer.state[weight]["first"]
    assert -last[0] == pytest.approx(float(first[0]) / 3, rel=0.02)
    assert -last[1] == pytest.approx(float(first[1]) / 2, rel=0.02), "the root of a quarter of the noise"


def test_trainings_take_the_optimizer_with_their_rate_and_all_of_their_weights() -> None:
    made: list[tuple[int, float]] = []
    how, net, more = TrainingSpec(learning_rate=0.3), nn.Linear(2, 3), nn.Parameter(torch.zeros(4))

    def make(weights: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        made.append((sum(p.numel() for p in weights), lr))
        return torch.optim.Adam(weights, lr=lr)

    with adam.inside(make):
        descent.inner_optimizer(net, how, [more])
    assert made == [(2 * 3 + 3 + 4, 0.3)]
    assert descent.inner_optimizer is inner_optimizer


def test_the_noise_of_a_gradient_has_the_variance_that_is_said() -> None:
    plan, how = TrainingPlan(0.1, 10, 50.0, 2.0), TrainingSpec(max_grad_norm=0.5)
    assert adam.noise_variance(plan, how) == pytest.approx((2.0 * 0.5 / 50) ** 2)


@pytest.mark.parametrize("step", [1, 2, 7, 100])
def test_the_spread_of_the_first_moment_is_that_of_its_weights(step: int) -> None:
    weights = (1 - moments.FIRST) * moments.FIRST ** np.arange(step)
    assert moments.spread(step) == pytest.approx((weights**2).sum())


def test_moments_of_bare_noise_are_all_noise_and_those_of_a_signal_are_not() -> None:
    """Of 200,000 numbers, so that six standard deviations of a mean square are below 2 % of it."""
    for signal, share in ((0.0, 1.0), (2.0, 0.2)):
        weight, seen = nn.Parameter(torch.zeros(200_000)), {}
        watched = moments.Watched([weight], 1e-3, 1.0, torch.ones(200_000, dtype=torch.bool), seen)
        walked(watched, weight, signal + torch.randn(5, 200_000))
        assert seen["second_1"] == pytest.approx(share, rel=0.05)
        assert seen["second_5"] == pytest.approx(share, rel=0.05)
        if signal == 0.0:
            assert seen["first_5"] == pytest.approx(1.0, rel=0.05)
