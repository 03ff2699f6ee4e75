"""Rows of a history lead to the weekdays and hours on which rows were counted, each within the cell that was drawn."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.synthesis.database.dated_gaps import DatedGaps
from dp_synth_pipeline.synthesis.database.row_by_row import Above, Following
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, build

DAY, HOUR = 86_400_000_000, 3_600_000_000
CLOSED = CalendarEffects(weekdays=(1.2, 1.2, 1.2, 1.2, 1.2, 1.0, 0.0))
OFFICE = CalendarEffects(weekdays=CLOSED.weekdays, hours=tuple(2.4 if 8 <= h < 18 else 0.0 for h in range(24)))
GAP = "day: to the next"


def gaps_of(unit: int, kind: pa.DataType) -> TableCodec:
    """Return the codec of distances: one and seven days, and from 10 to 40 days."""
    schema = build({GAP: kind}, {})
    bins = tuple((10.0 * unit + i * 10 * unit, 20.0 * unit + i * 10 * unit) for i in range(3))
    column = ColumnProfile(GAP, schema.columns[0].kind, (unit, 7 * unit), (0.25, 0.25), bins, (0.2, 0.2, 0.1))
    return TableCodec(schema, TableProfile(100, 100, "row", (column,), ()))


@pytest.fixture(params=["date", "datetime"])
def order(request: pytest.FixtureRequest) -> Column:
    return build({"day": pa.date32() if request.param == "date" else pa.timestamp("us")}, {})["day"]


def weekday(days: np.ndarray) -> np.ndarray:
    return (days + 3) % 7


def known(order: Column) -> tuple[int, TableCodec, CalendarEffects]:
    days = order.kind.name == "date"
    return (1, gaps_of(1, pa.int64()), CLOSED) if days else (DAY, gaps_of(DAY, pa.duration("us")), OFFICE)


def opened(times: np.ndarray, unit: int) -> np.ndarray:
    """Say which times lie on open days, and in open hours if they are moments."""
    hours = np.full(len(times), 9) if unit == 1 else times % DAY // HOUR
    return (weekday(times // unit) < 6) & (hours >= 8) & (hours < 18)


def test_a_distance_within_a_cell_is_placed_where_rows_lie_and_stays_in_it(order: Column) -> None:
    unit, codec, effects = known(order)
    dated, rng = DatedGaps.of(effects, order, codec.columns[0]), np.random.default_rng()
    assert dated is not None
    now = (rng.integers(17_000, 20_000, 5000) * unit + 9 * HOUR * (unit > 1)).astype(np.int64)
    codes = np.full(5000, 3)
    gaps = 20 * unit + rng.integers(0, 10 * unit, 5000)
    found = dated.placed(gaps, codes, now, rng)
    assert ((found >= 20 * unit) & (found < 30 * unit)).all()
    assert opened(now + found, unit).all()
    assert not opened(now + gaps, unit).all()
    assert np.bincount(found // unit - 20, minlength=10).min() > 300, "all days of the cell are used"


def test_distances_of_whole_days_stay_whole_days() -> None:
    column = build({"day": pa.timestamp("us")}, {})["day"]
    _, codec, effects = known(column)
    dated, rng = DatedGaps.of(effects, column, codec.columns[0]), np.random.default_rng()
    assert dated is not None
    now = rng.integers(17_000 * 24 * 12, 20_000 * 24 * 12, 5000) * 300_000_000
    gaps = 20 * DAY + rng.integers(0, 10, 5000) * DAY
    found = dated.placed(gaps, np.full(5000, 3), now, rng)
    assert (found % DAY == 0).all()
    assert ((found >= 20 * DAY) & (found < 30 * DAY)).all()
    assert (weekday((now + found) // DAY) == 6).mean() < 0.01


def test_what_leads_to_a_closed_day_is_hardly_kept_and_a_wide_cell_is_kept_as_any_other(order: Column) -> None:
    unit, codec, effects = known(order)
    dated = DatedGaps.of(effects, order, codec.columns[0])
    assert dated is not None
    saturday = (np.datetime64("2024-03-02").astype(int) * unit + 9 * HOUR * (unit > 1)) * np.ones(3, np.int64)
    kept = dated.likely(np.array([1, 7, 24]) * unit, np.array([0, 1, 3]), saturday)
    assert kept[0] < 1e-5
    assert kept[1] > 0.7
    assert kept[2] > 0.8


def test_a_distance_to_a_closed_day_leads_to_one_of_the_seven_days_after_it_and_others_stay(order: Column) -> None:
    unit, codec, effects = known(order)
    dated, rng = DatedGaps.of(effects, order, codec.columns[0]), np.random.default_rng()
    assert dated is not None
    now = (rng.integers(17_000, 20_000, 5000) * unit + 9 * HOUR * (unit > 1)).astype(np.int64)
    gaps, codes = np.full(5000, 7 * unit), np.full(5000, 1)
    shut = weekday((now + gaps) // unit) == 6
    assert 500 < shut.sum() < 900
    found = dated.opened(gaps, codes, now, rng)
    assert (found[~shut] == 7 * unit).all()
    later = (found[shut] - 7 * unit) / unit
    assert set(later) == {1, 2, 3, 4, 5, 6}, "whole days, and not the next Sunday"
    assert 0.1 < (later == 6).mean() < 0.2, "as likely as rows lie there: Saturdays less than others"
    assert opened(now + found, unit).all()


def test_distances_stay_as_they_are_where_there_is_no_calendar() -> None:
    days, number = build({"day": pa.date32()}, {})["day"], build({"day": pa.int64()}, {})["day"]
    codec = gaps_of(1, pa.int64()).columns[0]
    assert DatedGaps.of(None, days, codec) is None
    assert DatedGaps.of(CLOSED, None, codec) is None
    dated = DatedGaps.of(CLOSED, days, codec)
    assert dated is not None
    far, rng = np.full(9, 900_000), np.random.default_rng()
    gaps = np.arange(20, 29)
    assert (dated.placed(gaps, np.full(9, 3), far, rng) == gaps).all()
    assert (dated.likely(gaps, np.full(9, 3), far) == 1).all()
    assert number.kind.effects == ()


def test_drawn_histories_stay_on_open_days() -> None:
    """A model that leads a day further as often as seven days or weeks never leads from a Saturday to a Sunday."""
    day = build({"day": pa.date32()}, {})["day"]
    codec, rng = gaps_of(1, pa.int64()), np.random.default_rng()
    context = Context((), ((0, 1, 2, 3, 4),), (False,), tuple(range(10)))
    model = SimpleNamespace(follow=lambda given, forbidden, allowed, rng: rng.integers(0, 5, (len(given), 1)))
    clock = SimpleNamespace(coded=lambda times: np.zeros(len(times), int))
    related = Related("visits", order="day", max_rows=9)
    starts = np.datetime64("2024-03-02").astype(int) + np.zeros(2000, np.int64)  # a Saturday
    above = Above(np.zeros((2000, 0), int), np.full(2000, 5), starts, np.arange(2000))
    closed = []
    for dated in (DatedGaps.of(CLOSED, day, codec.columns[0]), None):
        following = Following(related, model, codec, context, clock, day, dated)  # type: ignore[arg-type]
        parts = following.parts(above, rng)
        times = np.stack([p.times for p in parts if p.times is not None], 1)
        closed.append((weekday(times[:, 1:]) == 6).mean())
        drawn = np.bincount(np.concatenate([p.codes[:, 0] for p in parts[:-1]]), minlength=5) / 8000
        assert drawn.min() > 0.1, "every distance is drawn"
    assert closed[0] == 0
    assert closed[1] > 0.1
