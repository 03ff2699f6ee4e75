"""Drawn dates fall on the weekdays, days of a month and hours that the released counts tell, and none leaves its cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import calendar_effects
from dp_synth_pipeline.tabular.calendar_effects import CELLS, CalendarEffects, Placement
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.support import support
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import RANGE_FINDING, ROUNDED, weight
from dp_synth_pipeline.tabular.schema import TableSchema
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

ROWS, DAY, HOUR = 20_000, 86_400_000_000, 3_600_000_000
YEARS = (np.datetime64("2012-03-01") - np.datetime64("1970-01-01")).astype(int), 365 * 12
"""First day, and how many there are, of dates that are so far apart that most cells hold several weeks."""


def days(rows: int = ROWS) -> np.ndarray:
    return YEARS[0] + np.random.default_rng().integers(0, YEARS[1], rows)


def working_days() -> np.ndarray:
    """Return days of which none is a Sunday and few are Saturdays."""
    found = days(3 * ROWS)
    weekday = (found + 3) % 7
    return found[(weekday < 5) | ((weekday == 5) & (np.random.default_rng().random(len(found)) < 0.3))][:ROWS]


def billed() -> np.ndarray:
    """Return days of which a third are the first and a tenth the last of a month."""
    found, rng = days(), np.random.default_rng()
    month = found.astype("datetime64[D]").astype("datetime64[M]")
    first, last = month.astype("datetime64[D]").astype(int), (month + 1).astype("datetime64[D]").astype(int) - 1
    chosen = rng.random(ROWS)
    return np.where(chosen < 0.33, first, np.where(chosen < 0.43, last, found))


def office_hours() -> np.ndarray:
    """Return moments of working days, from 8 to 18 o'clock, of which a part is told to the hour."""
    rng = np.random.default_rng()
    hour = 8 + 10 * rng.beta(2, 2, ROWS)
    return working_days() * DAY + np.where(rng.random(ROWS) < 0.3, hour // 1 * HOUR, (hour * HOUR) // 60e6 * 60e6)


def days_alone() -> np.ndarray:
    """Return moments of which half are days without an hour, and the others lie from 8 to 18 o'clock."""
    moments = office_hours()
    return np.where(np.random.default_rng().random(ROWS) < 0.5, moments // DAY * DAY, moments)


def born() -> np.ndarray:
    """Return days of which a fifth is 1 January."""
    found = days()
    year = found.astype("datetime64[D]").astype("datetime64[Y]").astype("datetime64[D]").astype(int)
    return np.where(np.random.default_rng().random(ROWS) < 0.2, year, found)


def even_moments() -> np.ndarray:
    return days() * DAY + np.random.default_rng().integers(0, 1440, ROWS) * 60e6


def dates(of: np.ndarray) -> pa.Array:
    return pa.array(of.astype(np.int32)).cast(pa.date32())


def moments(of: np.ndarray) -> pa.Array:
    return pa.array(of.astype("datetime64[us]"), pa.timestamp("us"))


Found = tuple[pa.Table, TableCodec, pa.Table, TableProfile]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return rows, their codec, what it makes of their codes, and their profile."""
    columns = {
        "visited": dates(working_days()),
        "billed": dates(billed()),
        "born": dates(born()),
        "even": dates(days()),
        "seen": moments(office_hours()),
        "told": moments(days_alone()),
        "any": moments(even_moments()),
    }
    table = pa.table(columns)
    taken = take(table, tmp_path_factory.mktemp("rows"))
    with no_noise():
        known = profile(taken, quiet(ROWS, 10))
    codec = TableCodec(taken.schema, known)
    return table, codec, pa.Table.from_batches([codec.decode(codec.encode(table))]), known


def shares(values: pa.ChunkedArray, name: str) -> np.ndarray:
    whole = pa.types.is_date(values.type)
    x = values.cast(pa.int32() if whole else pa.int64()).to_numpy().astype(float)
    return calendar_effects.count(x, 1.0 if whole else DAY, [name])[0] / len(values)


@pytest.mark.parametrize(
    ("column", "name"),
    [("visited", "weekdays"), ("billed", "days"), ("born", "days"), ("seen", "weekdays"), ("seen", "hours"),
     ("told", "hours"), ("told", "weekdays"), ("even", "weekdays"), ("any", "hours")],
)  # fmt: skip
def test_drawn_dates_have_the_calendar_of_real_ones(found: Found, column: str, name: str) -> None:
    table, _, drawn, _ = found
    assert np.abs(shares(drawn[column], name) - shares(table[column], name)).sum() / 2 < 0.03


def test_no_drawn_visit_is_on_a_day_on_which_no_real_one_is(found: Found) -> None:
    _, _, drawn, _ = found
    assert shares(drawn["visited"], "weekdays")[6] == 0
    assert shares(drawn["seen"], "weekdays")[6] == 0
    assert shares(drawn["seen"], "hours")[[0, 3, 7, 19, 23]].sum() == 0


def test_dates_that_are_spread_evenly_have_no_effect(found: Found) -> None:
    *_, known = found
    assert known["even"].effects is None
    assert known["any"].effects is None


def test_no_date_leaves_its_code(found: Found) -> None:
    table, codec, drawn, _ = found
    assert (codec.encode(drawn) == codec.encode(table)).all()


def test_what_a_code_stands_for_has_all_days_of_its_cells(found: Found) -> None:
    _, codec, _, _ = found
    told = support(codec.columns[0]).values.cast(pa.int32()).to_numpy()
    assert set((told + 3) % 7) == set(range(7))


def test_a_profile_is_read_back_with_its_effects_and_one_of_an_earlier_version_has_none(found: Found) -> None:
    *_, known = found
    again = TableProfile.from_json(known.to_json())
    assert again == known
    assert again["visited"].effects
    even = TableProfile(1, 1, "row", (known["even"],))
    assert '"effects"' not in even.to_json()
    assert TableProfile.from_json(even.to_json()) == even


@pytest.mark.parametrize(
    ("day", "cell"),
    [("2024-01-01", 0), ("2024-02-01", 1), ("2024-02-28", 28), ("2024-02-29", 31), ("2023-02-28", 31),
     ("2024-12-30", 30), ("2024-12-31", 31), ("1969-12-31", 31)],
)  # fmt: skip
def test_days_of_a_month_have_cells(day: str, cell: int) -> None:
    x = np.array([np.datetime64(day).astype(int)], dtype=float)
    assert np.flatnonzero(calendar_effects.count(x, 1.0, ["days"])[0]).tolist() == [cell]


def test_weekdays_and_hours_have_cells() -> None:
    x = np.array(
        [np.datetime64(t, "us").astype(int) for t in ("2024-03-04T00:00", "1969-12-28T23:59:59.999999")], float
    )
    weekdays, hours = calendar_effects.count(x, DAY, ["weekdays", "hours"])
    assert np.flatnonzero(weekdays).tolist() == [0, 6]
    assert np.flatnonzero(hours).tolist() == [23, 24]


@given(st.lists(st.floats(-6e16, 2.5e17), max_size=20), st.floats(-6e16, 2.5e17))
def test_one_date_more_moves_one_cell_of_each_histogram(x: list[float], more: float) -> None:
    names = list(CELLS)
    fewer, all_of_them = (calendar_effects.count(np.rint(np.array(v, float)), DAY, names) for v in (x, [*x, more]))
    for a, b in zip(fewer, all_of_them, strict=True):
        assert (b - a).min() >= 0
        assert (b - a).sum() == 1


weights = st.floats(0, 50)


@given(
    st.lists(st.tuples(st.integers(-800_000, 2_000_000), st.integers(0, 4000)), min_size=1, max_size=6),
    st.lists(weights, min_size=7, max_size=7),
    st.lists(weights, min_size=24, max_size=24),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=6),
)
def test_points_stay_in_their_cells_and_in_order(
    cells: list[tuple[int, int]], weekdays: list[float], hours: list[float], within: list[float]
) -> None:
    low = np.array([a for a, _ in cells], float) * HOUR
    high = low + np.array([b for _, b in cells], float) * HOUR
    placement = Placement(CalendarEffects(tuple(weekdays), (), tuple(hours)), low, high, DAY)
    for start, end in zip(low, high, strict=True):
        u = np.sort(within)
        x = placement.placed(np.full(len(u), start), np.full(len(u), end), u)
        assert (x >= start).all()
        assert ((x < end) | (start == end)).all()
        assert (np.diff(x) >= 0).all()


def noisy(counts: np.ndarray, noise: float) -> dict[str, np.ndarray]:
    return {"weekdays": np.rint(counts + np.random.default_rng().normal(0, noise, len(counts)))}


BINS = np.array([0.0, 1000.0]), np.array([1000.0, 3000.0]), np.array([0.4, 0.6])


def fitted(counts: Callable[[], dict[str, np.ndarray]], noise: float) -> list[CalendarEffects | None]:
    return [calendar_effects.fitted(counts(), noise, BINS, 1.0) for _ in range(200)]


def test_noise_alone_is_hardly_ever_an_effect() -> None:
    even = np.full(7, 500.0)
    assert sum(e is not None for e in fitted(lambda: noisy(even, 200), 200)) <= 3
    assert sum(e is not None for e in fitted(lambda: noisy(even * 0, 200), 200)) <= 3


def test_effects_beyond_noise_are_found_and_moved_towards_none_by_what_noise_explains() -> None:
    closed = np.array([600, 600, 600, 600, 600, 500, 0.0])
    found = [e for e in fitted(lambda: noisy(closed, 60), 60) if e]
    assert len(found) == 200
    assert np.mean([e.weekdays[6] for e in found]) < 0.15
    assert np.std([e.weekdays[0] for e in found]) < 60 / 500


def test_a_cell_that_is_narrower_than_a_week_keeps_what_it_holds() -> None:
    """All Sundays are one cell, which holds a tenth: weights move nothing out of it, and share out the others."""
    low, high = np.array([3.0, 4.0]), np.array([4.0, 10.0])  # a Sunday, and Monday to Saturday
    counts = {"weekdays": np.array([0, 0, 300, 300, 300, 0, 100])}
    found = calendar_effects.fitted(counts, 1.0, (low, high, np.array([0.1, 0.9])), 1.0)
    assert found is not None
    placement, u = Placement(found, low, high, 1.0), (np.arange(9000) + 0.5) / 9000
    x = placement.placed(np.full(9000, 4.0), np.full(9000, 10.0), u)
    share = np.bincount((np.floor(x).astype(int) + 3) % 7, minlength=7) / 9000
    assert share == pytest.approx([0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0], abs=0.01)
    assert (np.floor(placement.placed(np.array([3.0]), np.array([4.0]), np.array([0.7]))) == 3).all()


def test_hours_of_few_dates_share_what_they_hold_and_a_class_of_none_has_none() -> None:
    low, high = np.arange(0.0, 400.0, 100.0) * DAY, np.arange(100.0, 500.0, 100.0) * DAY
    counts = np.array([50.0] * 7 + [600.0] * 11 + [50.0] * 6)
    found = []
    for _ in range(50):
        hours = np.rint(counts + np.random.default_rng().normal(0, 30, 24))
        week = np.rint(np.array([1200.0] * 6 + [0]) + np.random.default_rng().normal(0, 30, 7))
        found.append(
            calendar_effects.fitted({"weekdays": week, "hours": hours}, 30, (low, high, np.full(4, 0.25)), DAY)
        )
    night = np.array([e.hours[:7] + e.hours[18:] for e in found if e]) * sum(counts) / 24
    assert len(night) == 50
    assert night.mean() == pytest.approx(50, rel=0.2)
    assert (night > 5).mean() > 0.97, "noise alone would leave one hour in fifteen without any"
    assert sum(e.weekdays[6] == 0 for e in found if e) >= 48


def test_the_times_of_histories_are_counted_and_not_learnt(tmp_path: Path) -> None:
    seen = moments(days_alone())
    table = pa.table({"score": np.arange(ROWS) % 7, "seen": seen, "seen: the last": seen})
    taken = take(table, tmp_path)
    schema, order = TableSchema(taken.schema.columns[:1]), taken.schema["seen"]
    plan, timed = quiet(ROWS, 10), replace(schema, order=order)
    without, events = plan.histogram_events(schema), plan.histogram_events(timed)
    more = {now.noise: now.size - before.size for now, before in zip(events[:-1], without[:-1], strict=True)}
    base, finding, rounding = (more[factor * plan.scale] for factor in (1, RANGE_FINDING, ROUNDED))
    assert rounding == 3, "weekdays, days of the month and hours"
    assert (base, finding) == (2, 3), "where histories end: values and cells, and where these lie, three times finer"
    assert weight(timed, plan.unit) - weight(schema, plan.unit) == 2 + 3 / 4 + 3 / 16
    with no_noise():
        known = measure.measure(taken.path, timed, plan, ROWS, Odometer(events))
    assert [c.name for c in known.columns] == ["score"]
    assert known.calendar is not None
    assert known.calendar.weekdays[6] == 0
    assert sum(known.calendar.hours[:8] + known.calendar.hours[18:]) == 0, "midnight is a day without an hour"
    assert TableProfile.from_json(known.to_json()) == known
    assert '"calendar"' not in replace(known, calendar=None).to_json()


def test_a_midnight_is_an_hour_unless_days_are_drawn_without_one() -> None:
    counted = np.append(np.arange(24), 100)
    assert calendar_effects.hours(counted, midnights=False).tolist() == [100, *range(1, 24)]
    assert calendar_effects.hours(counted, midnights=True).tolist() == list(range(24))


def test_weak_effects_are_nearer_to_the_truth_than_noisy_counts_are() -> None:
    true, noise, nearer = 500 + 40 * np.arange(3, -4, -1.0), 40, []
    for _ in range(200):
        counts = noisy(true, noise)
        found = calendar_effects.fitted(counts, noise, BINS, 1.0)
        if found is not None:
            raw = counts["weekdays"] / counts["weekdays"].mean()
            errors = [float(((w - true / true.mean()) ** 2).sum()) for w in (np.array(found.weekdays), raw)]
            nearer.append(errors[0] / errors[1])
    assert len(nearer) > 10
    assert np.median(nearer) < 0.9
