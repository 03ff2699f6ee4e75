"""Exact per-unit clipping in one backward pass, without per-example gradients, as an extension of Opacus.

Guarantee: after `OnePassClipping.backward(losses)`, every `p.grad` is the sum over units of that unit's gradient, scaled
so that the gradient over *all* parameters has an L2 norm of at most `max_grad_norm`. It equals Opacus' `hooks` mode.

How: for a layer used once per row, the gradient's norm follows from the layer's input a and the gradient g at its output
(for a linear map ||a||^2 ||g||^2 + ||g||^2), and the clipped sum is a weighted product of the two (book-keeping: Bu et al.
2023, "Differentially Private Optimization on Large Model at Small Cost"). When a unit has several rows, the norm of its
summed gradient is a sum over pairs of its rows (ghost norm: Li et al. 2022, "Large Language Models Can Be Strong
Differentially Private Learners").

Shapes: `(units, ...)` for one row a unit, or `(units, rows, ...)`; padded rows have g = 0 and so weigh nothing.

| case | result |
|---|---|
| no unit in the batch | every gradient is 0 |
| one unit with a gradient of 10^6 | moves the sum by `max_grad_norm` |
| a layer used twice in one forward pass | refused: the norm would be too small |
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping, register_grad_sampler, register_norm_sampler
from torch import nn

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.network import CausalLinear, ColumnEmbedding, ColumnHeads

Grads = dict[nn.Parameter, torch.Tensor]
CLIPPED_SUMS: dict[type[nn.Module], Callable[..., Grads]] = {}
"""For each layer type, the weighted sum of per-row gradients from (layer, input, output gradient, weights)."""


def _clipped_sum(layer_type: type[nn.Module]):
    def register(function: Callable[..., Grads]) -> Callable[..., Grads]:
        CLIPPED_SUMS[layer_type] = function
        return function

    return register


class OnePassClipping:
    """Clips each unit's gradient over all parameters of `module`, which must consist of registered layers.

    Raises:
        TrainingError: if a layer with parameters is not registered, or is used twice in one pass.
    """

    def __init__(self, module: nn.Module, max_grad_norm: float) -> None:
        self.max_grad_norm = max_grad_norm
        self._seen: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []
        for layer in module.modules():
            if not any(p.requires_grad for p in layer.parameters(recurse=False)):
                continue
            if type(layer) not in CLIPPED_SUMS:
                raise TrainingError(f"no clipped sum is registered for layers of type {type(layer).__name__}.")
            layer.register_forward_hook(self._remember)

    def _remember(self, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if not torch.is_grad_enabled():
            return
        if any(layer is seen for seen, _, _ in self._seen):
            self._seen.clear()
            raise TrainingError("a layer was used twice before `backward`; its gradient norm would be wrong.")
        self._seen.append((layer, inputs[0].detach(), output))

    def backward(self, losses: torch.Tensor) -> None:
        """Set `p.grad` to the clipped sum for per-unit `losses` (units,), summed over a unit's rows already."""
        seen, self._seen = self._seen, []
        grads = torch.autograd.grad(losses.sum(), [output for _, _, output in seen])
        squares = torch.zeros_like(losses)
        samplers = GradSampleModuleFastGradientClipping.NORM_SAMPLERS
        for (layer, a, _), g in zip(seen, grads, strict=True):
            for norm in samplers[type(layer)](layer, [a], g).values():
                squares = squares + norm.square()
        weights = (self.max_grad_norm / (squares.sqrt() + 1e-6)).clamp(max=1.0).detach()
        # A unit whose gradient is not finite contributes nothing, as if it had been clipped to zero.
        finite = torch.isfinite(squares)
        if not finite.all():
            weights = torch.where(finite, weights, torch.zeros_like(weights))
            grads = [torch.nan_to_num(g, 0.0, 0.0, 0.0) for g in grads]
        for (layer, a, _), g in zip(seen, grads, strict=True):
            for parameter, total in CLIPPED_SUMS[type(layer)](layer, a, g, weights).items():
                parameter.grad = total


