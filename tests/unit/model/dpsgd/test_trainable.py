"""Any network that says its losses is trained by DP-SGD; a redraw keeps what a layer did, and forgets what it learnt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import clipping
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable, redraw
from dp_synth_pipeline.model.dpsgd.training import train
from dp_synth_pipeline.model.dpsgd.work import Training


class Logits(nn.Module):
    """The toy's only layer: the same logits for every row of codes (units, columns)."""

    def __init__(self, columns: int, codes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(columns, codes))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(*codes.shape, -1)


class Toy(Trainable):
    """Independent columns of four codes."""

    def __init__(self) -> None:
        super().__init__()
        self.cardinalities = (4, 4)
        self.logits = Logits(2, 4)

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        return -self.logits(codes).log_softmax(-1).gather(-1, codes[..., None]).sum((-2, -1))

    def forget_unused(self) -> None:
        """There is nothing unused."""

    def blueprint(self) -> Callable[[], Toy]:
        return Toy


PLAN, SPEC = TrainingPlan(0.5, 200, 500.0, 1.0), TrainingSpec(learning_rate=0.05, max_grad_norm=2.0)


def test_a_network_of_another_kind_learns_under_the_same_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (clipping.SQUARED_NORMS, clipping.SUMS):
        monkeypatch.setitem(registry, Logits, None)  # so that what is registered here is forgotten after
    clipping.squared_norm(Logits)(lambda layer, a, g, _: {layer.bias: g.square().sum((1, 2))})
    clipping.summed(Logits)(lambda layer, a, g: {layer.bias: g.sum(0)})
    codes = np.random.default_rng().choice(4, (1000, 2), p=[0.7, 0.1, 0.1, 0.1])
    trained = train(Toy(), Training(codes, PLAN, SPEC))
    assert trained.audit.passed, trained.audit.failed
    assert trained.event == PLAN.event
    shares = trained.network.logits.bias.detach().softmax(1)
    # No gradient is longer than the clip norm, so that nothing but noise parts the shares from those of the rows.
    assert shares[:, 0].tolist() == pytest.approx((codes == 0).mean(0), abs=0.1)


def test_a_network_whose_layers_are_not_registered_is_refused() -> None:
    with pytest.raises(TrainingError, match="no clipped sum is registered for layers of type Logits"):
        train(Toy(), Training(np.zeros((10, 2), np.int16), PLAN, SPEC))


def test_a_redraw_keeps_each_layers_mean_and_deviation_and_nothing_else() -> None:
    network = AutoregressiveNetwork((30,) * 8, GeneratorSpec(hidden=40, embedding=8))
    with torch.no_grad():
        for i, p in enumerate(network.parameters()):
            p.normal_(mean=i / 10, std=1 + i / 5)
    network.forget_unused()
    before = {n: p.detach().clone() for n, p in network.named_parameters()}
    redraw(network)
    for name, p in network.named_parameters():
        old = before[name]
        if name.endswith("bias"):
            assert torch.equal(p, old)
            continue
        used, now = old[old != 0], p.detach()[old != 0]
        n = used.numel()
        assert not torch.equal(used, now)
        assert abs(float(np.corrcoef(used, now)[0, 1])) < 6.5 / n**0.5
        assert float(now.mean()) == pytest.approx(float(used.mean()), abs=6.5 * float(used.std()) / n**0.5)
        assert float(now.std()) == pytest.approx(float(used.std()), rel=6.5 / (2 * n) ** 0.5)
        assert not p[old == 0].any(), "what no output depends on stays 0"
