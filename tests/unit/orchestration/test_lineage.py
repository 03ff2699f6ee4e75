"""What depends on what, read from an asset graph."""

import sys
import types

import dagster as dg
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import build, lineage
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings, TableSettings


def made(key: str, *parents: str) -> dg.AssetSpec:
    return dg.AssetSpec(dg.AssetKey(key.split("/")), deps=[dg.AssetKey(p.split("/")) for p in parents])


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    tables = [
        TableSettings(table="people", source="people.parquet", account="people", epsilon=1.0),
        TableSettings(
            table="visits", source="postgresql://ana:secret@db/clinic?table=visits", account="v", epsilon=1.0
        ),
    ]
    assets = [
        made("marts/cities", "people/published"),
        made("marts/board", "marts/cities", "visits/synthetic"),
        made("people/extra", "people/published"),
        made("scratch/peek", "visits/ingested"),
        made("scratch/copy", "visits/source"),
    ]
    return dg.Definitions.merge(build_defs(tables, ledger="l.db", store="store"), dg.Definitions(assets=assets))


@pytest.fixture(scope="module")
def graph(definitions) -> lineage.Lineage:
    return lineage.read(definitions)


def test_what_is_made_from_a_release_is_found_however_far_down(graph) -> None:
    assert graph.downstream("people") == ["marts/board", "marts/cities", "people/extra"]
    assert graph.downstream("visits") == ["marts/board"]


def test_an_asset_that_reads_real_rows_outside_the_chain_is_named(graph) -> None:
    assert graph.reads_rows("people") == []
    assert graph.reads_rows("visits") == ["scratch/copy", "scratch/peek"]


def test_the_person_level_sources_of_a_table_and_of_what_is_made_from_it(graph) -> None:
    assert graph.sources_of("people") == ["people"]
    assert graph.sources_of("marts/board") == ["people", "visits"]
    assert graph.sources_of("scratch/peek") == ["visits"]
    with pytest.raises(InvalidInput, match="known tables: people, visits"):
        graph.sources_of("nothing")


def test_related_tables_are_one_release_whose_own_stages_are_no_strangers_to_its_rows() -> None:
    clinic = RelatedTablesSettings(
        database="clinic",
        account="clinic",
        epsilon=2.0,
        tables={  # type: ignore[arg-type]
            "patients": {"source": "patients.parquet", "key": "patient_id"},
            "visits": {"source": "visits.parquet", "parent": {"patient_id": "patients"}},
        },
    )
    others = [made("scratch/peek", "clinic/visits/source"), made("marts/board", "clinic/visits/published")]
    defs = dg.Definitions.merge(build_defs([clinic], ledger="l.db", store="store"), dg.Definitions(assets=others))
    graph = lineage.read(defs)
    assert graph.tables == ["clinic"]
    assert graph.source("clinic")["source"] == "patients.parquet, visits.parquet"
    assert graph.source("clinic")["account"] == "clinic"
    assert graph.reads_rows("clinic") == ["scratch/peek"]
    assert graph.downstream("clinic") == ["marts/board"]
    for name in ("marts/board", "clinic", "clinic/visits", "clinic/visits/published"):
        assert graph.sources_of(name) == ["clinic"]


def test_a_source_is_shown_without_its_secrets_with_account_and_unit(graph) -> None:
    told = graph.source("visits")
    assert told == {"source": "postgresql://db/clinic?table=visits", "account": "v", "unit": "row"}


def test_without_definitions_nothing_is_claimed() -> None:
    empty = lineage.read(None)
    assert (empty.tables, empty.downstream("people"), empty.source("people")) == ([], [], {})


def test_a_project_is_loaded_by_its_module(definitions, monkeypatch) -> None:
    module = types.ModuleType("some_project")
    module.defs = definitions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_project", module)
    assert build.load_project("some_project") is definitions
    module.others = dg.Definitions()  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=r"2 dagster\.Definitions"):
        build.load_project("some_project")
    with pytest.raises(InvalidInput, match="cannot be imported"):
        build.load_project("no_such_project")
