"""A redraw forgets what each weight learnt, and keeps what its layer did."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.trainable import redraw


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
