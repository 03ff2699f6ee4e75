"""Whether a unit's clipped gradient is the same to the last bit wherever it lies in a batch, and whoever lies beside it.

The sensitivity of a sum is that of one unit only if the others add what they would have added without it. Libraries for
matrices and vectors add up in an order that depends on shapes, places and threads, never on values. So whether a shape
keeps a unit's numbers apart from its neighbours shows on made-up rows: orders that differ would round differently in some
of thousands of numbers. This is tested before the first step, and what fails the test is not used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.batches import Sizes
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

Clipping = OnePassClipping | OneByOneClipping

TIMES = 2
"""Orders of the rows in which each size is tried."""

SPREAD = 4.0
"""Made-up units' gradients differ by factors of up to exp(SPREAD), so that some are clipped and others are not."""

FEWEST = 32
"""Units that are derived together, at least: of fewer, two orders would not show whether they meet."""

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


def sizes_at_once(network: Trainable, clipping: OneByOneClipping, shape: torch.Size) -> tuple[int, ...]:
    """Return the sizes of parts in which units of codes (*shape), columns last, are derived together and compute alike.

    They reach up to as many units as the network takes at once, or as fit, and are at least 1: a unit alone has no company.
    """
    most = network.at_once
    while most >= FEWEST:
        sizes = tuple(size for size in (most // 4, most // 2, most) if size >= FEWEST)
        try:
            with _nowhere_zero(network):
                found = _found(network, clipping, sizes, shape)
            if found:
                return found
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        most //= 2
    return (1,)


@contextmanager
def _nowhere_zero(network: Trainable) -> Iterator[None]:
    """Put chance in the place of weights that are all 0: what is multiplied by 0 is the same in any order of adding up."""
    zeros = [p for p in network.parameters() if not p.any()]
    with torch.no_grad():
        for p in zeros:
            p.normal_(std=0.1)
    try:
        yield
    finally:
        with torch.no_grad():
            for p in zeros:
                p.zero_()


def _search(network: Trainable, clipping: OnePassClipping, sizes: Sizes) -> tuple[Sizes, int]:
    """Return which sizes will do with how many threads."""
    columns = len(network.cardinalities)
    for threads in dict.fromkeys((torch.get_num_threads(), 1)):
        torch.set_num_threads(threads)
        found = {r: _found(network, clipping, s, torch.Size((*((r,) if r else ()), columns))) for r, s in sizes.items()}
        if all(found.values()):
            return found, threads
    raise TrainingError(
        "on this machine a unit's gradient depends on its place in a batch, so that no noise could be calibrated to it. "
        "Train on another device."
    )


def _found(network: Trainable, clipping: Clipping, sizes: tuple[int, ...], shape: torch.Size) -> tuple[int, ...]:
    """Return the sizes that will do for units of codes (*shape): all, the largest alone, or none."""
    tried = dict.fromkeys((sizes, sizes[-1:]))
    return next((some for some in tried if _alike(network, clipping, some, shape)), ())


def _where(network: Trainable) -> torch.device:
    return next(network.parameters()).device


def _alike(network: Trainable, clipping: Clipping, sizes: Sequence[int], shape: torch.Size) -> bool:
    """Return whether made-up units of codes (*shape) have the same numbers in every size and place that is tried."""
    most, cards = sizes[-1], network.cardinalities[: shape[-1]]
    each = (most, *shape[:-1])
    where = _where(network)
    chance = torch.Generator()
    chance.seed()
    codes = torch.stack([torch.randint(c, each, generator=chance) for c in cards], -1).to(where)
    scale = torch.exp(SPREAD * (2 * torch.rand(each, generator=chance) - 1)).to(where)
    reference = _numbers(network, clipping, codes, scale)
    for size in sizes:
        for _ in range(TIMES):
            chosen = torch.randperm(most, generator=chance)[:size].to(where)
            found = _numbers(network, clipping, codes[chosen], scale[chosen])
            if not all(torch.equal(a, b[chosen]) for a, b in zip(found, reference, strict=True)):
                return False
    return True


def _numbers(network: Trainable, clipping: Clipping, codes: torch.Tensor, scale: torch.Tensor) -> list[torch.Tensor]:
    """Return losses, and all that the sums are made of, as (units, ...) or (units, rows, ...)."""
    losses = network.losses(codes)
    weighted = losses * scale
    made = clipping.numbers(weighted if weighted.dim() == 1 else weighted.sum(1), losses.shape)
    return [losses.detach(), *made]
