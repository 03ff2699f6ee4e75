"""How many threads a computation of this room uses: few, since its matrices are small."""

from __future__ import annotations

import os
from contextlib import contextmanager

import torch

KEPT = 31 << 20
"""Bytes; just under the most that glibc's allocator learns from."""


@contextmanager
def few_threads(processes: int = 1):
    """Use half the cores, at most four: matrices here are small, and threads that wait for each other cost more.

    What steps free is kept for the next one: glibc hands freed memory back to the system, and fetching it again, a page at
    a time, took up to a fifth of a step. Freeing one large block raises its bounds for that (mallopt(3): the dynamic
    mmap threshold); other allocators do not mind.
    """
    torch.empty(KEPT, dtype=torch.uint8)
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(before, (os.cpu_count() or 1) // 2 // processes, 4)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
