"""Which pairs of columns may be measured: all of an ordinary table, and of a very wide one those that can tell something."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

ORDINARY = 100
"""Columns up to which every pair is scored, and as many are measured as join all columns, whatever the noise."""


def paired(cardinalities: Sequence[int]) -> list[int]:
    """Return the columns that may be measured in pairs: all, up to `ORDINARY`; of more, those that have several codes.

    A wide table's columns share one budget, so that of many no value can be named; what is always the same tells nothing.
    """
    wide = len(cardinalities) > ORDINARY
    return [i for i, codes in enumerate(cardinalities) if codes > 1 or not wide]


def nearest_pairs(columns: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return at most `most` pairs of these ascending columns, ascending: those that stand nearest to each other.

    Example:
        >>> nearest_pairs([0, 1, 2, 4], 5)
        [(0, 1), (0, 2), (1, 2), (1, 4), (2, 4)]
    """
    count = len(columns)
    every = ((columns[i], columns[i + apart]) for apart in range(1, count) for i in range(count - apart))
    return sorted(itertools.islice(every, most))
