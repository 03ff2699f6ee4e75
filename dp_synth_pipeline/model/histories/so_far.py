"""Tells what histories were like so far: how large their numbers were, and which of their categories were most frequent.

The row before says what came last, and nothing of all before that. Yet people stay who they are: somebody who was among the
best two seasons ago is likelier to be so again than somebody who was not, whatever both of them did in the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVELS = 8
"""Codes of a number's mean place among its values."""

PARTS = 4
"""Codes of how large a part of the rows has the most frequent category; as many more if the last row has another one."""

NONE = 0
"""Code of what no row told yet."""

NOWHERE = -1.0
"""Place of a code that stands for no value, such as that of nulls."""


def places(share: np.ndarray, order: Sequence[int]) -> tuple[float, ...]:
    """Return where each code lies among a column's values, from 0 to 1: the share of smaller values, and half its own.

    Args:
        share: released probability of each code.
        order: the codes that have an order, in that order; others are `NOWHERE`.

    Example:
        >>> places(np.array([0.4, 0.4, 0.2]), [1, 0])
        (0.75, 0.25, -1.0)
    """
    found, held = np.full(len(share), NOWHERE), np.maximum(np.asarray(share, np.float64)[list(order)], 0.0)
    held = held / held.sum() if held.sum() > 0 else np.full(len(held), 1 / len(held))
    found[list(order)] = np.cumsum(held) - held / 2
    return tuple(found.tolist())


class Past(NamedTuple):
    """What the histories of some rows were like before them.

    Attributes:
        told: codes of what is given, int64 (rows, given columns), of as many codes as `cardinalities` says.
        most: the code that was most frequent of each category, int64 (rows, own columns); -1 where none was.
    """

    told: np.ndarray
    most: np.ndarray

    def of(self, rows: np.ndarray) -> Past:
        """Return what those of some of the rows were like."""
        return Past(self.told[rows], self.most[rows])


def cardinalities(levels: Sequence[Sequence[float]], merged: Sequence[Sequence[int]]) -> list[int]:
    """Return how many codes each column has that is given of histories: one of each number, and two of each category.

    Args:
        levels: of each own column, the place of each code, from `places`; empty for a category.
        merged: of each own column, the merged code of each code.
    """
    found = []
    for place, codes in zip(levels, merged, strict=True):
        found += [1 + LEVELS] if place else [1 + 2 * PARTS, 2 + max(codes)]
    return found


class SoFar:
    """The histories of so many parents, as far as they went.

    Args:
        levels: of each own column, the place of each code, from `places`; empty for a category.
        merged: of each own column, the merged code of each code.
        parents: how many there are.
    """

    def __init__(self, levels: Sequence[Sequence[float]], merged: Sequence[Sequence[int]], parents: int) -> None:
        both = zip(levels, merged, strict=True)
        self._columns = [_Level(place, parents) if place else _Favourite(codes, parents) for place, codes in both]

    def past(self, who: np.ndarray) -> Past:
        """Return what the histories of these parents were like."""
        told, most = zip(*(column.past(who) for column in self._columns), strict=True)
        return Past(np.concatenate(told, 1), np.stack(most, 1))

    def add(self, who: np.ndarray, rows: np.ndarray) -> None:
        """Let the next row of each of these parents be known.

        Args:
            who: numbers of parents, each once.
            rows: own codes of those rows, int64 (parents, columns).
        """
        for column, codes in zip(self._columns, rows.T, strict=True):
            column.add(who, codes)

    def before(self, rows: np.ndarray, parent: np.ndarray, place: np.ndarray) -> Past:
        """Return what histories were like before each of these rows, which are all of theirs.

        Args:
            rows: own codes, int64 (rows, columns).
            parent: number of the parent of each; place: how many rows came before each.
        """
        parts, by_place = [self.past(parent[:0])], np.argsort(place, kind="stable")
        for these in np.split(by_place, np.cumsum(np.bincount(place))[:-1]) if len(place) else []:
            parts.append(self.past(parent[these]))
            self.add(parent[these], rows[these])
        return Past(*(np.concatenate(values) for values in zip(*parts, strict=True))).of(np.argsort(by_place))


class _Level:
    """How large a number was: the mean of its places among all values, in `LEVELS` even parts."""

    def __init__(self, place: Sequence[float], parents: int) -> None:
        self._place, self._sums, self._rows = np.array(place), np.zeros(parents), np.zeros(parents)

    def past(self, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows[who]
        level = np.floor(LEVELS * self._sums[who] / np.maximum(rows, 1)).astype(np.int64)
        return np.where(rows > 0, np.minimum(level, LEVELS - 1) + 1, NONE)[:, None], np.full(len(who), -1)

    def add(self, who: np.ndarray, codes: np.ndarray) -> None:
        place = self._place[codes]
        self._sums[who] += np.where(place == NOWHERE, 0.0, place)
        self._rows[who] += place != NOWHERE


class _Favourite:
    """Which category was most frequent; of those that are as frequent as each other, the one that came last."""

    def __init__(self, merged: Sequence[int], parents: int) -> None:
        self._merged = np.array(merged)
        self._counts, self._rows = np.zeros((parents, len(merged)), np.uint8), np.zeros(parents, np.int64)
        self._most, self._last = np.full(parents, -1), np.full(parents, -1)

    def past(self, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, most = self._rows[who], self._most[who]
        part = -(-PARTS * self._counts[who, most].astype(np.int64) // np.maximum(rows, 1))
        other = np.where(self._last[who] == most, 0, PARTS)
        told = np.stack([np.clip(part, 1, PARTS) + other, self._merged[most] + 1], 1)
        return np.where(rows[:, None] > 0, told, NONE), most

    def add(self, who: np.ndarray, codes: np.ndarray) -> None:
        counts = self._counts[who, codes]
        self._counts[who, codes] = counts = counts + (counts < np.iinfo(np.uint8).max)
        leads = (self._most[who] < 0) | (counts >= self._counts[who, self._most[who]])
        self._most[who] = np.where(leads, codes, self._most[who])
        self._rows[who] += 1
        self._last[who] = codes
