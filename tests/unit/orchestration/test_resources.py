"""Whose ledger, store and alerts a table takes: those of the project it lies in, whatever else that calls so."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import build
from dp_synth_pipeline.orchestration.alerts import AlertResource
from dp_synth_pipeline.orchestration.build import build_synthetic_table, completed_definitions
from dp_synth_pipeline.orchestration.component import SyntheticTable
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource, of_project
from dp_synth_pipeline.orchestration.settings import TableSettings


def table(name: str = "visits", **changes) -> dg.Definitions:
    facts = {"table": name, "source": "nowhere.parquet", "account": "clinic", "epsilon": 1.0, **changes}
    return build_synthetic_table(TableSettings(**facts))


def known(**resources) -> dict[str, dg.ResourceDefinition]:
    return dict(dg.Definitions(resources=resources).get_repository_def().get_top_level_resources())


def refused(definitions: dg.Definitions) -> str:
    """Refresh a table whose account nobody opened; return what its first step says."""
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_job_def("visits_refresh")
        result = job.execute_in_process(instance=instance, raise_on_error=False, run_config=quiet)
        failed = next(e for e in result.all_events if e.event_type_value == "STEP_FAILURE")
    return str(failed.step_failure_data.user_failure_data.description)


def test_a_projects_own_resource_is_found_by_its_kind_under_any_key_and_from_the_environment(monkeypatch):
    monkeypatch.setenv("CLINIC_LEDGER", "sqlite:///clinic.db")
    own = known(budget=LedgerResource(url=dg.EnvVar("CLINIC_LEDGER")), ledger="an accountant's", store=3)
    assert of_project(LedgerResource, own).url == "sqlite:///clinic.db"
    assert of_project(StoreResource, own).root == ""
    assert of_project(AlertResource, own).below == 0.2


def test_other_resources_are_not_initialised():
    @dg.resource
    def dear(_):
        raise AssertionError("nobody asked for it")

    assert of_project(LedgerResource, {**known(mine=LedgerResource(url="l.db")), "dear": dear}).url == "l.db"


def test_two_ledgers_in_one_project_are_refused_and_the_same_one_twice_is_not():
    with pytest.raises(InvalidInput, match="more than one LedgerResource: a, b"):
        of_project(LedgerResource, known(a=LedgerResource(url="a.db"), b=LedgerResource(url="b.db")))
    assert of_project(LedgerResource, known(a=LedgerResource(url="a.db"), b=LedgerResource(url="a.db"))).url == "a.db"


def test_a_table_is_complete_by_itself_and_takes_the_ledger_of_its_home(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    assert "clinic" in refused(table())
    assert (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("key", ["ledger", "budget"])
def test_a_run_takes_the_ledger_and_the_store_that_its_project_names(key, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
    resources = {
        key: LedgerResource(url=f"sqlite:///{tmp_path / 'own.db'}"),
        "files": StoreResource(root=str(tmp_path)),
    }
    assert "clinic" in refused(dg.Definitions.merge(table(), dg.Definitions(resources=resources)))
    assert Ledger.open(f"sqlite:///{tmp_path / 'own.db'}", create=False).accounts() == []
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_tables_lie_beside_a_projects_own_resources_sensors_and_executor():
    @dg.asset
    def booked(ledger: dg.ResourceParam[str]) -> None: ...

    theirs = dg.Definitions(assets=[booked], resources={"ledger": "x", "store": "y"}, executor=dg.in_process_executor)
    merged = dg.Definitions.merge(table(), theirs, table("stays", compute={"training": {"gpus": 1}}))
    dg.Definitions.validate_loadable(merged)
    assert len(merged.get_repository_def().sensor_defs) == 5
    assert merged.executor is dg.in_process_executor
    assert merged.resolve_job_def("stays_refresh").executor_def.name == "dp_synth_executor"
    assert completed_definitions(merged).executor is dg.in_process_executor


def test_components_share_their_alerts_and_the_account_that_pays_for_them():
    with create_defs_folder_sandbox() as sandbox:
        for name in ("visits", "stays"):
            facts = {"source": "nowhere.parquet", "account": "clinic", "epsilon": 1}
            contents = {"type": "dp_synth_pipeline.SyntheticTable", "attributes": facts}
            sandbox.scaffold_component(SyntheticTable, name, defs_yaml_contents=contents)
        with sandbox.build_all_defs() as definitions:
            dg.Definitions.validate_loadable(definitions)
            assert len(definitions.get_repository_def().sensor_defs) == 5


def test_a_folder_whose_name_no_job_may_have_is_refused_with_what_to_write():
    facts = {"source": "nowhere.parquet", "account": "clinic", "epsilon": 1}
    with create_defs_folder_sandbox() as sandbox:
        contents = {"type": "dp_synth_pipeline.SyntheticTable", "attributes": facts}
        path = sandbox.scaffold_component(SyntheticTable, "my-visits", defs_yaml_contents=contents)
        with pytest.raises(Exception, match="my-visits") as caught, sandbox.load_component_and_build_defs(path):
            pass
    assert "letters, digits and underscores" in str(caught.value.__cause__)


def test_the_definitions_that_create_dagster_writes_are_loaded_by_their_module(monkeypatch):
    module = types.ModuleType("clinic_definitions")
    module.defs = dg.definitions(lambda: table())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "clinic_definitions", module)
    found = build.load_project("clinic_definitions")
    assert dg.AssetKey(["visits", "published"]) in found.resolve_all_asset_keys()


def test_this_packages_own_project_is_its_defs_folder_and_nothing_else():
    found = build.project_definitions()
    tables = {key.path[0] for key in found.resolve_all_asset_keys() if key.path[-1] == "published"}
    assert tables == {path.parent.name for path in (Path(build.__file__).parents[1] / "defs").glob("*/defs.yaml")}
    assert [key for key in found.resources or {} if not key.startswith("dp_synth_")] == []


def test_outside_of_a_project_there_is_nothing_but_the_demo_where_it_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
    releasable = tmp_path / "home/store/releasable"
    (releasable / "people").mkdir(parents=True)
    assert build.current_project().resolve_all_asset_keys() == []
    (releasable / "rand_hie").mkdir()
    found = {key.path[0] for key in build.current_project().resolve_all_asset_keys()}
    assert {"clinic", "rand_hie"} <= found
