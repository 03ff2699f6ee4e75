"""Adds up the running totals of rows while they are drawn, so that each goes on from the row before by what its terms hold.

A code of a term may stand for many values. So terms get their values as soon as a row is drawn, and the total its own. Its
code follows from that, and is what the next row is drawn upon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.running_totals import BACK, change_of
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec


class Total(NamedTuple):
    """A running total that is drawn by its terms.

    Attributes:
        column: the number of its column among those with codes.
        terms: the numbers of its terms' columns.
    """

    column: int
    terms: tuple[int, ...]


def totals_of(table: Related, codec: TableCodec) -> tuple[Total, ...]:
    """Return the running totals of a table that are learnt as such: they and their terms have codes, as numbers have."""
    numbers = {
        name: i
        for i, (name, coded) in enumerate(zip(codec.encoded, codec.columns, strict=True))
        if isinstance(coded, AxisCodec) and coded.cardinality > 1
    }
    found = ((name, terms) for name, terms in table.running if {name, *terms} <= set(numbers))
    return tuple(Total(numbers[name], tuple(numbers[term] for term in terms)) for name, terms in found)


def columns_of(totals: Sequence[Total]) -> list[int]:
    """Return the numbers of the columns that have values as soon as a row is drawn."""
    return list(dict.fromkeys(number for total in totals for number in (*total.terms, total.column)))


def with_values(rows: pa.Table, totals: Sequence[Total], codec: TableCodec, values: np.ndarray) -> pa.Table:
    """Return decoded rows with the values that running totals and their terms got when they were drawn.

    Args:
        values: of `columns_of(totals)`, float64 (rows, columns); NaN for null.
    """
    for number, points in zip(columns_of(totals), values.T, strict=True):
        name = codec.encoded[number]
        rows = rows.set_column(rows.column_names.index(name), name, _array(points, codec, number))
    return rows


def _array(points: np.ndarray, codec: TableCodec, number: int) -> pa.Array:
    return offsets.values_at(np.nan_to_num(points), np.isnan(points), codec.modelled[number])


def _ends(codec: TableCodec, number: int) -> tuple[float, float]:
    """Return the least and the largest value that a column's codes stand for, as they are written."""
    column, found = codec.columns[number], []
    assert isinstance(column, AxisCodec)
    codes, rng = np.arange(column.cardinality), np.random.default_rng()
    for quantile in (0.0, np.nextafter(1.0, 0.0)):
        values = column.decode(codes, rng, np.full(len(codes), quantile), spread=False)
        points, null = offsets.points_of(values, codec.modelled[number])
        found.append(points[~null])
    return float(found[0].min()), float(found[1].max())


class AddingUp:
    """The running totals of so many parents, as far as their rows are drawn.

    Args:
        totals: what is added up, from `totals_of`.
        codec: of the table's own columns.
        parents: how many there are.
    """

    def __init__(self, totals: Sequence[Total], codec: TableCodec, parents: int) -> None:
        self._totals, self._codec, self._columns = totals, codec, columns_of(totals)
        self._ends = [_ends(codec, total.column) for total in totals]
        self._last = np.full((parents, len(self._columns)), np.nan)
        self._reached = np.zeros((parents, len(totals)))

    def values(
        self, who: np.ndarray, codes: np.ndarray, stays: np.ndarray, directions: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the values of `columns_of(totals)` in rows, float64 (rows, columns); NaN for null.

        Args:
            who: numbers of their parents, each once.
            codes: of the rows, int64 (rows, own columns); those of totals that follow are not looked at.
            stays: which are as in the row before, bool (rows, own columns).
            directions: how totals follow, int (rows, totals), from `Context.directions`.
        """
        drawn = [self._drawn(codes[:, number], number, rng) for number in self._columns]
        found = np.where(stays[:, self._columns], self._last[who], np.stack(drawn, 1))
        for total, direction, before in zip(self._totals, directions.T, self._reached[who].T, strict=True):
            change = change_of([found[:, self._columns.index(term)] for term in total.terms])
            free, at = (
                replace(self._codec.modelled[total.column], lower=None, upper=None),
                self._columns.index(total.column),
            )
            reached = offsets.added(before, np.where(direction == BACK, -change, change), free)  # also beyond its ends
            found[:, at] = np.where(direction > 0, reached, found[:, at])
        return found

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """Say which rows lead a total beyond what was released of it, bool (rows,).

        Args:
            values: what `values` returned.
        """
        found = np.zeros(len(values), bool)
        for total, (low, high) in zip(self._totals, self._ends, strict=True):
            reached = values[:, self._columns.index(total.column)]
            found |= (reached < low) | (reached > high)
        return found

    def code(self, codes: np.ndarray, values: np.ndarray, directions: np.ndarray) -> None:
        """Set the codes of totals that follow, in place, by the values that they reach; one beyond an end is the end."""
        for total, ends, direction in zip(self._totals, self._ends, directions.T, strict=True):
            rows, at = np.flatnonzero(direction > 0), self._columns.index(total.column)
            values[rows, at] = np.clip(values[rows, at], *ends)
            codes[rows, total.column] = self._codec.columns[total.column].encode(
                _array(values[rows, at], self._codec, total.column)
            )

    def add(self, who: np.ndarray, values: np.ndarray) -> None:
        """Let the next row of each of these parents be known, by what `values` returned."""
        self._last[who] = values
        reached = values[:, [self._columns.index(total.column) for total in self._totals]]
        self._reached[who] = np.where(np.isnan(reached), self._reached[who], reached)

    def _drawn(self, codes: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
        values = self._codec.columns[number].decode(codes, rng)
        points, null = offsets.points_of(values, self._codec.modelled[number])
        return np.where(null, np.nan, points)
