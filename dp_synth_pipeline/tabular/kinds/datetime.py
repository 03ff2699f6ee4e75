"""`datetime`: moments, on a number line of microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.calendar import USUAL_DAYS, Moment, day_edges, round_time
from dp_synth_pipeline.tabular.kinds.numeric import Timed
from dp_synth_pipeline.tabular.profiling import grid

if TYPE_CHECKING:
    import pandas as pd

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Datetime(Moment, Timed):
    """Moments, to the microsecond."""

    name = "datetime"
    stored_as = (pa.types.is_timestamp,)
    sql = "TIMESTAMP"
    rounds = 2  # values may all lie in one day of ten years
    written = datetime
    effects = ("weekdays", "days", "hours")
    usual = (USUAL_DAYS[0] * grid.DAY, USUAL_DAYS[1] * grid.DAY)

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "TIMESTAMP"

    def _day(self, parsed: date) -> date:
        return parsed if isinstance(parsed, datetime) else datetime.combine(parsed, time())

    def line(self, values: pa.Array) -> pa.Array:
        """Return microseconds since 1970, the one before where there are finer digits: a cast would go towards 1970."""
        if values.type.unit != "ns":
            return values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
        null = np.asarray(values.is_null())
        return pa.array(np.asarray(values.cast(pa.int64()).fill_null(0)) // 1000, mask=null)

    def public_edges(self, arrow_type: pa.DataType | None = None) -> np.ndarray:
        return day_edges() * grid.DAY

    def key(self, column: Column, name: str) -> str:
        return f"epoch_us({name})"

    def from_point(self, point: int | float, decimals: int | None, resolution: int | None) -> datetime:
        """Return the nearest moment of the resolution; a whole point is one."""
        step = resolution or 1
        return EPOCH + timedelta(microseconds=point if isinstance(point, int) else round(point / step) * step)

    def exactly(self, points: Sequence[int] | np.ndarray, arrow_type: pa.DataType) -> pa.Array:
        """Return moments by their microseconds."""
        moments = pa.array(np.clip(np.asarray(points, dtype=np.int64), *exact.calendar(arrow_type)), pa.timestamp("us"))
        return moments.cast(pa.timestamp("us", getattr(arrow_type, "tz", None))).cast(arrow_type, safe=False)

    def to_arrow(self, x: np.ndarray, null: np.ndarray, column: Column) -> pa.Array:
        """Return the nearest moments that the storage type holds."""
        target = column.arrow_type
        micros = np.clip(exact.whole(x, pa.int64(), column), *exact.calendar(target))
        moments = pa.array(micros, mask=null).cast(pa.timestamp("us"))
        return moments.cast(pa.timestamp("us", getattr(target, "tz", None))).cast(target, safe=False)

    def sql_type(self, storage: str) -> str:
        return "TIMESTAMPTZ" if "tz=" in storage else self.sql

    def limits(self, column: Column) -> tuple[str, ...]:
        """Say where microseconds are rounded, and that nanoseconds are cut."""
        calendar = super().limits(column)
        return (
            *calendar,
            *([exact.MICROSECONDS] if calendar else []),
            *([exact.NANOSECONDS] * ("ns" in column.storage)),
        )

    def suggested_bounds(self, low: float, high: float) -> dict[str, Any]:
        return grid.calendar(_moment(low).date(), _moment(high).date(), to_midnight=True)

    def shown(self, point: float) -> str:
        return _moment(point).isoformat(sep=" ")[:19]

    def point(self, value: Any) -> Any:
        """Return microseconds since 1970; what has no zone is UTC, and a day is its midnight."""
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        return grid.axis_value(self._day(value)) if isinstance(value, date) else value

    def storage_step(self, column: Column, decimals: int | None, largest: float) -> float:
        return {"s": 1e6, "ms": 1e3}.get(getattr(column.arrow_type, "unit", "us"), 1.0)

    def json_end(self, x: float, column: Column) -> str:
        """Return a moment of the calendar in ISO form."""
        zoned = getattr(column.arrow_type, "tz", None) is not None
        first, last = exact.calendar(pa.timestamp("us"))
        moment = EPOCH + timedelta(microseconds=min(max(x, first), last))
        return (moment if zoned else moment.replace(tzinfo=None)).isoformat()

    def series(self, values: pd.Series) -> np.ndarray:
        return self._microseconds(values) / 1e6

    def place(self, x: float) -> str:
        """Write a moment for a person: a day at midnight, else to the minute."""
        moment = np.datetime64(int(x), "s")
        return str(moment.astype("datetime64[D]" if x % 86_400 == 0 else "datetime64[m]")).replace("T", " ")

    def bar_width(self, rough: float, width: float) -> float:
        return round_time(rough)


def _moment(point: float) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=round(point))
