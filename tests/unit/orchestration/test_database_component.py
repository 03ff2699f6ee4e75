"""`SyntheticDatabase` gives the whole graph of related tables, and names each mistake of its YAML by its line."""

import dagster as dg
import pandas as pd
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import schedules
from dp_synth_pipeline.orchestration.component import VALIDATING, SyntheticDatabase

TYPE = "dp_synth_pipeline.orchestration.component.SyntheticDatabase"
TABLES = {
    "patients": {"source": "patients.parquet", "key": "patient_id"},
    "visits": {"source": "visits.parquet", "parent": {"patient_id": "patients"}, "order": "visited"},
}


def loaded(**changes) -> dg.Definitions:
    attributes = {"account": "patients", "epsilon": 3.0, "tables": TABLES, **changes}
    with create_defs_folder_sandbox() as sandbox:
        contents = {"type": TYPE, "attributes": attributes}
        path = sandbox.scaffold_component(SyntheticDatabase, "clinic", defs_yaml_contents=contents)
        with sandbox.load_component_and_build_defs(path) as (component, definitions):
            assert isinstance(component, SyntheticDatabase)
            return definitions


def test_the_folder_names_the_database_and_each_table_has_its_assets_in_one_group():
    specs = {tuple(s.key.path): s for s in loaded().resolve_all_asset_specs()}
    assert ("clinic", "visits", "generator") in specs
    assert ("clinic", "release_card") in specs
    assert {s.group_name for key, s in specs.items() if key[0] == "clinic"} == {"clinic"}
    assert ("privacy_accounts", "patients") in specs


def test_what_looks_at_rows_is_restricted_and_what_spends_says_so():
    specs = {tuple(s.key.path): s.tags for s in loaded().resolve_all_asset_specs()}
    assert specs["clinic", "ingested"]["dp_synth/visibility"] == "restricted"
    assert specs["clinic", "visits", "completed"]["dp_synth/visibility"] == "restricted"
    assert specs["clinic", "visits", "synthetic"]["dp_synth/visibility"] == "releasable"
    for stage in ("profile", "completed", "generator"):
        assert specs["clinic", "visits", stage]["dp_synth/spends"] == "true"


def test_a_root_without_a_source_has_no_asset_of_one_and_stands_in_the_graph_all_the_same():
    tables = {"patients": {"key": "patient_id"}, "visits": TABLES["visits"]}
    keys = {tuple(s.key.path) for s in loaded(tables=tables).resolve_all_asset_specs()}
    assert ("clinic", "visits", "source") in keys
    assert ("clinic", "patients", "source") not in keys
    assert ("clinic", "patients", "synthetic") in keys


def test_a_public_table_has_a_source_that_everybody_may_see_and_is_published_with_the_others():
    public = {"source": "wards.csv", "key": "ward", "public": {"why": "it is on the door", "by": "Ana"}}
    visits = {**TABLES["visits"], "refers": {"ward": "wards"}}
    definitions = loaded(tables={**TABLES, "visits": visits, "wards": public}, rules=["visits.beds <= wards.beds"])
    specs = {tuple(s.key.path): s for s in definitions.resolve_all_asset_specs()}
    assert {key for key in specs if "wards" in key} == {("clinic", "wards", "source"), ("clinic", "wards", "published")}
    assert specs["clinic", "wards", "source"].tags["dp_synth/visibility"] == "releasable"
    assert "dp_synth/source" not in specs["clinic", "wards", "source"].metadata, "else it would count as person-level"
    assert "it is on the door, says Ana" in specs["clinic", "wards", "source"].description
    assert "as it is" in specs["clinic", "wards", "published"].description
    assert "synthetic" in specs["clinic", "visits", "published"].description
    checks = {(check.asset_key.path[1], check.name) for check in definitions.resolve_asset_graph().asset_check_keys}
    assert {("visits", "rows_refer_to_public_rows"), ("visits", "rule_1__visits_beds_le_wards_beds")} <= checks
    assert not {name for table, name in checks if table in ("wards", "patients") and "public" in name}


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ({"parent": {"patient_idd": "patients"}}, 2, "there is no column 'patient_idd'.* Did you mean patient_id?"),
        ({"order": "vsited"}, 2, "tables.visits: there is no column 'vsited'.* Did you mean visited?"),
        (
            {"columns": {"wrad": {"kind": "category"}}},
            8,
            "declared column 'wrad' is not in the source.* Did you mean ward?",
        ),
    ],
)
def test_a_name_that_no_column_of_a_table_at_hand_has_is_named_by_line(changes, line, said, tmp_path, monkeypatch):
    monkeypatch.setenv(VALIDATING, "1")
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"patient_id": [1], "visited": ["2024-01-01"], "ward": ["A"]}).to_parquet("visits.parquet")
    tables = {"visits": {**TABLES["visits"], **changes}, "patients": TABLES["patients"]}
    text = yaml.safe_dump({"tables": tables, "account": "patients", "epsilon": 3.0}, sort_keys=False)
    with pytest.raises(InvalidInput, match=said) as caught:
        SyntheticDatabase.resolve_from_yaml(text)
    assert f":{line}: " in str(caught.value), f"{caught.value}\n{text}"