def _rows(x: torch.Tensor, inner: int) -> torch.Tensor:
    """View as (units, rows, ...) with `inner` trailing dimensions, whether or not a unit has several rows."""
    return x.unsqueeze(1) if x.dim() == inner + 1 else x


def _gram(x: torch.Tensor) -> torch.Tensor:
    """Inner products (units, rows, rows, D) of rows of one unit, block by block, of x (units, rows, D, n)."""
    return torch.einsum("usdn,utdn->ustd", x, x)


def _norm(square: torch.Tensor) -> torch.Tensor:
    return square.clamp(min=0).sqrt()


def _single(x: torch.Tensor) -> bool:
    return x.shape[1] == 1


@register_norm_sampler(ColumnEmbedding)
def _embedding_norm(layer: ColumnEmbedding, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    codes, g = _rows(activations[0], 1), _rows(g, 2)
    if _single(g):
        return {layer.weight: _norm(g.square().sum((1, 2, 3)))}
    same = codes[:, :, None, :] == codes[:, None, :, :]
    return {layer.weight: _norm((_gram(g) * same).sum((1, 2, 3)))}


@_clipped_sum(ColumnEmbedding)
def _embedding_sum(layer: ColumnEmbedding, codes: torch.Tensor, g: torch.Tensor, weights: torch.Tensor) -> Grads:
    weighted = _rows(g, 2) * weights[:, None, None, None]
    rows = (_rows(codes, 1) + layer.offsets).flatten()
    total = torch.zeros_like(layer.weight)
    return {layer.weight: total.index_add_(0, rows, weighted.flatten(0, 2))}


@register_norm_sampler(CausalLinear)
def _causal_norm(layer: CausalLinear, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    a, g = _rows(activations[0], 2), _rows(g, 2)
    if _single(g):
        earlier = a.square().sum(-1).cumsum(-1) - a.square().sum(-1)  # of columns before each
        squares = g.square().sum(-1)
        return {layer.weight: _norm((squares * earlier).sum((1, 2))), layer.bias: _norm(squares.sum((1, 2)))}
    inner = _gram(a)
    earlier, outer = inner.cumsum(-1) - inner, _gram(g)
    return {layer.weight: _norm((outer * earlier).sum((1, 2, 3))), layer.bias: _norm(outer.sum((1, 2, 3)))}


@_clipped_sum(CausalLinear)
def _causal_sum(layer: CausalLinear, a: torch.Tensor, g: torch.Tensor, weights: torch.Tensor) -> Grads:
    weighted = (_rows(g, 2) * weights[:, None, None, None]).flatten(0, 1).flatten(1)
    weight = weighted.T @ _rows(a, 2).flatten(0, 1).flatten(1)
    return {layer.weight: weight * layer.mask, layer.bias: weighted.sum(0)}


@register_norm_sampler(ColumnHeads)
def _heads_norm(layer: ColumnHeads, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
    h, g = _rows(activations[0], 2), _rows(g, 2)
    if _single(g):
        squares = g.square().sum(-1)
        weight = (squares * h.square().sum(-1)).sum((1, 2))
        return {layer.weight: _norm(weight), layer.bias: _norm(squares.sum((1, 2)))}
    outer = _gram(g)
    return {layer.weight: _norm((outer * _gram(h)).sum((1, 2, 3))), layer.bias: _norm(outer.sum((1, 2, 3)))}


@_clipped_sum(ColumnHeads)
def _heads_sum(layer: ColumnHeads, h: torch.Tensor, g: torch.Tensor, weights: torch.Tensor) -> Grads:
    weighted = (_rows(g, 2) * weights[:, None, None, None]).flatten(0, 1).transpose(0, 1)  # (D, rows, K)
    weight = torch.bmm(weighted.transpose(1, 2), _rows(h, 2).flatten(0, 1).transpose(0, 1))
    return {layer.weight: weight, layer.bias: weighted.sum(1)}


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
