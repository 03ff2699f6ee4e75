"""Columns that hold when the parent's next row begins are told by noisy counts of persons, and computed from that row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import carrying, periods, static_columns
from dp_synth_pipeline.relations.periods import DAY_BEFORE, NEXT
from dp_synth_pipeline.relations.static_columns import Candidates, Found, StaticPlan
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.schema import build
from tests.unit.relations.test_relating import related

PAY = Related("pay", None, "staff", "who", "since", max_rows=4)
RELATIONS = Relations([Related("staff", key="who"), PAY])
DAY = pa.date32()


def tables(persons: int = 300, wrong: int = 0, before: int = 0) -> dict[str, pd.DataFrame]:
    """Return three wages of each person, each paid until the next, or days before; of `wrong` persons, one is not."""
    who = np.repeat(np.arange(persons), 3)
    since = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(who * 2 + np.arange(len(who)) % 3 * 40, unit="D"))
    until = since.shift(-1) - pd.Timedelta(days=before)
    until[2::3] = pd.Timestamp("9999-12-31")
    until[: 3 * wrong : 3] = since[: 3 * wrong : 3]
    rows = {"who": who, "since": since.dt.date, "until": until.dt.date, "wage": np.arange(len(who)) % 7}
    return {"staff": pd.DataFrame({"who": np.arange(persons)}).assign(city="Rome"), "pay": pd.DataFrame(rows)}


ENDS = Candidates(("until",), (), (("until", NEXT), ("until", DAY_BEFORE)))


@pytest.mark.parametrize(("before", "counts"), [(0, [10, 300]), (1, [300, 10]), (2, [300, 300])])
def test_persons_are_counted_of_whose_rows_one_does_not_end_when_the_next_begins(tmp_path, before, counts):
    rows = related(tmp_path, tables(wrong=10, before=before), RELATIONS)["pay"]
    assert static_columns._counts(rows, ENDS).tolist()[2:] == counts


def test_the_next_row_is_that_of_the_source_though_it_may_not_be_kept(tmp_path):
    bounded = Relations([RELATIONS.root, replace(PAY, max_rows=2)])
    rows = related(tmp_path, tables(), bounded)["pay"]
    assert static_columns._counts(rows, ENDS).tolist()[2:] == [0, 300]


def test_one_person_more_moves_each_count_by_one_at_most(tmp_path):
    first, more = tables(50), tables(51)
    more["pay"].loc[150:, "until"] = None
    here, there = (related(tmp_path / name, t, RELATIONS)["pay"] for name, t in (("first", first), ("more", more)))
    moved = np.subtract(*(static_columns._counts(rows, ENDS) for rows in (there, here)))
    assert set(moved.tolist()) <= {0, 1}


def test_what_holds_of_nearly_all_persons_is_found_and_paid_for(tmp_path):
    rows = {"pay": related(tmp_path, tables(wrong=3, before=1), RELATIONS)["pay"]}
    plan = StaticPlan({"pay": ENDS}, 2.0)
    assert plan.events[0].count == 4, "several rows, one column, two ways"
    assert static_columns.measure(rows, plan, Odometer(plan.events)) == {"pay": Found((), (), (("until", DAY_BEFORE),))}
    plan = StaticPlan({"pay": ENDS}, 60.0)
    assert not static_columns.measure(rows, plan, Odometer(plan.events))["pay"].until, "noise hides it"


def test_the_last_row_alone_keeps_its_value_and_the_parent_carries_nothing(tmp_path):
    rows, table = related(tmp_path, tables(4), RELATIONS), replace(PAY, until=(("until", NEXT),))
    above, below = carrying.carry(rows["staff"], rows["pay"], table)
    assert above.schema.names == rows["staff"].schema.names
    assert "until" not in below.schema.names
    held = pq.read_table(below.path)["until: until next"].to_pylist()
    assert [value is None for value in held] == [True, True, False] * 4


def values(**columns: list) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return drawn rows of three parents by days, two rows of the first, three of the second and one of the third."""
    found = {name.replace("_", " "): pa.array(days, pa.int32()).cast(DAY) for name, days in columns.items()}
    return found, np.array([0, 0, 1, 1, 1, 2])


