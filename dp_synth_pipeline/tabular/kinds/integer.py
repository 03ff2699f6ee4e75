"""`integer`: whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.number import Number
from dp_synth_pipeline.tabular.kinds.numeric import whole_edges
from dp_synth_pipeline.tabular.storage import is_real


class Integer(Number):
    """Whole numbers."""

    name = "integer"
    stored_as = (pa.types.is_integer,)
    read_from = (is_real,)
    whole = True
    countable = True

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "BIGINT"

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return whole_edges(arrow_type is not None and pa.types.is_uint64(arrow_type))

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        return 1.0

    def decimals(self, released: int | None) -> int | None:
        return 0

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> int:
        return round(point)

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        return 1.0

    def json_end(self, x: float, column: Column) -> int:
        return exact.inside(x, column.arrow_type)
