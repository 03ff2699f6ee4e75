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
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds.base import MOMENT, Codec
from dp_synth_pipeline.tabular.profiling import grid
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


RARE = 0.05
"""Part of the dates, and of the distances, that may lie before the first of these parts or after the last: as many as may
break what was found, such as a date far away that stands for one that nobody knows."""

EVEN = 24
"""Codes of times of which no histogram was released, but of a date before them and of how long they are after it."""


class _Released(NamedTuple):
    """Codes times as the released column has them that says when rows begin."""

    codec: Codec
    column: Column

    @property
    def cardinality(self) -> int:
        return self.codec.cardinality

    @property
    def order(self) -> Sequence[int]:
        return self.codec.order

    def encode(self, times: pa.Array) -> np.ndarray:
        return self.codec.encode(times.cast(self.column.arrow_type, safe=False))


class _Even(NamedTuple):
    """Codes times by even parts of the time from `low` to `high`, in microseconds; no time has a code of its own."""

    low: float
    high: float

    @property
    def cardinality(self) -> int:
        return EVEN + 1

    @property
    def order(self) -> Sequence[int]:
        return range(1, EVEN + 1)

    def encode(self, times: pa.Array) -> np.ndarray:
        at = times.cast(pa.timestamp("us", getattr(times.type, "tz", None)), safe=False)
        points = at.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        part = (points - self.low) / max(self.high - self.low, 1.0)
        return np.where(np.asarray(at.is_null()), 0, 1 + np.clip(np.floor(EVEN * part), 0, EVEN - 1)).astype(np.int64)


class Clock(NamedTuple):
    """Codes the times of a table's rows by released facts alone.

    Attributes:
        codec: codes how late it is.
        order: what the table's rows are ordered by; None if no part of it is told.
        parts: what else is told of each time, as columns that hang on the order.
    """

    codec: _Released | _Even
    order: Column | None = None
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
        return np.stack([self.codec.encode(times), *(self._part(times, part) for part in self.parts)], 1).astype(
            np.int64
        )

    def _part(self, times: pa.Array, part: Column) -> np.ndarray:
        assert self.order is not None
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
    codec = _beginning(relations, name, codec_of)
    return Clock(codec) if source is None else Clock(codec, source[order], _parts(source, source[order]))


def _beginning(relations: Relations, name: str, codec_of: Callable[[str], TableCodec]) -> _Released | _Even:
    """Return what codes how late it is, as released facts of a table's parent, or of one above, tell when rows begin."""
    table, parent = relations[name], codec_of(str(relations[name].parent))
    begun = relations.beginning(name, parent.encoded)
    time, order = begun.time, relations[str(table.parent)].order
    if time is None or (begun.since is not None and begun.base == order):  # some time after the parent's own time
        return _beginning(relations, str(table.parent), codec_of)
    if time not in parent.encoded:
        return _Even(*_ends(parent, time))
    return _Released(parent.columns[parent.encoded.index(time)], parent.schema[time])


def _ends(codec: TableCodec, name: str) -> tuple[float, float]:
    """Return between which ends a date lies by its released cells, or by those of one before it and of the distance."""
    encoded = dict(zip(codec.encoded, zip(codec.columns, codec.modelled, strict=True), strict=True))
    if name in encoded:
        return _ends_of(*encoded[name])
    distance = next(other for other in encoded if other.startswith(offsets.before_base(name)))
    base = _ends(codec, distance.removeprefix(offsets.before_base(name)))
    (low, high), (least, most) = base, _ends_of(*encoded[distance])
    return low + least, high + most


def _ends_of(codec: Codec, column: Column) -> tuple[float, float]:
    """Return between which ends nearly all of a date's released cells lie, or those of a distance, in microseconds."""
    if not isinstance(codec, AxisCodec) or not len(codec.centres[: codec.null]):
        return 0.0, 0.0
    at = np.concatenate([codec.heavy, codec.low, codec.high])
    weights = np.concatenate([codec.marginal[: len(codec.heavy)], codec.mass / 2, codec.mass / 2])
    order = np.argsort(at, kind="stable")
    upto = np.cumsum(weights[order]) / weights.sum()
    low, high = (float(at[order][np.searchsorted(upto, share)]) for share in (RARE, 1 - RARE))
    unit = grid.DAY if column.kind.name in ("date", "integer") else 1
    return low * unit, high * unit


def _parts(source: TableSchema, order: Column) -> tuple[Column, ...]:
    """Return what is given of times, as columns that hang on the order: as a table's columns have it."""
    if order.kind.family != MOMENT:
        return ()
    had = {c.part: c for c in source if c.part is not None and offsets.root(c, source).name == order.name}
    found = {given: had[part] for given, parts in GIVEN for part in parts if part in had}
    return tuple(replace(c, part=given) for given, c in found.items() if FINER.get(given) not in found)
