"""A profile is charged once and reused: what later refreshes pay, what they say, and what has it measured anew."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis import profile_cache
from tests.integration.conftest import failure

MEASURED = {"row count", "profile"}


def mechanisms(bench, account="people") -> list[set[str]]:
    """What each release of an account ran, oldest first."""
    return [{e.mechanism for e in bench.ledger.entries(release_id=r.id)} for r in bench.ledger.releases(account)]


def profiled(bench, *, tags=None, **changes):
    """Run a refresh up to its profile; return the run and whether it measured one."""
    definitions = bench.definitions(**{"epsilon": 1.0, **changes})  # at 0.5, one noisy count of 600 rows in 800 is 1
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] in ("ingested", "profile")]
    result = definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance,
        asset_selection=keys,
        tags=tags,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert result.success, failure(result)
    return result, bool(mechanisms(bench, changes.get("account", "people"))[-1])


def metadata(result, link: str):
    events = result.get_asset_materialization_events()
    return next(e for e in events if e.asset_key.path[-1] == link).materialization.metadata


def test_a_second_refresh_charges_no_profile_and_gives_its_whole_epsilon_to_learning(bench):
    for _ in range(2):
        result = bench.refresh()
        assert result.success, failure(result)
    first, second = bench.ledger.releases("people")
    measured, reused = mechanisms(bench)
    assert measured > MEASURED
    assert reused == measured - MEASURED
    learnt = [
        [e for e in bench.ledger.entries(release_id=r.id) if e.mechanism not in MEASURED] for r in (first, second)
    ]
    assert sum(e.cost for e in learnt[1]) > sum(e.cost for e in learnt[0])
    assert 0.98 * 4.0 < second.final_epsilon <= 4.0
    # The account holds exactly what ran: both releases, the profile once.
    entries = bench.ledger.entries("people")
    assert bench.ledger.balance("people").cost_spent == sum(e.cost for e in entries)
    assert sum(e.mechanism == "profile" for e in entries) == 1
    assert accountant.epsilon([v for e in learnt[1] for v in e.events], second.final_delta) == second.final_epsilon
    bench.ledger.verify()

    told = metadata(result, "profile")
    assert told["profile"].value == f"reused from release {first.id}, which was charged for it"
    assert told["profile_release"].value == first.id
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    assert {m["stage"] for m in card["mechanisms"]} == reused
    assert {m["stage"] for m in card["reused"]} == MEASURED
    assert card["reused_from"] == first.id
    paid = [v.to_dict() for e in bench.ledger.entries(release_id=first.id) if e.mechanism in MEASURED for v in e.events]
    assert [m["event"] for m in card["reused"]] == paid
    page = (bench.store / "releasable/people/release_card.html").read_text()
    assert f"Reused, charged to release <code>{first.id}</code>" in page
    assert "What it tells is in this table too" in page
    reused_events = [v for e in bench.ledger.entries(release_id=first.id) if e.mechanism in MEASURED for v in e.events]
    own_events = [v for e in learnt[1] for v in e.events]
    together = accountant.epsilon([*own_events, *reused_events], second.final_delta)
    assert card["epsilon"] == pytest.approx(together, rel=1e-6)
    assert card["epsilon"] > 1.05 * second.final_epsilon == 1.05 * card["added_epsilon"]
    assert f"This release added ε = {wording.at_most(second.final_epsilon)}" in page
    assert 0 <= metadata(result, "release_card")["epsilon"].value - card["epsilon"] < 0.01, "three digits, rounded up"


def test_a_release_that_measured_its_profile_says_so_and_reuses_nothing(bench):
    result = bench.refresh(epsilon=1.0)
    assert metadata(result, "profile")["profile"].value == "measured in this release"
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    assert {m["stage"] for m in card["mechanisms"]} > MEASURED
    assert (card["reused"], card["reused_from"]) == ([], "")


@pytest.mark.parametrize(
    "changes",
    [
        {"nulls": "mean"},
        {"columns": {"person": {"kind": "excluded"}, "age": {"lower": 0, "upper": 120}}},
        {"columns": {"person": {"kind": "excluded"}, "seen": {"kind": "excluded"}}},
        {"population": 600},
        {"reuse_profile": False},
        {"account": "others"},
    ],
    ids=["nulls", "declared", "excluded", "population", "setting", "account"],
)
def test_what_shapes_a_profile_has_it_measured_anew(bench, changes):
    bench.ledger.open_account("others", epsilon=10.0, delta=1e-4, why="test")
    assert profiled(bench)[1]
    assert not profiled(bench)[1]
    assert not profiled(bench, rows=50, profile_share=0.2, epsilon=1.2)[1]  # these shape no profile
    assert profiled(bench, **changes)[1]


def test_a_column_that_the_source_gains_has_the_profile_measured_anew(bench):
    assert profiled(bench)[1]
    frame = pd.read_parquet(bench.folder / "people.parquet")
    frame.assign(weight=70.5).to_parquet(bench.folder / "people.parquet")
    assert profiled(bench)[1]
    assert not profiled(bench)[1]


def test_new_rows_alone_do_not(bench):
    assert profiled(bench)[1]
    table = pq.read_table(bench.folder / "people.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(0, 50)]), bench.folder / "people.parquet")
    assert not profiled(bench)[1]


@pytest.mark.parametrize("name", [profile_cache.PROFILE, profile_cache.FACTS])
def test_a_deleted_profile_is_measured_anew(bench, name):
    assert profiled(bench)[1]
    (bench.store / "releasable/people" / name).unlink()
    assert profiled(bench)[1]
    assert not profiled(bench)[1]


def test_a_person_renews_a_profile_for_the_next_refresh_and_shows_it(bench, monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["dp-synth", "profile", *args])
        try:
            code = cli.main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    monkeypatch.setenv("DP_SYNTH_HOME", str(bench.folder))
    monkeypatch.setenv("COLUMNS", "200")
    assert run("show", "people")[0] == 2  # there is none yet
    assert profiled(bench)[1]
    release = bench.ledger.releases("people")[0].id
    code, told = run("show", "people")
    assert (code, release in told, "0 days ago" in told) == (0, True, True)
    assert all(name in told for name in ("age", "income", "Rome" and "city"))
    code, told = run("renew", "people", "--why", "drift")
    assert (code, "Nothing is charged now" in told) == (0, True)
    assert "measures it anew" in run("show", "people")[1]
    assert [profiled(bench)[1], profiled(bench)[1]] == [True, False]
    assert profile_cache.read(bench.store / "releasable/people").origin.release == bench.ledger.releases("people")[1].id


def test_a_run_tag_renews_a_profile_for_that_run_only(bench):
    assert profiled(bench)[1]
    assert profiled(bench, tags={profile_cache.RENEW: "true"})[1]
    assert not profiled(bench)[1]


@pytest.mark.parametrize("unit", [None, "person"])
def test_a_reused_profile_gives_the_rows_that_were_measured_when_rows_are_left_out(bench, unit):
    changes = {"nulls": "drop"}
    if unit:
        bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=1, why="test")
        changes |= {"account": "persons", "unit": {"column": "person", "max_rows": 1}, "columns": {}}
    rows = []
    for _ in range(2):
        result = bench.refresh(**changes)
        assert result.success, failure(result)
        rows.append(pq.read_table(bench.store / "releasable/people/synthetic.parquet").num_rows)
    profile = profile_cache.read(bench.store / "releasable/people").profile
    assert rows == [profile.rows] * 2
    assert profile.rows < 0.85 * profile.population  # 40 % of the rows hold a null
    assert mechanisms(bench, changes.get("account", "people"))[1].isdisjoint(MEASURED)


def test_a_plan_that_paid_for_a_profile_has_it_measured_and_one_without_reuses_it(bench):
    result = bench.refresh(epsilon=1.0)
    assert result.success, failure(result)
    (first,) = bench.ledger.releases("people")
    entries = bench.ledger.entries(release_id=first.id)
    everything = [one for e in entries for one in e.tagged]
    learning = [one for one in everything if one.mechanism not in MEASURED]
    for name, ran in (("whole", everything), ("learning", learning)):
        said = {"events": [one.event for one in ran], "mechanisms": [one.mechanism for one in ran]}
        bench.ledger.declare_plan("people", name=name, **said, times=1, why="test", who="test")
        result = bench.refresh(plan=name)
        assert result.success, failure(result)
    assert [m >= MEASURED for m in mechanisms(bench)] == [True, True, False]
    bench.ledger.verify()


def test_what_the_ledger_says_would_fit_still_fits_when_the_profile_is_reused(bench):
    bench.ledger.open_account("small", epsilon=3.5, delta=1e-4, why="test")
    asked = {"epsilon": 2.0, "delta": 1e-4, "own_delta": 1e-4 / 2000}
    assert bench.refresh(epsilon=2.0, account="small").success
    promised = bench.ledger.capacity("small", **asked)
    assert promised >= 1
    for left in range(promised - 1, -1, -1):
        assert bench.refresh(epsilon=2.0, account="small").success
        assert bench.ledger.capacity("small", **asked) >= left


def test_drawing_again_uses_the_profile_of_the_generator_not_the_cached_one(bench):
    assert bench.refresh(epsilon=1.0).success
    own = (bench.store / "releasable/people/generator/profile.json").read_text()
    assert profiled(bench, tags={profile_cache.RENEW: "true"})[1]
    assert (bench.store / "releasable/people/profile.json").read_text() != own
    definitions = bench.definitions(rows=77)
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] == "synthetic"]
    again = definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance, asset_selection=keys, raise_on_error=False
    )
    assert again.success
    assert (bench.store / "releasable/people/generator/profile.json").read_text() == own
    assert pq.read_table(bench.store / "releasable/people/synthetic.parquet").num_rows == 77
