"""A refusal is no outage: how a run ends that the ledger refused, what its assets look like, and who hears of it."""

from __future__ import annotations

import asyncio
import json

import dagster as dg
import pytest
from dagster._core.definitions.asset_health.asset_materialization_health import AssetMaterializationHealthState
from dagster._core.definitions.reconstruct import ReconstructableJob
from dagster._core.loader import LoadingContextForTest

from dp_synth_pipeline.orchestration import accounts, failures, governance
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.reporting import card_verification
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.conftest import failure, steps

QUICK = {"training": {"method": "marginals"}}

TABLE = """
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import TableSettings

facts = dict(account="people", epsilon=50.0, columns={{"person": {{"kind": "excluded"}}}}, compute={compute!r})
table = TableSettings(table="people", source={source!r}, **facts)
people_refresh = build_defs([table], ledger={url!r}, store={store!r}).resolve_job_def("people_refresh")
"""


def failed_assets(instance: dg.DagsterInstance, keys) -> set[str]:
    """The assets that Dagster itself calls failed."""

    async def states() -> list[AssetMaterializationHealthState]:
        context = LoadingContextForTest(instance)
        return [await AssetMaterializationHealthState.compute_for_asset(key, None, context) for key in keys]

    found = asyncio.run(states())
    return {key.path[-1] for key, state in zip(keys, found, strict=True) if not state.failed_subset.is_empty}


def texts(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    return [entry.message for entry in instance.all_logs(run_id)]


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """A table that was published once, and a second refresh that its account refused."""
    from tests.integration.conftest import lent

    folder = tmp_path_factory.mktemp("refused")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        first = bench.refresh(**QUICK)
        assert first.success
        yield bench, first, bench.refresh(**QUICK, epsilon=50.0)


def test_a_refused_run_ends_as_canceled_with_its_reason_as_a_tag_and_before_all_else_that_went_wrong(refused):
    bench, _, second = refused
    run = bench.instance.get_run_by_id(second.run_id)
    why = failure(second).user_failure_data.description
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert run.tags[failures.REFUSED] == why.partition("\n")[0]
    logged = [
        entry for entry in bench.instance.all_logs(run.run_id) if entry.level > 10
    ]  # as the page shows them first
    assert logged[0].message == why


def test_a_refused_run_shows_no_stack_trace(refused):
    bench, _, second = refused
    error = failure(second).error
    assert (error.stack, error.cause, error.context) == ([], None, None)
    assert error.message == failure(second).user_failure_data.description
    assert not any('File "' in text for text in texts(bench.instance, second.run_id))


def test_no_asset_is_called_failed_and_what_was_published_is_what_it_was(refused):
    bench, first, second = refused
    keys = list(bench.definitions(**QUICK).resolve_asset_graph().get_all_asset_keys())
    assert steps(second, "STEP_SUCCESS") == set()
    assert failed_assets(bench.instance, keys) == set()
    published = bench.instance.get_latest_materialization_event(dg.AssetKey(["people", "published"]))
    assert published.run_id == first.run_id


def test_a_refused_run_is_not_tried_again(refused):
    bench, _, second = refused
    run = bench.instance.get_run_by_id(second.run_id)
    assert run.tags["dagster/max_retries"] == "0"
    assert not run.is_failure  # run_retries looks at failures alone


def test_the_account_shows_both_releases_and_the_review_lists_the_refusal_once(refused):
    bench, first, second = refused
    seen = bench.instance.fetch_materializations(accounts.key("people"), limit=9).records
    events = [record.asset_materialization.metadata[accounts.EVENT].value for record in reversed(seen)]
    assert events == [
        "A release of people began.", "A release of people settled.",
        "A release of people was refused; nothing was read.",
    ]  # fmt: skip
    (shown,) = accounts.refusals(bench.instance)
    assert (shown.run_id, shown.why) == (second.run_id, failure(second).user_failure_data.description)
    assert [r["run_id"] for r in governance.refusals(bench.instance)] == [second.run_id]
    card = first.asset_materializations_for_node("people__release_card")[0].metadata
    assert card["account_page"].asset_key == accounts.key("people")


def test_the_card_is_in_the_metadata_as_it_lies_in_the_store_and_ten_synthetic_rows_are_shown(refused):
    bench, first, _ = refused
    card = first.asset_materializations_for_node("people__release_card")[0].metadata
    assert next(iter(card)) == "card_in_full"
    assert card["card_in_full"].value == (bench.store / "releasable" / "people" / "release_card.md").read_text()
    for name in ("synthetic", "published"):
        shown = first.asset_materializations_for_node(f"people__{name}")[0].metadata
        assert len(shown["preview"].value.splitlines()) == 12
        assert len(repr(shown["epsilon_added"].value)) <= 5
    exact = json.loads((bench.store / "releasable" / "people" / "release_card.json").read_text())["epsilon"]
    assert exact <= card["epsilon"].value <= 1.01 * exact
    for name in ("quality_report", "ingested", "completed"):
        (shown,) = first.asset_materializations_for_node(f"people__{name}")
        assert "preview" not in shown.metadata


@pytest.mark.parametrize("compute", [None, {}], ids=["multiprocess", "step by step"])
def test_a_run_of_many_processes_ends_so_too(bench, tmp_path, monkeypatch, compute):
    (tmp_path / "table.py").write_text(
        TABLE.format(
            source=str(bench.folder / "people.parquet"), url=bench.url, store=str(bench.store), compute=compute
        )
    )
    (tmp_path / "dagster").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    config = {"execution": {"config": {"multiprocess": {}}}} if compute is None else {}
    with dg.DagsterInstance.get() as instance:
        job = ReconstructableJob.for_file(str(tmp_path / "table.py"), "people_refresh")
        result = dg.execute_job(job, instance=instance, run_config=config, raise_on_error=False)
        run = instance.get_run_by_id(result.run_id)
        assert run.status == dg.DagsterRunStatus.CANCELED
        assert run.tags[failures.REFUSED].startswith("Account 'people' refuses")
        assert not any('File "' in text for text in texts(instance, run.run_id))
        assert [r.run_id for r in accounts.refusals(instance)] == [run.run_id]


def test_a_run_that_does_other_work_too_goes_on_and_ends_as_a_failure(bench):
    rich = bench.ledger.open_account("rich", epsilon=9.0, delta=1e-4)
    tables = [
        bench.settings(**QUICK, epsilon=50.0),
        bench.settings(**QUICK, table="others", account=rich.name, target=str(bench.folder / "others.parquet")),
    ]
    job = build_defs(tables, ledger=bench.url, store=str(bench.store)).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=bench.instance, raise_on_error=False)
    run = bench.instance.get_run_by_id(result.run_id)
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert run.tags[failures.REFUSED].startswith("Account 'people' refuses")
    assert failed_assets(bench.instance, [dg.AssetKey(["others", n]) for n in ("published", "synthetic")]) == set()
    assert (bench.folder / "others.parquet").exists()


