"""What runs by itself and what never does: conditions, the sensor on new data, schedules of partitions, freshness."""

from __future__ import annotations

import json
import os
import warnings
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.automation import SPENDING, refuse_eager_spending
from dp_synth_pipeline.orchestration.build import build_defs, build_synthetic_table
from dp_synth_pipeline.orchestration.settings import NewDataSettings, TableSettings

FREE = ["synthetic", "published", "quality_report", "release_card"]


def table(**changes) -> TableSettings:
    return TableSettings(**{"table": "visits", "source": "v.parquet", "account": "clinic", "epsilon": 1.0, **changes})


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
    definitions = build_synthetic_table(table())
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
            dg.build_sensor_context(cursor=cursor, repository_def=build_defs([settings]).get_repository_def())
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


def test_a_partitioned_table_has_no_sensor_but_its_schedule_asks_for_the_window_that_is_over():
    cut = {"column": "seen", "cadence": "daily", "start": "2026-01-01"}
    with pytest.raises(Exception, match="schedule"):
        table(partitions=cut, on_new_data={})
    definitions = build_defs([table(partitions=cut, schedule="0 3 * * *")])
    at = datetime(2026, 2, 3, 3, tzinfo=UTC)
    context = dg.build_schedule_context(scheduled_execution_time=at, repository_def=definitions.get_repository_def())
    schedule = definitions.get_schedule_def("visits_refresh_schedule")
    asked = schedule.evaluate_tick(context).run_requests
    assert [r.partition_key for r in asked] == ["2026-02-02"]
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED


def test_a_schedule_of_listed_values_asks_for_each_of_them():
    cut = {"column": "city", "values": ["Rome", "Oslo"]}
    definitions = build_defs([table(partitions=cut, schedule="0 3 * * *")])
    at = datetime(2026, 2, 3, 3, tzinfo=UTC)
    context = dg.build_schedule_context(scheduled_execution_time=at, repository_def=definitions.get_repository_def())
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
