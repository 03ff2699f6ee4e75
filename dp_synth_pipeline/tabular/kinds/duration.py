"""Lengths of time and times of day: `duration`, on a number line of microseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.durations import duration, microseconds
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import LENGTH, Bound, Column
from dp_synth_pipeline.tabular.kinds.calendar import round_time
from dp_synth_pipeline.tabular.kinds.numeric import Timed, whole_edges
from dp_synth_pipeline.tabular.profiling import grid

if TYPE_CHECKING:
    import pandas as pd

HOUR, MINUTE = 3_600_000_000, 60_000_000
"""Microseconds."""


class Duration(Timed):
    """Lengths of time; a time of day is one since midnight."""

    name = "duration"
    stored_as = (pa.types.is_duration, pa.types.is_interval, pa.types.is_time)
    family = LENGTH
    sql = "BIGINT"
    usual = (-3650.0 * grid.DAY, 3650.0 * grid.DAY)  # ten years

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "INTERVAL"

    def bound(self, value: Any, what: str) -> Bound:
        try:
            return duration(value)
        except ValueError:
            raise InvalidInput(f"{what}: expected a duration, as in '2 days 03:00:00', got {value!r}.") from None

    def line(self, values: pa.Array) -> pa.Array:
        if pa.types.is_duration(values.type):
            return values.cast(pa.duration("us"), safe=False).cast(pa.int64())
        if pa.types.is_time(values.type):
            return values.cast(pa.time64("us")).cast(pa.int64())
        return values  # snapshots hold microseconds already

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return whole_edges(False)

    def ends(self, arrow_type: pa.DataType) -> tuple[int | float, int | float]:
        return (0, grid.DAY - 1) if pa.types.is_time(arrow_type) else super().ends(arrow_type)

    def key(self, column: Column, name: str) -> str:
        return name

    def fill(self, constant: Any) -> int:
        return microseconds(duration(constant))

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> int:
        """Return the nearest length of the resolution, in microseconds; a whole point is one."""
        step = resolution or 1
        return point if isinstance(point, int) else round(point / step) * step

    def exactly(self, points: Sequence[int] | np.ndarray, arrow_type: pa.DataType) -> pa.Array:
        return pa.array(points, pa.int64()).cast(arrow_type if pa.types.is_time(arrow_type) else pa.duration("us"))

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return the nearest lengths; times of day stay within a day."""
        target = column.arrow_type
        if pa.types.is_time(target):
            return pa.array(np.clip(np.round(x), 0, grid.DAY - 1).astype(np.int64), mask=null).cast(target)
        return pa.array(exact.whole(x, pa.int64(), column), mask=null).cast(pa.duration("us"))

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        """Return released ends, rounded outward to hours, or to minutes within a day."""
        step = HOUR if high - low >= 24 * HOUR else MINUTE
        return {"lower": _written(math.floor(low / step) * step), "upper": _written(math.ceil(high / step) * step)}

    def shown(self, point: float) -> str:
        return _written(point)

    def point(self, value: Any) -> Any:
        return duration(value) // timedelta(microseconds=1) if isinstance(value, (str, timedelta)) else value

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        return 1.0

    def json_end(self, x: float, column: Column) -> int:
        return exact.inside(x, pa.int64())

    def check_label(self, end: Any) -> str:
        """Write an end as pandas does."""
        import pandas as pd

        return str(end) if end is None else str(pd.Timedelta(end, "us"))

    def series(self, values: pd.Series) -> np.ndarray:
        """Return seconds, NaN where null."""
        import pandas as pd

        if pd.api.types.is_integer_dtype(values):  # microseconds, as snapshots hold them
            return values.to_numpy(dtype=np.float64, na_value=np.nan) / 1e6
        lengths = pd.Series(pd.to_timedelta(pd.Series(values.to_numpy(dtype=object, na_value=None)), errors="coerce"))
        return lengths.dt.total_seconds().to_numpy(dtype=np.float64)

    def place(self, x: float) -> str:
        """Write seconds as days and a clock, such as -2 d 03:04:05."""
        days, micros = divmod(round(abs(x) * 1e6), grid.DAY)
        minutes, rest = divmod(micros, MINUTE)
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1_000_000:02}"
        if rest % 1_000_000:
            clock += f".{rest % 1_000_000:06}"
        return f"{'-' if x < 0 else ''}{f'{days:,} d ' if days else ''}{clock}"

    def bar_width(self, rough: float, width: float) -> float:
        return round_time(rough) if rough >= 60 else width


def _written(micros: float) -> str:
    import pandas as pd

    return str(pd.Timedelta(microseconds=round(micros)))
