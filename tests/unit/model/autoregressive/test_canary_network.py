"""The network of canaries: every row's clipped gradient is one coordinate, exactly the clip norm, whatever was learnt."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.canary_network import CanaryNetwork
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.work import Training


@pytest.mark.parametrize("clip", [0.3, 1.0, 50.0])
def test_each_row_adds_the_clip_norm_to_its_own_coordinate_and_nothing_to_another(
    clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen where the attack sees it: in what the optimizer of a training gets, here with next to no noise."""
    seen = []
    monkeypatch.setattr(descent, "inner_optimizer", lambda flat, *_: Spy([flat.vector], seen))
    network = CanaryNetwork(25)
    codes = network.everybody()[[7, 0, 24]]
    plan, spec = TrainingPlan(1.0, 1, 1.0, 1e-6), TrainingSpec(max_grad_norm=clip, learning_rate=0.01)
    training.train(network, Training(codes, plan, spec, device="cpu"))
    wanted = np.zeros(25)
    wanted[[7, 0, 24]] = clip
    assert seen[0] == pytest.approx(wanted, abs=2e-5 * clip)


class Spy(torch.optim.SGD):
    """Keeps what it gets."""

    def __init__(self, parameters: list[torch.nn.Parameter], seen: list[np.ndarray]) -> None:
        super().__init__(parameters, lr=0.01)
        self.seen = seen

    def step(self, closure=None):  # type: ignore[no-untyped-def]
        self.seen.append(self.param_groups[0]["params"][0].grad.numpy().copy())
        return super().step(closure)


def test_its_gradients_are_the_same_whatever_was_learnt() -> None:
    network = CanaryNetwork(25)
    codes = torch.from_numpy(network.everybody()[[3, 11, 12]])
    grads = []
    for _ in range(2):
        torch.nn.init.normal_(network.embed.weight)
        grads += torch.autograd.grad(network.losses(codes).sum(), [network.embed.weight])
    assert torch.equal(*grads)
    assert grads[0].flatten().nonzero().flatten().tolist() == [3, 11, 12]


@pytest.mark.parametrize(("rows", "held"), [(1, 4), (25, 25), (30, 25), (200_000, 199_809)])
def test_codes_tell_all_rows_apart_within_the_cardinalities(rows: int, held: int) -> None:
    network = CanaryNetwork(rows)
    codes = network.everybody()
    assert len(np.unique(codes, axis=0)) == len(codes) == held
    assert (codes.max(0) < network.cardinalities).all()
    assert network.blueprint()().cardinalities == network.cardinalities
