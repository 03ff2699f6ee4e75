"""What all kinds with a number line share: an axis of float64, cells on it, and codes from `AxisCodec`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.kinds.base import Column, Kind
from dp_synth_pipeline.tabular.profiling.precision import RESOLUTIONS, count_resolutions

if TYPE_CHECKING:
    import pandas as pd


@cache
def whole_edges(to_64_bits: bool) -> np.ndarray:
    """Return powers of two on both sides of 0, to 2^63, or to 2^64 for unsigned numbers."""
    positive = np.exp2(np.arange(0, 64))
    return np.concatenate([-positive[::-1] + 1, positive, [2.0**64] if to_64_bits else []])


class Numeric(Kind):
    """A kind whose values lie on a number line."""

    numeric = True
    ordered = True
    codec = AxisCodec

    def to_axis(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return `(x float64 (rows,), null bool (rows,))`; x is 0 where null."""
        points = self.line(values)
        return points.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64), np.asarray(values.is_null())

    def line(self, values: pa.Array) -> pa.Array:
        """Return values as numbers of the number line, whole ones exactly; null where they are."""
        if pa.types.is_decimal(values.type):
            return values.cast(pa.string()).cast(
                pa.float64()
            )  # straight, Arrow misses the nearest float by a last digit
        return values

    def key(self, column: Column, name: str) -> str:
        return name if exact.is_whole(column) or exact.is_long(column) else f"CAST({name} AS DOUBLE)"

    def released_point(self, column: Column, value: Any) -> Any:
        return int(self.point(value))

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return points of the number line as values of the column's storage type."""
        target: Any = column.arrow_type
        if pa.types.is_integer(target):
            return pa.array(exact.whole(x, target, column), mask=null).cast(target)
        if pa.types.is_decimal(target):
            if exact.is_long(column):
                return exact.long_decimals(x, null, target)
            whole = 10.0 ** (target.precision - target.scale)
            most = min(whole - 10.0**-target.scale, np.nextafter(whole, 0))
            return pa.array(np.clip(x, -most, most), mask=null).cast(target, safe=False)
        return pa.array(x, mask=null).cast(target)

    def series(self, values: pd.Series) -> np.ndarray:
        """Return numbers, float64 (rows,), NaN where null or not finite."""
        import pandas as pd

        parsed = pd.Series(pd.to_numeric(values, errors="coerce"))
        numbers = parsed.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def place(self, x: float) -> str:
        """Write a number for a person."""
        if not abs(x) < 1e15:
            return f"{x:.3g}"
        return f"{x:,.0f}" if x == int(x) or abs(x) >= 1000 else f"{x:.4g}"

    def shown(self, point: float) -> str:
        return f"{float(point):.10g}"


class Timed(Numeric):
    """A kind in microseconds, whose resolution is found in the rows."""

    ladder = RESOLUTIONS

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        return float(resolution or 1)

    def measures_precision(self, column: Column) -> bool:
        return True

    def precision_counts(self, x: np.ndarray, column: Column) -> np.ndarray:
        return count_resolutions(x)

    def precision(self, needed: int) -> tuple[int | None, int | None]:
        return None, RESOLUTIONS[needed]
