"""The record for the public Differential Privacy Deployments Registry."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import registry
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard
from dp_synth_pipeline.reporting.registry import Curation, record, to_yaml
from tests.unit.reporting.test_card import CARD, FACTS

CURATION = Curation("Ministry of Health", "Government", "Planning", "Norway", "Healthcare", ("Ana Lima",))

REQUIRED = {
    "": {"url_slug", "deployment"},
    "deployment": {"basic", "administrative"},
    "deployment.basic": {
        "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
        "publication_date",
    },
    "deployment.administrative": {"status", "registry_authors", "tier"},
}  # fmt: skip
KNOWN = {
    "deployment": {
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative",
    },
    "deployment.basic": REQUIRED["deployment.basic"] | {"data_product_sector"},
    "deployment.dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "deployment.privacy_loss": {
        "privacy_unit", "privacy_unit_details", "number_of_privacy_units", "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment.privacy_loss.privacy_parameters": {"epsilon", "delta", "rho"},
    "deployment.deployment_model": {
        "model_name", "model_name_details", "trust_assumptions", "actors", "release_type", "release_type_details",
        "data_source_type", "data_source_type_details", "access_type", "access_type_details",
    },
    "deployment.implementation": {
        "preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing", "justification",
        "utility", "additional_information",
    },
    "deployment.administrative": {"evidence_sources", "status", "registry_authors", "tier"},
}  # fmt: skip
"""The fields of the registry's schema, which allows no others."""


def _objects(node: Any, path: str = "") -> dict[str, dict[str, Any]]:
    found = {path: node}
    for key, value in node.items():
        if isinstance(value, dict):
            found |= _objects(value, f"{path}.{key}".strip("."))
    return found


def test_the_record_has_what_the_registry_requires_and_nothing_it_does_not_know() -> None:
    found = _objects(record(CARD, CURATION))
    for path, fields in REQUIRED.items():
        assert fields <= found[path].keys()
    for path, node in found.items():
        assert path == "" or node.keys() <= KNOWN[path], path


def test_the_words_are_those_of_the_registry() -> None:
    told = record(CARD, CURATION)["deployment"]
    assert told["basic"]["data_product_type"] == "Synthetic data"
    assert told["dp_variant"]["variant_name"] == "Approximate DP"
    assert told["deployment_model"]["model_name"] == "Central"
    assert told["deployment_model"]["release_type"] in ("One release", "Many releases")
    assert told["deployment_model"]["access_type"] == "Non-interactive"
    assert told["administrative"] == {"status": "Draft", "registry_authors": ["Ana Lima"], "tier": 3}
    pure = record(ReleaseCard(dataclasses.replace(FACTS, delta=0.0)), CURATION)
    assert pure["deployment"]["dp_variant"]["variant_name"] == "Pure DP"


def test_every_mechanism_parameter_and_declared_fact_is_in_the_record() -> None:
    told = record(CARD, CURATION)["deployment"]
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.5, "delta": 1e-5}
    assert "patient_id, at most 4" in told["privacy_loss"]["privacy_unit_details"]
    assert "'steps': 640" in told["implementation"]["mechanisms"]
    assert "north" in told["dp_variant"]["unprotected_quantities"]
    assert "epsilon 4 of it was spent" in told["privacy_loss"]["privacy_parameters_details"]


def test_the_yaml_reads_back_and_folds_no_line() -> None:
    text = to_yaml(CARD, CURATION)
    assert yaml.safe_load(text) == record(CARD, CURATION)
    assert {getattr(t, "style", None) for t in yaml.scan(text)} <= {None, "|", "'", '"'}
    assert yaml.safe_load(text)["deployment"]["basic"]["publication_date"] == "2026-01-01"


def test_what_only_a_person_knows_is_marked() -> None:
    assert to_yaml(CARD, Curation()).count(registry.FILL_IN) >= 4


@pytest.mark.parametrize("wrong", [{"curator_type": "Bank"}, {"sector": "Sports"}])
def test_a_word_that_the_registry_does_not_know_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="the registry knows"):
        Curation(**wrong)


def test_a_release_without_a_guarantee_is_no_deployment() -> None:
    public = CardFacts("t", "2026", 10, 2, None, None, guarantee="none", public_by="Ana", public_why="open data")
    with pytest.raises(InvalidInput, match="no privacy guarantee"):
        record(ReleaseCard(public), CURATION)
