"""What a YAML says about warehouses: secrets from the environment, never shown; a filter that is part of the code."""

from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.component import SyntheticTable
from dp_synth_pipeline.orchestration.settings import TableSettings

PASSWORD = "hunter2"
URI = f"postgresql://ann:{PASSWORD}@db.example/clinic?table=public.visits"


def settings(**changes) -> TableSettings:
    return TableSettings(**{"table": "visits", "source": URI, "account": "clinic", "epsilon": 1.0, **changes})


def told(definitions: dg.Definitions) -> str:
    """Everything that the definitions say about themselves."""
    specs = definitions.resolve_all_asset_specs()
    job = definitions.resolve_job_def("visits_refresh")
    return (
        repr([(s, s.description, s.metadata, s.tags, s.code_version) for s in specs]) + f"{job.description}{job.tags}"
    )


def test_a_uri_from_the_environment_is_resolved_and_its_password_never_shown(monkeypatch):
    monkeypatch.setenv("CLINIC_URI", URI)
    attributes = {
        "source": "{{ env.CLINIC_URI }}",
        "account": "clinic",
        "epsilon": 1.0,
        "target": "{{ env.CLINIC_URI }}_s",
    }
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            SyntheticTable,
            "visits",
            defs_yaml_contents={
                "type": "dp_synth_pipeline.orchestration.component.SyntheticTable",
                "attributes": attributes,
            },
        )
        with sandbox.load_component_and_build_defs(path) as (component, definitions):
            assert isinstance(component, SyntheticTable)
            assert component.source == URI
            assert component.targets == [f"{URI}_s"]
            assert PASSWORD not in repr(component)
            said = told(definitions)
    assert "postgresql://db.example/clinic?table=public.visits" in said
    assert PASSWORD not in said


def test_neither_settings_nor_their_mistakes_show_a_password():
    assert PASSWORD not in repr(settings(target=URI + "2"))
    for mistake in ({"epsilon": "x"}, {"account": None}, {"filter": "a;"}, {"target": URI}, {"nonsense": 1}):
        with pytest.raises(ValueError, match="validation error") as refused:
            settings(**mistake)
        assert PASSWORD not in str(refused.value)


def test_a_filter_changes_the_code_version_and_a_new_password_does_not():
    plain = settings()
    assert settings(filter="age > 18").code_version() != plain.code_version()
    assert settings(filter="age > 18").code_version() != settings(filter="age > 19").code_version()
    assert settings(source=URI.replace(PASSWORD, "other")).code_version() == plain.code_version()
    assert settings(source=URI.replace("visits", "stays")).code_version() != plain.code_version()


@pytest.mark.parametrize("text", ["a > 1; drop table t", "a > (select 1)", ""])
def test_a_filter_that_is_no_predicate_is_refused_in_the_yaml(text):
    with pytest.raises(ValueError, match="filter: "):
        settings(filter=text)


def test_a_table_is_never_its_own_target(tmp_path: Path):
    with pytest.raises(ValueError, match="it is the source itself"):
        settings(target=URI.replace("ann", "bob"))
    assert build_defs([settings(target=str(tmp_path / "t.parquet"))])
