"""`identifier`: a column that is numbered anew, never read and never learned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.storage import is_real, is_text, synthetic_type


class Identifier(Kind):
    """A running number, made anew for the synthetic rows."""

    name = "identifier"
    read_from = (is_text, pa.types.is_integer, is_real)
    learned = False
    numbered = True

    def storage(self, arrow_type: pa.DataType) -> str:
        """Name a type that is wide enough: there may be more synthetic rows than a narrow integer can count."""
        narrow = pa.types.is_integer(arrow_type) and arrow_type.bit_width < 32
        return "int64" if narrow else synthetic_type(arrow_type)

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        """Return running numbers from `first` + 1; in a text column they follow the column's name."""
        numbers = np.arange(first + 1, first + rows + 1)
        if pa.types.is_string(column.arrow_type):
            return pa.array([f"{column.name}-{n:09d}" for n in numbers])
        if not pa.types.is_integer(column.arrow_type):
            return pa.array(numbers).cast(pa.string()).cast(column.arrow_type)
        return pa.array(numbers).cast(column.arrow_type)
