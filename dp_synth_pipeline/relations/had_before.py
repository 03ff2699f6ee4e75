"""Remembers what the rows of each parent have had while they are drawn, so that none has it twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.encoding.codec import TableCodec


@dataclass
class HadBefore:
    """What the rows of each parent have had, of the columns that are unique among them.

    It compares codes. One that stands for several values, or for null, is the same as no other. If the order is among the
    columns, rows are compared with those of their own time.

    Attributes:
        columns: the numbers of the columns that are compared.
        single: for each of them, which codes stand for one value, bool (codes,).
        timed: whether rows are compared with those of their own time alone.
        parents: how many parents there are.
    """

    columns: tuple[int, ...]
    single: tuple[np.ndarray, ...]
    timed: bool
    parents: int
    _had: list[np.ndarray] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, table: Related, codec: TableCodec, parents: int) -> HadBefore | None:
        """Return what remembers the rows of a table; None if nothing can be told of them by their codes."""
        names = [name for name in table.unique if name != table.order and name not in table.static]
        if not table.unique or not set(names) <= set(codec.encoded):
            return None
        columns = tuple(codec.encoded.index(name) for name in names)
        return cls(columns, tuple(codec.columns[i].single for i in columns), table.order in table.unique, parents)

    def again(self, who: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Say which rows have what an earlier one of their parent had.

        Args:
            who: numbers of their parents, int64 (rows,).
            codes: of the rows, int64 (rows, columns).
        """
        keys = self._keys(codes)
        return (keys >= 0) & np.logical_or.reduce([had[who] == keys for had in self._had], initial=False)

    def add(self, who: np.ndarray, codes: np.ndarray) -> None:
        """Remember the rows of one place."""
        had = np.full(self.parents, -1, np.int64)
        had[who] = self._keys(codes)
        self._had.append(had)

    def move_on(self, who: np.ndarray) -> None:
        """Forget the rows of parents whose next row lies at another time, if rows are compared with those of their own."""
        if self.timed:
            for had in self._had:
                had[who] = -1
            self._had = [had for had in self._had if (had >= 0).any()]

    def _keys(self, codes: np.ndarray) -> np.ndarray:
        """Return a number of at least 0 for what each row has, int64 (rows,); -1 where a code is not one value."""
        keys, told = np.zeros(len(codes), np.uint64), np.ones(len(codes), bool)
        for number, single in zip(self.columns, self.single, strict=True):
            told &= single[codes[:, number]]
            keys = keys * np.uint64(len(single)) + codes[:, number].astype(np.uint64)
        return np.where(told, (keys & np.uint64(2**63 - 1)).astype(np.int64), -1)  # more than 63 bits: a few are one
