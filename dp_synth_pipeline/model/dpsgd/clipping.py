"""Exact per-unit clipping in one backward pass, without per-example gradients, as an extension of Opacus.

Guarantee: `OnePassClipping.backward(losses)` adds to `sums`, for each trained parameter, the sum over units of whole
numbers that are a unit's gradient, scaled so that over *all* parameters its L2 norm is at most `max_grad_norm`, in
multiples of the lattice's spacing. The norm is at most that for the very numbers that are summed, whatever was rounded on
the way, and the sums are exact. `attach` lets every optimizer of Opacus take them, per-layer and adaptive bounds too.

Layers are registered beside their network (`squared_norm`, `summed`); this module knows none.

How: for a layer used once per row, the gradient's norm follows from the layer's input a and the gradient g at its output
(for a linear map ||a||^2 ||g||^2 + ||g||^2), and the clipped sum is a weighted product of the two (book-keeping: Bu et al.
2023, "Differentially Private Optimization on Large Model at Small Cost"). When a unit has several rows, the norm of its
summed gradient is a sum over pairs of its rows (ghost norm: Li et al. 2022, "Large Language Models Can Be Strong
Differentially Private Learners").

Rounding, for the lattice of `bits` = i + o binary digits under the bound C (the proof is in docs/training-noise.md):

1. a is rounded to i binary digits after the point, and from here on the gradient is that of the rounded a.
2. The unit's weight w is such that w (N + R T) + E <= C. N is at least the true norm: what computing it may have lost is
   added. T is the sum of its rows' norms, and R T is more than what rounding w g to 32 bits adds. E is what step 3 adds.
3. w g / C is cut off after o binary digits, which only shrinks a single row, so that E is 0. If a unit has several rows,
   it is rounded to the nearest instead, which moves each entry by half a unit of the last digit, and E adds that up.
4. Products of the two are whole numbers of spacings, and double precision adds them up exactly below 2**53. Rows whose
   norms add up to more than that are summed in several parts.

Shapes: an output's gradient is (units, d, n) for one row a unit, or (units, rows, d, n); padded rows have g = 0 and so
weigh nothing.

| case | result |
|---|---|
| no unit in the batch | every sum is 0 |
| one unit with a gradient of 10^6 | moves the sum by `max_grad_norm` |
| 1,025 rows of a unit that all but cancel | move the sum by `max_grad_norm` at most |
| a gradient that is not finite | adds nothing |
| a layer used twice in one forward pass | refused: the norm would be too small |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from dp_synth_pipeline.errors import InvalidInput, TrainingError
from dp_synth_pipeline.model.dpsgd.lattice import EXACT, Lattice, exact_ranges
from dp_synth_pipeline.model.dpsgd.spec import CLIPS

if TYPE_CHECKING:
    from opacus.optimizers import DPOptimizer

Bound = float | Sequence[float]
Grads = dict[nn.Parameter, torch.Tensor]
Make = Callable[[torch.Tensor], torch.Tensor]
Pass = tuple[nn.Module, torch.Tensor, torch.Tensor]
"""A layer, its input, and the gradient at its output."""

SQUARED_NORMS: dict[type[nn.Module], Callable[..., Grads]] = {}
"""For each layer type, each unit's squared gradient norm (units,) from (layer, input, output gradient, `SharedInputs`).

Of units of one row, 32 bits may add up over n only. Of several rows, all is in double precision, and sums over rows halve.
"""

SUMS: dict[type[nn.Module], Callable[..., Grads]] = {}
"""For each layer type, the sum of rows' gradients from (layer, input (rows, ...), output gradient (rows, ...))."""

SHARING: set[type[nn.Module]] = set()
"""Layer types of which several may read the first columns of one input."""

FLOAT, DOUBLE = 2.0**-24, 2.0**-53
"""Relative rounding errors of one operation."""

