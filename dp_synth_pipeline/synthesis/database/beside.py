"""Finds the row beside each row of a table: the same parent's latest one, up to that time, in another table.

Rows at one time are matched in turn: the first with the first one beside, and so on, and those that are left with the last.
A row is drawn upon what was drawn of its own parent, and learnt upon rows of its own person alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_synth_pipeline.model.histories.context import BEFORE, LAST, MOST, NONE, NOW, Beside, RowsBeside, merge
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec


class Matched(NamedTuple):
    """What lies beside some rows.

    Attributes:
        rows: number of the row beside each, int64 (rows,); -1 if there is none.
        when: `NONE`, `NOW` or `BEFORE`, with `LAST` added if no row there lies later, int (rows,).
        until: distance to the next time in the table beside, (rows,); -1 if there is no more.
        turn: how many rows of its parent came before each at its very time, int (rows,).
    """

    rows: np.ndarray
    when: np.ndarray
    until: np.ndarray
    turn: np.ndarray

    def taken(self, codes: np.ndarray) -> RowsBeside:
        """Return the rows beside, of the codes of all rows of that table."""
        found = np.full((len(self.rows), codes.shape[1]), -1, dtype=np.int64)
        there = self.rows >= 0
        found[there] = codes[self.rows[there]]
        return RowsBeside(found, self.when, self.turn)


class Neighbours:
    """The rows of a table, among which those of another one look for the row beside them.

    Args:
        parent: number of each row's parent, int64 (rows,), ascending.
        times: of each row, (rows,), ascending for each parent.
        known: whether it has a time, bool (rows,); those that have none come last. By default all have one.
    """

    def __init__(self, parent: np.ndarray, times: np.ndarray, known: np.ndarray | None = None) -> None:
        known = np.ones(len(times), dtype=bool) if known is None else known
        self._times, self._line = times, np.unique(times[known])
        place = np.where(known, np.searchsorted(self._line, times), len(self._line))
        self._keys = self._key(parent, place)

    def matched(self, parent: np.ndarray, times: np.ndarray, turn: np.ndarray) -> Matched:
        """Return what lies beside rows of these parents at these times.

        Args:
            turn: how many rows of its parent came before each at its very time, int (rows,).
        """
        first, last = self._found(parent, 0), self._found(parent, len(self._line))
        begin, end = (self._found(parent, np.searchsorted(self._line, times, side)) for side in ("left", "right"))
        row = np.where(end > begin, np.minimum(begin + turn, end - 1), end - 1)
        more = end < last
        when = np.where(row < first, NONE, np.where(end > begin, NOW, BEFORE) + np.where(more, 0, LAST))
        until = np.full(len(times), -1, dtype=times.dtype)
        until[more] = self._times[end[more]] - times[more]
        return Matched(np.where(row < first, -1, row), when, until, turn)

    def _key(self, parent: np.ndarray, place: np.ndarray | int) -> np.ndarray:
        return parent.astype(np.int64) * (len(self._line) + 1) + place

    def _found(self, parent: np.ndarray, place: np.ndarray | int) -> np.ndarray:
        """Return how many rows come before a place on the line of times of each parent."""
        return np.searchsorted(self._keys, self._key(parent, place))


def turns(parent: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return how many rows of its parent come before each at its very time, int64 (rows,).

    Args:
        parent: number of each row's parent, int64 (rows,), ascending.
        times: of each row, (rows,), ascending for each parent.

    Example:
        >>> turns(np.array([0, 0, 0, 1]), np.array([7, 7, 8, 8]))
        array([0, 1, 0, 0])
    """
    rows = np.arange(len(parent))
    begins = np.append(True, (parent[1:] != parent[:-1]) | (times[1:] != times[:-1]))[: len(rows)]
    return rows - np.maximum.accumulate(np.where(begins, rows, 0))


def beside_of(own: TableCodec, other: TableCodec, gap: str) -> Beside:
    """Return how rows are drawn upon those of a table beside, from released facts alone.

    Of a row beside is given what both tables have a column for, by its name. Values can be the same in both if the type is,
    too, and they have names. Only a value with a code of its own in both tables is told to be as in the row beside.

    Args:
        gap: the own column that holds the distance to the next row. The other table's is not given: where a person is drawn
            with more rows than fit to those beside, they would pile up where these end.
    """
    given = [i for i, name in enumerate(other.encoded) if name in own.encoded and name != gap]
    facts = [(other.columns[i].marginal, other.modelled[i].kind) for i in given]
    merged = [merge(share, MOST, kind.numeric or kind.ordered) for share, kind in facts]
    namesakes, copies = [], []
    for name, codec in zip(own.encoded, own.columns, strict=True):
        at = other.encoded.index(name) if name in other.encoded else -1
        found = () if at < 0 else _copies(codec, other.columns[at])
        namesakes.append(at if found else -1)
        copies.append(found)
    return Beside(tuple(given), tuple(merged), tuple(namesakes), tuple(copies), own.encoded.index(gap))


def _copies(own: object, other: object) -> tuple[int, ...]:
    """Return the own code of each code of another column, -1 if there is none; nothing if no value is in both."""
    if not isinstance(own, CategoricalCodec) or not isinstance(other, CategoricalCodec):
        return ()
    if own.column.arrow_type != other.column.arrow_type:
        return ()
    mine = {own.values[start]: code for code, start in _single(own)}
    copies = [-1] * other.cardinality
    for code, start in _single(other):
        copies[code] = mine.get(other.values[start], -1)
    if own.null is not None and other.null is not None:
        copies[other.null] = own.null
    return tuple(copies) if max(copies) >= 0 else ()


def _single(codec: CategoricalCodec) -> list[tuple[int, int]]:
    """Return the codes that stand for one value each, and which of the released values that is."""
    lengths = np.diff(codec.starts, append=len(codec.values))
    return [(code, int(codec.starts[code])) for code in np.flatnonzero(lengths == 1).tolist()]
