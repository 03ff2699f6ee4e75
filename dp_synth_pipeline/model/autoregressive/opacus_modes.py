"""What Opacus' own `hooks` and `ghost` modes ask of these layers, to compare our clipping with: gradients, and their norms.

Importing this module registers them. Nothing that is trained or drawn here needs it.
"""

from __future__ import annotations

import torch
from opacus.grad_sample import register_grad_sampler, register_norm_sampler
from torch import nn

from dp_synth_pipeline.model.autoregressive.layers import CausalLinear, ColumnEmbedding, ColumnHeads, StepWeights
from dp_synth_pipeline.model.dpsgd.clipping import SQUARED_NORMS, Grads, SharedInputs


def _norms(layer: nn.Module, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    squares = SQUARED_NORMS[type(layer)](layer, activations[0], g, SharedInputs())
    return {p: square.clamp(min=0).sqrt() for p, square in squares.items()}


for _layer_type in (ColumnEmbedding, CausalLinear, ColumnHeads, StepWeights):
    register_norm_sampler(_layer_type)(_norms)


def _rows(x: torch.Tensor, inner: int) -> torch.Tensor:
    """View as (units, rows, ...) with `inner` trailing dimensions, whether or not a unit has several rows."""
    return x.unsqueeze(1) if x.dim() == inner + 1 else x


@register_grad_sampler(ColumnEmbedding)
def _embedding_grads(layer: ColumnEmbedding, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    codes, g = _rows(activations[0], 1) + layer.offsets, _rows(g, 2)
    total = torch.zeros(len(g), *layer.weight.shape, dtype=g.dtype, device=g.device)
    index = codes.flatten(1)[..., None].expand(-1, -1, g.shape[-1])
    return {layer.weight: total.scatter_add_(1, index, g.flatten(1, 2))}


@register_grad_sampler(CausalLinear)
def _causal_grads(layer: CausalLinear, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    a, g = _rows(activations[0], 2).flatten(2), _rows(g, 2).flatten(2)
    return {layer.weight: torch.einsum("uso,usi->uoi", g, a) * layer.mask, layer.bias: g.sum(1)}


@register_grad_sampler(ColumnHeads)
def _heads_grads(layer: ColumnHeads, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    h, g = _rows(activations[0], 2), _rows(g, 2)
    return {layer.weight: torch.einsum("usdk,usdh->udkh", g, h), layer.bias: g.sum(1)}


@register_grad_sampler(StepWeights)
def _steps_grads(layer: StepWeights, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    return {layer.weight: _rows(g, 2).sum(1)}
