"""How each layer of the autoregressive network is clipped exactly: its squared norms, and its clipped sums.

Importing this module registers them (see `dpsgd.clipping`, which says why they are exact).
"""

from __future__ import annotations

import torch

from dp_synth_pipeline.model.autoregressive.layers import (
    CausalLinear,
    ColumnEmbedding,
    ColumnHeads,
    StepWeights,
    rows_last,
)
from dp_synth_pipeline.model.dpsgd.clipping import (
    Grads,
    SharedInputs,
    halved_sum,
    share_input,
    squared_norm,
    summed,
)


def _gram(x: torch.Tensor) -> torch.Tensor:
    """Inner products (units, rows, rows, D) of rows of one unit, block by block, of x (units, rows, D, n).

    In double precision: rows that all but cancel leave a small norm, which 32 bits would lose among large products.
    """
    x = x.double()
    return torch.einsum("usdn,utdn->ustd", x, x)


def _squares(x: torch.Tensor) -> torch.Tensor:
    """Return the squared norms (d, rows) of x (d, n, rows); a product, since PyTorch's square takes twice as long.

    Added up over n in 32 bits, which `clipping` allows for, and in double precision from there on.
    """
    return (x * x).sum(1).double()


def _pairs(products: torch.Tensor) -> torch.Tensor:
    """Return the sums (units,) of products (units, rows, rows, D) over all pairs of rows and blocks."""
    return halved_sum(halved_sum(halved_sum(products)))


def _one_row(x: torch.Tensor) -> bool:
    """Whether activations are (units, D, n), and not (units, rows, D, n)."""
    return x.dim() == 3


@squared_norm(ColumnEmbedding)
def _embedding_norm(layer: ColumnEmbedding, codes: torch.Tensor, g: torch.Tensor, _: SharedInputs) -> Grads:
    if _one_row(g):
        return {layer.weight: _squares(rows_last(g)).sum(0)}
    same = codes[:, :, None, :] == codes[:, None, :, :]
    return {layer.weight: _pairs(_gram(g) * same)}


@summed(ColumnEmbedding)
def _embedding_sum(layer: ColumnEmbedding, codes: torch.Tensor, g: torch.Tensor) -> Grads:
    g = rows_last(g)  # (D, E, rows)
    index = (codes + layer.offsets).T.flatten()
    total = torch.zeros_like(layer.weight, dtype=g.dtype)
    return {layer.weight: total.index_add_(0, index, g.transpose(1, 2).reshape(-1, g.shape[1]))}


share_input(CausalLinear)


@squared_norm(CausalLinear)
def _causal_norm(layer: CausalLinear, a: torch.Tensor, g: torch.Tensor, shared: SharedInputs) -> Grads:
    if _one_row(g):
        squares, columns = _squares(rows_last(g)), shared.once("squares", a, lambda whole: _squares(rows_last(whole)))
        earlier = layer.sees.double() @ columns[: a.shape[-2]]  # over the columns that each column sees: (d, rows)
        return {layer.weight: (squares * earlier).sum(0), layer.bias: squares.sum(0)}
    before = torch.nn.functional.pad(_gram(a).cumsum(3), (1, 0))  # over the first 0, 1, 2, ... columns
    earlier, outer = before[..., list(layer.columns)], _gram(g)
    return {layer.weight: _pairs(outer * earlier), layer.bias: _pairs(outer)}


@summed(CausalLinear)
def _causal_sum(layer: CausalLinear, a: torch.Tensor, g: torch.Tensor) -> Grads:
    flat = rows_last(g).flatten(0, 1)  # (d * H, rows)
    weight = flat @ rows_last(a).flatten(0, 1).T
    return {layer.weight: weight.mul_(layer.mask), layer.bias: flat.sum(1)}


@squared_norm(ColumnHeads)
def _heads_norm(layer: ColumnHeads, h: torch.Tensor, g: torch.Tensor, _: SharedInputs) -> Grads:
    if _one_row(g):
        squares = _squares(rows_last(g))
        return {layer.weight: (squares * _squares(rows_last(h))).sum(0), layer.bias: squares.sum(0)}
    outer = _gram(g)
    return {layer.weight: _pairs(outer * _gram(h)), layer.bias: _pairs(outer)}


@summed(ColumnHeads)
def _heads_sum(layer: ColumnHeads, h: torch.Tensor, g: torch.Tensor) -> Grads:
    h, g = rows_last(h), rows_last(g)  # (d, H, rows), (d, K, rows)
    if h.shape[1] < g.shape[1]:  # the fewer come first: a product is faster that way
        return {layer.weight: torch.bmm(h, g.transpose(1, 2)).transpose(1, 2), layer.bias: g.sum(2)}
    return {layer.weight: torch.bmm(g, h.transpose(1, 2)), layer.bias: g.sum(2)}


@squared_norm(StepWeights)
def _steps_norm(layer: StepWeights, _codes: torch.Tensor, g: torch.Tensor, _: SharedInputs) -> Grads:
    if _one_row(g):
        return {layer.weight: _squares(rows_last(g)).sum(0)}
    return {layer.weight: halved_sum(halved_sum(halved_sum(g.double().movedim(1, -1)).square()))}


@summed(StepWeights)
def _steps_sum(layer: StepWeights, _codes: torch.Tensor, g: torch.Tensor) -> Grads:
    return {layer.weight: g.sum(0)}
