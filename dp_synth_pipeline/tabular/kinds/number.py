"""What integers and decimals share: bounds that are numbers, and digits in a CSV that are no codes."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import NUMBER, Bound, Column, Kind
from dp_synth_pipeline.tabular.kinds.numeric import Numeric
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.precision import STEPS, count_steps


class Number(Numeric):
    """A number: bounds are numbers, and a CSV's digits are no codes."""

    family = NUMBER
    expects = "a finite number"
    ladder = STEPS

    def bound(self, value: Any, what: str) -> Bound:
        """Return a declared bound, which is a finite number."""
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return value
        raise self.wrong_bound(value, what)

    def precision_counts(self, x: np.ndarray, column: Column) -> np.ndarray:
        return count_steps(x, single=pa.types.is_float32(column.arrow_type))

    def same_cells(self, other: Kind) -> bool:
        return isinstance(other, Number)

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        """Return released ends, rounded outward to two digits of their distance."""
        lower, upper = grid.outward(low, high)
        whole = self.whole or (lower.is_integer() and upper.is_integer())
        return {"lower": int(lower), "upper": int(upper)} if whole else {"lower": lower, "upper": upper}

    def released_point(self, column: Column, value: Any) -> Any:
        """Return a value of a snapshot as a profile holds it: whole ones and long decimals exactly."""
        if exact.is_long(column):
            return str(value)
        if exact.is_whole(column):
            return int(value) if isinstance(value, (int, float)) else int(Decimal(str(value)))
        return float(value)

    def limits(self, column: Column) -> tuple[str, ...]:
        """Say which numbers doubles alter."""
        wide = exact.is_whole(column) and column.arrow_type.bit_width == 64 and not exact.is_small(column)
        return (*([exact.WIDE] if wide else []), *([exact.LONG] if exact.is_long(column) else []))

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        """Return the last digit that is written."""
        storage: Any = column.arrow_type
        if decimals is not None:
            return 10.0**-decimals
        if pa.types.is_decimal(storage):
            return 10.0**-storage.scale
        return min(0.5, 1e-6 * largest) if storage.bit_width < 64 else 0.0
