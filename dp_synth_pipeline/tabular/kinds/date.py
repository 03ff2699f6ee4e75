"""`date`: days, on a number line of days since 1970-01-01."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.calendar import Moment, day_edges
from dp_synth_pipeline.tabular.profiling import grid

if TYPE_CHECKING:
    import pandas as pd

FIRST_DAY = date(1970, 1, 1)


class Date(Moment):
    """Days."""

    name = "date"
    whole = True
    sql = "DATE"
    rule_scale = grid.DAY
    written = date

    def recognises(self, arrow_type: pa.DataType) -> bool:
        """Whether values are stored as dates."""
        return pa.types.is_date(arrow_type)

    def reads(self, arrow_type: pa.DataType) -> bool:
        """Whether values are stored as dates or datetimes."""
        return pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type)

    def _points(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.date32()).cast(pa.int32())

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        """Return decades and centuries."""
        return day_edges() * 1.0

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        """Return one day."""
        return 1.0

    def key(self, column: Column, name: str) -> str:
        """Write the SQL of a day's number."""
        return f"date_diff('day', DATE '1970-01-01', CAST({name} AS DATE))"

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> date:
        """Return the nearest day."""
        return FIRST_DAY + timedelta(days=round(point))

    def exactly(self, points: list[int], arrow_type: pa.DataType) -> pa.Array:
        """Return days by their numbers."""
        return pa.array(points, pa.int64()).cast(pa.int32()).cast(pa.date32()).cast(arrow_type)

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return the nearest days."""
        days = exact.whole(x, pa.int32(), column).astype(np.int32)
        return pa.array(days, mask=null).cast(pa.date32()).cast(column.arrow_type)

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        """Return released ends, rounded outward to months or years."""
        return grid.calendar(_day(low), _day(high), to_midnight=False)

    def shown(self, point: float) -> str:
        """Write a day in ISO form."""
        return _day(point).isoformat()

    def point(self, value: Any) -> Any:
        """Return the number of a day."""
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        return value.toordinal() - FIRST_DAY.toordinal() if isinstance(value, date) else value

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        """Return one day."""
        return 1.0

    def json_end(self, x: float, column: Column) -> str:
        """Return a day of the calendar in ISO form."""
        return date.fromordinal(int(min(max(x + FIRST_DAY.toordinal(), 1), date.max.toordinal()))).isoformat()

    def series(self, values: pd.Series) -> np.ndarray:
        """Return days since 1970, NaN where null."""
        return np.floor(self._microseconds(values) / 86_400e6)

    def place(self, x: float) -> str:
        """Write a day for a person."""
        return str(np.datetime64(int(x * 86_400), "s").astype("datetime64[D]"))


def _day(point: float) -> date:
    return FIRST_DAY + timedelta(days=math.floor(point))
