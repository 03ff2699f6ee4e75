"""What kinds whose values are made anew share: nothing reads their columns, and a value is a function of its row's number.

A kind says which text stands in row n. The base fits it into the storage type of the source's column.
"""

from __future__ import annotations

import re
from abc import abstractmethod

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.storage import is_real, is_text, synthetic_type

is_number = (pa.types.is_integer, is_real)


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
        return "int64" if pa.types.is_integer(arrow_type) else synthetic_type(arrow_type)

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        """Return the values of so many rows from `first` + 1; a numeric column takes their digits."""
        texts = self.texts(column, np.arange(first + 1, first + rows + 1))
        target = column.arrow_type
        if pa.types.is_string(target):
            return pa.array(texts, pa.string())
        digits = [re.sub(r"[^0-9]", "", text) or "0" for text in texts]
        return pa.array([d[-_digits(target) :] for d in digits], pa.string()).cast(target)


def _digits(arrow_type: pa.DataType) -> int:
    """Return how many digits every number of a storage type may have."""
    if pa.types.is_decimal(arrow_type):
        return max(1, arrow_type.precision - arrow_type.scale)
    if pa.types.is_floating(arrow_type):
        return {16: 3, 32: 7, 64: 15}[arrow_type.bit_width]
    return {8: 2, 16: 4, 32: 9, 64: 18}[arrow_type.bit_width]
