"""Finds the row beside each row of a table: the same parent's latest one, up to that time, in another table.

Rows at one time are matched in turn: the first with the first one beside, and so on, and those that are left with the last.
A row is drawn upon what was drawn of its own parent, and learnt upon rows of its own person alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.model.histories.context import BEFORE, LAST, MOST, NONE, NOW, Beside, RowsBeside, merge
from dp_synth_pipeline.relations.namesakes import pairs
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.schema import Column, TableSchema

MOSTLY, LEAST_SHARED = 0.5, 4
"""Part of the rows of a category that have values of another one, and how many such values there are at least, so that it is
taken to be about the same: two columns of yes and no are not."""


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

    @classmethod
    def above(cls, parent: np.ndarray) -> Matched:
        """Return what lies beside rows of which that is their own parent, by its number."""
        none = np.zeros(len(parent), np.int64)
        return cls(parent.astype(np.int64), none, none - 1, none)

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


def beside_of(own: TableCodec, other: TableCodec, gap: str, alike: Mapping[str, str] = MappingProxyType({})) -> Beside:
    """Return how rows are drawn upon those of a table beside, from released facts alone.

    Of a row beside is given what both tables have a column for, by its name, and what may be the same by another one.
    Values can be the same in both if the type is, too. Only a category with a code of its own in both tables is told to be
    as in the row beside; numbers are compared.

    Args:
        alike: own columns, each with that of the table beside which may be the same, from `alike_of`.
        gap: the own column that holds the distance to the next row. The other table's is not given: where a person is drawn
            with more rows than fit to those beside, they would pile up where these end.
    """
    given = [i for i, n in enumerate(other.encoded) if (n in own.encoded and n != gap) or n in alike.values()]
    found = _same(own, other, alike)
    compared = {found.namesakes[column] for column in found.numbers}
    merged = [() if i in compared else _merged(other, i) for i in given]
    return replace(found, given=tuple(given), merged=tuple(merged), gap=own.encoded.index(gap))


def above_of(own: TableCodec, parent: TableCodec, alike: Mapping[str, str]) -> Beside | None:
    """Return how rows are drawn upon values of their parents that they may have, too; None if there are none such.

    A parent's codes are given with each row, and of numbers that may be the same, the own codes of its values besides.
    """
    found = replace(_same(own, parent, alike), above=True)
    given = tuple(dict.fromkeys(found.namesakes[column] for column in found.numbers))
    return replace(found, given=given, merged=((),) * len(given)) if max(found.namesakes) >= 0 else None


def _same(own: TableCodec, other: TableCodec, alike: Mapping[str, str]) -> Beside:
    """Return which own columns may have the values of another table's."""
    namesakes, copies = [], []
    names = [alike.get(name, name) for name in own.encoded]
    for name, there, codec in zip(own.encoded, names, own.columns, strict=True):
        at = other.encoded.index(there) if there in other.encoded else -1
        found = () if at < 0 else _copies(codec, other.columns[at])
        compared = isinstance(codec, AxisCodec) and name in alike
        namesakes.append(at if found or compared else -1)
        copies.append(found)
    return Beside((), (), tuple(namesakes), tuple(copies), names=tuple(names))


def alike_of(own: TableCodec, other: TableCodec, sources: tuple[TableSchema, TableSchema]) -> dict[str, str]:
    """Return own columns that may be as in the row beside, each with the column there, from released facts alone.

    Numbers are paired by their names and types. What others of its row hang on is not among them, nor what hangs on others
    there. A category that has no namesake is paired with the one that has most of its released values, if that has most.

    Args:
        sources: the columns of the table's source, and of that of the table beside.
    """
    tied = offsets.tied(own.schema)
    mine = [c for c in _numbers(own, sources[0]) if c.name not in tied]
    found = pairs(mine, [c for c in _numbers(other, sources[1]) if c.base is None])
    for name, codec in zip(own.encoded, own.columns, strict=True):
        if isinstance(codec, CategoricalCodec) and name in sources[0].names and name not in other.encoded:
            shared = {
                n: _shared(codec, c) for n, c in zip(other.encoded, other.columns, strict=True) if n in sources[1].names
            }
            most = max(shared, key=lambda n: shared[n], default="")
            found |= {name: most} if shared.get(most, 0.0) > MOSTLY else {}
    return found


def _shared(own: CategoricalCodec, other: object) -> float:
    """Return the released share of a column's rows that have a value of another one's; 0 if few values are in both."""
    codes = [code for code in set(_copies(own, other)) if code >= 0 and code != own.null]
    return float(own.marginal[codes].sum()) if len(codes) >= LEAST_SHARED else 0.0


def _numbers(codec: TableCodec, source: TableSchema) -> list[Column]:
    """Return the columns of a source that lie on a number line."""
    both = zip(codec.modelled, codec.columns, strict=True)
    return [column for column, each in both if isinstance(each, AxisCodec) and column.name in source.names]


def _merged(codec: TableCodec, column: int) -> tuple[int, ...]:
    kind = codec.modelled[column].kind
    return merge(codec.columns[column].marginal, MOST, kind.numeric or kind.ordered)


class NumbersBeside(NamedTuple):
    """Numbers in the rows beside some rows.

    Attributes:
        values: of each column, (rows,); null where there is no row, too.
        codes: the own codes that these values would have, int64 (rows, columns); -1 where there is none.
        may: which of them decoding may draw, so that a row may have them, bool (rows, columns).
    """

    values: list[pa.Array]
    codes: np.ndarray
    may: np.ndarray

    def same(self, own: Iterable[pa.ChunkedArray]) -> np.ndarray:
        """Say which values of a table's own columns are those beside, bool (rows, columns)."""
        found = self.may.copy()
        for place, (mine, theirs) in enumerate(zip(own, self.values, strict=True)):
            coded = pa.concat_arrays([mine.combine_chunks(), theirs]).dictionary_encode("encode").indices
            found[:, place] &= np.equal(*np.split(coded.to_numpy(zero_copy_only=False), 2))
        return found


def numbers_beside(own: TableCodec, how: Beside, rows: np.ndarray, values: pa.Table) -> NumbersBeside:
    """Return the numbers in the rows beside some rows.

    Args:
        rows: number of the row beside each, int64 (rows,); -1 if there is none.
        values: of the table beside.
    """
    shape, at, found = (len(rows), len(how.numbers)), pa.array(rows, mask=rows < 0), []
    codes, may = np.full(shape, -1, np.int64), np.zeros(shape, bool)
    for place, number in enumerate(how.numbers):
        codec = own.columns[number]
        assert isinstance(codec, AxisCodec)
        there = values[how.names[number]].take(at).combine_chunks()
        null = np.asarray(there.is_null())
        coded = codec.encode(there)
        codes[:, place] = np.where((rows < 0) | (null & (codec.null is None)), -1, coded)
        written = codec.points(there)[0] == codec.column.kind.to_axis(there)[0]  # in the digits that its own column has
        may[:, place] = (codes[:, place] >= 0) & (null | codec.may_draw(there, coded) & written)
        found.append(there)
    return NumbersBeside(found, codes, may)


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