def test_a_public_table_at_hand_has_its_key_and_is_referred_to_by_columns_that_are_there(tmp_path, monkeypatch):
    monkeypatch.setenv(VALIDATING, "1")
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"patient_id": [1], "visited": ["2024-01-01"], "ward": ["A"]}).to_parquet("visits.parquet")
    (tmp_path / "wards.csv").write_text("ward,beds\nA,3\n")
    public = {"source": "wards.csv", "key": "ward", "public": {"why": "it is on the door", "by": "Ana"}}

    def resolve(refers, key="ward"):
        tables = {"visits": {**TABLES["visits"], "refers": refers}, "patients": TABLES["patients"]}
        written = {"tables": {**tables, "wards": {**public, "key": key}}, "account": "patients", "epsilon": 3.0}
        SyntheticDatabase.resolve_from_yaml(yaml.safe_dump(written, sort_keys=False))

    resolve({"ward": "wards"})
    with pytest.raises(InvalidInput, match=r"tables.visits: there is no column 'wrad'.* Did you mean ward\?"):
        resolve({"wrad": "wards"})
    with pytest.raises(InvalidInput, match=r"tables.wards: there is no column 'wrad'.* Did you mean ward\?"):
        resolve({"ward": "wards"}, key="wrad")


TEXTS = {**TABLES, "visits": {**TABLES["visits"], "columns": {"notes": {"kind": "text", "max_length": 80}}}}


@pytest.mark.parametrize(
    ("checked", "written", "told"),
    [
        (True, {"schedule": "0 3 * * 1"}, True),
        (False, {"schedule": "0 3 * * 1"}, False),
        (True, {}, False),
        (True, {"schedule": "0 3 * * 1", "refresh": {"remember": False}}, False),
        (True, {"schedule": "0 3 * * 1", "refresh": {"remember": True, "epsilon": 0.3}}, False),
        (True, {"schedule": "0 3 * * 1", "training": {"rake": False}}, False),
        (True, {"schedule": "0 3 * * 1", "tables": TEXTS}, False),
    ],
)
def test_whoever_checks_a_schedule_is_told_of_tables_that_remember_where_these_could(
    monkeypatch, caplog, checked, written, told
):
    if checked:
        monkeypatch.setenv(VALIDATING, "1")
    definitions = loaded(**written)
    assert ("clinic: a schedule refreshes it, and each refresh is by itself." in caplog.text) is told
    assert ("0.111 and 0.199 by themselves" in caplog.text) is told
    for schedule in definitions.schedules or ():
        assert isinstance(schedule, dg.ScheduleDefinition)
        assert (schedules.INDEPENDENT in schedule.tags) is (told or not checked)


def test_a_schedule_and_an_executor_are_those_that_were_asked_for():
    definitions = loaded(schedule="0 3 * * 1", compute={"training": {"cpus": 2}})
    assert [s.name for s in definitions.schedules or ()] == ["clinic_refresh_schedule"]
    job = definitions.resolve_job_def("clinic_refresh")
    tags = job.graph.node_named("clinic__visits__generator").definition.tags
    assert "dp_synth/compute" in tags


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "much"}, "epsilon"),
        (
            {"tables": {**TABLES, "visits": {**TABLES["visits"], "colour": 1}}},
            "tables.visits.colour: there is no such field",
        ),
        ({"tables": {**TABLES, "visits": {"parent": {"patient_id": "patients"}}}}, "say where its rows are"),
        ({"tables": {**TABLES, "visits": {"source": "v.csv"}}}, "one table has no parent"),
        ({"tables": {"patients": {**TABLES["patients"], "columns": {"sex": {"colour": 1}}}}}, "colour"),
        ({"target": "one.parquet"}, "holds one table"),
        ({"target": "."}, "it is the source of patients itself"),
        ({"schedule": "often"}, "schedule"),
        ({"unit": "visits"}, "it is the root of the tables"),
    ],
)
def test_a_mistake_is_named_when_definitions_load(changes, words):
    with pytest.raises(Exception, match="clinic") as refused:
        loaded(**changes)
    cause = refused.value.__cause__
    assert isinstance(cause, InvalidInput)
    assert words in str(cause)
    assert "in this database's YAML" in str(cause)


def test_what_is_scaffolded_loads_as_it_stands():
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(SyntheticDatabase, "clinic")
        with sandbox.load_component_and_build_defs(path) as (component, definitions):
            assert isinstance(component, SyntheticDatabase)
            assert definitions.resolve_job_def("clinic_refresh")


def test_a_large_epsilon_is_told_when_definitions_load(caplog):
    loaded(epsilon=20.0)
    assert "One refresh of clinic has a large budget: ε = 20." in caplog.text
