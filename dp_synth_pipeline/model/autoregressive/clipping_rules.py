"""How each layer of the autoregressive network is clipped exactly: its squared norms, and its clipped sums.

Importing this module registers them (see `dpsgd.clipping`, which says why they are exact).
"""

from __future__ import annotations

import torch
from opacus.grad_sample import register_grad_sampler

from dp_synth_pipeline.model.autoregressive.layers import CausalLinear, ColumnEmbedding, ColumnHeads, rows_last
from dp_synth_pipeline.model.dpsgd.clipping import Grads, SharedInputs, clipped_sum, share_input, squared_norm


def _rows(x: torch.Tensor, inner: int) -> torch.Tensor:
    """View as (units, rows, ...) with `inner` trailing dimensions, whether or not a unit has several rows."""
    return x.unsqueeze(1) if x.dim() == inner + 1 else x


def _gram(x: torch.Tensor) -> torch.Tensor:
    """Inner products (units, rows, rows, D) of rows of one unit, block by block, of x (units, rows, D, n)."""
    return torch.einsum("usdn,utdn->ustd", x, x)


def _squares(x: torch.Tensor) -> torch.Tensor:
    """Return the squared norms (d, rows) of x (d, n, rows); a product, since PyTorch's square takes twice as long."""
    return (x * x).sum(1)


def _one_row(x: torch.Tensor) -> bool:
    """Whether activations (units, D, n) or (units, rows, D, n) hold one row for each unit."""
    return x.dim() == 3 or x.shape[1] == 1


def _of_each_row(weights: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Return units' weights (units,) for each of their rows, flat (units * rows,), for g (units, D, n) or with rows."""
    return weights if _one_row(g) else weights.repeat_interleave(g.shape[1])


@squared_norm(ColumnEmbedding)
def _embedding_norm(layer: ColumnEmbedding, codes: torch.Tensor, g: torch.Tensor, _: SharedInputs) -> Grads:
    if _one_row(g):
        return {layer.weight: _squares(rows_last(g)).sum(0)}
    same = codes[:, :, None, :] == codes[:, None, :, :]
    return {layer.weight: (_gram(g) * same).sum((1, 2, 3))}


@clipped_sum(ColumnEmbedding)
def _embedding_sum(
    layer: ColumnEmbedding, codes: torch.Tensor, g: torch.Tensor, weights: torch.Tensor, _: SharedInputs
) -> Grads:
    weighted = rows_last(g) * _of_each_row(weights, g)  # (D, E, rows)
    index = (codes.flatten(0, -2) + layer.offsets).T.flatten()
    total = torch.zeros_like(layer.weight)
    return {layer.weight: total.index_add_(0, index, weighted.transpose(1, 2).reshape(-1, weighted.shape[1]))}


share_input(CausalLinear)


def _column_squares(a: torch.Tensor, shared: SharedInputs) -> torch.Tensor:
    """Return the squared norms (d, rows) of the columns of a (..., d, n)."""
    return shared.once("squares", a, a, lambda whole, _: _squares(rows_last(whole)))


def _weighted_columns(a: torch.Tensor, weights: torch.Tensor, shared: SharedInputs) -> torch.Tensor:
    """Return the columns of a (..., d, n), each row times its weight (rows,), as (d, n, rows)."""
    return shared.once("weighted", a, weights, lambda whole, by: rows_last(whole) * by)


@squared_norm(CausalLinear)
def _causal_norm(layer: CausalLinear, a: torch.Tensor, g: torch.Tensor, shared: SharedInputs) -> Grads:
    if _one_row(g):
        squares = _squares(rows_last(g))
        earlier = layer.sees @ _column_squares(a, shared)  # over the columns that each column sees: (d, rows)
        return {layer.weight: (squares * earlier).sum(0), layer.bias: squares.sum(0)}
    earlier, outer = _gram(a) @ layer.sees.T, _gram(g)
    return {layer.weight: (outer * earlier).sum((1, 2, 3)), layer.bias: outer.sum((1, 2, 3))}


@clipped_sum(CausalLinear)
def _causal_sum(
    layer: CausalLinear, a: torch.Tensor, g: torch.Tensor, weights: torch.Tensor, shared: SharedInputs
) -> Grads:
    each, flat = _of_each_row(weights, g), rows_last(g).flatten(0, 1)  # (d * H, rows)
    weight = flat @ _weighted_columns(a, each, shared).flatten(0, 1).T
    return {layer.weight: weight.mul_(layer.mask), layer.bias: flat @ each}


@squared_norm(ColumnHeads)
def _heads_norm(layer: ColumnHeads, h: torch.Tensor, g: torch.Tensor, _: SharedInputs) -> Grads:
    if _one_row(g):
        squares = _squares(rows_last(g))
        return {layer.weight: (squares * _squares(rows_last(h))).sum(0), layer.bias: squares.sum(0)}
    outer = _gram(g)
    return {layer.weight: (outer * _gram(h)).sum((1, 2, 3)), layer.bias: outer.sum((1, 2, 3))}


@clipped_sum(ColumnHeads)
def _heads_sum(layer: ColumnHeads, h: torch.Tensor, g: torch.Tensor, weights: torch.Tensor, _: SharedInputs) -> Grads:
    each, h, g = _of_each_row(weights, g), rows_last(h), rows_last(g)  # (d, H, rows), (d, K, rows)
    if h.shape[1] < g.shape[1]:  # the fewer are weighted
        return {layer.weight: torch.bmm(g, (h * each).transpose(1, 2)), layer.bias: g @ each}
    weighted = g * each
    return {layer.weight: torch.bmm(weighted, h.transpose(1, 2)), layer.bias: weighted.sum(2)}


# Per-example gradients, used only to check the above against Opacus' own `hooks` mode.


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
