"""What `dpsgd.one_run_attack` attacks: an autoregressive network, by what it thinks of its first column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.one_run_attack import Target


def target(spec: GeneratorSpec) -> Target:
    """Return how networks of this spec are attacked."""

    def begin(shares: Sequence[np.ndarray]) -> AutoregressiveNetwork:
        network = AutoregressiveNetwork([len(share) for share in shares], spec)
        network.start_from(shares)
        return network

    return Target(begin, _logits)


@torch.no_grad()
def _logits(network: AutoregressiveNetwork) -> np.ndarray:
    """Return what the network thinks of each code of its first column, float64 (codes,)."""
    _, bias, heads, shift = network.column(0)
    hidden = network.activation(bias[None, :, None])[0, :, 0] if bias.dim() == 1 else bias
    return (heads @ hidden + shift).double().cpu().numpy().copy()
