"""The record for the public Differential Privacy Deployments Registry."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dp_synth_pipeline import cli
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import SelectedTraining
from dp_synth_pipeline.reporting import registry
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard, to_json
from dp_synth_pipeline.reporting.registry import Curation, record, schema, to_yaml
from tests.unit.reporting.test_card import CARD, FACTS

CURATION = Curation("Ministry of Health", "Planning", "Norway", "Healthcare", "Dynamic", ("Ana Lima",))
VALIDATOR = jsonschema.Draft7Validator(schema(), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)


def _mistakes(node: Any) -> list[str]:
    return [f"{'.'.join(map(str, e.path))}: {e.message}" for e in VALIDATOR.iter_errors(node)]


def _edited(path: str, value: Any) -> dict[str, Any]:
    """Return a good record with one value replaced, added or, if it is `...`, taken away."""
    told = record(CARD, CURATION)
    *parents, last = path.split(".")
    node = told
    for name in parents:
        node = node[name]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return told


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        ReleaseCard(dataclasses.replace(FACTS, delta=0.0)),
        ReleaseCard(dataclasses.replace(FACTS, unit="row", unit_max_rows=1, public=[], limits=[], account="")),
        ReleaseCard(dataclasses.replace(FACTS, reused=FACTS.mechanisms[:2], reused_from="release-0", software="x 1")),
        ReleaseCard(dataclasses.replace(FACTS, description="Visits:\n  # 2019 to 2024, 'all' of them \\ \t")),
    ],
    ids=["whole", "pure", "bare", "reused", "odd text"],
)
@pytest.mark.parametrize("curation", [CURATION, Curation()], ids=["filled in", "draft"])
def test_the_yaml_is_a_record_by_the_registrys_schema(card: ReleaseCard, curation: Curation) -> None:
    assert _mistakes(yaml.safe_load(to_yaml(card, curation))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status", ...),
        ("status", "Done"),
        ("tier", 0),
        ("surprise", "x"),
        ("deployment.administrative.status", "Draft"),
        ("deployment.basic.publication_date", "1/1/2026"),
        ("deployment.basic.data_curators", []),
        ("deployment.basic.data_curators", [{"data_curator_name": "Ministry of Health"}]),
        ("deployment.implementation.composition", "by PLD"),
        ("deployment.privacy_loss.number_of_privacy_units", 20_000),
        ("deployment.privacy_loss.privacy_parameters.mu", 1.0),
        ("deployment.administrative.registry_authors", ...),
    ],
)
def test_the_schema_refuses_what_the_registry_refuses(path: str, value: Any) -> None:
    assert len(_mistakes(_edited(path, value))) == 1


def test_the_schema_allows_no_field_that_it_does_not_name() -> None:
    def objects(node: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [o for child in node.get("properties", {}).values() for o in objects(child)]
        return [node, *inner] if "properties" in node else inner

    jsonschema.Draft7Validator.check_schema(schema())
    assert all(o["additionalProperties"] is False for o in objects(schema()))


def test_the_record_has_its_fields_where_the_registry_looks_for_them() -> None:
    told = record(CARD, CURATION)
    assert (told["status"], told["tier"]) == ("Draft", 3)
    assert told["deployment"]["basic"]["data_curators"] == ["Ministry of Health"]
    assert told["deployment"]["accounting"].keys() == {"composition", "post_processing"}
    assert told["deployment"]["administrative"]["registry_authors"] == ["Ana Lima"]
    assert "Rows after 2020 are missing." in told["deployment"]["administrative"]["notes"]


@pytest.mark.parametrize(
    ("curator", "slug"),
    [("Ministry of Health", "clinic-visits-ministry-of-health-2026"), ("St. Olav's", "clinic-visits-st-olav-s-2026")],
)
def test_the_slug_is_made_of_name_curator_and_year_as_the_registry_makes_it(curator: str, slug: str) -> None:
    assert record(CARD, dataclasses.replace(CURATION, curator=curator))["url_slug"] == slug


def test_the_words_are_those_of_the_registry() -> None:
    told = record(CARD, CURATION)["deployment"]
    assert told["basic"]["data_product_type"] == "Synthetic data"
    assert told["dp_variant"]["variant_name"] == "Approximate DP"
    assert told["deployment_model"]["model_name"] == "Central"
    assert told["deployment_model"]["release_type"] in ("One release", "Many releases")
    assert told["deployment_model"]["access_type"] == "Non-interactive"
    assert told["deployment_model"]["data_source_type"] == "Dynamic"
    pure = record(ReleaseCard(dataclasses.replace(FACTS, delta=0.0)), CURATION)
    assert pure["deployment"]["dp_variant"]["variant_name"] == "Pure DP"


def test_every_mechanism_parameter_and_declared_fact_is_in_the_record() -> None:
    told = record(CARD, CURATION)["deployment"]
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.5, "delta": 1e-5}
    assert "patient_id, at most 4" in told["privacy_loss"]["privacy_unit_details"]
    assert "'steps': 640" in told["implementation"]["mechanisms"]
    assert "north" in told["dp_variant"]["unprotected_quantities"]
    assert "epsilon 4 of it was spent" in told["privacy_loss"]["privacy_parameters_details"]


def test_the_record_of_a_study_says_who_chose_and_how_it_is_composed() -> None:
    study = {"stage": "study", "entry": "entry-1", "event": SelectedTraining(2.0, 0.01, 100, 20.0, 0.1, 4.0).to_dict()}
    plain = record(CARD, CURATION)["deployment"]
    chosen = record(ReleaseCard(dataclasses.replace(FACTS, mechanisms=[study])), CURATION)["deployment"]
    how = "preprocessing_and_hyperparameter_tuning"
    assert "charged selection" in chosen["implementation"][how]
    assert "charged selection" not in plain["implementation"][how]
    assert "Rényi curves" in chosen["accounting"]["composition"]
    assert "privacy loss distribution" in plain["accounting"]["composition"]


def test_the_yaml_reads_back_and_folds_no_line() -> None:
    text = to_yaml(CARD, CURATION)
    assert yaml.safe_load(text) == record(CARD, CURATION)
    assert {getattr(t, "style", None) for t in yaml.scan(text)} <= {None, "|", "'", '"'}
    assert yaml.safe_load(text)["deployment"]["basic"]["publication_date"] == "2026-01-01"


def test_what_only_a_person_knows_is_marked() -> None:
    assert to_yaml(CARD, Curation()).count(registry.FILL_IN) >= 4


@pytest.mark.parametrize("wrong", [{"data_source": "Streaming"}, {"sector": "Sports"}])
def test_a_word_that_the_registry_does_not_know_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="the registry knows"):
        Curation(**wrong)


def test_a_release_without_a_guarantee_is_no_deployment() -> None:
    public = CardFacts("t", "2026", 10, 2, None, None, guarantee="none", public_by="Ana", public_why="open data")
    with pytest.raises(InvalidInput, match="no privacy guarantee"):
        record(ReleaseCard(public), CURATION)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--curator", "Ministry of Health", "--region", "Norway", "--use", "Planning", "--author", "Ana Lima"),
        ("--sector", "Healthcare", "--data-source", "Static"),
    ],
)
def test_the_command_writes_a_record_by_the_registrys_schema(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "card.json").write_text(to_json(CARD), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    wanted = ["card", "export", "card.json", "--format", "registry", *options, "--out", "record.yaml"]
    monkeypatch.setattr(sys, "argv", ["dp-synth", *wanted])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    assert _mistakes(yaml.safe_load((tmp_path / "record.yaml").read_text(encoding="utf-8"))) == []
