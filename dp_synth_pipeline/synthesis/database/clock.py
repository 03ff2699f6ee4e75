"""Codes what a row's time tells: how late it is, and the month, the weekday or the hour where a column of its table has it.

A row's month is computed from its date, so that both agree. What depends on it, such as what is bought in summer, is learnt
since the month is given with the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.structure import Relations
from dp_synth_pipeline.tabular import date_parts, offsets
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds.base import MOMENT, Codec
from dp_synth_pipeline.tabular.schema import Column, TableSchema

GIVEN = (
    ("month", ("month", "month_name", "month_abbr", "year_month", "yearmonth", "week", "yearday")),
    ("quarter", ("quarter", "quarter_label")),
    ("isoweekday", ("weekday", "isoweekday", "dow", "dayofweek", "weekday_name", "weekday_abbr")),
    ("weekend", ("weekend",)),
    ("hour", ("hour",)),
)
"""What is given with a row, and the parts of which a table has one for that. Years are told by how late it is."""

FINER = {"quarter": "month", "weekend": "isoweekday"}
"""What tells another part as well, so that this one is not given beside it."""


class Clock(NamedTuple):
    """Codes the times of a table's rows by released facts alone.

    Attributes:
        codec: of the released column that says when rows begin.
        column: that column.
        order: what the table's rows are ordered by.
        parts: what else is told of each time, as columns that hang on the order.
    """

    codec: Codec
    column: Column
    order: Column
    parts: tuple[Column, ...] = ()

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Codes of each fact of a time; of a part, the first one is that of no time."""
        return (self.codec.cardinality, *(len(_values(part)) + 1 for part in self.parts))

    @property
    def orders(self) -> list[Sequence[int]]:
        """The codes of each fact that have an order, in that order."""
        return [self.codec.order, *(range(1, len(_values(part)) + 1) for part in self.parts)]

    def coded(self, times: pa.Array) -> np.ndarray:
        """Return the codes of each time, int64 (rows, facts), by that time alone; no time has the code of no first row."""
        late = self.codec.encode(times.cast(self.column.arrow_type, safe=False))
        return np.stack([late, *(self._part(times, part) for part in self.parts)], 1).astype(np.int64)

    def _part(self, times: pa.Array, part: Column) -> np.ndarray:
        points, null = offsets.placed(times.cast(self.order.arrow_type, safe=False), self.order, part)
        return np.where(null, 0, points - _values(part)[0] + 1)


def _values(part: Column) -> range:
    known = date_parts.PARTS[str(part.part)]
    assert known.least is not None
    assert known.most is not None
    return range(known.least, known.most + 1)


def clock(
    relations: Relations, name: str, codec_of: Callable[[str], TableCodec], source: TableSchema | None = None
) -> Clock | None:
    """Return what codes the times of a table's rows; None if they have no order.

    Args:
        codec_of: returns the codec of a table above.
        source: the columns of its source, of which parts of the order are given; None for none of them.
    """
    order = relations[name].order
    if order is None:
        return None
    codec, column = _beginning(relations, name, codec_of)
    own = column if source is None else source[order]
    return Clock(codec, column, own, () if source is None else _parts(source, own))


def _beginning(relations: Relations, name: str, codec_of: Callable[[str], TableCodec]) -> tuple[Codec, Column]:
    """Return the column that says when a table's rows begin, of its parent or of one above, and its codec."""
    table, parent = relations[name], codec_of(str(relations[name].parent))
    time = relations.beginning(name, parent.encoded).time
    if time is None:  # they begin some time after the parent's own time
        return _beginning(relations, str(table.parent), codec_of)
    return parent.columns[parent.encoded.index(time)], parent.schema[time]


def _parts(source: TableSchema, order: Column) -> tuple[Column, ...]:
    """Return what is given of times, as columns that hang on the order: as a table's columns have it."""
    if order.kind.family != MOMENT:
        return ()
    had = {c.part: c for c in source if c.part is not None and offsets.root(c, source).name == order.name}
    found = {given: had[part] for given, parts in GIVEN for part in parts if part in had}
    return tuple(replace(c, part=given) for given, c in found.items() if FINER.get(given) not in found)
