"""What a row of a history is drawn upon: who it belongs to, its place, how many follow, the time, and the row before.

All of it enters a network as codes, merged to few a column: under noise, a code that few rows have is learnt from few rows.
What was merged follows from released shares alone.

A category that stays as it was is a code of its own, "as in the row before". So how long somebody stays with a team is one
number to learn, and not one for each team.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

MOST = 12
"""Codes that one column is merged to, at most."""

EXACT = 11
"""Places, and numbers of rows left, from 0 that are told apart one by one; after them, each code has more of them."""

WIDER = 1.3
"""How many times as many places each further code has."""

NONE = 0
"""Code of a column of the row before where there is none."""


@dataclass(frozen=True)
class Context:
    """Composes the codes that a row is drawn upon, and the codes of its own that are drawn.

    Attributes:
        parents: for each of the root's columns, the merged code of each of its codes.
        own: for each column of the child, the merged code of each of its codes.
        repeats: for each column of the child, whether it has a code for "as in the row before"; it is the last one.
        places: the merged code of each place, and of each number of rows left.
        times: how many codes the time so far has; 0 if rows have no time.
    """

    parents: tuple[tuple[int, ...], ...]
    own: tuple[tuple[int, ...], ...]
    repeats: tuple[bool, ...]
    places: tuple[int, ...]
    times: int = 0

    @classmethod
    def of(
        cls,
        parent_shares: Sequence[np.ndarray],
        own_shares: Sequence[np.ndarray],
        *,
        rows: int,
        times: int = 0,
        categories: tuple[Sequence[int], Sequence[int]] = ((), ()),
        most: int = MOST,
    ) -> Self:
        """Return the context that released shares call for.

        Args:
            parent_shares: released 1-way probabilities of each of the root's columns.
            own_shares: of each of the child's columns.
            rows: most rows that a history has.
            times: how many codes the time so far has; 0 if rows have no time.
            categories: which of the root's, and which of the child's columns have codes in no order.
            most: how many codes a column is merged to, at most.
        """
        of_parents, of_own = (frozenset(c) for c in categories)
        return cls(
            tuple(merge(s, most, i not in of_parents) for i, s in enumerate(parent_shares)),
            tuple(merge(s, most, i not in of_own) for i, s in enumerate(own_shares)),
            tuple(i in of_own for i in range(len(own_shares))),
            merge_places(rows),
            times,
        )

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Codes of each given column: the root's, place, rows left, the time if any, and the row before's."""
        places = max(self.places) + 1
        time = (self.times,) if self.times else ()
        return (*(max(m) + 1 for m in self.parents), places, places, *time, *(max(m) + 2 for m in self.own))

    @property
    def own_cardinalities(self) -> tuple[int, ...]:
        """Codes of each column that is drawn."""
        return tuple(len(m) + r for m, r in zip(self.own, self.repeats, strict=True))

    def given(
        self,
        parents: np.ndarray,
        place: np.ndarray,
        left: np.ndarray,
        previous: np.ndarray,
        time: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return what rows are drawn upon, int64 (rows, given columns).

        Args:
            parents: codes of the root's row that each belongs to, int (rows, root columns).
            place: how many rows came before each, int (rows,).
            left: how many come after it, int (rows,).
            previous: codes of the row before it, int (rows, columns); -1 where there is none.
            time: code of the time so far, int (rows,), if rows have a time.
        """
        places = np.array(self.places)
        most = len(places) - 1
        found = [
            *_merged(self.parents, parents),
            places[np.minimum(place, most)],
            places[np.minimum(left, most)],
            *([] if time is None else [time]),
            *(np.where(p < 0, NONE, np.array(m)[p] + 1) for m, p in zip(self.own, previous.T, strict=True)),
        ]
        return np.stack(found, 1).astype(np.int64)

    def relative(self, codes: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Return the codes that are drawn, int64 (rows, columns): of `codes`, and of what stays as in the row before."""
        stays = (codes == previous) & np.array(self.repeats)
        return np.where(stays, [len(m) for m in self.own], codes).astype(np.int64)

    def absolute(self, drawn: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Return the codes that `relative` makes `drawn` of; where there is no row before, nothing stays as in it."""
        stays = drawn == np.array([len(m) for m in self.own])
        return np.where(stays, np.maximum(previous, 0), drawn).astype(np.int64)

    def stays(self, drawn: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Say which drawn codes stay as in the row before, bool (rows, columns); where there is none, nothing does."""
        return (drawn == np.array([len(m) for m in self.own])) & (previous >= 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the context as JSON-ready facts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the context that `to_dict` described."""
        maps = {name: tuple(tuple(m) for m in facts[name]) for name in ("parents", "own")}
        return cls(**maps, repeats=tuple(facts["repeats"]), places=tuple(facts["places"]), times=facts["times"])


def merge(share: np.ndarray, most: int, ordered: bool) -> tuple[int, ...]:
    """Return the merged code of each code, of which there are `most` at most.

    Codes in order are merged with their neighbours, so that each merged one has about as large a share. Of others, the
    most frequent stay, and the rest are one.

    Example:
        >>> merge(np.array([0.1, 0.2, 0.3, 0.4]), 2, ordered=True), merge(np.array([0.1, 0.2, 0.3, 0.4]), 3, ordered=False)
        ((0, 0, 0, 1), (2, 2, 1, 0))
    """
    if len(share) <= most:
        return tuple(range(len(share)))
    p = np.maximum(np.asarray(share, dtype=np.float64), 0.0)
    p = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
    if not ordered:
        rank = np.argsort(np.argsort(-p, kind="stable"), kind="stable")
        return tuple(int(r) for r in np.minimum(rank, most - 1))
    found, code, held = [], 0, 0.0
    for one in p:
        if held > 0 and held + one / 2 > 1 / most and code < most - 1:
            code, held = code + 1, 0.0
        found.append(code)
        held += one
    return tuple(found)


def merge_places(rows: int) -> tuple[int, ...]:
    """Return the merged code of each place from 0 to `rows` - 1.

    Example:
        >>> merge_places(20)[9:]
        (9, 10, 11, 11, 11, 12, 12, 12, 12, 13, 13)
    """
    found, code, wide = list(range(min(rows, EXACT))), EXACT, 3.0
    while len(found) < rows:
        found.extend([code] * round(wide))
        code, wide = code + 1, wide * WIDER
    return tuple(found[:rows])


def _merged(maps: Sequence[tuple[int, ...]], codes: np.ndarray) -> list[np.ndarray]:
    return [np.array(m)[c] for m, c in zip(maps, codes.T, strict=True)]