SLACK = 2.0**-22
"""R: more than the relative rounding errors of a 32-bit weight and of its product with g."""

MOST_ROWS = 2.0**8
"""Most, in bounds, that the norms of one unit's weighted rows may add up to; entries then fit into 32-bit integers."""


def squared_norm(layer_type: type[nn.Module]) -> Callable[[Callable[..., Grads]], Callable[..., Grads]]:
    """Register a layer type's exact squared norms."""

    def register(function: Callable[..., Grads]) -> Callable[..., Grads]:
        SQUARED_NORMS[layer_type] = function
        return function

    return register


def summed(layer_type: type[nn.Module]) -> Callable[[Callable[..., Grads]], Callable[..., Grads]]:
    """Register a layer type's sum of per-row gradients."""

    def register(function: Callable[..., Grads]) -> Callable[..., Grads]:
        SUMS[layer_type] = function
        return function

    return register


def share_input(layer_type: type[nn.Module]) -> None:
    """Say that several layers of this type read the first columns of one input."""
    SHARING.add(layer_type)


class SharedInputs:
    """What is computed once of an input (..., d, n) whose first columns several layers read, each another number of them.

    Args:
        read: (layer, input) of a pass; only layers that `share_input` named are looked at.
    """

    def __init__(self, read: Sequence[tuple[nn.Module, torch.Tensor]] = ()) -> None:
        shared = sorted((a for layer, a in read if type(layer) in SHARING), key=lambda a: a.shape[-2])
        # of those that begin at one place, the last: the one with the most columns
        self._whole = {(a.data_ptr(), a.stride()): a for a in shared}
        self._found: dict[tuple[str, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def once(self, what: str, a: torch.Tensor, make: Make) -> torch.Tensor:
        """Return what `make` computes of the input that begins where `a` does and has the most columns.

        Args:
            what: names the computation, so that two of one input are not taken for each other.
        """
        whole = self._whole.get((a.data_ptr(), a.stride()), a)
        key = (what, id(whole))
        if key not in self._found:
            self._found[key] = (make(whole), whole)  # kept, so that no other tensor comes to lie there
        return self._found[key][0]


def halved_sum(x: torch.Tensor) -> torch.Tensor:
    """Return the sums (...,) of x (..., n), by adding halves: zeros at its end change no bit of the result."""
    width = 1 << max(0, x.shape[-1] - 1).bit_length()
    x = torch.nn.functional.pad(x, (0, width - x.shape[-1]))
    while width > 1:
        width //= 2
        x = x[..., :width] + x[..., width:]
    return x.squeeze(-1)


@dataclass(frozen=True)
class Rounded:
    """What one layer adds to the sums of some of its parameters: inputs and weighted output gradients on the lattice.

    Attributes:
        inputs: (rows, ...), multiples of 2**-input_bits as 32-bit floats; or codes.
        gradients: int32 (rows, d, n), in bounds * 2**-gradient_bits.
        runs: consecutive rows that double precision adds up exactly.
    """

    layer: nn.Module
    parameters: tuple[nn.Parameter, ...]
    inputs: torch.Tensor
    gradients: torch.Tensor
    runs: Sequence[slice]


class OnePassClipping:
    """Clips each unit's gradient over all parameters of `module`, which must consist of registered layers.

    Args:
        lattice: what the sums are multiples of; without, the finest under the largest bound.

    Attributes:
        max_grad_norm: L2 bound of a unit's whole gradient; or one bound for each trained parameter, in the module's order,
            as in per-layer clipping.
        sums: the clipped sums since they were last taken: for each trained parameter int64, in spacings. Private.
        units, unclipped: units in the last backward pass, and those under the bound: private, for an optimizer that adds
            noise to them.

    Raises:
        TrainingError: if a layer with parameters is not registered, or is used twice in one pass.
        InvalidInput: if a bound is not between the `CLIPS` of the spec.
    """

    def __init__(self, module: nn.Module, max_grad_norm: Bound, lattice: Lattice | None = None) -> None:
        self.max_grad_norm, self._lattice = max_grad_norm, lattice
        self.units, self.unclipped = 0, torch.zeros((), dtype=torch.int64)
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.sums: Grads = {}
        self._seen: list[tuple[nn.Module, torch.Tensor, GradientEdge]] = []  # edges, so that outputs need not be kept
        self._hooks: list[RemovableHandle] = []
        for layer in module.modules():
            if not any(p.requires_grad for p in layer.parameters(recurse=False)):
                continue
            if type(layer) not in SUMS:
                raise TrainingError(f"no clipped sum is registered for layers of type {type(layer).__name__}.")
            self._hooks.append(layer.register_forward_hook(self._remember))

    @property
    def lattice(self) -> Lattice:
        """What the sums are multiples of."""
        each = self.max_grad_norm if isinstance(self.max_grad_norm, Sequence) else [self.max_grad_norm]
        if not all(CLIPS[0] <= bound <= CLIPS[1] for bound in each):
            raise InvalidInput(f"training: max_grad_norm must lie between {CLIPS[0]:g} and {CLIPS[1]:g}, got {each}.")
        return self._lattice or Lattice(max(each))

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

    @torch.no_grad()
    def backward(self, losses: torch.Tensor) -> None:
        """Add the clipped sum for per-unit `losses` (units,), summed over a unit's rows already, to `sums`."""
        passes, weights = self._weighed(losses)
        doubles = SharedInputs([(layer, _by_row(a, g)[0]) for layer, a, g in passes])
        for each in passes:  # one after the other, while its numbers are at hand
            for part in _parts(*each, weights, self.lattice):
                for p, total in _exact_sums(part, self.lattice, doubles).items():
                    self.sums[p] = total if p not in self.sums else self.sums[p] + total

    def take(self) -> torch.Tensor:
        """Return all sums as one vector, int64 in spacings and in the module's order, and begin anew."""
        sums, self.sums = self.sums, {}
        zeros = (p.new_zeros(p.shape, dtype=torch.int64) for p in self.parameters if p not in sums)
        return torch.cat([(sums[p] if p in sums else next(zeros)).flatten() for p in self.parameters])

    @torch.no_grad()
    def rounded(self, losses: torch.Tensor) -> list[Rounded]:
        """Return what `backward` adds up, layer by layer; of each unit, a function of its own rows alone.

        That holds where a row's activations and gradients do not depend on the rows beside it (see `repeatable`).
        """
        passes, weights = self._weighed(losses)
        return [part for each in passes for part in _parts(*each, weights, self.lattice)]

    def numbers(self, losses: torch.Tensor, rows: torch.Size) -> list[torch.Tensor]:
        """Return what `backward` adds up, as (*rows, ...), where `rows` is (units,) or (units, rows a unit)."""
        return [x.unflatten(0, rows) for part in self.rounded(losses) for x in (part.inputs, part.gradients)]

    def _weighed(self, losses: torch.Tensor) -> tuple[list[Pass], dict[nn.Parameter, Weights]]:
        """Return each layer with its rounded input and its gradient, and each parameter's `Weights`."""
        seen, self._seen = self._seen, []
        with torch.enable_grad():
            grads = torch.autograd.grad(losses.sum(), [output for _, _, output in seen])
        shared, places = SharedInputs([(layer, a) for layer, a, _ in seen]), self.lattice.input_bits
        passes = [(y, _rounded_input(a, places, shared), g) for (y, a, _), g in zip(seen, grads, strict=True)]
        weights = self._weights(passes)
        if not all(each.sound for each in weights.values()):
            passes = [(y, a if _is_codes(a) else _finite(a), _finite(g)) for y, a, g in passes]
        return passes, weights

    def _weights(self, passes: list[Pass]) -> dict[nn.Parameter, Weights]:
        """Return what weighs the units of a batch for each parameter: one thing for all, unless bounds differ."""
        norms = _Norms(passes, self.lattice)
        bound = self.max_grad_norm
        if isinstance(bound, Sequence):
            found = {p: norms.weights([p], b) for p, b in zip(self.parameters, bound, strict=True)}
        else:
            found = dict.fromkeys(self.parameters, norms.weights(self.parameters, bound))
        first = found[self.parameters[0]]
        self.units = len(first.weights)
        self.unclipped = self.units - (first.weights < 1).sum()
        return found


@dataclass(frozen=True)
class Weights:
    """What one bound makes of a batch.

    Attributes:
        weights: float64 (units,), at most 1.
        runs: consecutive rows, of all units, whose weighted gradients double precision adds up exactly.
        sound: whether all gradients are finite; the others have weight 0.
    """

    weights: torch.Tensor
    runs: Sequence[slice]
    sound: bool


class _Norms:
    """Upper bounds of units' and rows' norms, parameter by parameter."""

    def __init__(self, passes: list[Pass], lattice: Lattice) -> None:
        self.lattice, first = lattice, passes[0][2]
        self.grouped = first.dim() == 4  # even if each has one row
        self.rows = first.shape[1] if self.grouped else 1
        flat = [(y, *_by_row(a, g)) for y, a, g in passes]
        self.of_rows = _all_squares(flat)
        wide = max(g.shape[-1] if _is_codes(a) else max(a.shape[-1], g.shape[-1]) for _, a, g in passes)
        self.lost = 1 + 2.1 * (wide + 3) * FLOAT
        """More than true squared norms of rows are, relative to those computed in 32 bits; `wide` numbers were added."""
        if self.grouped:
            self.of_units = _all_squares(passes)
            self.of_ones = _all_squares([(y, a, (g != 0).to(g.dtype)) for y, a, g in flat])  # 0 is rounded to 0
            self.terms = 200 + sum(2 * g.shape[-2] + g.shape[-1] + a.shape[-1] for _, a, g in flat)
            """More than the additions that any number goes through: sums over rows halve, so these are few."""

    def weights(self, parameters: Sequence[nn.Parameter], bound: float) -> Weights:
        """Return the weights that keep a unit's gradient for these parameters under `bound`, as step 2 says."""
        each = (self._of(self.of_rows, parameters) * self.lost).sqrt()
        if not self.grouped:
            norm = together = each
            room, rounding = torch.full_like(each, bound), torch.zeros_like(each)
        else:
            together = halved_sum(each.view(-1, self.rows))
            lost = 2 * self.terms * DOUBLE * together.square()
            norm = (self._of(self.of_units, parameters).clamp(min=0) + lost).sqrt()
            ones = (self._of(self.of_ones, parameters) * self.lost).sqrt()
            rounding = ones * (
                self.lattice.bound * 2.0 ** -(self.lattice.gradient_bits + 1)
            )  # half a digit of each entry
            room = (bound - halved_sum(rounding.view(-1, self.rows))).clamp(min=0)
        weights = torch.minimum(room / (norm + SLACK * together), MOST_ROWS * self.lattice.bound / together)
        finite = torch.isfinite(norm) & torch.isfinite(together)
        weights = torch.where(finite, weights.nan_to_num(0.0).clamp(max=1.0), 0.0)
        norms = each * weights.repeat_interleave(self.rows) + rounding  # at least those of the weighted rows
        loads = norms.nan_to_num(0.0, 0.0, 0.0) / self.lattice.bound
        runs = exact_ranges(loads, 0.99 * EXACT * 2.0**-self.lattice.bits)
        return Weights(weights, runs, bool(finite.all()))

    @staticmethod
    def _of(squares: Grads, parameters: Sequence[nn.Parameter]) -> torch.Tensor:
        return torch.stack([squares[p] for p in parameters]).sum(0)


def _all_squares(passes: list[Pass]) -> Grads:
    shared, squares = SharedInputs([(layer, a) for layer, a, _ in passes]), {}
    for layer, a, g in passes:
        squares |= SQUARED_NORMS[type(layer)](layer, a, g, shared)
    return squares


def _is_codes(a: torch.Tensor) -> bool:
    return not a.is_floating_point()


def _finite(x: torch.Tensor) -> torch.Tensor:
    return x.nan_to_num(0.0, 0.0, 0.0)


def _by_row(a: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """View the rows of all units as units of their own."""
    return (a.flatten(0, 1), g.flatten(0, 1)) if g.dim() == 4 else (a, g)


def _rounded_input(a: torch.Tensor, places: int, shared: SharedInputs) -> torch.Tensor:
    """Return the multiples of 2**-places nearest to an input (..., d, n); codes as they are."""
    if _is_codes(a):
        return a
    whole = shared.once("rounded", a, lambda x: (x * 2.0**places).round_().mul_(2.0**-places))
    return whole[..., : a.shape[-2], :]


def _parts(
    layer: nn.Module, a: torch.Tensor, g: torch.Tensor, weights: Mapping[nn.Parameter, Weights], lattice: Lattice
) -> Iterator[Rounded]:
    """Yield one layer's part: one for all of its parameters, or one for each if their bounds differ."""
    grouped = g.dim() == 4
    a, g = _by_row(a, g)
    mine = list(layer.parameters(recurse=False))
    alike = all(weights[p] is weights[mine[0]] for p in mine)
    for group in [tuple(mine)] if alike else [(p,) for p in mine]:
        of_units = weights[group[0]].weights
        scale = (of_units * (2.0**lattice.gradient_bits / lattice.bound)).float()
        factors = scale.repeat_interleave(len(g) // max(len(scale), 1))
        scaled = g * factors[:, None, None]
        if grouped:
            scaled.round_()
        yield Rounded(layer, group, a, scaled.to(torch.int32), weights[group[0]].runs)


def _exact_sums(r: Rounded, lattice: Lattice, shared: SharedInputs) -> Grads:
    """Return the sums of one layer's part, int64 in spacings."""
    a = r.inputs if _is_codes(r.inputs) else shared.once("double", r.inputs, torch.Tensor.double)
    a = a if _is_codes(a) else a[..., : r.inputs.shape[-2], :]
    found: Grads = {}
    for rows in r.runs:
        sums = SUMS[type(r.layer)](r.layer, a[rows], r.gradients[rows].double())
        for p in r.parameters:
            total = (sums[p] * 2.0**lattice.input_bits).to(torch.int64)
            found[p] = total if p not in found else found[p] + total
    return found


def attach(clipping: OnePassClipping, optimizer: DPOptimizer) -> None:
    """Let an optimizer of Opacus take its clipped sums from `clipping.backward`, and give it the bounds.

    Its noise, averaging, reduction and accounting stay its own. Opacus' `ghost` optimizers take what is in `p.grad`. The
    others would clip per-example gradients, which there are none of here: their clipping is replaced.
    """
    from opacus.optimizers import AdaClipDPOptimizer, DPOptimizerFastGradientClipping

    clipping.max_grad_norm = getattr(optimizer, "max_grad_norms", optimizer.max_grad_norm)

    def take() -> None:
        if not clipping.sums:
            raise TrainingError("no backward pass through the clipping came before this step.")
        sums = clipping.lattice.values(clipping.take()).split([p.numel() for p in clipping.parameters])
        for p, total in zip(optimizer.params, sums, strict=True):
            p.summed_grad = total.view_as(p)  # type: ignore[attr-defined]
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

    if isinstance(optimizer, DPOptimizerFastGradientClipping):
        optimizer.accumulate = take
    else:
        optimizer.clip_and_accumulate = take
    optimizer.pre_step = pre_step
