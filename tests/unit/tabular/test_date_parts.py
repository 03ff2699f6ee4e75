"""Parts of dates are what the calendar says, are known by their names, and dates can be moved to have them."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular import date_parts
from dp_synth_pipeline.tabular.date_parts import PARTS

FIRST = datetime(1900, 1, 1)
MOMENTS = st.integers(0, 200 * 365 * 24 * 60).map(lambda minutes: FIRST + timedelta(minutes=minutes))

OF = {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "week": lambda t: t.isocalendar().week,
    "day": lambda t: t.day,
    "yearday": lambda t: t.timetuple().tm_yday,
    "weekday": lambda t: t.weekday(),
    "isoweekday": lambda t: t.isoweekday(),
    "dow": lambda t: t.isoweekday() % 7,
    "dayofweek": lambda t: t.isoweekday() % 7 + 1,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
}


def test_every_part_is_compared_with_the_calendar_of_python() -> None:
    assert set(OF) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=30))
def test_a_part_is_what_the_calendar_says_and_lies_between_its_ends(part: str, moments: list[datetime]) -> None:
    values, null = date_parts.of_moments(pa.array([*moments, None], pa.timestamp("us")), part)
    assert values[:-1].tolist() == [OF[part](t) for t in moments]
    assert null.tolist() == [False] * len(moments) + [True]
    low, high = (np.datetime64(end(moments), "us") for end in (min, max))
    least, most = date_parts.ends(part, low, high) or (0, 0)
    assert least <= values[:-1].min()
    assert values[:-1].max() <= most


@pytest.mark.parametrize("part", PARTS)
@given(moment=MOMENTS, data=st.data())
def test_a_moment_moves_to_one_that_has_the_part_and_hardly_otherwise(
    part: str, moment: datetime, data: st.DataObject
) -> None:
    least, most = (1950, 2050) if part == "year" else (PARTS[part].least, PARTS[part].most)
    value = data.draw(st.integers(least or 0, {"week": 52, "yearday": 365}.get(part, most or 0)))
    before = np.array([moment], "datetime64[us]")
    after = date_parts.moved(before, part, np.array([value]))
    found = after.item()
    assert OF[part](found) == value or part == "week", "the first days of a year may be of the last week"
    if PARTS[part].of_day:
        assert found.time() == moment.time()
    else:
        assert found.date() == moment.date()
    if part in ("month", "quarter", "hour", "minute", "second", "day"):
        assert found.year == moment.year or part == "day"
    if part in ("weekday", "isoweekday", "dow", "dayofweek"):
        assert (found.year, found.month) == (moment.year, moment.month)
    assert (date_parts.moved(after, part, np.array([value])) == after).all()


def test_what_no_moment_has_moves_nothing() -> None:
    before = np.array(["2024-05-05T10:00"], "datetime64[us]")
    assert (date_parts.moved(before, "month", np.array([13])) == before).all()
    assert (date_parts.moved(before, "hour", np.array([-1])) == before).all()


def test_names_tell_parts_by_their_words() -> None:
    days = ["weekday", "isoweekday", "dow", "dayofweek"]
    told = {
        "ArrivalMonth": ["month"],
        "month_of_birth": ["month"],
        "birth_year": ["year"],
        "YEAR": ["year"],
        "day": ["day"],
        "dayOfMonth": ["day"],
        "day_of_week": days,
        "dow": days,
        "week_of_year": ["week"],
        "doy": ["yearday"],
        "pickup_hour": ["hour"],
        "monthly_income": [],
        "holiday": [],
        "months": [],
        "year_round_discount": [],
        "": [],
    }
    assert {name: date_parts.named(name) for name in told} == told
