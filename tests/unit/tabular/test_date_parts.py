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
    "yearmonth": lambda t: 100 * t.year + t.month,
    "year_month": lambda t: 100 * t.year + t.month,
    "date_key": lambda t: 10_000 * t.year + 100 * t.month + t.day,
    "quarter_label": lambda t: (t.month + 2) // 3,
    "month_name": lambda t: t.month,
    "month_abbr": lambda t: t.month,
    "weekday_name": lambda t: t.isoweekday(),
    "weekday_abbr": lambda t: t.isoweekday(),
    "weekend": lambda t: t.isoweekday() > 5,
}
SPELLED = {
    "year_month": lambda t: f"{t:%Y-%m}",
    "quarter_label": lambda t: f"Q{(t.month + 2) // 3}",
    "month_name": lambda t: f"{t:%B}",
    "month_abbr": lambda t: f"{t:%b}",
    "weekday_name": lambda t: f"{t:%A}",
    "weekday_abbr": lambda t: f"{t:%a}",
    "weekend": lambda t: t.weekday() > 4,
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
    if least is None:
        value = data.draw(MOMENTS.map(OF[part]))
    before = np.array([moment], "datetime64[us]")
    after = date_parts.moved(before, part, np.array([value]))
    found = after.item()
    assert OF[part](found) == value or part == "week", "the first days of a year may be of the last week"
    if PARTS[part].of_day:
        assert found.time() == moment.time()
    else:
        assert found.date() == moment.date()
    if part.startswith(("month", "quarter", "hour", "minute", "second")):
        assert found.year == moment.year
    if part in ("dow", "dayofweek") or "weekday" in part:
        assert (found.year, found.month) == (moment.year, moment.month)
    assert (date_parts.moved(after, part, np.array([value])) == after).all()


@pytest.mark.parametrize("part", SPELLED)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=30))
def test_a_spelled_part_is_written_as_people_write_it_and_read_again(part: str, moments: list[datetime]) -> None:
    assert {name for name in PARTS if date_parts.spelled(name)} == set(SPELLED)
    values, _ = date_parts.of_moments(pa.array(moments, pa.timestamp("us")), part)
    written = date_parts.written(values, part)
    assert written.to_pylist() == [SPELLED[part](t) for t in moments]
    assert set(written.to_pylist()) <= set(date_parts.labels(part, (int(values.min()), int(values.max()))))
    read, null = date_parts.read(pa.concat_arrays([written, pa.nulls(1, written.type)]), part)
    assert read[:-1].tolist() == values.tolist()
    assert null.tolist() == [False] * len(moments) + [True]


def test_a_text_that_is_no_part_is_read_as_none_and_moves_nothing() -> None:
    before = np.array(["2024-05-05T10:00"] * 4, "datetime64[us]")
    for part in (p for p in SPELLED if p != "weekend"):
        read, null = date_parts.read(pa.array(["other", "2024-13", "0000-00", "MAY"]), part)
        assert (read == -1).all(), part
        assert not null.any()
        assert (date_parts.moved(before, part, read) == before).all()


def test_days_that_must_be_of_a_weekend_or_not_are_spread_over_it() -> None:
    days = np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]").astype("datetime64[us]")
    for value, most in ((1, 2), (0, 5)):
        moved = date_parts.moved(days, "weekend", np.full(len(days), value))
        weekdays, _ = date_parts.of_moments(pa.array(moved), "isoweekday")
        assert len(set(weekdays.tolist())) == most
        assert (np.abs(moved - days) <= np.timedelta64(6, "D")).all()


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("month", [13, 0]),
        ("hour", [-1, 24]),
        # 64 bits hold no hundred times the last one; what is left of that is 2024-05-01.
        ("yearmonth", [202413, 202400, -1, 2**62 + 202405]),
        ("date_key", [20230229, 20241301, 20240500, -1, 10**18, 2**62]),
    ],
)
def test_what_no_moment_has_moves_nothing(part: str, values: list[int]) -> None:
    before = np.array(["2024-01-05T10:00"] * len(values), "datetime64[us]")
    assert (date_parts.moved(before, part, np.array(values)) == before).all()


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
        "order_date_key": ["date_key"],
        "YYYYMM": ["yearmonth"],
        "monthly_income": [],
        "holiday": [],
        "months": [],
        "year_round_discount": [],
        "": [],
    }
    assert {name: date_parts.named(name) for name in told} == told


def test_names_tell_parts_that_are_texts_or_booleans() -> None:
    days = ["weekday_name", "weekday_abbr"]
    told = {
        "month": ["year_month", "month_name", "month_abbr"],
        "MonthName": ["month_name", "month_abbr"],
        "year_month": ["year_month"],
        "weekday": days,
        "day_of_week": days,
        "Day": days,
        "sales_quarter": ["quarter_label"],
        "is_weekend": ["weekend"],
        "year": [],
        "birthday_text": [],
    }
    assert {name: date_parts.named(name, as_text=True) for name in told} == told
