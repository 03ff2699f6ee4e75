"""`integer`: whole numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.number import Number
from dp_synth_pipeline.tabular.kinds.numeric import whole_edges


class Integer(Number):
    """Whole numbers."""

    name = "integer"
    whole = True
    countable = True

    def recognises(self, arrow_type: pa.DataType) -> bool:
        """Whether values are stored as integers."""
        return pa.types.is_integer(arrow_type)

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        """Return powers of two on both sides of 0."""
        return whole_edges(arrow_type is not None and pa.types.is_uint64(arrow_type))

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        """Return 1."""
        return 1.0

    def decimals(self, released: int | None) -> int | None:
        """Return 0: there are no digits after the point."""
        return 0

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> int:
        """Return the nearest whole number."""
        return round(point)

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        """Return 1."""
        return 1.0

    def json_end(self, x: float, column: Column) -> int:
        """Return a whole number within the storage type."""
        return exact.inside(x, column.arrow_type)
