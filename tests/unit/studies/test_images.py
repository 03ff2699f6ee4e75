"""The loop that trains tables trains a convolutional network too, and clips it exactly as Opacus' own gradients say."""

from __future__ import annotations

import copy

import pytest
import torch
from opacus import GradSampleModule
from torch import nn
from torch.nn.utils import parameters_to_vector

from benchmarks.studies.images import ACTIVATIONS, CLASSES, SHADES, DigitNetwork, digits
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.training import train
from dp_synth_pipeline.model.dpsgd.work import Training

IMAGES = 24
QUIET = 1e-9
"""A noise multiplier that leaves the clipped sums to be seen."""


def gradients(network: DigitNetwork, codes: torch.Tensor) -> torch.Tensor:
    """Return each image's gradient (images, weights) as Opacus' hooks have it."""
    hooked = GradSampleModule(copy.deepcopy(network), loss_reduction="sum")
    nn.functional.cross_entropy(hooked(codes[:, :-1]), codes[:, -1], reduction="sum").backward()
    return torch.cat([p.grad_sample.flatten(1) for p in hooked.parameters()], 1).detach()  # type: ignore[operator]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("share_clipped", [0.0, 0.5, 1.0])
def test_a_step_of_the_loop_moves_a_convolutional_network_by_opacus_clipped_sum(
    activation: str, share_clipped: float
) -> None:
    codes, network = torch.from_numpy(digits()[:IMAGES]), DigitNetwork(activation)
    each, start = gradients(network, codes), parameters_to_vector(network.parameters()).detach().clone()
    norms = each.norm(dim=1)
    bound = {0.0: 1.1 * norms.max(), 0.5: norms.median(), 1.0: 0.5 * norms.min()}[share_clipped].item()
    wanted = (each * (bound / norms).clamp(max=1)[:, None]).sum(0)
    plan = TrainingPlan(sample_rate=1.0, steps=1, expected_batch=IMAGES, noise_multiplier=QUIET)
    how = TrainingSpec(optimizer="sgd", learning_rate=1.0, max_grad_norm=bound, averaging=0.0)
    found = train(network, Training(codes.numpy(), plan, how))
    assert found.event == plan.event
    moved = (start - parameters_to_vector(found.network.parameters()).detach()) * IMAGES * bound
    lattice = IMAGES * Lattice.under(bound, QUIET).spacing
    rounding = IMAGES * bound * 2.0**-24  # of weights around 1 in 32 bits
    torch.testing.assert_close(moved, wanted, rtol=1e-4, atol=lattice + 2 * rounding)


def test_images_are_codes_of_the_networks_columns() -> None:
    codes = digits()
    assert codes.shape == (1_797, 65)
    assert codes.min() == 0
    assert codes[:, :-1].max() == SHADES - 1
    assert codes[:, -1].max() == CLASSES - 1