def test_what_nobody_can_use_is_a_failure_without_a_stack_trace_too(bench):
    result = bench.refresh(account="nobody")
    assert bench.instance.get_run_by_id(result.run_id).status == dg.DagsterRunStatus.FAILURE
    assert failures.REFUSED not in bench.instance.get_run_by_id(result.run_id).tags
    assert failure(result).error.stack == []
    assert "There is no privacy account 'nobody'" in failure(result).error.message


def test_a_run_of_a_member_charges_the_umbrella_and_one_that_it_refuses_says_its_name(bench):
    unit = {"column": "person", "max_rows": 2}
    bench.ledger.open_account("clinic", epsilon=6.0, delta=1e-4, unit="person", umbrella=True)
    for name in ("visits", "drugs"):
        bench.ledger.open_account(name, epsilon=6.0, delta=1e-4, max_rows=2, under="clinic")
    told = {**QUICK, "unit": unit, "columns": {}}
    first = bench.refresh(**told, account="visits", epsilon=4.0)
    assert first.success, failure(first).user_failure_data.description
    (release,), (mirror,) = bench.ledger.releases("visits"), bench.ledger.releases("clinic")
    assert (mirror.mirrors, mirror.state) == (release.id, "settled")
    assert 0 < bench.ledger.balance("clinic").cost_spent <= mirror.reserved_cost
    card = json.loads((bench.store / "releasable" / "people" / "release_card.json").read_text())
    assert (card["account"], card["umbrella"], card["umbrella_epsilon"]) == ("visits", "clinic", 6.0)
    text = json.dumps(card)
    assert [c.what for c in card_verification.claims(text, bench.ledger) if not c.holds] == []
    page = accounts.facts(bench.ledger, "visits")
    assert page["umbrella"].startswith("clinic: ")
    second = bench.refresh(**told, account="drugs", epsilon=4.5)
    run = bench.instance.get_run_by_id(second.run_id)
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert run.tags[failures.REFUSED].startswith("Umbrella 'clinic' refuses this release of its member 'drugs'")
    assert bench.ledger.releases("drugs") == []
    assert next(accounts.refusals(bench.instance)).why.startswith("Umbrella 'clinic'")
    review = governance.facts(bench.ledger, Store(bench.store))
    assert [r["account"] for s in review["sources"] for r in s["releases"]] == ["visits"]
    bench.ledger.verify()


def test_a_member_trains_within_what_both_its_account_and_its_umbrella_hold(bench):
    bench.ledger.open_account("clinic", epsilon=40.0, delta=1e-4, unit="person", umbrella=True)
    bench.ledger.open_account("visits", epsilon=3.0, delta=1e-4, max_rows=2, under="clinic")
    assert bench.ledger.account("clinic").order < bench.ledger.account("visits").order
    done = bench.refresh(account="visits", epsilon=2.0, unit={"column": "person", "max_rows": 2}, columns={})
    assert done.success, failure(done).user_failure_data.description
    (mirror,) = bench.ledger.releases("clinic")
    assert 0 < mirror.charged_cost <= mirror.reserved_cost
    bench.ledger.verify()


def test_a_run_that_waits_for_a_second_person_ends_as_a_refusal_does_and_goes_on_once_it_is_approved(bench):
    bench.ledger.amend_account("people", approve_above=0.1, why="large releases are for two", who="Ana")
    told = {**QUICK, "intended_use": "waiting times"}
    first = bench.refresh(**told)
    run = bench.instance.get_run_by_id(first.run_id)
    (asked,) = bench.ledger.requests()
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert run.tags[failures.REFUSED].startswith(f"Request {asked.id[:12]} waits for a second person: it takes ")
    assert failure(first).error.stack == []
    logged = [entry for entry in bench.instance.all_logs(run.run_id) if entry.level > 10]
    assert logged[0].message.startswith(f"Request {asked.id[:12]} waits")
    assert asked.why == "waiting times"
    assert bench.ledger.releases() == []
    assert steps(first, "STEP_SUCCESS") == set()
    assert [r["run_id"] for r in governance.refusals(bench.instance)] == [run.run_id]
    bench.ledger.approve(asked.id, why="agreed", who="Ana")
    job = bench.definitions(**told).resolve_implicit_global_asset_job_def()
    only = [dg.AssetKey(["people", "ingested"])]
    assert job.execute_in_process(instance=bench.instance, asset_selection=only).success
    assert [r.state for r in bench.ledger.requests(used=True)] == ["used"]
    assert bench.ledger.verify().releases == 1
