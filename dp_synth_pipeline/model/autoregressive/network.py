"""The autoregressive network over columns: each column's distribution given the ones before it. No privacy, no I/O.

    codes (..., D) --embed--> (..., D, E), and then for each block of columns
    (..., before, E) --causal--> (..., d, H) --tanh--> --heads--> logits (..., d, K)

D columns, E numbers per embedded value, H hidden units per column. A block holds d columns of similar cardinality (at most
K) and place, so that little is computed only to be masked. Every weight is used once per row, which is what makes exact
per-row gradient norms cheap (see `clipping`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals.plan import LEAST_HIDDEN

ABSENT = -1e9
"""Logit of a code that a column does not have."""


def rows_last(x: torch.Tensor) -> torch.Tensor:
    """View x (..., d, n) as (d, n, rows): how activations lie in memory, since few numbers a row make short vectors."""
    return x.flatten(0, -3).permute(1, 2, 0)


def rows_first(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """View x (d, n, rows) as (*shape, d, n), which is how layers show it."""
    return x.permute(2, 0, 1).unflatten(0, shape)


class ColumnEmbedding(nn.Module):
    """Looks up one row of `weight` per column; column i owns rows offsets[i] to offsets[i+1]."""

    offsets: torch.Tensor

    def __init__(self, cardinalities: Sequence[int], size: int) -> None:
        super().__init__()
        offsets = torch.tensor([0, *cardinalities]).cumsum(0)[:-1]
        self.register_buffer("offsets", offsets, persistent=False)
        self.weight = nn.Parameter(torch.randn(sum(cardinalities), size) / size**0.5)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = F.embedding(codes + self.offsets, self.weight)
        return rows_first(rows_last(found).contiguous(), codes.shape[:-1])  # (..., D, E)


class CausalLinear(nn.Module):
    """A linear map to some columns' hidden units, each of which sees the columns before its own only.

    Args:
        columns: ascending column numbers.
        inputs, outputs: numbers per column.
    """

    sees: torch.Tensor
    mask: torch.Tensor

    def __init__(self, columns: Sequence[int], inputs: int, outputs: int) -> None:
        super().__init__()
        self.columns, self.inputs, self.outputs = tuple(columns), inputs, outputs
        self.before = max(1, self.columns[-1])
        """Columns that it reads; the first column reads nothing, through a mask of zeros."""
        places = torch.tensor(self.columns)
        sees = (torch.arange(self.before) < places[:, None]).float()
        mask = sees.repeat_interleave(outputs, 0).repeat_interleave(inputs, 1)
        self.register_buffer("sees", sees, persistent=False)  # (d, before)
        self.register_buffer("mask", mask, persistent=False)  # (d * H, before * E)
        fan_in = places.clamp(min=1).repeat_interleave(outputs)[:, None] * inputs
        self.weight = nn.Parameter(torch.randn_like(mask) / fan_in**0.5 * mask)
        self.bias = nn.Parameter(torch.zeros(len(mask)))

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        """Return (..., d, H) from the embedded values (..., before, E) of the first `before` columns."""
        inputs = rows_last(embedded).flatten(0, 1)  # (before * E, rows)
        out = torch.addmm(self.bias[:, None], self.weight * self.mask, inputs)
        return rows_first(out.unflatten(0, (-1, self.outputs)), embedded.shape[:-2])


class ColumnHeads(nn.Module):
    """One linear classifier for each of some columns, padded to the largest of their cardinalities."""

    absent: torch.Tensor

    def __init__(self, cardinalities: Sequence[int], hidden: int) -> None:
        super().__init__()
        self.cardinalities, most = tuple(cardinalities), max(cardinalities)
        absent = (torch.arange(most)[None, :] >= torch.tensor(list(cardinalities))[:, None]) * ABSENT
        self.register_buffer("absent", absent, persistent=False)
        self.weight = nn.Parameter(torch.zeros(len(cardinalities), most, hidden))
        self.bias = nn.Parameter(torch.zeros(len(cardinalities), most))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        bias = (self.bias + self.absent)[..., None]  # an absent code has probability 0, and so no gradient
        return rows_first(torch.baddbmm(bias, self.weight, rows_last(hidden)), hidden.shape[:-2])


class Block(nn.Module):
    """What is learnt of some columns of similar cardinality."""

    def __init__(self, columns: Sequence[int], cardinalities: Sequence[int], spec: GeneratorSpec) -> None:
        super().__init__()
        self.columns = tuple(columns)
        hidden = spec.hidden or LEAST_HIDDEN
        self.causal = CausalLinear(columns, spec.embedding, hidden)
        self.heads = ColumnHeads([cardinalities[c] for c in columns], hidden)


class AutoregressiveNetwork(nn.Module):
    """P(row) as a product over columns of P(column | earlier columns)."""

    def __init__(self, cardinalities: Sequence[int], spec: GeneratorSpec) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)
        self.activation: Callable[[torch.Tensor], torch.Tensor] = tanh if spec.activation == "tanh" else torch.relu
        self.embed = ColumnEmbedding(cardinalities, spec.embedding)
        self.blocks = nn.ModuleList(Block(c, self.cardinalities, spec) for c in arrange(self.cardinalities))

    def each_block(self, codes: torch.Tensor) -> list[tuple[Block, torch.Tensor]]:
        """Return each block with its logits (..., d, K) for int64 codes (..., D)."""
        blocks: list[Any] = list(self.blocks)
        starts = _Starts.apply(self.embed(codes), [b.causal.before for b in blocks])
        return [(b, b.heads(self.activation(b.causal(a)))) for b, a in zip(blocks, starts, strict=True)]

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
        """Return what column `number` is drawn by: weight (H, number * E), bias (H,), head weight (codes, H), head bias."""
        block: Any = next(b for b in self.blocks if number in b.columns)  # type: ignore[operator]
        at, cardinality = block.columns.index(number), self.cardinalities[number]
        causal, heads = block.causal, block.heads
        mine = slice(at * causal.outputs, (at + 1) * causal.outputs)
        weight = causal.weight[mine, : number * causal.inputs]
        return weight, causal.bias[mine], heads.weight[at, :cardinality], heads.bias[at, :cardinality]

    @torch.no_grad()
    def given_earlier(self, codes: torch.Tensor, number: int) -> torch.Tensor:
        """Return log P(code | columns before) of each code that column `number` has, (rows, codes), for codes (rows, D)."""
        weight, bias, head, head_bias = self.column(number)
        hidden = self.activation(torch.addmm(bias, self.embed(codes)[:, :number].flatten(1), weight.T))
        return torch.addmm(head_bias, hidden, head.T).log_softmax(1)

    @torch.no_grad()
    def forget_unused(self) -> None:
        """Zero the weights that no output depends on: training leaves bare noise in them, of use only to an attacker."""
        for block in self.blocks:
            block.causal.weight.mul_(block.causal.mask)  # type: ignore[union-attr]
            absent = block.heads.absent < 0  # type: ignore[union-attr]
            block.heads.weight[absent] = 0  # type: ignore[union-attr]
            block.heads.bias[absent] = 0  # type: ignore[union-attr]

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Start as the product of released 1-way marginals: free, and better than chance from the first step."""
        for i, share in enumerate(marginals):
            p = torch.as_tensor(share, dtype=torch.float32).clamp(min=1e-4)
            self.column(i)[3].copy_((p / p.sum()).log())


def arrange(cardinalities: Sequence[int]) -> list[tuple[int, ...]]:
    """Return columns in blocks: within a block no cardinality is under half the largest, and places lie near each other.

    There are about log(largest cardinality) * log(columns) blocks at most. Depends on cardinalities alone.
    """
    order = sorted(range(len(cardinalities)), key=lambda c: (-cardinalities[c], c))
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
