"""What the settings say of a card's purpose."""

from __future__ import annotations

from typing import Any

import pytest

from dp_synth_pipeline.reporting.card import INTENDED, OUT_OF_SCOPE, UNPROTECTED_SCOPE
from dp_synth_pipeline.reporting.release_card import purpose_of
from dp_synth_pipeline.synthesis.settings import ReleaseSettings


def settings(**more: Any) -> ReleaseSettings:
    charge = {} if "privacy" in more else {"account": "a", "epsilon": 1.0}
    return ReleaseSettings(table="people", source="people.csv", **charge, **more)


def test_what_nobody_wrote_is_what_holds_of_every_table() -> None:
    found = purpose_of(settings(), "team:data, ana@example.org")
    assert found["contact"] == "team:data, ana@example.org"
    assert found["intended_use"] == list(INTENDED)
    assert found["out_of_scope"] == list(OUT_OF_SCOPE)
    public = {"privacy": "none", "public": {"why": "open data", "by": "Ana"}}
    assert purpose_of(settings(**public), "")["out_of_scope"] == list(UNPROTECTED_SCOPE)


def test_a_person_names_the_contact_and_the_use() -> None:
    found = purpose_of(settings(contact="https://example.org/data", intended_use="Planning a study."), "team:data")
    assert (found["contact"], found["intended_use"]) == ("https://example.org/data", ["Planning a study."])
    assert found["out_of_scope"] == list(OUT_OF_SCOPE), "nobody can widen what no table is for"


@pytest.mark.parametrize("unit", ["patient", {"column": "patient", "max_rows": 3}])
def test_a_table_of_people_with_several_rows_is_not_for_questions_about_them_over_rows(unit) -> None:
    assert "one patient over several rows" in purpose_of(settings(unit=unit), "")["out_of_scope"][-1]


def test_neither_changes_what_a_release_is_charged_for() -> None:
    assert settings(contact="c", intended_use="u").code_version() == settings().code_version()
