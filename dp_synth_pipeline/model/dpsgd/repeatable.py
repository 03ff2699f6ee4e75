"""Whether a unit's clipped gradient is the same to the last bit wherever it lies in a batch, and whoever lies beside it.

The sensitivity of a sum is that of one unit only if the others add what they would have added without it. Libraries for
matrices and vectors add up in an order that depends on shapes, places and threads, never on values. So whether a shape
keeps a unit's numbers apart from its neighbours shows on made-up rows: orders that differ would round differently in some
of thousands of numbers. This is tested before the first step, and what fails the test is not used.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.batches import Sizes
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

TIMES = 2
"""Orders of the rows in which each size is tried."""

SPREAD = 4.0
"""Made-up units' gradients differ by factors of up to exp(SPREAD), so that some are clipped and others are not."""

FOUND: dict[tuple[Hashable, ...], tuple[Sizes, int]] = {}
"""Sizes and threads that this process found to do, by all that the order of its sums depends on."""


def repeatable_sizes(network: Trainable, clipping: OnePassClipping, sizes: Sizes) -> Sizes:
    """Return those sizes of parts in which this process computes alike: for units of as many rows all, or the largest alone.

    Threads share a matrix in pieces of any width; where they spoil it, this process goes on with one thread.

    Raises:
        TrainingError: if even parts of one size depend on where a unit lies.
    """
    tensors, asked = (*network.parameters(), *network.buffers()), tuple(sizes.items())
    shapes = tuple((t.shape, t.requires_grad) for t in tensors)  # what is frozen was not looked at
    where = type(network), network.cardinalities, shapes, asked, _where(network), torch.get_num_threads()
    if where not in FOUND:
        FOUND[where] = _search(network, clipping, sizes)
    found, threads = FOUND[where]
    torch.set_num_threads(threads)
    return found


def _search(network: Trainable, clipping: OnePassClipping, sizes: Sizes) -> tuple[Sizes, int]:
    """Return which sizes will do with how many threads."""
    for threads in dict.fromkeys((torch.get_num_threads(), 1)):
        torch.set_num_threads(threads)
        found = {rows: _found(network, clipping, asked, rows) for rows, asked in sizes.items()}
        if all(found.values()):
            return found, threads
    raise TrainingError(
        "on this machine a unit's gradient depends on its place in a batch, so that no noise could be calibrated to it. "
        "Train on another device."
    )


def _found(network: Trainable, clipping: OnePassClipping, sizes: tuple[int, ...], rows: int | None) -> tuple[int, ...]:
    """Return the sizes that will do, or none."""
    tried = dict.fromkeys((sizes, sizes[-1:]))
    return next((some for some in tried if _alike(network, clipping, some, rows)), ())


def _where(network: Trainable) -> torch.device:
    return next(network.parameters()).device


def _alike(network: Trainable, clipping: OnePassClipping, sizes: Sequence[int], rows: int | None) -> bool:
    most = sizes[-1]
    shape = (most,) if rows is None else (most, rows)
    where = _where(network)
    chance = torch.Generator()
    chance.seed()
    codes = torch.stack([torch.randint(c, shape, generator=chance) for c in network.cardinalities], -1).to(where)
    scale = torch.exp(SPREAD * (2 * torch.rand(shape, generator=chance) - 1)).to(where)
    reference = _numbers(network, clipping, codes, scale)
    for size in sizes:
        for _ in range(TIMES):
            chosen = torch.randperm(most, generator=chance)[:size].to(where)
            found = _numbers(network, clipping, codes[chosen], scale[chosen])
            if not all(torch.equal(a, b[chosen]) for a, b in zip(found, reference, strict=True)):
                return False
    return True


def _numbers(
    network: Trainable, clipping: OnePassClipping, codes: torch.Tensor, scale: torch.Tensor
) -> list[torch.Tensor]:
    """Return losses, and all that the sums are made of, as (units, ...) or (units, rows, ...)."""
    losses = network.losses(codes)
    weighted = losses * scale
    parts = clipping.rounded(weighted if weighted.dim() == 1 else weighted.sum(1))
    each = [x.unflatten(0, losses.shape) for part in parts for x in (part.inputs, part.gradients)]
    return [losses.detach(), *each]
