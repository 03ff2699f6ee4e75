"""Draws code rows from a released generator: post-processing, so it costs nothing, however many rows are drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.suppressed_categories import impute
from dp_synth_pipeline.model.base import Forbidden
from dp_synth_pipeline.model.marginals.balanced_sampling import CLIQUES
from dp_synth_pipeline.model.marginals.raking import Tilt
from dp_synth_pipeline.model.threads import few_threads

BATCH = 1 << 15
"""Rows yielded at a time."""

AT_ONCE = 1 << 13
"""Rows drawn at a time: few enough to stay in a processor's cache."""

FEW = 1 << 21
"""Codes (rows x columns) of a table of which chance spoils much, so that its draws are chosen with more care."""

CARE, HASTE = (4, CLIQUES), (2, 64)
"""Rows drawn for each row kept, when draws are raked, and cliques balanced at a time: up to `FEW` codes, and beyond."""

MOST_WORKERS = 4
"""Batches drawn at once, at most."""


def draw(
    proposal: AutoregressiveNetwork,
    tilt: Tilt | None,
    rows: int,
    *,
    forbidden: Forbidden | None = None,
    batch: int = BATCH,
) -> Iterator[np.ndarray]:
    """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn, in threads on several cores.

    Args:
        tilt: what draws are raked by, if any.
        forbidden: by column, codes that must not be drawn, and those that may stand for them; a row that would hold one gets
            another that fits the rest of it, and the other columns keep their distribution.
    """
    sizes = [min(batch, rows - at) for at in range(0, rows, batch)]
    care = HASTE if rows * len(proposal.cardinalities) > FEW else CARE
    workers, drawn = _workers(proposal, len(sizes)), partial(_drawn, proposal, tilt, care=care, forbidden=forbidden)
    if workers == 1:
        yield from map(drawn, sizes)
        return
    ahead: deque[Future[np.ndarray]] = deque()
    with few_threads(workers), ThreadPoolExecutor(workers) as pool:
        for size in sizes:
            ahead.append(pool.submit(drawn, size))
            if len(ahead) > workers:  # no more than these are held, however slowly they are taken
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _workers(proposal: AutoregressiveNetwork, batches: int) -> int:
    """Return how many batches are drawn at once: one on a GPU, which a batch fills; else one for each core of a few."""
    on_cpu = next(proposal.parameters()).device.type == "cpu"
    return max(1, min(torch.get_num_threads(), MOST_WORKERS, batches)) if on_cpu else 1


def _drawn(
    proposal: AutoregressiveNetwork, tilt: Tilt | None, rows: int, *, care: tuple[int, int], forbidden: Forbidden | None
) -> np.ndarray:
    times, cliques = care
    wide = rows if tilt is None else max(times * rows, 1 << 10)
    drawn = propose(proposal, wide)
    if tilt is not None:
        drawn = tilt.resample(drawn, rows, cliques=cliques)
    return impute(proposal, tilt, drawn, forbidden) if forbidden else drawn


@torch.no_grad()
def propose(proposal: AutoregressiveNetwork, rows: int) -> np.ndarray:
    """Return int64 codes (rows, columns) as the network draws them, before raking and imputation."""
    with few_threads():
        parts = [_ancestral(proposal, min(AT_ONCE, rows - at)) for at in range(0, rows, AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, len(proposal.cardinalities)), np.int64)


def _ancestral(network: AutoregressiveNetwork, rows: int) -> np.ndarray:
    """Draw column by column, each given the ones before; numbers of one row lie a column apart in memory."""
    embed = network.embed
    size, device = embed.weight.shape[1], embed.weight.device
    embedded = embed.weight.new_empty(len(network.cardinalities) * size, rows)
    uniform = torch.from_numpy(_spread(len(network.cardinalities), rows))
    uniform = (uniform * (1 - 2**-20)).to(device)  # so that a code of probability 0 is never the last one left
    out = torch.empty(len(network.cardinalities), rows, dtype=torch.int64, device=device)
    table = embed.weight.T.contiguous()  # (E, codes of all columns)
    for i, u in enumerate(uniform):
        weight, bias, head, head_bias = network.column(i)
        hidden = network.activation(torch.addmm(bias[:, None], weight, embedded[: i * size]))
        upto = _cumulate(torch.addmm(head_bias[:, None], head, hidden).softmax(0))
        # Added up as floats, and looked up in rows, both take a quarter of the time that they would otherwise.
        out[i] = torch.le(upto, u * upto[-1], out=torch.empty_like(upto)).sum(0)
        torch.index_select(table, 1, embed.offsets[i] + out[i], out=embedded[i * size : (i + 1) * size])
    return out.T.cpu().numpy()


def _spread(columns: int, rows: int) -> np.ndarray:
    """Return uniform numbers float32 (columns, rows), one of each row of equal parts: a Latin hypercube (McKay et al. 1979).

    Rows so drawn miss what a column's distribution is by less than rows drawn one by one.
    """
    rng = np.random.default_rng()
    part = np.array([rng.permutation(rows) for _ in range(columns)], dtype=np.float32).reshape(columns, rows)
    return (part + rng.random((columns, rows), dtype=np.float32)) / np.float32(max(rows, 1))


def _cumulate(shares: torch.Tensor) -> torch.Tensor:
    """Return running sums down the codes of `shares` (codes, rows), which it may overwrite."""
    if shares.device.type != "cpu":
        return shares.cumsum(0)
    for before, now in pairwise(shares):  # many times as fast as cumsum along that axis
        now += before
    return shares
