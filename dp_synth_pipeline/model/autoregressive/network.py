"""The autoregressive network over columns: each column's distribution given the ones before it. No privacy, no I/O.

    codes (..., D) --embed--> (..., D, E), and then for each block of columns
    (..., before, E) --causal--> (..., d, H) --tanh--> --heads--> (..., d, K) --mixed, while it learns--> logits (..., d, K)
    and of a number that moves from row to row, its code in the row before, or beside, --relative--> is added to them

D columns, E numbers per embedded value, H hidden units per column. A block holds d columns of similar cardinality (at most
K) and place, so that little is computed only to be masked. Every weight is used once per row, which is what makes exact
per-row gradient norms cheap (see `clipping_rules`, which registers them as this module is imported).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from dp_synth_pipeline.model.autoregressive import (
    clipping_rules,  # noqa: F401  registers how these layers are clipped
    smoothing,
)
from dp_synth_pipeline.model.autoregressive.layers import (
    ABSENT,
    CausalLinear,
    ColumnEmbedding,
    ColumnHeads,
    Mixed,
    RelativeBias,
    rows_first,
    rows_last,
)
from dp_synth_pipeline.model.autoregressive.plan import LEAST_HIDDEN
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before
from dp_synth_pipeline.model.dpsgd.trainable import Trainable


class Block(nn.Module):
    """What is learnt of some columns of similar cardinality.

    Attributes:
        mixed: makes logits of what the heads say, while codes in an order learn with their neighbours; None if none do.
        relative: adds to them by how far each code lies from that of the row before; None if no column is learnt so.
        beside: likewise, from that of the row beside.
    """

    mixed: Mixed | None
    relative: RelativeBias | None
    beside: RelativeBias | None

    def __init__(
        self,
        columns: Sequence[int],
        cardinalities: Sequence[int],
        spec: GeneratorSpec,
        moving: Mapping[int, Before] = MappingProxyType({}),
        apart: Mapping[int, Before] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        hidden = spec.hidden or LEAST_HIDDEN
        self.causal = CausalLinear(columns, spec.embedding, hidden)
        self.heads = ColumnHeads([cardinalities[c] for c in columns], hidden)
        self.mixed = None
        self.relative, self.beside = (
            None
            if found.keys().isdisjoint(columns)
            else RelativeBias([found.get(c) for c in columns], self.heads.cardinalities)
            for found in (moving, apart)
        )

    def mix(self, orders: Sequence[Sequence[int]]) -> None:
        """Let codes in an order learn with their neighbours; what is drawn stays as it is."""
        mine = [orders[c] for c in self.columns]
        if self.mixed is None and any(len(order) > 1 for order in mine):
            each = [smoothing.mix(o, n) for o, n in zip(mine, self.heads.cardinalities, strict=True)]
            self.mixed = Mixed(each, self.heads.absent)
            self._turn(np.linalg.inv)

    def unmix(self) -> None:
        """Put the mix into the weights of the heads; what is drawn stays as it is."""
        if self.mixed is not None:
            self._turn(lambda mix: mix)
            self.mixed = None

    @torch.no_grad()
    def _turn(self, by: Callable[[np.ndarray], np.ndarray]) -> None:
        assert self.mixed is not None
        for at, n in enumerate(self.heads.cardinalities):
            turned = by(self.mixed.mixes[at, :n, :n].double().cpu().numpy())
            for each in (self.heads.weight[at, :n], self.heads.bias[at, :n]):
                each.copy_(torch.from_numpy(turned @ each.double().cpu().numpy()))

    def forward(
        self, embedded: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor], codes: torch.Tensor
    ) -> torch.Tensor:
        """Return logits (..., d, K) from the embedded values (..., before, E) of the first columns, and the codes of all."""
        found = self.heads(activation(self.causal(embedded)))
        found = found if self.mixed is None else self.mixed(found)
        for relative in (self.relative, self.beside):
            found = found if relative is None else found + relative(codes)
        return found


class AutoregressiveNetwork(Trainable):
    """P(row) as a product over columns of P(column | earlier columns).

    Args:
        given: how many of the first columns are given with each row: others are learnt upon them, and they are not.
        orders: for each column its codes that have an order, in that order, which `mix` lets learn with their neighbours.
        moving: by column, where its code in the row before stands, for those that are learnt by how far they move.
        apart: likewise, where its code in the row beside stands.
    """

    def __init__(
        self,
        cardinalities: Sequence[int],
        spec: GeneratorSpec,
        given: int = 0,
        orders: Sequence[Sequence[int]] = (),
        moving: Mapping[int, Before] = MappingProxyType({}),
        apart: Mapping[int, Before] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.cardinalities, self.spec, self.given, self.orders = tuple(cardinalities), spec, given, orders
        self.moving, self.apart = dict(moving), dict(apart)
        self.activation: Callable[[torch.Tensor], torch.Tensor] = tanh if spec.activation == "tanh" else torch.relu
        self.embed = ColumnEmbedding(cardinalities, spec.embedding)
        blocks = arrange(self.cardinalities, given)
        self.blocks = nn.ModuleList(Block(c, self.cardinalities, spec, self.moving, self.apart) for c in blocks)
        self._describe()

    @torch.no_grad()
    def _describe(self) -> None:
        for first, order in zip(self.embed.offsets.tolist(), self.orders, strict=bool(self.orders)):
            if len(order) > 1:
                self.embed.weight[first + torch.tensor(list(order))] = smoothing.described(order, self.spec.embedding)

    def learnt(self) -> list[nn.Parameter]:
        """Return the weights that training moves: the heads', or all, as the spec says."""
        if self.spec.train_only is None:
            return super().learnt()
        return [p for block in self.blocks for p in block.heads.parameters()]  # type: ignore[union-attr]

    def mix(self) -> None:
        """Let codes in an order learn with their neighbours from now on, until `settle`; what is drawn stays as it is."""
        for block in self.blocks if self.orders else ():
            block.mix(self.orders)  # type: ignore[operator]

    def settle(self) -> None:
        """Let each weight be what draws need: the mixes go into the heads' weights."""
        for block in self.blocks:
            block.unmix()  # type: ignore[operator]

    def blueprint(self) -> Callable[[], AutoregressiveNetwork]:
        """Return what makes a network of this shape, with weights of its own."""
        shape = (self.cardinalities, self.spec, self.given, self.orders, self.moving, self.apart)
        return partial(AutoregressiveNetwork, *shape)

    def each_block(self, codes: torch.Tensor) -> list[tuple[Block, torch.Tensor]]:
        """Return each block with its logits (..., d, K) for int64 codes (..., D)."""
        blocks: list[Any] = list(self.blocks)
        starts = _Starts.apply(self.embed(codes), [b.causal.before for b in blocks])
        return [(b, b(a, self.activation, codes)) for b, a in zip(blocks, starts, strict=True)]

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return logits (..., D, largest cardinality) for int64 codes (..., D)."""
        logits = self.embed.weight.new_full((*codes.shape, max(self.cardinalities)), ABSENT)
        for block, found in self.each_block(codes):
            logits[..., list(block.columns), : found.shape[-1]] = found
        return logits

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the negative log-likelihood (...,) of each row, in nats."""
        found = [_NegativeLogLikelihood.apply(x, codes[..., list(b.columns)]) for b, x in self.each_block(codes)]
        return torch.stack(found).sum(0)

    @torch.no_grad()
    def column(self, number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return what column `number` is drawn by: weight (H, number * E), bias (H,), head weight (codes, H), head bias.

        Of a network whose codes still learn with their neighbours there is no such thing; `settle` it first.
        """
        block = self._block(number)
        assert block.mixed is None, "settle the network first"
        at, cardinality = block.columns.index(number), self.cardinalities[number]
        causal, heads = block.causal, block.heads
        mine = slice(at * causal.outputs, (at + 1) * causal.outputs)
        weight = causal.weight[mine, : number * causal.inputs]
        return weight, causal.bias[mine], heads.weight[at, :cardinality], heads.bias[at, :cardinality]

    @torch.no_grad()
    def relative(self, number: int) -> list[tuple[int, torch.Tensor]]:
        """Return by which given columns the logits of column `number` move, and by how much, (its codes, codes)."""
        block = self._block(number)
        at, codes, found = block.columns.index(number), self.cardinalities[number], []
        for told, bias in ((self.moving, block.relative), (self.apart, block.beside)):
            if number in told:
                found.append((told[number].column, bias.table()[at, :, :codes]))
        return found

    def _block(self, number: int) -> Any:
        return next(b for b in self.blocks if number in b.columns)  # type: ignore[operator]

    @torch.no_grad()
    def given_earlier(self, codes: torch.Tensor, number: int) -> torch.Tensor:
        """Return log P(code | columns before) of each code that column `number` has, (rows, codes), for codes (rows, D)."""
        weight, bias, head, head_bias = self.column(number)
        hidden = self.activation(torch.addmm(bias, self.embed(codes)[:, :number].flatten(1), weight.T))
        logits = torch.addmm(head_bias, hidden, head.T)
        for before, moved in self.relative(number):
            logits += moved[codes[:, before]]
        return logits.log_softmax(1)

    @torch.no_grad()
    def forget_unused(self) -> None:
        """Zero the weights that no output depends on: training leaves bare noise in them, of use only to an attacker."""
        for block in self.blocks:
            block.causal.weight.mul_(block.causal.mask)  # type: ignore[union-attr]
            absent = block.heads.absent < 0  # type: ignore[union-attr]
            block.heads.weight[absent] = 0  # type: ignore[union-attr]
            block.heads.bias[absent] = 0  # type: ignore[union-attr]
            for relative in (block.relative, block.beside):
                if relative is not None:
                    relative.each.weight.mul_(relative.known[:, None])  # type: ignore[union-attr, operator]

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Start as the product of released 1-way marginals: free, and better than chance from the first step."""
        for i, share in enumerate(marginals):
            if i < self.given:
                continue
            p = torch.as_tensor(share, dtype=torch.float32).clamp(min=1e-4)
            self.column(i)[3].copy_((p / p.sum()).log())


def arrange(cardinalities: Sequence[int], given: int = 0) -> list[tuple[int, ...]]:
    """Return the columns after the given ones in blocks of similar cardinality and place.

    Within a block no cardinality is under half the largest, and places lie near each other.

    There are about log(largest cardinality) * log(columns) blocks at most. Depends on cardinalities alone.
    """
    order = sorted(range(given, len(cardinalities)), key=lambda c: (-cardinalities[c], c))
    similar: list[list[int]] = []
    for column in order:
        if not similar or 2 * cardinalities[column] < cardinalities[similar[-1][0]]:
            similar.append([])
        similar[-1].append(column)
    blocks: list[list[int]] = []
    for columns in map(sorted, similar):
        for place, column in enumerate(columns):
            if place == 0 or column > 2 * blocks[-1][0] + 2:
                blocks.append([])
            blocks[-1].append(column)
    return [tuple(b) for b in blocks]


class _Starts(torch.autograd.Function):
    """The first columns of x (..., D, E), once for each count; gradients are added up in place, not padded one by one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, counts: list[int]) -> tuple[torch.Tensor, ...]:
        ctx.shape, ctx.counts = x.shape, counts
        return tuple(x[..., :count, :] for count in counts)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        *shape, columns, size = ctx.shape
        total = grads[0].new_zeros(columns, size, math.prod(shape))
        for count, grad in zip(ctx.counts, grads, strict=True):
            total[:count] += rows_last(grad)
        return rows_first(total, shape), None


class _NegativeLogLikelihood(torch.autograd.Function):
    """Losses (...,) of codes (..., d) under logits (..., d, K): cross-entropy, with fewer passes over memory."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        chosen = codes.flatten(0, -2).T[:, None]  # (d, 1, rows)
        logs = rows_last(logits).log_softmax(1)
        ctx.save_for_backward(logs, chosen)
        return logs.gather(1, chosen).sum((0, 1)).neg_().unflatten(0, codes.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (grad,), (logs, chosen) = grads, ctx.saved_tensors
        found = logs.exp()
        found.scatter_add_(1, chosen, found.new_full((), -1.0).expand(chosen.shape))
        found *= grad.flatten()
        return rows_first(found, grad.shape), None


class _Tanh(torch.autograd.Function):
    """tanh as 2 sigmoid(2x) - 1, within 2e-7: several times as fast on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = (2 * x).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grads[0], y)


def tanh(x: torch.Tensor) -> torch.Tensor:
    """Return the hyperbolic tangent of x, within 2e-7."""
    return _Tanh.apply(x)  # type: ignore[return-value]
