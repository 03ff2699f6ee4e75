"""Which pairs of columns may be measured: all of an ordinary table, and of a very wide one those that can tell something."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

ORDINARY = 100
"""Columns up to which every pair is scored, and as many are measured as join all columns, whatever the noise."""


def paired(cardinalities: Sequence[int]) -> list[int]:
    """Return the columns that may be measured in pairs: all, up to `ORDINARY`; of more, those that have several codes.

    A wide table's columns share one budget, so that of many no value can be named; what is always the same tells nothing.
    """
    wide = len(cardinalities) > ORDINARY
    return [i for i, codes in enumerate(cardinalities) if codes > 1 or not wide]


def number_of_pairs(columns: Sequence[int], given: int = 0) -> int:
    """Return how many pairs these columns have, those of two of the first `given` columns left out."""
    return math.comb(len(columns), 2) - math.comb(sum(c < given for c in columns), 2)


def nearest_pairs(columns: Sequence[int], most: int, given: int = 0) -> list[tuple[int, int]]:
    """Return at most `most` pairs of these ascending columns, ascending: those that stand nearest to each other.

    Args:
        given: how many of the first columns are given with each row, so that two of them are no pair.

    Example:
        >>> nearest_pairs([0, 1, 2, 4], 5)
        [(0, 1), (0, 2), (1, 2), (1, 4), (2, 4)]
        >>> nearest_pairs([0, 1, 2], 5, given=2)
        [(0, 2), (1, 2)]
    """
    count = len(columns)
    every = ((columns[i], columns[i + apart]) for apart in range(1, count) for i in range(count - apart))
    return sorted(itertools.islice((pair for pair in every if pair[1] >= given), most))
