"""Privacy evidence on the report page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dp_synth_pipeline.reporting.report import ReportMeta, render_report
from dp_synth_pipeline.validation.attacks import ATTRIBUTE, MEMBERSHIP, Attack
from dp_synth_pipeline.validation.closeness import MEANING, Closeness
from dp_synth_pipeline.validation.evidence import HOW, SAME, Evidence
from dp_synth_pipeline.validation.figures import measure
from tests.unit.validation.tables import good, schema

NEAR = Closeness((400, 390, 380), (0.01, 0.02, 0.03), (0.04, 0.05, 0.06), 0.125, 0.0625, 0.5031, 0.471, 0.535, False)
MEMBER = Attack("membership", "AUC of the distance", 0.5123, 0.4912, 0.5334, 0.5, (400, 390), MEMBERSHIP)
SECTOR = Attack("attribute: sector", "accuracy gained", 0.0712, 0.0213, 0.1211, 0.0, (400, 390), ATTRIBUTE, 0.61)


def section(evidence: Evidence | None) -> str:
    real = good().to_pandas()
    more = () if evidence is None else (evidence,)
    page = render_report(measure(real, real, schema()), ReportMeta("clinic"), *more)
    found = re.search(r"<h2>Privacy evidence.*?<h2>How to read this", page, flags=re.S)
    assert found is not None
    return " ".join(found[0].replace("&#39;", "'").split())


@pytest.fixture(scope="module")
def told() -> str:
    return section(Evidence(closeness=NEAR, attacks=(MEMBER, SECTOR), unit="patient <id>"))


def test_without_a_holdout_one_sentence_says_how_to_give_one() -> None:
    said = section(None)
    assert HOW in said
    assert "validation: {holdout: FILE}" in said
    assert "<table" not in said


def test_what_cannot_be_said_is_said(told: str) -> None:
    assert SAME in section(Evidence(SAME))
    assert SAME not in told


def test_every_figure_stands_beside_its_interval_and_what_chance_gives(told: str) -> None:
    needed = ["50.3 %", "47.1 % to 53.5 %", "0.512", "0.491 to 0.533", "+0.071", "+0.021 to +0.121", "50.0 %"]
    needed += ["0.010", "0.060", "12.5 %", "6.2 %", "61.0 % right on others, 68.1 % on members", "400", "390", "380"]
    assert [text for text in needed if text not in told] == []


def test_every_figure_says_what_it_cannot_show(told: str) -> None:
    assert all(text in told for text in (MEANING, MEMBERSHIP, ATTRIBUTE, "evidence can convict, not acquit"))


def test_the_verdict_names_what_did_better_than_chance(told: str) -> None:
    assert "<b>Look closer</b>: attribute: sector." in told
    assert told.count("no better than chance</span>") == 2
    assert told.count(">better than chance</span>") == 1
    quiet = section(Evidence(closeness=NEAR, attacks=(MEMBER,)))
    assert "<b>Nothing found.</b>" in quiet
    loud = section(Evidence(closeness=replace(NEAR, low=0.51, warns=True), attacks=(MEMBER,)))
    assert "<b>Look closer</b>: distance to the closest record." in loud


def test_several_rows_of_a_unit_are_told_of_and_its_name_is_escaped(told: str) -> None:
    assert "One row was drawn of each patient &lt;id&gt;" in told
    assert "One row was drawn" not in section(Evidence(closeness=NEAR, attacks=(MEMBER,)))
