"""What runs by itself and what never does: conditions, the sensor on new data, schedules of partitions, freshness."""

from __future__ import annotations

import json
import os
import warnings
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts
from dp_synth_pipeline.orchestration.automation import SPENDING, refuse_eager_spending
from dp_synth_pipeline.orchestration.build import build_defs, build_synthetic_table
from dp_synth_pipeline.orchestration.settings import NewDataSettings, TableSettings

FREE = ["synthetic", "published", "quality_report", "release_card"]


def table(**changes) -> TableSettings:
    return TableSettings(**{"table": "visits", "source": "v.parquet", "account": "clinic", "epsilon": 1.0, **changes})


def ledger_in(folder, epsilon: float = 5.0) -> str:
    """A ledger whose account has room for some refreshes."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = Ledger.open(url)
    if not ledger.accounts():
        ledger.open_account("clinic", epsilon=epsilon, delta=1e-5)
    return url


def specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {s.key.path[-1]: s for s in definitions.resolve_all_asset_specs()}


@pytest.mark.parametrize("link", ["source", *SPENDING])
def test_a_condition_on_a_link_up_to_the_generator_is_refused_by_name(link):
    with pytest.raises(Exception, match=f"automation condition on {link} would spend epsilon"):
        table(automation={link: "eager"})


def test_a_condition_that_is_no_word_and_no_cron_or_on_no_link_is_refused():
    with pytest.raises(Exception, match="eager, on_missing or a cron"):
        table(automation={"published": "on_source_update"})
    with pytest.raises(Exception, match="expected some of"):
        table(automation={"cards": "eager"})


def test_links_after_the_generator_may_follow_it_and_no_other_link_has_a_condition():
    found = specs(build_defs([table(automation={**dict.fromkeys(FREE, "eager"), "published": "0 3 * * 1"})]))
    assert sorted(n for n, s in found.items() if s.automation_condition is not None) == sorted(FREE)
    assert "all_deps_blocking_checks_passed" in str(found["published"].automation_condition)


def test_when_a_generator_is_new_only_its_synthetic_rows_follow_and_nothing_spends():
    definitions = build_defs([table(automation=dict.fromkeys(FREE, "eager"))])
    with dg.DagsterInstance.ephemeral() as instance:
        first = dg.evaluate_automation_conditions(definitions, instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(["visits", "generator"]))
        second = dg.evaluate_automation_conditions(definitions, instance, cursor=first.cursor)
        asked = [k for k in specs(definitions) if second.get_num_requested(dg.AssetKey(["visits", k]))]
    assert first.total_requested == 0
    assert asked == ["synthetic"]


@pytest.mark.parametrize("link", SPENDING)
def test_a_condition_that_a_person_maps_onto_the_assets_is_refused_by_the_assets_name(link):
    definitions = build_synthetic_table(table(columns={"note": {"kind": "text", "max_length": 9}}))
    refuse_eager_spending(definitions)
    eager = dg.map_asset_specs(
        lambda s: (
            s.replace_attributes(automation_condition=dg.AutomationCondition.eager()) if s.key.path[-1] == link else s
        ),
        definitions.assets,
    )
    with pytest.raises(InvalidInput, match=f"visits/{link}: an automation condition"):
        refuse_eager_spending(dg.Definitions(assets=eager))


def test_a_condition_on_a_job_that_spends_is_refused_too():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for chosen, refused in (("generator", True), ("published", False)):
            job = dg.define_asset_job(
                "mine",
                dg.AssetSelection.assets(dg.AssetKey(["visits", chosen])),
                automation_condition=dg.AutomationCondition.on_cron("@daily"),
            )
            merged = dg.Definitions.merge(build_synthetic_table(table()), dg.Definitions(jobs=[job]))
            if not refused:
                refuse_eager_spending(merged)
                continue
            with pytest.raises(InvalidInput, match="job mine"):
                refuse_eager_spending(merged)


def test_whoever_loads_the_source_may_automate_that():
    loading = dg.AssetSpec("lake", automation_condition=dg.AutomationCondition.eager())
    refuse_eager_spending(dg.Definitions.merge(build_synthetic_table(table()), dg.Definitions(assets=[loading])))


@pytest.fixture
def watched(tmp_path):
    """A source file, and a way to look at it some hours later."""
    path = tmp_path / "v.parquet"
    path.write_bytes(b"PAR1")
    settings = table(source=str(path), on_new_data={"minutes": 5, "at_most_every": "2h"})
    (sensor,) = (build_defs([settings]).get_sensor_def("visits_new_data_sensor"),)

    def look(cursor):
        return sensor.evaluate_tick(
            dg.build_sensor_context(
                cursor=cursor, repository_def=build_defs([settings], ledger_in(tmp_path)).get_repository_def()
            )
        )

    return path, sensor, look


def test_the_sensor_is_off_until_a_person_starts_it_and_looks_as_often_as_it_says(watched):
    _, sensor, _ = watched
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
    assert sensor.minimum_interval_seconds == 300


def test_the_sensor_notes_what_is_there_then_asks_once_for_each_change_and_not_too_often(watched):
    path, _, look = watched
    first = look(None)
    assert first.run_requests == []
    assert look(first.cursor).run_requests == []
    os.utime(path, (1e9, 1e9))
    changed = look(first.cursor)
    assert [r.run_key for r in changed.run_requests] == ["visits:2001-09-09T01:46:40+00:00"]
    assert look(changed.cursor).run_requests == []
    os.utime(path, (2e9, 2e9))
    early = look(changed.cursor)
    assert (early.run_requests, "at most one refresh in 2h" in early.skip_message) == ([], True)
    facts = json.loads(changed.cursor)
    facts["asked"] = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    assert len(look(json.dumps(facts)).run_requests) == 1


def test_the_cursor_says_when_a_file_was_written_and_nothing_of_what_is_in_it(watched):
    path, _, look = watched
    first = look(None)
    os.utime(path, (1e9, 1e9))
    cursors = [json.loads(look(first.cursor).cursor)]
    path.write_bytes(b"PAR1" * 1000)
    os.utime(path, (1e9, 1e9))
    cursors.append(json.loads(look(first.cursor).cursor))
    assert [set(c) for c in cursors] == [{"written", "asked"}] * 2
    assert cursors[0]["written"] == cursors[1]["written"]  # a thousand rows more, and the cursor does not know


def test_a_source_that_goes_away_asks_for_nothing(watched):
    path, _, look = watched
    path.unlink()
    assert "is not there" in look(None).skip_message


def test_a_sensor_without_a_file_to_look_at_is_refused_and_a_watermark_is_one():
    for source in ("postgresql://u@h/db?table=t", "lake/*.parquet", "lake"):
        with pytest.raises(Exception, match="watermark"):
            table(source=source, on_new_data=NewDataSettings())
    assert table(source="postgresql://u@h/db?table=t", on_new_data={"watermark": "_SUCCESS"}).on_new_data is not None


def test_a_partitioned_table_has_no_sensor_but_its_schedule_asks_for_the_window_that_is_over(tmp_path):
    cut = {"column": "seen", "cadence": "daily", "start": "2026-01-01"}
    with pytest.raises(Exception, match="schedule"):
        table(partitions=cut, on_new_data={})
    definitions = build_defs([table(partitions=cut, schedule="0 3 * * *")], ledger_in(tmp_path))
    at = datetime(2026, 2, 3, 3, tzinfo=UTC)
    context = dg.build_schedule_context(
        scheduled_execution_time=at,
        repository_def=definitions.get_repository_def(),
    )
    schedule = definitions.get_schedule_def("visits_refresh_schedule")
    asked = schedule.evaluate_tick(context).run_requests
    assert [r.partition_key for r in asked] == ["2026-02-02"]
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED


def test_a_schedule_of_listed_values_asks_for_each_of_them(tmp_path):
    cut = {"column": "city", "values": ["Rome", "Oslo"]}
    definitions = build_defs([table(partitions=cut, schedule="0 3 * * *")], ledger_in(tmp_path))
    at = datetime(2026, 2, 3, 3, tzinfo=UTC)
    context = dg.build_schedule_context(
        scheduled_execution_time=at,
        repository_def=definitions.get_repository_def(),
    )
    asked = definitions.get_schedule_def("visits_refresh_schedule").evaluate_tick(context).run_requests
    assert [r.partition_key for r in asked] == ["Rome", "Oslo"]


def test_the_published_table_is_fresh_for_as_long_as_the_yaml_says_and_no_other_link_is_watched():
    found = specs(build_defs([table(fresh_for="8d")]))
    assert found["published"].freshness_policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(days=8))
    assert [n for n, s in found.items() if s.freshness_policy is not None] == ["published"]
    with pytest.raises(Exception, match="fresh_for: expected hours, days or weeks"):
        table(fresh_for="soon")


def test_triggers_are_no_part_of_what_a_refresh_does_to_private_data():
    with_triggers = table(fresh_for="8d", on_new_data={}, automation={"published": "eager"})
    assert with_triggers.code_version() == table().code_version()
    assert table(partitions={"column": "city", "values": ["Rome"]}).code_version() != table().code_version()


def tick(definitions: dg.Definitions, instance: dg.DagsterInstance):
    """Evaluate the schedule of the table once."""
    with dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 2, 3, 3, tzinfo=UTC),
        repository_def=definitions.get_repository_def(),
    ) as context:
        return definitions.get_schedule_def("visits_refresh_schedule").evaluate_tick(context)


def test_a_tick_that_the_ledger_would_refuse_is_skipped_with_the_reason_before_any_run_and_opens_no_source(tmp_path):
    url = ledger_in(tmp_path)
    head = Ledger.open(url).head()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        fits = tick(build_defs([table(schedule="0 3 * * *")], url), instance)
        assert (len(fits.run_requests), fits.skip_message) == (1, None)
        assert list(accounts.refusals(instance)) == []
        dear = table(schedule="0 3 * * *", epsilon=50.0, source=str(tmp_path / "is not there.parquet"))
        refused = tick(build_defs([dear], url), instance)
        assert refused.run_requests == []
        assert refused.skip_message.startswith("Account 'clinic' refuses this release")
        (shown,) = accounts.refusals(instance)
    assert (shown.account, shown.table, shown.run_id, shown.why) == ("clinic", "visits", "", refused.skip_message)
    assert Ledger.open(url).head() == head


def test_of_several_partitions_a_tick_asks_for_those_that_fit(tmp_path):
    cut = {"column": "city", "values": ["Rome", "Oslo", "Lima"]}
    person = {"unit": {"column": "person", "max_rows": 2}, "partitions": {**cut, "units_span": True}}
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    definitions = build_defs([table(**person, schedule="0 3 * * *", epsilon=3.0)], url)
    Ledger.open(url).open_account("clinic", epsilon=6.0, delta=1e-5, unit="person", max_rows=2)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = tick(definitions, instance)
        (shown,) = accounts.refusals(instance)
    assert [r.partition_key for r in asked.run_requests] == ["Rome", "Oslo"]
    assert "3 partitions, 2 fit; the first that does not: Lima" in shown.why


def test_a_mistake_that_a_person_must_mend_is_left_to_a_run_that_fails(tmp_path):
    url = ledger_in(tmp_path)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = tick(build_defs([table(schedule="0 3 * * *", account="nobody")], url), instance)
        assert len(asked.run_requests) == 1
        assert list(accounts.refusals(instance)) == []


def test_a_table_without_a_guarantee_asks_no_account(tmp_path):
    public = {"account": None, "epsilon": None, "privacy": "none", "public": {"by": "Ana", "why": "open data"}}
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = tick(build_defs([table(**public, schedule="0 3 * * *")], ledger_in(tmp_path)), instance)
    assert len(asked.run_requests) == 1


def test_new_data_that_the_account_cannot_pay_for_wait_and_are_refused_once(tmp_path):
    path = tmp_path / "v.parquet"
    path.write_bytes(b"PAR1")
    settings = table(source=str(path), on_new_data={"minutes": 5, "at_most_every": "2h"}, epsilon=50.0)
    url = ledger_in(tmp_path)
    definitions = build_defs([settings], url)
    sensor = definitions.get_sensor_def("visits_new_data_sensor")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:

        def look(cursor):
            return sensor.evaluate_tick(
                dg.build_sensor_context(instance, cursor, repository_def=definitions.get_repository_def())
            )

        first = look(None)
        os.utime(path, (1e9, 1e9))
        refused = look(first.cursor)
        again = look(refused.cursor)
        assert refused.run_requests == again.run_requests == []
        assert "refuses this release" in refused.skip_message == again.skip_message
        assert len(list(accounts.refusals(instance))) == 1
        Ledger.open(url).raise_account("clinic", epsilon=100.0, why="decided", who="Ana")
        assert len(look(again.cursor).run_requests) == 1


def test_a_tick_asks_a_second_person_once_and_becomes_a_run_after_the_approval(tmp_path):
    url = ledger_in(tmp_path)
    ledger = Ledger.open(url)
    ledger.amend_account("clinic", approve_above=0.01, why="w", who="Ana")
    definitions = build_defs([table(schedule="0 3 * * *", intended_use="waiting times")], url)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for _ in range(2):
            waits = tick(definitions, instance)
            assert (waits.run_requests, "waits for a second person" in waits.skip_message) == ([], True)
        (asked,) = ledger.requests()
        assert (asked.why, asked.facts["table"], ledger.releases()) == ("waiting times", "visits", [])
        assert next(accounts.refusals(instance)).why.startswith(f"Request {asked.id[:12]} waits")
        ledger.approve(asked.id, why="agreed", who="Ana")
        assert len(tick(definitions, instance).run_requests) == 1


@pytest.mark.parametrize("cut", [None, {"column": "city", "values": ["Rome", "Oslo"]}], ids=["whole", "parted"])
def test_a_tick_that_would_exceed_a_quota_becomes_no_run_and_says_whose(tmp_path, cut):
    url = ledger_in(tmp_path)
    ledger = Ledger.open(url)
    account = "clinic" if cut is None else "days"
    ledger.open_account("days", epsilon=1.0, delta=1e-4, rule="plan", unit_in_one_block=True)
    ledger.amend_account(account, quotas=["purpose=waiting times:0.0"], why="w", who="Ana")
    asked = table(schedule="0 3 * * *", intended_use="waiting times", partitions=cut, account=account)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        skipped = tick(build_defs([asked], url), instance)
        assert skipped.run_requests == []
        said = "Quota purpose=waiting times:0.0 of account 'clinic' refuses this: what is for 'waiting times' may take"
        assert (
            said if cut is None else "Account 'days', or a quota, refuses a refresh of visits"
        ) in skipped.skip_message
        ledger.amend_account(account, quotas=["purpose=waiting times:1"], why="w", who="Ana")
        assert tick(build_defs([asked], url), instance).run_requests


def test_new_data_that_wait_for_a_second_person_go_on_by_themselves_once_they_are_approved(tmp_path):
    path = tmp_path / "v.parquet"
    path.write_bytes(b"PAR1")
    ledger = Ledger.open(ledger_in(tmp_path))
    ledger.amend_account("clinic", approve_above=0.01, why="w", who="Ana")
    settings = table(source=str(path), on_new_data={"minutes": 5, "at_most_every": "2h"})
    definitions = build_defs([settings], ledger_in(tmp_path))
    sensor, project = definitions.get_sensor_def("visits_new_data_sensor"), definitions.get_repository_def()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:

        def look(cursor):
            return sensor.evaluate_tick(dg.build_sensor_context(instance, cursor, repository_def=project))

        first = look(None)
        os.utime(path, (1e9, 1e9))
        waits = look(first.cursor)
        assert (waits.run_requests, "waits for a second person" in waits.skip_message) == ([], True)
        ledger.approve(ledger.requests()[0].id, why="agreed", who="Ana")
        assert len(look(waits.cursor).run_requests) == 1


def test_each_partition_waits_for_an_approval_of_its_own(tmp_path):
    cut = {"column": "city", "values": ["Rome", "Oslo"]}
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger.open(url)
    terms = {"epsilon": 6.0, "delta": 1e-5, "unit": "person", "max_rows": 2}
    ledger.open_account("clinic", **terms, unit_in_one_block=True, approve_above=0.1)
    parts = {"unit": {"column": "person", "max_rows": 2}, "partitions": {**cut, "units_span": False}}
    definitions = build_defs([table(**parts, schedule="0 3 * * *", epsilon=3.0)], url)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert tick(definitions, instance).run_requests == []
        asked = {json.loads(r.facts["blocks"])[0]: r.id for r in ledger.requests()}
        assert list(asked) == ["city:value:rome", "city:value:oslo"]
        ledger.approve(asked["city:value:oslo"], why="agreed", who="Ana")
        assert [r.partition_key for r in tick(definitions, instance).run_requests] == ["Oslo"]
    ledger.verify()
