"""Exact per-unit clipping in one backward pass, without per-example gradients, as an extension of Opacus.

Guarantee: `OnePassClipping.backward(losses)` adds to every `p.grad` the sum over units of that unit's gradient, scaled so
that the gradient over *all* parameters has an L2 norm of at most `max_grad_norm`. It equals Opacus' `hooks` mode, and
`attach` lets every optimizer of Opacus take its sums, per-layer and adaptive bounds too.

Layers are registered beside their network (`squared_norm`, `clipped_sum`); this module knows none.

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

from collections.abc import Callable, Sequence

import torch
from opacus.grad_sample import register_norm_sampler
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer, DPOptimizerFastGradientClipping
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from dp_synth_pipeline.errors import TrainingError

Bound = float | Sequence[float]
Grads = dict[nn.Parameter, torch.Tensor]
Make = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SQUARED_NORMS: dict[type[nn.Module], Callable[..., Grads]] = {}
"""For each layer type, each unit's squared gradient norm (units,) from (layer, input, output gradient, `SharedInputs`)."""

CLIPPED_SUMS: dict[type[nn.Module], Callable[..., Grads]] = {}
"""For each layer type, the sum of rows' gradients from (layer, input, output gradient, units' weights, `SharedInputs`)."""

SHARING: set[type[nn.Module]] = set()
"""Layer types of which several may read the first columns of one input."""


def squared_norm(layer_type: type[nn.Module]) -> Callable[[Callable[..., Grads]], Callable[..., Grads]]:
    """Register a layer type's exact squared norms here, and their roots as Opacus' norm sampler."""

    def register(function: Callable[..., Grads]) -> Callable[..., Grads]:
        @register_norm_sampler(layer_type)
        def norms(layer: nn.Module, activations: list[torch.Tensor], g: torch.Tensor) -> Grads:
            squares = function(layer, activations[0], g, SharedInputs())
            return {p: square.clamp(min=0).sqrt() for p, square in squares.items()}

        SQUARED_NORMS[layer_type] = function
        return function

    return register


def clipped_sum(layer_type: type[nn.Module]) -> Callable[[Callable[..., Grads]], Callable[..., Grads]]:
    """Register a layer type's weighted sum of per-row gradients."""

    def register(function: Callable[..., Grads]) -> Callable[..., Grads]:
        CLIPPED_SUMS[layer_type] = function
        return function

    return register


def share_input(layer_type: type[nn.Module]) -> None:
    """Say that several layers of this type read the first columns of one input."""
    SHARING.add(layer_type)


class SharedInputs:
    """What is computed once of an input whose first columns several layers read, each another number of them.

    Args:
        seen: (layer, input, output edge) of a pass; only layers that `share_input` named are looked at.
    """

    def __init__(self, seen: Sequence[tuple[nn.Module, torch.Tensor, GradientEdge]] = ()) -> None:
        read = sorted((a for layer, a, _ in seen if type(layer) in SHARING), key=lambda a: a.shape[-2])
        # of those that begin at one place, the last: the one with the most columns
        self._whole = {(a.data_ptr(), a.stride()): a for a in read}
        self._found: dict[tuple[str, int, int], tuple[torch.Tensor, ...]] = {}

    def once(self, what: str, a: torch.Tensor, by: torch.Tensor, make: Make) -> torch.Tensor:
        """Return what `make` computes of the columns of a (..., d, n) and of `by`: (d, ...), columns first.

        Args:
            what: names the computation, so that two of one input are not taken for each other.
            make: called with the input that has the most columns, and `by`.
        """
        whole = self._whole.get((a.data_ptr(), a.stride()), a)
        key = (what, id(whole), by.data_ptr())
        if key not in self._found:
            self._found[key] = (make(whole, by), whole, by)  # kept, so that no other tensor comes to lie there
        return self._found[key][0][: a.shape[-2]]


