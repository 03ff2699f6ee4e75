"""A row's time by its codes: how late it is, and the parts of it that its table has, each by that time alone."""

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.relations.clock import EVEN, Clock, clock
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile

RELATIONS = Relations(
    [Related("patients", key="patient"), Related("visits", None, "patients", "patient", "seen", max_rows=3)]
)
FIRST = "visits: first seen"
MOMENT = pa.timestamp("us", "Europe/Paris")
TIMES = pa.array(["2024-05-31T22:30:00Z", "2024-12-31T12:00:00Z", None]).cast(pa.timestamp("us", "UTC")).cast(MOMENT)


def told_of(types, facts, moment=MOMENT):
    """Return what codes the times of visits with such columns, beside a first time that has one code and one for none."""
    above = schema_lib.build({FIRST: moment}, {})
    column = ColumnProfile(FIRST, above.columns[0].kind, (), (), ((0, 2e15),), (0.8,), null_rate=0.2)
    codec = TableCodec(above, TableProfile(100, 100, "row", (column,), ()))
    source = schema_lib.build({"seen": moment, **types}, facts)
    found = clock(RELATIONS, "visits", {"patients": codec}.__getitem__, source)
    assert found is not None
    return found


def test_parts_are_those_of_the_row_s_own_zone_and_no_time_has_a_code_of_its_own():
    """The 31st of May at 22:30 in Greenwich is the first of June in Paris, a Saturday, half past midnight."""
    types = {"month": pa.string(), "weekday": pa.int64(), "hour": pa.int64()}
    parts = {"month": "month_name", "weekday": "dow", "hour": "hour"}
    of_visits = told_of(types, {n: {"same_as": "seen", "part": part} for n, part in parts.items()})
    assert of_visits.cardinalities[1:] == (13, 8, 25)
    codes = of_visits.coded(TIMES)
    assert codes[:, 1:].tolist() == [[6, 6, 1], [12, 2, 14], [0, 0, 0]]
    assert codes.tolist() == [of_visits.coded(TIMES[i : i + 1])[0].tolist() for i in range(3)]
    assert [list(order) for order in of_visits.orders[1:]] == [[*range(1, n)] for n in (13, 8, 25)]


@pytest.mark.parametrize(
    ("parts", "given"),
    [
        (["quarter_label"], ["quarter"]),
        (["quarter", "week", "year"], ["month"]),
        (["weekend"], ["weekend"]),
        (["weekend", "weekday_abbr"], ["isoweekday"]),
        (["year", "day", "date_key"], []),
    ],
)
def test_of_parts_that_tell_the_same_the_finest_is_given(parts, given):
    text = ("quarter_label", "weekday_abbr")
    types = {p: pa.bool_() if p == "weekend" else pa.string() if p in text else pa.int64() for p in parts}
    of_visits = told_of(types, {p: {"same_as": "seen", "part": p} for p in parts})
    assert [part.part for part in of_visits.parts] == given


def test_parts_of_another_date_are_not_given():
    types = {"born": pa.date32(), "month": pa.int64()}
    assert told_of(types, {"month": {"same_as": "born", "part": "month"}}).parts == ()


def test_parts_of_a_day_that_is_that_of_the_order_are_given():
    types = {"day": pa.date32(), "month": pa.int64()}
    facts = {"day": {"same_as": "seen"}, "month": {"same_as": "day", "part": "month"}}
    assert told_of(types, facts).coded(TIMES)[:, 1].tolist() == [6, 12, 0]


def test_a_generator_of_an_earlier_version_knows_of_times_how_late_they_are_alone():
    facts = Context.of([], [np.full(2, 0.5)], rows=3, times=[4, 13]).to_dict()
    assert Context.from_dict(facts).times == (4, 13)
    earlier = Context.from_dict({**facts, "times": 4})
    assert (earlier.times, Context.from_dict({**facts, "times": 0}).times) == ((4,), ())
    assert earlier.to_dict()["times"] == 4, "a refresh that remembers compares it"
    zeros, before = np.zeros(1, np.int64), np.full((1, 1), -1)
    given = earlier.given(np.zeros((1, 0), int), zeros, zeros, before, np.array([[3, 12]]))
    assert given.tolist() == [[0, 0, 3, 0]]


def even(joined: pa.DataType = pa.date32(), first: int = 10, last: int = 20) -> Clock:
    """Return what codes the times of visits 0 to 14 days after patients joined, which was on days from `first` to `last`."""
    since = f"{FIRST}: after joined"
    above = schema_lib.build({"joined": joined, since: pa.int64()}, {since: {"kind": "integer"}})
    unit = 1 if joined == pa.date32() else 86_400_000_000
    ends = {"joined": (first * unit, last * unit), since: (0, 14)}
    columns = [ColumnProfile(c.name, c.kind, (), (), (ends[c.name],), (1.0,)) for c in above]
    codec = TableCodec(above, TableProfile(100, 100, "row", tuple(columns), ()))
    found = clock(RELATIONS, "visits", {"patients": codec}.__getitem__)
    assert found is not None
    return found


def test_times_that_are_told_after_a_date_lie_in_even_parts_from_its_first_to_the_last_that_follows() -> None:
    days = even()
    assert days.cardinalities == (EVEN + 1,)
    assert [list(order) for order in days.orders] == [[*range(1, EVEN + 1)]]
    codes = days.coded(pa.array([None, -5, 10, 11, 33, 34, 900], pa.int32()).cast(pa.date32()))[:, 0]
    assert codes.tolist() == [0, 1, 1, 2, 24, 24, 24]
    moments = pa.array([10, 11, 33], pa.int32()).cast(pa.date32()).cast(pa.timestamp("us"))
    assert days.coded(moments)[:, 0].tolist() == [1, 2, 24]
    assert even(pa.timestamp("us")).coded(moments)[:, 0].tolist() == [1, 2, 24]


def test_dates_far_away_that_stand_for_unknown_ones_do_not_stretch_the_parts() -> None:
    since = f"{FIRST}: after joined"
    above = schema_lib.build({"joined": pa.date32(), since: pa.int64()}, {})
    joined, days = ColumnProfile("joined", above["joined"].kind, (2_932_896,), (0.03,), ((0, 100),), (0.97,)), (0, 20)
    columns = (joined, ColumnProfile(since, above[since].kind, (), (), (days,), (1.0,)))
    found = clock(
        RELATIONS, "visits", {"patients": TableCodec(above, TableProfile(100, 100, "row", columns, ()))}.__getitem__
    )
    assert found is not None
    codes = found.coded(pa.array([0, 59, 61, 119, 2_932_896], pa.int32()).cast(pa.date32()))[:, 0]
    assert codes.tolist() == [1, 12, 13, 24, 24]


def test_a_date_that_is_told_after_another_one_has_the_ends_of_both() -> None:
    since, joined = f"{FIRST}: after joined", "joined: after asked"
    above = schema_lib.build({"asked": pa.date32(), joined: pa.int64(), since: pa.int64()}, {})
    ends = {"asked": (0, 10), joined: (0, 100), since: (0, 130)}
    columns = [ColumnProfile(c.name, c.kind, (), (), (ends[c.name],), (1.0,)) for c in above]
    codec = TableCodec(above, TableProfile(100, 100, "row", tuple(columns), ()))
    found = clock(RELATIONS, "visits", {"patients": codec}.__getitem__)
    assert found is not None
    assert found.coded(pa.array([0, 119, 121, 239], pa.int32()).cast(pa.date32()))[:, 0].tolist() == [1, 12, 13, 24]
