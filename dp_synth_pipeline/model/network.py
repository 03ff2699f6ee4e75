"""The autoregressive network over columns: each column's distribution given the ones before it. No privacy, no I/O.

    codes (..., D) --embed--> (..., D*E) --causal--> (..., D, H) --tanh--> --heads--> logits (..., D, K)

D columns, E numbers per embedded value, H hidden units per column, K the largest cardinality. Every weight is used once
per row, which is what makes exact per-row gradient norms cheap (see `clipping`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dp_synth_pipeline.model.spec import GeneratorSpec

ABSENT = -1e9
"""Logit of a code that a column does not have."""


class ColumnEmbedding(nn.Module):
    """Looks up one row of `weight` per column; column i owns rows offsets[i] to offsets[i+1]."""

    offsets: torch.Tensor

    def __init__(self, cardinalities: Sequence[int], size: int) -> None:
        super().__init__()
        offsets = torch.tensor([0, *cardinalities]).cumsum(0)[:-1]
        self.register_buffer("offsets", offsets, persistent=False)
        self.weight = nn.Parameter(torch.randn(sum(cardinalities), size) / size**0.5)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return F.embedding(codes + self.offsets, self.weight)  # (..., D, E)


class CausalLinear(nn.Module):
    """A linear map whose output block j sees input blocks before j only."""

    mask: torch.Tensor

    def __init__(self, columns: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.columns, self.inputs, self.outputs = columns, inputs, outputs
        before = torch.ones(columns, columns).tril(-1)
        mask = before.repeat_interleave(outputs, 0).repeat_interleave(inputs, 1)
        self.register_buffer("mask", mask, persistent=False)
        fan_in = torch.arange(columns).clamp(min=1).repeat_interleave(outputs)[:, None] * inputs
        self.weight = nn.Parameter(torch.randn(columns * outputs, columns * inputs) / fan_in**0.5 * mask)
        self.bias = nn.Parameter(torch.zeros(columns * outputs))

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        out = F.linear(embedded.flatten(-2), self.weight * self.mask, self.bias)
        return out.unflatten(-1, (self.columns, self.outputs))  # (..., D, H)


class ColumnHeads(nn.Module):
    """One linear classifier per column, padded to the largest cardinality."""

    absent: torch.Tensor

    def __init__(self, cardinalities: Sequence[int], hidden: int) -> None:
        super().__init__()
        most = max(cardinalities)
        absent = (torch.arange(most)[None, :] >= torch.tensor(list(cardinalities))[:, None]) * ABSENT
        self.register_buffer("absent", absent, persistent=False)
        self.weight = nn.Parameter(torch.zeros(len(cardinalities), most, hidden))
        self.bias = nn.Parameter(torch.zeros(len(cardinalities), most))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        flat = hidden.flatten(0, -3).transpose(0, 1)  # (D, rows, H)
        bias = (self.bias + self.absent)[:, None, :]  # an absent code has probability 0, and so no gradient
        logits = torch.baddbmm(bias, flat, self.weight.transpose(1, 2))
        return logits.transpose(0, 1).unflatten(0, hidden.shape[:-2])  # (..., D, K)


class AutoregressiveNetwork(nn.Module):
    """P(row) as a product over columns of P(column | earlier columns)."""

    def __init__(self, cardinalities: Sequence[int], spec: GeneratorSpec) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)
        self.activation = torch.tanh if spec.activation == "tanh" else torch.relu
        self.embed = ColumnEmbedding(cardinalities, spec.embedding)
        self.causal = CausalLinear(len(cardinalities), spec.embedding, spec.hidden)
        self.heads = ColumnHeads(cardinalities, spec.hidden)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return logits (..., D, K) for int64 codes (..., D)."""
        return self.heads(self.activation(self.causal(self.embed(codes))))

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the negative log-likelihood (...,) of each row, in nats."""
        logits = self(codes)
        flat = F.cross_entropy(logits.flatten(0, -2), codes.flatten(), reduction="none")
        return flat.unflatten(0, codes.shape).sum(-1)

    @torch.no_grad()
    def forget_unused(self) -> None:
        """Zero the weights that no output depends on: training leaves bare noise in them, of use only to an attacker."""
        self.causal.weight.mul_(self.causal.mask)
        absent = self.heads.absent < 0
        self.heads.weight[absent] = 0
        self.heads.bias[absent] = 0

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Start as the product of released 1-way marginals: free, and better than chance from the first step."""
        for i, share in enumerate(marginals):
            p = torch.as_tensor(share, dtype=torch.float32).clamp(min=1e-4)
            self.heads.bias[i, : len(p)] = (p / p.sum()).log()