class OnePassClipping:
    """Clips each unit's gradient over all parameters of `module`, which must consist of registered layers.

    Attributes:
        max_grad_norm: L2 bound of a unit's whole gradient; or one bound for each trained parameter, in the module's order,
            as in per-layer clipping.
        units, unclipped: units in the last backward pass, and those under the bound: private, for an optimizer that adds
            noise to them.

    Raises:
        TrainingError: if a layer with parameters is not registered, or is used twice in one pass.
    """

    def __init__(self, module: nn.Module, max_grad_norm: Bound) -> None:
        self.max_grad_norm = max_grad_norm
        self.units, self.unclipped = 0, torch.zeros((), dtype=torch.int64)
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._seen: list[tuple[nn.Module, torch.Tensor, GradientEdge]] = []  # edges, so that outputs need not be kept
        self._hooks: list[RemovableHandle] = []
        for layer in module.modules():
            if not any(p.requires_grad for p in layer.parameters(recurse=False)):
                continue
            if type(layer) not in CLIPPED_SUMS:
                raise TrainingError(f"no clipped sum is registered for layers of type {type(layer).__name__}.")
            self._hooks.append(layer.register_forward_hook(self._remember))

    def close(self) -> None:
        """Leave the module as it was."""
        for hook in self._hooks:
            hook.remove()
        self._seen.clear()

    def _remember(self, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if not torch.is_grad_enabled():
            return
        if any(layer is seen for seen, _, _ in self._seen):
            self._seen.clear()
            raise TrainingError("a layer was used twice before `backward`; its gradient norm would be wrong.")
        self._seen.append((layer, inputs[0].detach(), get_gradient_edge(output)))

    def backward(self, losses: torch.Tensor) -> None:
        """Add the clipped sum for per-unit `losses` (units,), summed over a unit's rows already, to every `p.grad`."""
        seen, self._seen = self._seen, []
        grads = torch.autograd.grad(losses.sum(), [output for _, _, output in seen])
        with torch.no_grad():
            self._add(seen, grads)

    def _add(self, seen: list[tuple[nn.Module, torch.Tensor, GradientEdge]], grads: tuple[torch.Tensor, ...]) -> None:
        squares, shared = {}, SharedInputs(seen)
        for (layer, a, _), g in zip(seen, grads, strict=True):
            squares |= SQUARED_NORMS[type(layer)](layer, a, g, shared)
        whole = torch.stack(list(squares.values())).sum(0)
        finite = torch.isfinite(whole)
        sound = bool(finite.all())
        weights = self._weights(squares, whole)
        if not sound:  # a unit whose gradient is not finite contributes nothing, as if it had been clipped to zero
            weights = {p: torch.where(finite, w, torch.zeros_like(w)) for p, w in weights.items()}
        for (layer, a, _), g in zip(seen, grads, strict=True):
            a, g = (a, g) if sound else (torch.nan_to_num(a, 0.0, 0.0, 0.0), torch.nan_to_num(g, 0.0, 0.0, 0.0))
            for parameter, total in _layer_sums(layer, a, g, weights, shared).items():
                parameter.grad = total if parameter.grad is None else parameter.grad + total

    def _weights(self, squares: Grads, whole: torch.Tensor) -> Grads:
        """Return each unit's weight (units,) for every parameter: one for all of them unless bounds are per layer."""
        self.units = len(whole)
        if isinstance(self.max_grad_norm, Sequence):
            each = zip(self._parameters, self.max_grad_norm, strict=True)
            return {p: _factor(squares[p], bound) for p, bound in each}
        weights = _factor(whole, self.max_grad_norm)
        self.unclipped = len(weights) - (weights < 1).sum()
        return dict.fromkeys(squares, weights)


def attach(clipping: OnePassClipping, optimizer: DPOptimizer) -> None:
    """Let an optimizer of Opacus take its clipped sums from `clipping.backward`, and give it the bounds.

    Opacus' `ghost` optimizers take what is in `p.grad` as it is. The others would clip per-example gradients, which there
    are none of here: their clipping is replaced, and their noise, averaging, reduction and accounting stay their own.
    """
    clipping.max_grad_norm = getattr(optimizer, "max_grad_norms", optimizer.max_grad_norm)
    if isinstance(optimizer, DPOptimizerFastGradientClipping):
        return

    def take() -> None:
        for p in optimizer.params:
            if p.grad is None:
                raise TrainingError("no backward pass through the clipping came before this step.")
            p.summed_grad = p.grad if p.summed_grad is None else p.summed_grad + p.grad  # type: ignore[attr-defined]
            p.grad = None
        if isinstance(optimizer, AdaClipDPOptimizer):
            optimizer.sample_size += clipping.units
            optimizer.unclipped_num = optimizer.unclipped_num + clipping.unclipped

    honest = optimizer.pre_step

    def pre_step(closure: Callable[[], float] | None = None) -> float | None:
        for p in optimizer.params:
            p.grad_sample = p.new_empty(0, *p.shape)  # type: ignore[attr-defined]
        done = honest(closure)
        if isinstance(optimizer, AdaClipDPOptimizer):
            clipping.max_grad_norm = float(optimizer.max_grad_norm)
        return done

    optimizer.clip_and_accumulate, optimizer.pre_step = take, pre_step


def _factor(squares: torch.Tensor, bound: float) -> torch.Tensor:
    """Return what brings norms of these squares to `bound` at most, as Opacus computes it."""
    return (bound / (squares.clamp(min=0).sqrt() + 1e-6)).clamp(max=1.0)


def _layer_sums(layer: nn.Module, a: torch.Tensor, g: torch.Tensor, weights: Grads, shared: SharedInputs) -> Grads:
    """Return the weighted sums of one layer's gradients; parameters whose units weigh alike share a computation."""
    found: Grads = {}
    for parameter in layer.parameters(recurse=False):
        if parameter not in found:
            sums = CLIPPED_SUMS[type(layer)](layer, a, g, weights[parameter], shared)
            found |= {p: total for p, total in sums.items() if weights[p] is weights[parameter]}
    return found