SINCE = [10, 20, 30, 40, 50, 60]


def test_persons_are_counted_of_whose_rows_one_lies_after_a_date_of_their_parent(tmp_path):
    some = tables(100)
    last = pd.to_datetime(some["pay"].groupby("who")["since"].max())
    some["staff"]["left"] = last.where(last.index % 4 > 0).dt.date  # nobody knows of a quarter
    some["staff"]["fell"] = last.dt.date.where(last.index >= 7, pd.Timestamp("2019-01-01").date())
    relations = Relations([RELATIONS.root, PAY])
    rows = related(tmp_path, some, relations)
    both = Candidates((), (), (), ("left", "fell"), "since")
    assert static_columns._counts(rows["pay"], both, rows["staff"]).tolist() == [100, 0, 7]
    plan = StaticPlan({"pay": both}, 0.5)
    found = static_columns.measure({"pay": rows["pay"]}, plan, Odometer(plan.events), rows["staff"])["pay"]
    assert found.facts == {"since": {"before": ["left"]}}


@pytest.mark.parametrize(("way", "before"), [(NEXT, 0), (DAY_BEFORE, 1)])
def test_rows_end_when_the_next_one_begins_and_the_last_one_as_it_was_drawn(way, before):
    source, table = build({"since": DAY, "until": DAY}, {}), replace(PAY, until=(("until", way),))
    drawn, parent = values(since=SINCE)
    drawn[f"until: until {way}"] = pa.array([99, None, 7, 7, None, 77], pa.int32()).cast(DAY)
    found = periods.restored(drawn, parent, table, source)["until"].cast(pa.int32()).to_pylist()
    assert found == [20 - before, None, 40 - before, 50 - before, None, 77]
    drops = build({"since": DAY, "until": DAY}, {"until": {"nulls": "drop"}})
    found = periods.restored(drawn, parent, table, drops)["until"].cast(pa.int32()).to_pylist()
    assert found[1::3] == [77, 77], "no row lacks it, so another last row's stands for what was not drawn"
    nobody = {name: array[:0] for name, array in drawn.items()}
    assert len(periods.restored(nobody, parent[:0], table, source)["until"]) == 0


def test_what_the_last_row_holds_may_hang_on_another_date_of_its_own():
    source, table = build({"since": DAY, "until": DAY}, {}), replace(PAY, until=(("until", NEXT),))
    drawn, parent = values(since=SINCE)
    drawn["until: until next: after since"] = pa.array([None, 5, None, None, 0, None], pa.int64())
    assert periods.endings(table, drawn) == ["until: until next: after since"]
    found = periods.restored(drawn, parent, table, source)["until"].cast(pa.int32()).to_pylist()
    assert found == [20, 25, 40, 50, 50, None]


@pytest.mark.parametrize(
    ("kinds", "changes", "message"),
    [
        ({"until": pa.timestamp("us")}, {}, "both must be dates"),
        ({"until": pa.int64()}, {}, "both must be dates"),
        ({}, {"order": None}, "have no order"),
        ({"until: until next": DAY}, {}, "rename one of them"),
    ],
)
def test_a_column_that_cannot_hold_when_the_next_row_begins_is_refused_by_name_and_never_looked_at(
    kinds, changes, message
):
    source, parent = build({"who": pa.int64(), "since": DAY, "until": DAY, **kinds}, {}), build({"who": pa.int64()}, {})
    table = replace(PAY, until=(("until", NEXT),), **changes)
    with pytest.raises(InvalidInput, match=rf"tables\.pay\.columns\.until: until: .*{message}"):
        static_columns.check(table, source, parent)
    assert "until" not in dict(static_columns.candidates(table, source, parent, {}).ends)


def test_moments_end_with_the_next_moment_and_never_on_the_day_before():
    source = build({"since": pa.timestamp("us"), "until": pa.timestamp("us")}, {})
    found = static_columns.candidates(PAY, source, build({"city": pa.string()}, {}), {})
    assert found.ends == (("until", NEXT),)
