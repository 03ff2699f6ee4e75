"""Partitioned tables in runs: what each reads and charges, what a backfill is asked before it begins, what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from typer.testing import CliRunner

from dp_synth_pipeline import cli
from dp_synth_pipeline.cli import backfill as command
from dp_synth_pipeline.orchestration import build, in_process
from dp_synth_pipeline.orchestration.in_process import QUIET, partition_tags
from dp_synth_pipeline.synthesis import generator_files
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from tests.integration.conftest import Bench, failure, people, steps

CITIES = {"column": "city", "values": ["Rome", "Oslo", "Lima"]}
MONTHS = {"column": "seen", "cadence": "monthly", "start": "2024-01-01"}


@pytest.fixture
def parted(bench: Bench) -> Bench:
    """A bench with an account of blocks, each of which admits one release of epsilon 2.

    Of 180 people of Oslo, as many as 600 rows have, one noisy count in 2,600 is below two.
    """
    people(1800).to_parquet(bench.folder / "people.parquet")
    bench.ledger.open_account("blocks", epsilon=2.0, delta=1e-4, rule="plan", unit_in_one_block=True, why="test")
    return bench


def facts(bench: Bench, cut: dict, **changes) -> dict:
    target = str(bench.folder / "out/city={partition}/rows.parquet")
    quick = {"method": "autoregressive", "start": "random", "max_epochs": 1, "hidden": 8}
    chosen = {"account": "blocks", "epsilon": 2.0, "delta": 1e-5, "training": quick, "target": target}
    return {**chosen, "partitions": cut, **changes}


def run(bench: Bench, cut: dict, keys: list[str], *, upto: str = "ingested", tags=None, instance=None, **changes):
    """Run the chain of some partitions up to one link."""
    definitions = bench.definitions(**facts(bench, cut, **changes))
    chosen = dg.AssetSelection.assets(dg.AssetKey(["people", upto])).upstream()
    short = dg.define_asset_job("short", chosen)
    job = dg.Definitions.merge(definitions, dg.Definitions(jobs=[short])).resolve_job_def("short")
    where = instance or bench.instance
    every = {**partition_tags(keys), **(tags or {})}
    return job.execute_in_process(instance=where, raise_on_error=False, run_config=QUIET, tags=every)


def snapshot(bench: Bench, release: str, columns: str) -> set:
    path = bench.store / "restricted/people" / release / "snapshot.parquet"
    return set(duckdb.sql(f"SELECT DISTINCT {columns} FROM '{path}'").fetchall())


def released_profile(bench: Bench, partition: str) -> TableProfile:
    folder = bench.store / f"releasable/people/partition={partition}/generator"
    return TableProfile.from_json((folder / "profile.json").read_text())


def told(result) -> tuple[str, str]:
    data = failure(result).user_failure_data
    return data.metadata["error"].value, data.description


def test_each_run_reads_its_partition_only_charges_its_block_only_and_publishes_beside_the_others(parted):
    for city in ("Rome", "Oslo"):
        result = run(parted, CITIES, [city], upto="release_card")
        assert result.success, failure(result)
    rome, oslo = parted.ledger.releases("blocks")
    assert (rome.blocks, oslo.blocks) == (("city:value:rome",), ("city:value:oslo",))
    assert [snapshot(parted, r.id, "city") for r in (rome, oslo)] == [{("Rome",)}, {("Oslo",)}]
    for city in ("Rome", "Oslo"):
        drawn = pq.read_table(parted.folder / f"out/city={city}/rows.parquet").to_pandas()
        assert set(drawn["city"]) == {city}
        profile = released_profile(parted, city)["city"]
        assert (profile.values, profile.declared) == ((city,), ("categories",)), "public, whatever noise says"
        card = (parted.store / f"releasable/people/partition={city}/release_card.json").read_text()
        assert f"whose city is in value {city}." in card
    first = parted.ledger.balance("blocks", "city:value:rome")
    assert 0 < first.epsilon_spent <= 2.0
    head = parted.ledger.head()
    again = run(parted, CITIES, ["Rome"])
    assert told(again)[0] == "BudgetExceeded"
    assert parted.ledger.head() == head
    parted.ledger.verify()


def test_a_run_over_a_range_is_one_release_that_charges_every_block_it_reads(parted):
    result = run(
        parted, {**MONTHS, "backfill": "single_run"}, ["2024-01-01", "2024-03-01"], upto="profile", population=100
    )
    assert result.success, failure(result)
    (release,) = parted.ledger.releases("blocks")
    assert release.blocks == tuple(f"seen:monthly:2024-0{m}-01" for m in (1, 2, 3))
    assert {m for (m,) in snapshot(parted, release.id, "month(seen)")} == {1, 2, 3}
    assert parted.ledger.balance("blocks", "seen:monthly:2024-02-01").epsilon_left == 0
    refused = run(parted, MONTHS, ["2024-02-01"])
    assert told(refused)[0] == "BudgetExceeded"
    assert run(parted, MONTHS, ["2024-04-01"]).success


def test_a_month_after_days_pays_each_day_and_is_refused_if_one_of_them_is_spent(parted):
    days = {**MONTHS, "cadence": "daily"}
    assert run(parted, days, ["2024-02-10"], epsilon=1.5, upto="profile", population=100).success
    by_day = {**MONTHS, "blocks": "daily"}
    refused = run(parted, by_day, ["2024-02-01"])
    assert told(refused)[0] == "BudgetExceeded"
    assert run(parted, by_day, ["2024-03-01"], upto="profile", population=100).success
    march = parted.ledger.releases("blocks")[-1]
    assert march.blocks == tuple(f"seen:daily:2024-03-{day:02}" for day in range(1, 32))
    assert {m for (m,) in snapshot(parted, march.id, "month(seen)")} == {3}
    assert told(run(parted, days, ["2024-03-31"]))[0] == "BudgetExceeded"
    assert "Write `blocks: daily`" in str(told(run(parted, MONTHS, ["2024-04-01"])))
    parted.ledger.verify()


def test_a_rolling_table_reads_its_last_windows_pays_each_of_them_and_is_refused_over_the_one_that_is_spent(parted):
    rolling = {**MONTHS, "windows": 3}
    assert run(parted, rolling, ["2024-03-01"], upto="profile", population=100).success
    (spring,) = parted.ledger.releases("blocks")
    assert spring.blocks == tuple(f"seen:monthly:2024-0{month}-01" for month in (1, 2, 3))
    assert {m for (m,) in snapshot(parted, spring.id, "month(seen)")} == {1, 2, 3}
    head = parted.ledger.head()
    error, text = told(run(parted, rolling, ["2024-05-01"]))
    assert error == "BudgetExceeded"
    assert "for want of room in block seen:monthly:2024-03-01: it asks" in text
    assert parted.ledger.head() == head
    assert run(parted, rolling, ["2024-06-01"], upto="generator").success
    folder = parted.store / "releasable/people/partition=2024-06-01/generator"
    seen = released_profile(parted, "2024-06-01")["seen"]
    assert seen.lower >= 1e6 * pd.Timestamp("2024-04-01").timestamp()
    assert seen.upper <= 1e6 * pd.Timestamp("2024-07-01").timestamp()
    assert generator_files.facts(folder)["windows"] == 3, "so that rows in common with other partitions are drawn once"
    assert parted.ledger.releases("blocks")[-1].blocks == tuple(f"seen:monthly:2024-0{m}-01" for m in (4, 5, 6))
    parted.ledger.verify()


def test_backfill_policies_are_those_of_the_yaml(parted):
    for policy, most in (("single_run", None), ("multi_run", 1)):
        definitions = parted.definitions(**facts(parted, {**MONTHS, "backfill": policy}))
        links = [a for a in definitions.assets if isinstance(a, dg.AssetsDefinition)]
        found = {(a.backfill_policy or dg.BackfillPolicy.multi_run()).max_partitions_per_run for a in links}
        assert found == {most}
        assert all(isinstance(a.partitions_def, dg.MonthlyPartitionsDefinition) for a in links)


def test_where_persons_span_blocks_the_account_as_a_whole_is_charged_and_soon_refuses(parted):
    parted.ledger.open_account("persons", epsilon=4.0, delta=1e-4, rule="plan", unit="person", max_rows=2, why="t")
    spanning = {"unit": {"column": "person", "max_rows": 2}, "account": "persons"}
    cut = {**CITIES, "units_span": True}
    for city in ("Rome", "Oslo"):
        assert run(parted, cut, [city], **spanning).success
    assert [r.blocks for r in parted.ledger.releases("persons")] == [(), ()]
    assert told(run(parted, cut, ["Lima"], **spanning))[0] == "BudgetExceeded"
    pretended = run(parted, {**CITIES, "units_span": False}, ["Lima"], **spanning)
    assert told(pretended)[0] == "InvalidInput"  # the account's own opener did not confirm it
    assert "--unit-in-one-block" in told(pretended)[1]


def test_a_run_without_a_partition_is_refused_before_anything_is_read_or_reserved(parted):
    result = run(parted, CITIES, [])
    assert not result.success
    assert parted.ledger.releases("blocks") == []
    assert not (parted.store / "restricted/people").exists()


def test_a_cached_profile_of_one_partition_is_never_reused_for_another(parted):
    for month in ("2024-01-01", "2024-02-01"):
        # Declared, since noise on the count of so few rows says now and then that there are none.
        assert run(parted, MONTHS, [month], upto="profile", population=50).success
    paid = [len(parted.ledger.entries(release_id=r.id)) for r in parted.ledger.releases("blocks")]
    assert paid == [1, 1]


@pytest.fixture
def profiled(parted, monkeypatch):
    """A partitioned table with two profiles, and `dp-synth profile` on its store."""
    parted.ledger.open_account("roomy", epsilon=9.0, delta=1e-3, rule="plan", unit_in_one_block=True, why="test")
    for city in ("Rome", "Oslo"):
        assert run(parted, CITIES, [city], upto="profile", account="roomy").success
    monkeypatch.setenv("DP_SYNTH_HOME", str(parted.folder))
    monkeypatch.setenv("COLUMNS", "200")

    def ask(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, ["profile", *args])
        return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())

    return ask


def test_each_partitions_profile_is_shown_and_without_one_they_are_listed(parted, profiled):
    rome, oslo = (r.id for r in parted.ledger.releases("roomy"))
    code, text = profiled("show", "people")
    assert (code, rome[:12] in text, oslo[:12] in text) == (0, True, True)
    assert text.index("Oslo") < text.index("Rome")
    code, text = profiled("show", "people", "--partition", "Rome")
    assert (code, rome in text, oslo in text) == (0, True, False)
    assert "people, partition Rome: measured 0 days ago" in text
    for other in ("Lima", "../Rome", "Rome..Oslo"):
        code, text = profiled("show", "people", "--partition", other)
        assert (code != 0, "it has: Oslo, Rome" in text) == (True, True)
    assert "has no profile of a table 'nobody'; it has: people" in profiled("show", "nobody")[1]


def test_a_partitions_profile_is_renewed_by_name_and_the_others_are_reused(parted, profiled):
    code, text = profiled("renew", "people")
    assert (code != 0, "--partition KEY. It has: Oslo, Rome." in text) == (True, True)
    code, text = profiled("renew", "people", "--partition", "Rome", "--why", "drift")
    assert (code, "The next refresh of people, partition Rome measures its profile anew." in text) == (0, True)
    listed = profiled("show", "people")[1]
    assert (listed.count("measured anew"), listed.count("reused")) == (1, 1)
    for city in ("Rome", "Oslo"):
        assert run(parted, CITIES, [city], upto="profile", account="roomy").success
    paid = [len(parted.ledger.entries(release_id=r.id)) for r in parted.ledger.releases("roomy")]
    assert paid == [2, 2, 2, 0]


def test_a_profile_of_a_range_is_found_by_its_first_and_last_partition(parted, monkeypatch):
    assert run(
        parted, {**MONTHS, "backfill": "single_run"}, ["2024-01-01", "2024-03-01"], upto="profile", population=100
    ).success
    monkeypatch.setenv("DP_SYNTH_HOME", str(parted.folder))
    for name in ("2024-01-01..2024-03-01", "2024-01-01--2024-03-01"):
        done = CliRunner().invoke(cli.app, ["profile", "show", "people", "--partition", name])
        assert done.exit_code == 0, done.output
        assert "partition 2024-01-01--2024-03-01: measured" in " ".join(done.output.split())


def test_a_table_that_was_refreshed_as_a_whole_too_shows_and_renews_that_profile(parted, profiled):
    from dp_synth_pipeline.synthesis import profile_cache

    table = parted.store / "releasable/people"
    for file in (profile_cache.PROFILE, profile_cache.FACTS):
        (table / file).write_text((table / "partition=Rome" / file).read_text())
    text = profiled("show", "people")[1]
    assert text.index("Oslo") < text.index("people: measured 0 days ago")
    code, text = profiled("renew", "people")
    assert (code, "Its partitions keep theirs" in text) == (0, True)
    assert (
        profile_cache.read(table).origin.renew is None,
        profile_cache.read(table / "partition=Rome").origin.renew,
    ) == (False, None)


def test_a_refresh_of_one_partition_keeps_the_snapshot_that_another_still_needs(parted):
    parted.ledger.open_account("roomy", epsilon=9.0, delta=1e-3, rule="plan", unit_in_one_block=True, why="test")
    for city in ("Rome", "Oslo", "Rome"):
        result = run(parted, CITIES, [city], account="roomy")
        assert result.success
        release = parted.ledger.releases("roomy")[-1]
        parted.ledger.void(release.id, "test")
    kept = [(parted.store / "restricted/people" / r.id).exists() for r in parted.ledger.releases("roomy")]
    assert kept == [False, True, True]


def launched(bench: Bench, keys: list[str], *, asset: bool) -> dict[str, str]:
    """Put a backfill on record as the Dagster UI does, and return the tags of its runs."""
    common = {"backfill_id": "bf", "tags": {}, "backfill_timestamp": time.time()}
    if asset:
        graph = bench.definitions(**facts(bench, CITIES)).resolve_asset_graph()
        made = PartitionBackfill.from_asset_partitions(
            asset_graph=graph,
            partition_names=keys,
            asset_selection=[dg.AssetKey(["people", "ingested"])],
            dynamic_partitions_store=bench.instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
            **common,
        )
    else:
        made = PartitionBackfill(status=BulkActionStatus.REQUESTED, from_failure=False, partition_names=keys, **common)
    bench.instance.add_backfill(made)
    return {"dagster/backfill": "bf"}


@pytest.mark.parametrize("asset", [True, False])
def test_a_backfill_from_the_ui_that_does_not_fit_as_a_whole_is_refused_in_its_first_run(parted, asset):
    assert run(parted, CITIES, ["Lima"]).success
    tags = launched(parted, ["Rome", "Oslo", "Lima"], asset=asset)
    head = parted.ledger.head()
    error, text = told(run(parted, CITIES, ["Rome"], tags=tags))
    assert error == "BudgetExceeded"
    assert "3 partitions, 2 fit; the first that does not: Lima" in text
    assert parted.ledger.head() == head
    assert run(parted, CITIES, ["Rome"], tags={**tags, "dp_synth/fitting": "true"}).success


def test_a_backfill_that_fits_runs_to_its_end_though_its_own_runs_fill_the_blocks(parted):
    tags = launched(parted, ["Rome", "Oslo"], asset=False)
    assert all(run(parted, CITIES, [city], tags=tags).success for city in ("Rome", "Oslo"))


def test_the_command_tells_what_fits_exits_with_3_and_launches_what_was_asked_for(parted, monkeypatch):
    assert run(parted, CITIES, ["Lima"]).success
    monkeypatch.setattr(build, "current_project", lambda ledger: parted.definitions(**facts(parted, CITIES)))
    done: list[list[str]] = []

    def refresh(definitions, table, console, *, show, partitions):
        done.append(partitions)
        return in_process.Outcome("run")

    monkeypatch.setattr(command.refreshing, "refresh", refresh)
    head, ask = parted.ledger.head(), ["backfill", "people", "--ledger", parted.url]
    short = CliRunner().invoke(cli.app, [*ask, "--launch"])
    assert short.exit_code == 3, short.output
    assert "3 partitions, 2 fit; the first that does not: Lima" in short.output
    assert (parted.ledger.head(), done) == (head, [])
    content = CliRunner().invoke(cli.app, [*ask, "--fitting", "--launch"])
    assert content.exit_code == 0, content.output
    assert done == [["Rome"], ["Oslo"]]
    none = CliRunner().invoke(cli.app, [*ask, "--partitions", "Lima", "--fitting"])
    assert none.exit_code == 3


def test_a_refused_run_is_not_retried_though_run_retries_are_on_and_an_unexpected_failure_may_be(parted, monkeypatch):
    from dagster._core.events import RunFailureReason
    from dagster._core.execution.retries import auto_reexecution_should_retry_run

    on = {"run_retries": {"enabled": True, "max_retries": 3}}
    with dg.DagsterInstance.local_temp(str(parted.folder), overrides=on) as instance:
        refused = run(parted, CITIES, ["Rome"], epsilon=50.0, instance=instance)
        assert told(refused)[0] == "BudgetExceeded"
        monkeypatch.setattr("dp_synth_pipeline.synthesis.stages._opened", lambda *_: 1 / 0)
        broken = run(parted, CITIES, ["Rome"], instance=instance)
        assert told(broken)[0] == "UnexpectedFailure"
        again = [
            auto_reexecution_should_retry_run(instance, instance.get_run_by_id(r.run_id), RunFailureReason.STEP_FAILURE)
            for r in (refused, broken)
        ]
    assert again == [False, True]


def test_a_reexecution_of_a_success_is_a_new_charge(parted):
    parted.ledger.open_account("roomy", epsilon=9.0, delta=1e-3, rule="plan", unit_in_one_block=True, why="test")
    first = run(parted, CITIES, ["Rome"], account="roomy")
    family = {"dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id}
    assert run(parted, CITIES, ["Rome"], account="roomy", tags=family).success
    keys = {r.key for r in parted.ledger.releases("roomy")}
    assert len(keys) == 2
    assert sum(first.run_id in k for k in keys) == 1


def test_a_run_that_an_automation_condition_launched_is_refused_before_it_reserves(parted):
    for tag in ("dagster/from_automation_condition", "dagster/auto_materialize"):
        result = run(parted, CITIES, ["Rome"], tags={tag: "true"})
        assert "with nobody asking" in told(result)[1]
    assert parted.ledger.releases("blocks") == []


def test_the_store_holds_no_path_that_is_not_a_partitions_own(parted):
    assert steps(run(parted, CITIES, ["Rome"], upto="profile"), "STEP_SUCCESS") == {"ingested", "profile"}
    found = {
        p.relative_to(parted.store / "releasable").parts[1] for p in Path(parted.store).rglob("profile.facts.json")
    }
    assert found == {"partition=Rome"}
