"""The layers of the autoregressive network, each of which uses a weight once per row; `clipping_rules` clips them.

Activations are shown as (..., d, n), a row after another, and lie in memory as (d, n, rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dp_synth_pipeline.model.base import Before

ABSENT = -1e9
"""Logit of a code that a column does not have."""

REACH = 8
"""Codes up and down from that of the row before that are told apart by how far off they lie."""


def rows_last(x: torch.Tensor) -> torch.Tensor:
    """View x (..., d, n) as (d, n, rows): how activations lie in memory, since few numbers a row make short vectors."""
    return x.flatten(0, -3).permute(1, 2, 0)


def rows_first(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """View x (d, n, rows) as (*shape, d, n), which is how layers show it."""
    return x.permute(2, 0, 1).unflatten(0, shape)


class ColumnEmbedding(nn.Module):
    """Look up one row of `weight` per column; column i owns rows offsets[i] to offsets[i+1]."""

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


class StepWeights(nn.Module):
    """What is learnt of some columns whatever the row holds: `weight` (d, n), the same for each row."""

    def __init__(self, columns: int, numbers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(columns, numbers))

    def forward(self, before: torch.Tensor) -> torch.Tensor:
        """Return (..., d, n) for rows (..., d)."""
        return self.weight.expand(*before.shape, -1)


class RelativeBias(nn.Module):
    """Logits of some columns by how far each code lies from that of the row before, as in Shaw et al. 2018.

    `each` holds, of each column, what codes at most 0, 1, ... REACH away get, and then what those get that lie 1 to 1, 2,
    ... REACH further up. So a code gathers the more of them the nearer it lies, and what nearly all rows do is learnt in
    few steps.

    Args:
        moving: of each column where its code in the row before stands; None of one that is not learnt so.
        cardinalities: of each column.
    """

    windows: torch.Tensor
    steps: torch.Tensor
    reached: torch.Tensor
    read: torch.Tensor
    known: torch.Tensor

    def __init__(self, moving: Sequence[Before | None], cardinalities: Sequence[int]) -> None:
        super().__init__()
        columns, most, wide = len(moving), max(cardinalities), 2 * REACH + 1
        steps = torch.full((columns, most + 1, most), wide)
        reached = torch.full((columns, most + 1, wide), most)
        for place, before in enumerate(moving):
            for (rank, code), (other, to) in product(enumerate(() if before is None else before.order), repeat=2):
                if abs(other - rank) <= REACH:
                    steps[place, code + 1, to] = other - rank + REACH
                    reached[place, code + 1, other - rank + REACH] = to
        self.register_buffer("steps", steps, persistent=False)  # (d, codes before, K): which step leads there
        self.register_buffer("reached", reached, persistent=False)  # (d, codes before, steps): where it leads
        self.register_buffer("read", torch.tensor([0 if b is None else b.column for b in moving]), persistent=False)
        self.register_buffer("known", torch.tensor([b is not None for b in moving]), persistent=False)
        step = torch.arange(-REACH, REACH + 1)
        around = [step.abs() <= far for far in range(REACH + 1)]
        further = [(step >= 1) & (step <= far) for far in range(1, REACH + 1)]
        self.register_buffer("windows", torch.stack([*around, *further]).float(), persistent=False)
        self.each = StepWeights(columns, wide)

    def table(self) -> torch.Tensor:
        """Return the logits of each code upon each code before, (d, codes before, K)."""
        steps = F.pad(self.each.weight @ self.windows, (0, 1))  # of a code that no step leads to, nothing is known
        return steps.gather(1, self.steps.flatten(1)).view_as(self.steps)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return (..., d, K) for rows of codes (..., D)."""
        before = codes[..., self.read] * self.known  # 0 where nothing is told
        return _Relative.apply(self.each(before), before, self)  # type: ignore[return-value]


class _Relative(torch.autograd.Function):
    """The logits (..., d, K) that each row's step weights (..., d, n) add up to, which are looked up, since all are alike.

    What is clipped is the gradient of these weights, row by row, and not of logits, of which each is the sum of several.
    """

    @staticmethod
    def forward(ctx: Any, each: torch.Tensor, before: torch.Tensor, bias: RelativeBias) -> torch.Tensor:
        ctx.save_for_backward(before)
        ctx.bias = bias
        found = F.embedding(before + _places(bias.steps), bias.table().flatten(0, 1))
        return rows_first(rows_last(found).contiguous(), before.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (grad,), (before,), bias = grads, ctx.saved_tensors, ctx.bias
        where = F.embedding(before + _places(bias.reached), bias.reached.flatten(0, 1))
        return F.pad(grad, (0, 1)).gather(-1, where) @ bias.windows.T, None, None


def _places(of: torch.Tensor) -> torch.Tensor:
    """Return where each column's part of a table (d, codes, n) begins, in codes."""
    return torch.arange(len(of), device=of.device) * of.shape[1]


class Mixed(nn.Module):
    """Logits of some columns as a fixed mix of as many numbers each, which is what heads learn (see `smoothing`).

    Args:
        mixes: (cardinality, cardinality) of each column.
        absent: (d, K), below 0 where a column has no such code.
    """

    mixes: torch.Tensor
    absent: torch.Tensor

    def __init__(self, mixes: Sequence[np.ndarray], absent: torch.Tensor) -> None:
        super().__init__()
        whole = absent.new_zeros(*absent.shape, absent.shape[1])
        for place, each in enumerate(mixes):
            whole[place, : len(each), : len(each)] = torch.from_numpy(each)
        self.register_buffer("mixes", whole, persistent=False)  # (d, K, K); an absent code is in no mix
        self.register_buffer("absent", absent, persistent=False)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        found = torch.baddbmm(self.absent[..., None], self.mixes, rows_last(numbers))
        return rows_first(found, numbers.shape[:-2])
