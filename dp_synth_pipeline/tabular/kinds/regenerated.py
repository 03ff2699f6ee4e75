"""What kinds whose values are made anew share: nothing reads their columns, and a value is a function of its row's number.

A kind says which text stands in row n. The base fits it into the storage type of the source's column.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.storage import is_real, is_text, synthetic_type

is_number = (pa.types.is_integer, is_real)

ENOUGH, WIDE = 9, 18
"""Whole digits that are enough for the number of a row or of a telephone, and those that a type with fewer is widened to."""

MOST_DIGITS = 38
"""Of a decimal, as snapshots hold it."""


class Regenerated(Kind):
    """Values that are made anew from the number of their row: never read, never learned, never charged."""

    read_from = (is_text,)
    learned = False
    numbered = True
    regenerated = True

    @abstractmethod
    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        """Return the value of each row as text.

        Args:
            rows: numbers of rows, counted from 1.
        """

    def storage(self, arrow_type: pa.DataType) -> str:
        """Name a type that is wide enough: a narrow integer holds neither a telephone number nor the number of a row."""
        return "int64" if pa.types.is_integer(arrow_type) else synthetic_type(widened(arrow_type))

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        """Return the values of so many rows from `first` + 1; a numeric column takes their digits."""
        texts = self.texts(column, np.arange(first + 1, first + rows + 1))
        target = column.arrow_type
        if pa.types.is_string(target):
            return pa.array(texts, pa.string())
        digits = [re.sub(r"[^0-9]", "", text) or "0" for text in texts]
        return numbers([d[-_digits(target) :] for d in digits], target)


def widened(arrow_type: pa.DataType) -> pa.DataType:
    """Return a decimal type with whole digits enough, as far as `MOST_DIGITS` let it; other types as they are."""
    if not pa.types.is_decimal(arrow_type) or _whole_digits(arrow_type) >= ENOUGH:
        return arrow_type
    return pa.decimal128(min(MOST_DIGITS, arrow_type.scale + WIDE), arrow_type.scale)


def numbers(digits: Sequence[str], arrow_type: pa.DataType) -> pa.Array:
    """Return digits as numbers; a decimal type that even `widened` has no whole digits takes them as its last places."""
    if pa.types.is_decimal(arrow_type) and _whole_digits(arrow_type) < 1:
        scale = arrow_type.scale
        padded = [d.rjust(scale + 1, "0") for d in digits]
        digits = [f"{d[: len(d) - scale]}.{d[len(d) - scale :]}" for d in padded]
    return pa.array(digits, pa.string()).cast(arrow_type)


def _whole_digits(arrow_type: pa.DataType) -> int:
    return arrow_type.precision - arrow_type.scale


def _digits(arrow_type: pa.DataType) -> int:
    """Return how many digits every number of a storage type may have."""
    if pa.types.is_decimal(arrow_type):
        return max(0, _whole_digits(arrow_type)) or arrow_type.precision
    if pa.types.is_floating(arrow_type):
        return {16: 3, 32: 7, 64: 15}[arrow_type.bit_width]
    return {8: 2, 16: 4, 32: 9, 64: 18}[arrow_type.bit_width]
