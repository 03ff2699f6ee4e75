"""Draws code rows from released weights: post-processing, so it costs nothing, however many rows are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from dp_synth_pipeline.model.network import ABSENT, AutoregressiveNetwork

BATCH = 1 << 14
"""Rows drawn at a time."""


@torch.no_grad()
def draw(
    network: AutoregressiveNetwork, rows: int, *, forbidden: Sequence[Sequence[int]] | None = None, batch: int = BATCH
) -> Iterator[np.ndarray]:
    """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn.

    Args:
        forbidden: for each column, codes that must not be drawn; the rest is drawn as if they did not exist.
    """
    banned = torch.zeros_like(network.heads.bias)
    for column, codes in enumerate(forbidden or ()):
        banned[column, list(codes)] = ABSENT
    while rows > 0:
        size = min(rows, batch)
        yield _draw_batch(network, size, banned)
        rows -= size


def _draw_batch(network: AutoregressiveNetwork, rows: int, banned: torch.Tensor) -> np.ndarray:
    causal, heads, embed = network.causal, network.heads, network.embed
    weight = (causal.weight * causal.mask).unflatten(1, (causal.columns, causal.inputs))
    before = causal.bias.expand(rows, -1).clone()  # hidden units before the activation, filled column by column
    out = torch.empty(rows, causal.columns, dtype=torch.int64)
    for i, cardinality in enumerate(network.cardinalities):
        block = slice(i * causal.outputs, (i + 1) * causal.outputs)
        hidden = network.activation(before[:, block])
        logits = hidden @ heads.weight[i, :cardinality].T + heads.bias[i, :cardinality] + banned[i, :cardinality]
        cumulative = logits.double().softmax(-1).cumsum(-1)
        u = torch.from_numpy(np.random.default_rng().random(rows))[:, None] * cumulative[:, -1:]
        out[:, i] = (cumulative <= u).sum(-1).clamp(max=cardinality - 1)
        if i + 1 < causal.columns:
            later = slice((i + 1) * causal.outputs, None)
            before[:, later] += embed.weight[embed.offsets[i] + out[:, i]] @ weight[later, i].T
    return out.numpy()
