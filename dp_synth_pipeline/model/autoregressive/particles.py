"""Draws rows given what is known of them, by sequential Monte Carlo on released weights: post-processing, so free.

Columns are drawn one after another, each from its distribution among the codes that may still stand there. The probability
of those codes is the row's weight: it makes up for what the draw could not foresee (sequential importance sampling). Where
few rows bear most of the weight, rows are drawn anew among themselves by systematic resampling, so that the rest of the
columns is spent on rows that count (Gordon, Salmond & Smith 1993; Douc & Cappé 2005). Draws are raked as all draws are:
the weight of a finished row is multiplied by the weight that its cells have in the tilt.

The effective number of rows is Kish's, by where rows began: copies of one row count as one (the "Eve" indices of Lee &
Whiteley 2018), so that it is no more than what the rows are worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.generation import AT_ONCE, Drawing, chosen
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.base import Allowed
from dp_synth_pipeline.model.marginals.balanced_sampling import balanced
from dp_synth_pipeline.model.marginals.raking import Tilt
from dp_synth_pipeline.model.threads import few_threads

SPARE = 0.5
"""Part of the effective number of rows that is kept, at most."""

ENOUGH = 0.5
"""Part of the rows that must count for a group to go on without resampling."""


@dataclass(frozen=True)
class Particles:
    """Weighted rows.

    Attributes:
        codes: int64 (rows, columns).
        logs: log-weights, float64 (rows,); -inf where a row came to a column that has no code left.
        begun: in which row each began, int64 (rows,).
    """

    codes: np.ndarray
    logs: np.ndarray
    begun: np.ndarray

    @property
    def effective(self) -> float:
        """How many rows drawn one by one they are worth; 0 if none is possible."""
        if not np.isfinite(self.logs).any():
            return 0.0
        weights = np.bincount(self.begun, np.exp(self.logs - self.logs.max()))
        return float(weights.sum() ** 2 / np.square(weights).sum())


def kept(found: Particles, tilt: Tilt | None, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return int64 codes (rows, columns) of rows chosen by their weights, in no order.

    They are at most half as many as all are worth, so that hardly any is chosen twice; none if none is possible.
    """
    possible = rng.permutation(np.flatnonzero(np.isfinite(found.logs)))
    rows = min(rows, math.ceil(SPARE * found.effective), len(possible))
    if rows == 0:
        return found.codes[:0]
    codes, logs = found.codes[possible], found.logs[possible]
    if tilt is None:
        weights = torch.from_numpy(np.exp(logs - logs.max())[None])
        places = _systematic(weights, rows, rng)[0].numpy()
    else:
        places = np.repeat(np.arange(len(codes)), balanced(codes, logs, tilt.layout, rows, rng=rng))
    return codes[rng.permutation(places)]


def weighted(
    network: AutoregressiveNetwork, tilt: Tilt | None, rows: int, allowed: Allowed, rng: np.random.Generator
) -> Particles:
    """Return weighted draws in groups that fit into a cache; their weights are of one measure, whatever the group."""
    parts, begun = [], 0
    with few_threads():
        for at in range(0, rows, AT_ONCE):
            part = particles(network, allowed, 1, min(AT_ONCE, rows - at), rng)
            parts.append(Particles(part.codes, part.logs, part.begun + begun))
            begun += len(part.codes)
    codes, logs = np.concatenate([p.codes for p in parts]), np.concatenate([p.logs for p in parts])
    if tilt is not None:
        logs = logs + tilt.log_weights(codes)
    return Particles(codes, logs, np.concatenate([p.begun for p in parts]))


def draw_each(
    network: AutoregressiveNetwork,
    tilt: Tilt | None,
    known: tuple[int, int],
    allowed: Allowed,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return one row for each of several that are known in part, int64 (rows, columns).

    Args:
        known: how many rows there are, and how many particles each of them gets.
        allowed: codes that may stand in each particle; those of one row lie beside each other.
    """
    rows, size = known
    with few_threads():
        found = particles(network, allowed, rows, size, rng)
    logs = found.logs if tilt is None else found.logs + tilt.log_weights(found.codes)
    each = np.where(np.isfinite(logs), logs, -1e300).reshape(rows, size)
    picked = (each + rng.gumbel(size=each.shape)).argmax(1)  # the Gumbel-max trick draws one in proportion
    return found.codes.reshape(rows, size, -1)[np.arange(rows), picked]


@torch.no_grad()
def particles(
    network: AutoregressiveNetwork, allowed: Allowed, groups: int, size: int, rng: np.random.Generator
) -> Particles:
    """Return weighted rows of groups of particles, group after group; rows are resampled within their group only."""
    drawing = Drawing(network, groups * size)
    logs = torch.zeros(groups, size, dtype=torch.float64, device=drawing.device)
    begun = torch.arange(groups * size, device=drawing.device)
    for column in range(len(network.cardinalities)):
        shares = drawing.shares(column)
        mask = allowed(column, drawing.codes[:column].T.cpu().numpy())
        if mask is not None:
            shares *= torch.from_numpy(np.array(mask.T)).to(shares)
            logs += shares.double().sum(0).log().view(groups, size)
        drawing.put(column, chosen(shares, _even(groups, size, rng).to(shares)))
        if mask is not None and column + 1 < len(network.cardinalities) and size > 1:
            places = _resampled(logs, rng)
            if places is not None:
                drawing.take(places)
                begun = begun[places]
    return Particles(drawing.codes.T.cpu().numpy(), logs.flatten().cpu().numpy(), begun.cpu().numpy())


def _resampled(logs: torch.Tensor, rng: np.random.Generator) -> torch.Tensor | None:
    """Resample the groups in which few rows count, in place; return where each row comes from, None if none did."""
    groups, size = logs.shape
    top = logs.max(1, keepdim=True).values
    weights = (logs - top.clamp(min=-1e300)).exp()
    total = weights.sum(1)
    poor = (total > 0) & (total.square() < ENOUGH * size * weights.square().sum(1))
    if not poor.any():
        return None
    places = torch.arange(size, device=logs.device).repeat(groups, 1)
    places[poor] = _systematic(weights[poor], size, rng).to(logs.device)
    logs[poor] = (top[poor, 0] + (total[poor] / size).log())[:, None]
    return (places + torch.arange(groups, device=logs.device)[:, None] * size).flatten()


def _systematic(weights: torch.Tensor, rows: int, rng: np.random.Generator) -> torch.Tensor:
    """Return which rows of each group are kept, int64 (groups, rows): each as often as its weight, rounded up or down."""
    upto = weights.cumsum(1)
    comb = torch.arange(rows, device=weights.device) + torch.from_numpy(rng.random((len(weights), 1))).to(weights)
    places = torch.searchsorted(upto, comb * (upto[:, -1:] / rows), right=True)
    last = (weights > 0).cumsum(1).argmax(1, keepdim=True)  # the last row that has a weight
    return torch.minimum(places, last)


def _even(groups: int, size: int, rng: np.random.Generator) -> torch.Tensor:
    """Return uniform numbers float32 (rows,), one of each group's in each of its equal parts, in no order."""
    parts = rng.permuted(np.tile(np.arange(size, dtype=np.float32), (groups, 1)), axis=1)
    return torch.from_numpy(((parts + rng.random((groups, size), dtype=np.float32)) / np.float32(size)).ravel())
