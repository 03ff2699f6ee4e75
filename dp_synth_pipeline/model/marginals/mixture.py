"""A mixture of products of categoricals, fitted to noisy marginals: post-processing, so free.

P(row) = sum over k of w_k * product over columns of theta_k,i(code). A marginal of two columns is `theta_i' diag(w)
theta_j`, and of three the like, so the fit compares small arrays and never sees a row (Liu et al. 2021, "Iterative Methods
for Private Synthetic Data", fit such a mixture to queries).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from dp_synth_pipeline.model.devices import fastest
from dp_synth_pipeline.model.marginals.measuring import Clique, Layout, Marginals
from dp_synth_pipeline.model.threads import few_threads

COMPONENTS = 300
STEPS = 500
RATE = 0.1

DENSE = 2048
"""Codes in all, up to which all pairs may be compared as one matrix; beyond it, only those that were measured."""


class Mixture(nn.Module):
    """`components` products of categoricals over columns of `cardinalities` codes."""

    def __init__(self, cardinalities: Sequence[int], components: int = COMPONENTS) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)
        self.offsets = [0, *np.cumsum(self.cardinalities).tolist()]
        self.logits = nn.Parameter(torch.zeros(components, self.offsets[-1]))
        self.weight = nn.Parameter(torch.zeros(components))

    @torch.no_grad()
    def start_from(self, shares: Sequence[np.ndarray], spread: float = 0.7) -> None:
        """Start every component near the released 1-way shares, each a little off in its own direction."""
        base = torch.cat([torch.as_tensor(s, dtype=torch.float32).clamp(min=1e-4).log() for s in shares])
        self.logits.copy_(base.to(self.logits.device) + spread * torch.randn_like(self.logits))

    @torch.no_grad()
    def take(self, part: Mixture, columns: Sequence[int]) -> None:
        """Take over a mixture of some of the columns; the others keep what they have."""
        self.weight.copy_(part.weight)
        mine = self.split(self.logits)
        for column, found in zip(columns, part.split(part.logits), strict=True):
            mine[column].copy_(found)

    def shares(self) -> torch.Tensor:
        """Return theta (components, codes in all): each column's block sums to 1 in every component."""
        return torch.cat([block.softmax(1) for block in self.split(self.logits)], 1)

    def split(self, codes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cut (components, codes in all) into columns; the gradient of slices would fill the whole once per column."""
        return codes.split(self.cardinalities, 1)

    @torch.no_grad()
    def draw(self, rows: int) -> torch.Tensor:
        """Draw int64 codes (rows, columns), with fresh randomness."""
        device = self.weight.device
        chance = torch.Generator(device)
        chance.seed()
        theta, weight = self.shares().double(), self.weight.softmax(0).double()
        part = torch.multinomial(weight, rows, replacement=True, generator=chance) if rows else weight[:0].long()
        drawn = torch.zeros(rows, len(self.cardinalities), dtype=torch.int64, device=device)
        for i, (a, b) in enumerate(pairwise(self.offsets)):
            if b == a + 1:  # there is nothing to draw
                continue
            cumulative = theta[:, a:b].cumsum(1)[part]
            u = torch.rand(rows, 1, dtype=torch.float64, device=device, generator=chance)
            u *= cumulative[:, -1:]  # less than the last, so that a code of probability 0 is never drawn
            drawn[:, i] = torch.searchsorted(cumulative, u, right=True).squeeze(1)
        return drawn


def fit(
    measured: Marginals,
    shares: Sequence[np.ndarray],
    *,
    components: int = COMPONENTS,
    steps: int = STEPS,
    device: torch.device | str | None = None,
) -> Mixture:
    """Return the mixture whose marginals are nearest to the measured ones, by squared error.

    Every cell carries the same noise, so squared error is the likelihood. Memory and time grow with the codes in all
    (squared up to `DENSE` of them; with measured cells beyond), not with rows. Columns of which nothing was measured have
    their released shares, whatever the others have. It lies on the device where it was fitted, by default the `fastest`.
    """
    device = device or fastest()
    cards, measured_columns = measured.layout.cardinalities, sorted(set().union(*measured.layout.cliques))
    if 0 < len(measured_columns) < len(cards):
        part = _only(measured, measured_columns)
        known = [shares[c] for c in measured_columns]
        whole = Mixture(cards, components).to(device)
        whole.start_from(shares, spread=0.0)
        whole.take(fit(part, known, components=components, steps=steps, device=device), measured_columns)
        return whole
    mixture = Mixture(measured.layout.cardinalities, components).to(device)
    mixture.start_from(shares)
    pairs = (_Dense if _is_dense(measured) else _Sparse)(measured, mixture)
    triples = _Triples(measured, mixture)
    optimizer = torch.optim.Adam(mixture.parameters(), lr=RATE)
    with few_threads():
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, 2 * (1 - step / steps) + 0.02)
            optimizer.zero_grad()
            theta, weight = mixture.shares(), mixture.weight.softmax(0)
            (pairs(theta, weight) + triples(theta, weight)).backward()
            optimizer.step()
    optimizer.zero_grad()
    return mixture


def _only(measured: Marginals, columns: Sequence[int]) -> Marginals:
    """Return the same marginals of a table that has these columns alone, which are all that were measured."""
    at = {column: i for i, column in enumerate(columns)}
    cliques = tuple(tuple(at[c] for c in clique) for clique in measured.layout.cliques)
    layout = Layout(tuple(measured.layout.cardinalities[c] for c in columns), cliques)
    return Marginals(layout, measured.counts, measured.scale, measured.rows)


def _is_dense(measured: Marginals) -> bool:
    """Whether one matrix of all pairs of codes is less work than the measured pairs one by one."""
    cards = measured.layout.cardinalities
    pairs = sum(len(clique) == 2 for clique in measured.layout.cliques)
    return sum(cards) <= DENSE and sum(cards) ** 2 <= 4 * pairs * max(cards) ** 2


class _Dense:
    """Squared error over the whole matrix of pairs of codes, masked to what was measured."""

    def __init__(self, measured: Marginals, mixture: Mixture) -> None:
        size, at = mixture.offsets[-1], mixture.offsets
        target, mask = torch.zeros(size, size), torch.zeros(size, size)
        for (i, j), cells in _of(measured, 2):
            target[at[i] : at[i + 1], at[j] : at[j + 1]] = torch.from_numpy(cells)
            mask[at[i] : at[i + 1], at[j] : at[j + 1]] = 1
        device = mixture.weight.device
        self.target, self.mask = target.to(device), mask.to(device)

    def __call__(self, theta: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found = (theta * weight[:, None]).T @ theta
        return ((found - self.target) * self.mask).square().sum()


class _Sparse:
    """Squared error over the measured pairs alone, in batches of padded columns."""

    BATCH = 256

    def __init__(self, measured: Marginals, mixture: Mixture) -> None:
        self.mixture, self.most = mixture, max(mixture.cardinalities)
        device, pairs = mixture.weight.device, list(_of(measured, 2))
        self.target = torch.zeros(len(pairs), self.most, self.most)
        for p, (_, cells) in enumerate(pairs):
            self.target[p, : cells.shape[0], : cells.shape[1]] = torch.from_numpy(cells)
        self.target = self.target.to(device)
        self.first, self.second = torch.tensor([pair for pair, _ in pairs], device=device).reshape(-1, 2).T

    def __call__(self, theta: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        columns = self.mixture.split(theta)
        padded = torch.stack([nn.functional.pad(c, (0, self.most - c.shape[1])) for c in columns])  # (D, parts, K)
        total = padded.new_zeros(())
        for at in self._batches():
            left, right = padded[self.first[at]], padded[self.second[at]]
            found = torch.bmm((left * weight[:, None]).transpose(1, 2), right)
            total = total + (found - self.target[at]).square().sum()
        return total

    def _batches(self) -> Iterator[slice]:
        for start in range(0, len(self.target), self.BATCH):
            yield slice(start, start + self.BATCH)


class _Triples:
    """Squared error over the measured triples."""

    def __init__(self, measured: Marginals, mixture: Mixture) -> None:
        self.mixture, device = mixture, mixture.weight.device
        self.targets = [(c, torch.from_numpy(cells).float().to(device)) for c, cells in _of(measured, 3)]

    def __call__(self, theta: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        total, columns = theta.new_zeros(()), self.mixture.split(theta)
        for clique, target in self.targets:
            first, second, third = (columns[c] for c in clique)
            two = (first * weight[:, None])[:, :, None] * second[:, None, :]  # (parts, codes, codes)
            found = two.flatten(1).T @ third
            total = total + (found - target.flatten(0, 1)).square().sum()
        return total


def _of(measured: Marginals, columns: int) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield the measured cliques of so many columns, each with the share of rows in its cells."""
    for clique, cells in measured.layout.blocks(measured.counts / measured.rows):
        if len(clique) == columns:
            yield clique, cells
