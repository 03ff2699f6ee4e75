"""Draws code rows from a released generator: post-processing, so it costs nothing, however many rows are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from dp_synth_pipeline.model.mixture import Mixture
from dp_synth_pipeline.model.network import ABSENT, AutoregressiveNetwork
from dp_synth_pipeline.model.optimization import few_threads
from dp_synth_pipeline.model.raking import Tilt

BATCH = 1 << 15
"""Rows yielded at a time."""

AT_ONCE = 1 << 13
"""Rows drawn at a time: few enough to stay in a processor's cache."""

OVERSAMPLED = 2
"""Rows drawn for each row kept, when draws are raked."""

Forbidden = Sequence[Sequence[int]]
"""For each column, codes that must not be drawn; the rest is drawn as if they did not exist."""


@dataclass(frozen=True)
class Generator:
    """What a release learnt: a network or a mixture that draws rows, and the tilt that rakes them, if any."""

    proposal: AutoregressiveNetwork | Mixture
    tilt: Tilt | None = None

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Codes per column."""
        return self.proposal.cardinalities

    @property
    def weights(self) -> int:
        """Number of released numbers, the tilt's included."""
        tilt = 0 if self.tilt is None else len(self.tilt.values)
        return sum(p.numel() for p in self.proposal.parameters()) + tilt


def draw(
    generator: Generator, rows: int, *, forbidden: Forbidden | None = None, batch: int = BATCH
) -> Iterator[np.ndarray]:
    """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn.

    Args:
        forbidden: for each column, codes that must not be drawn.
    """
    while rows > 0:
        size = min(rows, batch)
        if generator.tilt is None:
            yield propose(generator.proposal, size, forbidden)
        else:
            wide = propose(generator.proposal, max(OVERSAMPLED * size, 1 << 10), forbidden)
            yield generator.tilt.resample(wide, size)
        rows -= size


@torch.no_grad()
def propose(proposal: AutoregressiveNetwork | Mixture, rows: int, forbidden: Forbidden | None = None) -> np.ndarray:
    """Return int64 codes (rows, columns) as the network or mixture draws them, before raking."""
    if isinstance(proposal, Mixture):
        return proposal.draw(rows, forbidden).cpu().numpy()
    banned = [list(codes) for codes in forbidden or ()] or [[]] * len(proposal.cardinalities)
    with few_threads():
        parts = [_ancestral(proposal, min(AT_ONCE, rows - at), banned) for at in range(0, rows, AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, len(proposal.cardinalities)), np.int64)


def _ancestral(network: AutoregressiveNetwork, rows: int, forbidden: Forbidden) -> np.ndarray:
    """Draw column by column, each given the ones before; numbers of one row lie a column apart in memory."""
    embed = network.embed
    size, device = embed.weight.shape[1], embed.weight.device
    embedded = embed.weight.new_empty(len(network.cardinalities) * size, rows)
    uniform = torch.from_numpy(np.random.default_rng().random((len(network.cardinalities), rows), dtype=np.float32))
    uniform = (uniform * (1 - 2**-20)).to(device)  # so that a code of probability 0 is never the last one left
    out = torch.empty(len(network.cardinalities), rows, dtype=torch.int64, device=device)
    for i, u in enumerate(uniform):
        weight, bias, head, head_bias = network.column(i)
        if len(forbidden[i]):
            head_bias = head_bias.clone()
            head_bias[list(forbidden[i])] = ABSENT
        hidden = network.activation(torch.addmm(bias[:, None], weight, embedded[: i * size]))
        upto = _cumulate(torch.addmm(head_bias[:, None], head, hidden).softmax(0))
        out[i] = (upto <= u * upto[-1]).sum(0)
        embedded[i * size : (i + 1) * size] = embed.weight[embed.offsets[i] + out[i]].T
    return out.T.cpu().numpy()


def _cumulate(shares: torch.Tensor) -> torch.Tensor:
    """Return running sums down the codes of `shares` (codes, rows), which it may overwrite."""
    if shares.device.type != "cpu":
        return shares.cumsum(0)
    for before, now in pairwise(shares):  # many times as fast as cumsum along that axis
        now += before
    return shares
