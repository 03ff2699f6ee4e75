"""Plans, relations and sources, as runs meet them."""

import pytest

from dp_synth_pipeline.orchestration import governance
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.conftest import failure


@pytest.mark.parametrize("population", [None, 50_000], ids=["the plan's delta", "a smaller delta by itself"])
def test_a_refresh_may_be_one_use_of_a_declared_plan_and_the_last_use_is_followed_by_a_refusal(bench, population):
    first = bench.refresh(epsilon=1.0, population=population)
    assert first.success
    (release,) = bench.ledger.releases("people")
    ran = [one for entry in bench.ledger.entries(release_id=release.id) for one in entry.tagged]
    events, mechanisms = [one.event for one in ran], [one.mechanism for one in ran]
    plan = bench.ledger.declare_plan(
        "people", name="weekly", events=events, mechanisms=mechanisms, times=1, why="test", who="test"
    )
    done = bench.refresh(plan="weekly", population=population)
    assert done.success, failure(done).user_failure_data.description
    used = bench.ledger.releases("people")[-1]
    assert used.plan == plan.id
    assert used.final_delta == 1e-4
    ran = [e for entry in bench.ledger.entries(release_id=used.id) for e in entry.events]
    assert ran[-1].noise_multiplier == events[-1].noise_multiplier
    assert ran[-1].steps == events[-1].steps
    refused = bench.refresh(plan="weekly", population=population)
    assert failure(refused).user_failure_data.metadata["exit_code"].value == 3


def test_an_account_for_replaced_rows_pays_more_noise_for_the_same_epsilon(bench):
    bench.ledger.open_account("swapped", epsilon=10.0, delta=1e-4, relation="replace-one", why="test")
    noise = {}
    for account in ("people", "swapped"):
        result = bench.refresh(account=account)
        assert result.success, failure(result)
        release = bench.ledger.releases(account)[-1]
        assert release.final_epsilon <= 4.0
        noise[account] = bench.ledger.entries(release_id=release.id)[-1].events[-1].noise_multiplier
    assert noise["swapped"] > 1.3 * noise["people"]
    bench.ledger.verify()


def test_the_same_content_under_another_account_is_told_to_a_review_and_to_no_run(bench):
    assert bench.refresh(epsilon=1.0).success
    bench.ledger.open_account("alias", epsilon=10.0, delta=1e-4, why="test")
    result = bench.refresh(account="alias", epsilon=1.0)
    facts = next(e for e in result.get_asset_materialization_events() if e.asset_key.path[-1] == "ingested")
    assert not [name for name in facts.materialization.metadata if "content" in name]
    (source,) = governance.facts(bench.ledger, Store(bench.store))["sources"]
    assert [match["accounts"] for match in source["same_content"]] == [["alias", "people"]]


@pytest.mark.parametrize("cron", ["every monday", "99 * * * *"])
def test_a_schedule_that_is_no_cron_is_refused_by_name(bench, cron):
    with pytest.raises(Exception, match="cron"):
        bench.settings(schedule=cron)


def test_a_schedule_is_off_until_a_person_starts_it(bench):
    (schedule,) = bench.definitions(schedule="0 3 * * 1").schedules
    assert schedule.default_status.value == "STOPPED"
    assert schedule.tags["dp_synth/epsilon"] == "4.0"


def test_a_seed_in_the_settings_is_refused(bench):
    with pytest.raises(Exception, match="seed"):
        bench.settings(training={"seed": 1})
