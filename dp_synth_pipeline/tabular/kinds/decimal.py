"""`decimal`: numbers with digits after the point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.number import Number
from dp_synth_pipeline.tabular.profiling.precision import digits
from dp_synth_pipeline.tabular.storage import is_real

FAR = (128, 256, 512, 1023)
"""Binary exponents beyond 100, where decimals are rare: few cells, so that noise finds nobody there."""


class Decimal(Number):
    """Numbers with digits after the point."""

    name = "decimal"
    stored_as = (is_real,)
    read_from = (pa.types.is_integer,)
    fractional = True

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "DOUBLE"

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return real_edges()

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        return 0.0 if decimals is None else 10.0**-decimals

    def measures_precision(self, column: Column) -> bool:
        return column.decimals is None and not pa.types.is_decimal(column.arrow_type)

    def declared_decimals(self, column: Column) -> int | None:
        return column.decimals if column.decimals is not None else column.arrow_type.scale  # type: ignore[attr-defined]

    def precision(self, needed: int) -> tuple[int | None, int | None]:
        return digits(needed), None

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> float:
        return round(point, decimals if decimals is not None else 9)


@cache
def real_edges() -> np.ndarray:
    """Return powers of two from 2^-30 to 2^100, then four great steps to the end of double precision; one cell around 0."""
    positive = np.exp2([*range(-30, 101), *FAR])
    return np.concatenate([-positive[::-1], positive])
