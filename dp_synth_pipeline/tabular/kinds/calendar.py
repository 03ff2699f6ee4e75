"""What days and moments share: a grid of decades, ISO text, and an end of the calendar."""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.kinds.base import MOMENT, Bound, Column
from dp_synth_pipeline.tabular.kinds.numeric import Numeric

if TYPE_CHECKING:
    import pandas as pd


USUAL_DAYS = (-25_567.0, 47_482.0)
"""The years 1900 to 2099, in days since 1970."""


class Moment(Numeric):
    """A day or a moment; a CSV writes it in a format of its own."""

    family = MOMENT
    expects = "a date, as in 2024-01-31"
    ends_as_text = True
    written: type[date]
    """What a declared value is read as."""

    def bound(self, value: Any, what: str) -> Bound:
        """Return a declared bound, which may be written as ISO text."""
        try:
            parsed = self.written.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            parsed = None
        if isinstance(parsed, date):
            return self._day(parsed)
        raise self.wrong_bound(value, what)

    def _day(self, parsed: date) -> date:
        """Return a day that YAML read without quotes as a bound of this kind."""
        return parsed

    def limits(self, column: Column) -> tuple[str, ...]:
        return () if column.lower and column.upper else (exact.CALENDAR,)

    def _microseconds(self, values: pd.Series) -> np.ndarray:
        """Return microseconds since 1970, float64 (rows,), NaN where null."""
        import pandas as pd

        if values.dtype == object or isinstance(values.dtype, pd.ArrowDtype):
            values = pd.Series(values.to_numpy(dtype=object, na_value=None))
        moments = pd.to_datetime(values, errors="coerce", utc=True).dt.as_unit("us")
        micros = moments.astype("int64").to_numpy(dtype=np.float64)
        micros[moments.isna().to_numpy()] = np.nan
        return micros


@cache
def day_edges() -> np.ndarray:
    """Return the first days of decades of the years 1600 to 2400, and of centuries from there to the years 1 and 9999."""
    years = np.array([1, *range(100, 1600, 100), *range(1600, 2400, 10), *range(2400, 10_001, 100)]) - 1970
    return years.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)


def round_time(seconds: float) -> float:
    """Round a length of time up to whole days, or to whole minutes if it is shorter than one day."""
    return math.ceil(seconds / 86_400) * 86_400 if seconds >= 86_400 else math.ceil(seconds / 60) * 60
