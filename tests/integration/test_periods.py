"""Periods that follow each other: each ends when the next one begins, whether that was found or declared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.store import Store

RELATIONS = {"staff": {"key": "who"}, "pay": {"parent": {"who": "staff"}, "order": "since", "max_rows": 5}}
FOREVER = pd.Timestamp("2262-01-01")


def tables(before=0, persons=2_000, open_ended=False):
    """Return wages of 1 to 5 periods of each person, and 30 days of notice on which the last one ends, or for ever."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(persons), 1 + np.arange(persons) % 5)
    days = (
        pd.Series(rng.integers(0, 2_000, persons)[who])
        + pd.Series(rng.geometric(1 / 90, len(who))).groupby(who).cumsum()
    )
    since = pd.Timestamp("2010-01-01") + pd.to_timedelta(days, unit="D")
    until = since.groupby(who).shift(-1) - pd.Timedelta(days=before)
    until = until.fillna(FOREVER) if open_ended else until.fillna(since + pd.Timedelta(days=30))
    rows = {"who": who, "since": since.dt.date, "until": until.dt.date, "wage": rng.integers(1_000, 3_000, len(who))}
    return {
        "staff": pd.DataFrame({"who": range(persons), "sex": ["f", "m"] * (persons // 2)}),
        "pay": pd.DataFrame(rows),
    }


def fitted(folder, data, columns=None, epsilon=6.0, **how):
    ledger = dps.Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    if not ledger.accounts():
        ledger.open_account("staff", epsilon=30, delta=1e-5, unit="who")
    how = {"training": {"max_epochs": 2}, "show": False, "store": Store(folder / "store"), "table": "staff", **how}
    relations = {**RELATIONS, "pay": {**RELATIONS["pay"], "columns": columns or {}}}
    return ledger, dps.Synthesizer("staff", epsilon, ledger, **how).fit(data, relations=relations)


def ends(drawn):
    """Return when each row begins and ends, and when the next row of its person begins."""
    since, until = (pd.to_datetime(drawn["pay"][name]) for name in ("since", "until"))
    return since, until, since.groupby(drawn["pay"]["who"]).shift(-1)


@pytest.mark.parametrize(("before", "way"), [(0, "next"), (1, "day_before")])
def test_each_period_ends_when_the_next_begins_and_the_last_one_as_last_ones_do(tmp_path, before, way):
    ledger, model = fitted(tmp_path, tables(before))
    (_, pay) = model.relations
    assert pay.until == (("until", way),)
    model.save(tmp_path / "staff.dps")
    for drawn in (model.sample(), dps.load(tmp_path / "staff.dps").sample(1_000)):
        since, until, following = ends(drawn)
        inner = following.notna()
        assert (until[inner] == following[inner] - pd.Timedelta(days=before)).all()
        assert (until[~inner].dropna() >= since[~inner][until[~inner].notna()]).all()
        assert ((until - since)[~inner].dt.days == 30).mean() > 0.8
        assert list(drawn["pay"].columns) == list(tables()["pay"].columns)
    ledger.verify()


def test_what_was_declared_is_not_looked_for_and_false_has_the_column_drawn_as_it_was_learnt(tmp_path):
    frames = tables(open_ended=True)
    data = {name: str(tmp_path / f"{name}.csv") for name in frames}
    for name, frame in frames.items():
        frame.to_csv(data[name], index=False)
    dates = {"since": {"kind": "date"}, "until": {"kind": "date", "until": "next"}}
    _, model = fitted(tmp_path, data, dates)
    _, until, following = ends(model.sample())
    assert (until[following.notna()] == following[following.notna()]).all()
    assert (until[following.isna()] == FOREVER).mean() > 0.95
    _, model = fitted(tmp_path, frames, {"until": {"until": False}})
    assert not any(table.until for table in model.relations)
    _, until, following = ends(model.sample())
    assert (until[following.notna()] != following[following.notna()]).any()


def test_a_refresh_that_remembers_goes_on_with_what_was_found(tmp_path):
    for _ in range(2):
        ledger, model = fitted(tmp_path, tables(1), refresh={"remember": True, "epsilon": 1.0})
        _, until, following = ends(model.sample())
        assert (until[following.notna()] == following[following.notna()] - pd.Timedelta(days=1)).all()
    paid = [e.mechanism for e in ledger.entries(release_id=model.card().facts.release)]
    assert not any("static" in mechanism for mechanism in paid)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"until": {"until": "tomorrow"}}, "expected next, day_before or false"),
        ({"until": {"until": "next", "static": True}}, "keep one of the two"),
        ({"wage": {"until": "next"}}, "both must be dates"),
    ],
)
def test_a_mistake_is_named(tmp_path, columns, said):
    with pytest.raises(InvalidInput, match=said):
        fitted(tmp_path, tables(persons=50), columns)


def test_tables_whose_dates_hang_together_pass_their_checks_and_are_published(shell):
    """From files to tables and their report: hired before the first wage, gone after the last, each with its month."""
    data, frames = shell.folder / "data", tables()
    data.mkdir()
    since = pd.to_datetime(frames["pay"]["since"])
    frames["pay"]["since_month"] = since.dt.month_name()
    hired, gone = (since.groupby(frames["pay"]["who"]).agg(how) for how in ("min", "max"))
    frames["staff"]["hired"] = (hired - pd.Timedelta(days=2)).dt.date
    frames["staff"]["gone"] = (gone + pd.Timedelta(days=90)).where(gone.index % 3 > 0).dt.date
    for name, frame in frames.items():
        frame.rename(columns={"who": "staff_id"}).to_parquet(data / f"{name}.parquet", index=False)
    assert shell("ledger", "open", "staff", "--epsilon", 9, "--delta", 1e-5, "--unit", "staff_id").code == 0
    done = shell("synthesize-database", "data", "--account", "staff", "--epsilon", 8, "--out", "made", "--json")
    assert done.code == 0, done.text
    facts = json.loads(done.out)
    assert facts["checks"]["failed"] == 0
    assert Path(facts["report"]).exists()
    made = {name: pd.read_parquet(shell.folder / "made" / f"{name}.parquet") for name in frames}
    drawn = {name: frame.rename(columns={"staff_id": "who"}) for name, frame in made.items()}
    begun, until, following = ends(drawn)
    inner = following.notna()
    assert (until[inner] == following[inner]).all()
    assert (drawn["pay"]["since_month"] == begun.dt.month_name()).all()
    staff = drawn["staff"].set_index("who").reindex(drawn["pay"]["who"]).reset_index()
    hired, gone = (pd.to_datetime(staff[name]) for name in ("hired", "gone"))
    assert not (begun > gone).any()
    assert not (begun < hired)[~(gone < hired)].any()  # of the others, a row of staff contradicts itself
