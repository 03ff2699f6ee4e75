"""The layers of the autoregressive network, each of which uses a weight once per row; `clipping_rules` clips them.

Activations are shown as (..., d, n), a row after another, and lie in memory as (d, n, rows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ABSENT = -1e9
"""Logit of a code that a column does not have."""


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
