"""Tells what histories were like so far: how large their numbers were, and which of their categories were most frequent.

The row before says what came last, and nothing of all before that. Yet people stay who they are: somebody who was among the
best two seasons ago is likelier to be so again than somebody who was not, whatever both of them did in the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEVELS = 8
"""Codes of a number's mean place among its values."""

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

    def told(self, who: np.ndarray) -> np.ndarray:
        """Return what the histories of these parents were like, int64 (parents, columns)."""
        return np.stack([column.told(who) for column in self._columns], 1)

    def add(self, who: np.ndarray, rows: np.ndarray) -> None:
        """Let the next row of each of these parents be known.

        Args:
            who: numbers of parents, each once.
            rows: own codes of those rows, int64 (parents, columns).
        """
        for column, codes in zip(self._columns, rows.T, strict=True):
            column.add(who, codes)

    def before(self, rows: np.ndarray, parent: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return what histories were like before each of these rows, which are all of theirs, int64 (rows, columns).

        Args:
            rows: own codes, int64 (rows, columns).
            parent: number of the parent of each; place: how many rows came before each.
        """
        found = np.zeros(rows.shape, np.int64)
        by_place = np.argsort(place, kind="stable")
        for these in np.split(by_place, np.cumsum(np.bincount(place))[:-1]) if len(place) else []:
            found[these] = self.told(parent[these])
            self.add(parent[these], rows[these])
        return found


class _Level:
    """How large a number was: the mean of its places among all values, in `LEVELS` even parts."""

    def __init__(self, place: Sequence[float], parents: int) -> None:
        self._place, self._sums, self._rows = np.array(place), np.zeros(parents), np.zeros(parents)

    def told(self, who: np.ndarray) -> np.ndarray:
        rows = self._rows[who]
        level = np.floor(LEVELS * self._sums[who] / np.maximum(rows, 1)).astype(np.int64)
        return np.where(rows > 0, np.minimum(level, LEVELS - 1) + 1, NONE)

    def add(self, who: np.ndarray, codes: np.ndarray) -> None:
        place = self._place[codes]
        self._sums[who] += np.where(place == NOWHERE, 0.0, place)
        self._rows[who] += place != NOWHERE


class _Favourite:
    """Which category was the most frequent; of those that are as frequent as each other, the one that came last."""

    def __init__(self, merged: Sequence[int], parents: int) -> None:
        self._merged = np.array(merged)
        self._rows = np.zeros((parents, int(self._merged.max()) + 1), np.int32)
        self._code = np.full(parents, NONE)

    def told(self, who: np.ndarray) -> np.ndarray:
        return self._code[who]

    def add(self, who: np.ndarray, codes: np.ndarray) -> None:
        code = self._merged[codes]
        self._rows[who, code] += 1
        most = self._rows[who, code] >= self._rows[who, np.maximum(self._code[who] - 1, 0)]
        self._code[who] = np.where(most, code + 1, self._code[who])
