"""`date`: days, on a number line of days since 1970-01-01."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.calendar import USUAL_DAYS, Moment, day_edges
from dp_synth_pipeline.tabular.profiling import grid

if TYPE_CHECKING:
    import pandas as pd

FIRST_DAY = date(1970, 1, 1)


class Date(Moment):
    """Days."""

    name = "date"
    stored_as = (pa.types.is_date,)
    read_from = (pa.types.is_timestamp,)
    whole = True
    sql = "DATE"
    rule_scale = grid.DAY
    written = date
    usual = USUAL_DAYS
    effects = ("weekdays", "days")

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "DATE"

    def line(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.date32()).cast(pa.int32())

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return day_edges() * 1.0

    def step(self, decimals: int | None, resolution: int | None = None) -> float:
        return 1.0

    def key(self, column: Column, name: str) -> str:
        return f"date_diff('day', DATE '1970-01-01', CAST({name} AS DATE))"

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> date:
        return FIRST_DAY + timedelta(days=round(point))

    def exactly(self, points: Sequence[int] | np.ndarray, arrow_type: pa.DataType) -> pa.Array:
        days = np.clip(np.asarray(points, dtype=np.int64), *_ends(arrow_type)).astype(np.int32)
        return pa.array(days).cast(pa.date32()).cast(arrow_type)

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return the nearest days."""
        days = np.clip(exact.whole(x, pa.int32(), column), *_ends(column.arrow_type)).astype(np.int32)
        return pa.array(days, mask=null).cast(pa.date32()).cast(column.arrow_type)

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        return grid.calendar(_day(low), _day(high), to_midnight=False)

    def shown(self, point: float) -> str:
        return _day(point).isoformat()

    def point(self, value: Any) -> Any:
        """Return the number of a day."""
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        return value.toordinal() - FIRST_DAY.toordinal() if isinstance(value, date) else value

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        return 1.0

    def json_end(self, x: float, column: Column) -> str:
        return date.fromordinal(int(min(max(x + FIRST_DAY.toordinal(), 1), date.max.toordinal()))).isoformat()

    def series(self, values: pd.Series) -> np.ndarray:
        return np.floor(self._microseconds(values) / 86_400e6)

    def place(self, x: float) -> str:
        return str(np.datetime64(int(x * 86_400), "s").astype("datetime64[D]"))


def _day(point: float) -> date:
    return FIRST_DAY + timedelta(days=math.floor(point))


def _ends(arrow_type: pa.DataType) -> tuple[int, int]:
    """Return the first and the last day that a storage type has; datetimes hold days as well."""
    first, last = exact.calendar(arrow_type)
    return (first, last) if pa.types.is_date(arrow_type) else (-(-first // int(grid.DAY)), last // int(grid.DAY))
