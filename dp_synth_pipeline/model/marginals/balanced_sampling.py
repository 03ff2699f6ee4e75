"""Chooses rows that have the marginals of the draws they come from, so that chance adds little. Post-processing, so free.

Rows chosen one by one, each by its weight alone, miss the marginals of all draws by what a sample misses. Here they are
walked through block by block, and in each block the rows of cells that have had too many are a little less likely, and those
of cells that have had too few a little more (a self-balancing walk: Alweiss, Liu & Sawhney 2021, "Discrepancy Minimization
via a Self-Balancing Walk"; balanced samples: Deville & Tillé 2004). The chance that a row's weight is rounded up is at most
four times what it would be alone, so that a row of next to no weight is next to never kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from dp_synth_pipeline.model.marginals.measuring import Layout

BLOCKS, LEAST_BLOCK, MOST_BLOCK = 128, 16, 512
"""Blocks that draws are cut into, about, and their rows: what these add to cells is not seen by each other."""

CLIQUES = 512
"""Cliques that are balanced at a time; of more, some that chance picks for each batch, so that wide tables take no hours."""

LIKELIER = 4
"""How many times as likely as by its weight alone a row is rounded up, at most. Of a large pool each row is unlikely, so a
tighter bound, or one from below, would leave the walk little to choose by."""

SEEN = 1 << 13
"""Rows from which it is known how many a block holds of each cell."""

CELLS_AT_ONCE = 1 << 20
"""Cells found at a time, of some rows in all cliques: as many as stay in a processor's cache."""


def balanced(
    codes: np.ndarray,
    logs: np.ndarray,
    layout: Layout,
    rows: int,
    *,
    cliques: int = CLIQUES,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Return how often each draw is kept, int64 (draws,), in all `rows`: its weight rounded up or down.

    Args:
        codes: int (draws, columns), in no order.
        logs: their log-weights, up to a constant, float (draws,).
        layout: the cliques whose marginals the kept rows shall have.
        rows: how many to keep, at least 1.
        cliques: how many of them are looked at, at most.
        rng: decides; a fresh one by default.
    """
    rng = rng or np.random.default_rng()
    layout = _some(layout, cliques, rng)
    weights = np.exp(logs - logs.max())
    weights *= rows / weights.sum()
    least = np.floor(weights)
    rest = weights - least
    columns = torch.from_numpy(np.ascontiguousarray(codes.T, dtype=np.int32))
    size = min(max(len(codes) // BLOCKS, LEAST_BLOCK), MOST_BLOCK)
    share = _share(layout, columns[:, :SEEN], torch.from_numpy(weights[:SEEN]).float() * (len(codes) / rows), size)
    off, chosen = torch.zeros(layout.cells), np.zeros(len(codes), bool)
    for cells, part in _parts(layout, columns):
        for first in range(0, cells.shape[1], size):
            here = cells[:, first : first + size].contiguous()
            block = slice(part.start + first, part.start + first + here.shape[1])
            few = layout.cells < here.numel()  # then it is cheaper to look up one product of each cell
            lean = (off * share).take(here) if few else off.take(here) * share.take(here)
            chance = np.clip(rest[block] - lean.sum(0).numpy(), 0, LIKELIER * rest[block])
            chosen[block] = rng.random(here.shape[1]) < chance
            moved = torch.from_numpy((chosen[block] - rest[block]).astype(np.float32))
            off.index_add_(0, here.flatten(), moved.repeat(len(here)))
    return _exactly(least.astype(np.int64), chosen, rest, rows, rng)


def _some(layout: Layout, most: int, rng: np.random.Generator) -> Layout:
    """Return a layout of `most` of its cliques, by chance, if it has more."""
    if len(layout.cliques) <= most:
        return layout
    chosen = np.sort(rng.choice(len(layout.cliques), most, replace=False))
    return Layout(layout.cardinalities, tuple(layout.cliques[i] for i in chosen))


def _share(layout: Layout, columns: torch.Tensor, weights: torch.Tensor, block: int) -> torch.Tensor:
    """Return which part of what a cell is off by a row of it makes good, float32 (cells,).

    A block's rows share it: each takes the part that a block is expected to hold of the cell, from the first rows' weights.
    """
    held = torch.zeros(layout.cells)
    for cells, part in _parts(layout, columns):
        held.index_add_(0, cells.flatten(), weights[part].repeat(len(cells)))
    return 1 / (held * (block / columns.shape[1])).clamp(min=1.0) / max(len(layout.cliques), 1)


def _parts(layout: Layout, columns: torch.Tensor) -> Iterator[tuple[torch.Tensor, slice]]:
    """Yield the flat cell of each row in each clique, int64 (cliques, some rows), and which rows."""
    size = MOST_BLOCK * max(1, CELLS_AT_ONCE // (MOST_BLOCK * max(len(layout.cliques), 1)))
    for start in range(0, columns.shape[1], size):
        part = slice(start, start + size)
        some = columns[:, part]
        found = torch.empty((len(layout.cliques), some.shape[1]), dtype=torch.int64)
        for number, (clique, place) in enumerate(layout.places()):
            found[number] = layout.within(clique, some) + place.start
        yield found, part


def _exactly(
    least: np.ndarray, chosen: np.ndarray, rest: np.ndarray, rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Return what is kept, with a few rows more or fewer, by chance, where the walk did not end at `rows`."""
    kept = least + chosen
    missing = rows - int(kept.sum())
    likely = np.where(chosen, 0.0, rest) if missing > 0 else chosen.astype(float)
    number = min(abs(missing), np.count_nonzero(likely))
    if number:
        kept[rng.choice(len(kept), number, replace=False, p=likely / likely.sum())] += np.sign(missing)
    return kept
