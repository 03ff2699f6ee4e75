"""The governance page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dp_synth_pipeline.reporting.burndown import drawing, layout
from dp_synth_pipeline.reporting.governance_page import render_governance
from tests.unit.reporting.test_statement import account, iso, release, words

RELEASE = {
    "id": "release-1", "table": "clinic_visits", "account": "clinic", "state": "settled", "final_epsilon": 1.25,
    "final_delta": 1e-6, "run_id": "run-1", "code_version": "c0de", "ended_at": iso(12), "who": "worker",
}  # fmt: skip
CARD = {
    "release": "release-1", "created": iso(12), "rows": 20_000, "columns": 12, "epsilon": 1.25, "delta": 1e-6,
    "run_id": "run-1", "code_version": "c0de", "software": "dp-synth-pipeline 0.1.0",
    "checks_passed": 60, "checks_failed": 0, "path": "store/clinic_visits/release_card.json",
}  # fmt: skip
TABLE = {
    "table": "clinic_visits", "guarantee": "dp", "source": "visits.parquet", "account": "clinic",
    "unit": "patient_id", "releases": ["release-1"], "card": CARD, "cards": [CARD],
    "card_problems": [], "downstream": ["marts/board_pack"], "reads_rows": [],
}  # fmt: skip
SOURCE = {
    "name": "visits.parquet", "tables": ["clinic_visits"], "accounts": ["clinic"],
    "releases": [RELEASE], "same_content": [],
}  # fmt: skip
RAISE = {
    "account": "clinic", "at": iso(20), "who": "Amelie Vogt", "why": "board decision 17",
    "from": [4.0, 1e-5], "to": [6.0, 1e-5],
}  # fmt: skip
REFUSED = {"run_id": "run-9", "at": iso(25), "table": "clinic_visits", "why": "Account 'clinic' refuses this release."}


def told(**changes: Any) -> dict[str, Any]:
    return {
        "generated_at": iso(30), "head": "9f3c77aa", "verified": True, "lineage": True, "event_log": True,
        "accounts": [account([release(1)])], "tables": [TABLE], "sources": [SOURCE], "raises": [RAISE],
        "refused": [REFUSED], **changes,
    }  # fmt: skip


def test_the_page_answers_what_a_review_asks() -> None:
    text = words(render_governance(told()))
    needed = ["Nothing to look into", "The ledger verifies", "9f3c77aa", "visits.parquet", "marts/board_pack"]
    needed += ["board decision 17", "Amelie Vogt", "ε 4 to 6", "refuses this release", "run-9", "run-1", "c0de"]
    needed += ["release_card.json", "agrees with the ledger"]
    assert [n for n in needed if n not in text] == []


def test_the_page_loads_nothing_from_any_network_and_runs_no_script() -> None:
    html = render_governance(told())
    assert "default-src 'none'" in html
    assert not re.search(r"<(script|link|img|iframe|object|form)\b|url\(|@import|\bsrc=", html)


def test_what_people_wrote_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    table = {
        **TABLE,
        "table": evil,
        "source": evil,
        "downstream": [evil],
        "reads_rows": [evil],
        "card_problems": [evil],
    }
    lists = {"tables": [table], "sources": [{**SOURCE, "name": evil}], "raises": [{**RAISE, "why": evil}]}
    html = render_governance(told(**lists, refused=[{**REFUSED, "why": evil}]))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 6


CONCERNS = {
    "does not verify": {"verified": False},
    "its card does not agree": {"tables": [{**TABLE, "card_problems": ["epsilon of the release"]}]},
    "real rows are read outside its chain, by scratch/peek": {"tables": [{**TABLE, "reads_rows": ["scratch/peek"]}]},
    "released without a privacy guarantee": {"tables": [{**TABLE, "guarantee": "none", "card": None, "releases": []}]},
    "2 checks failed or warned": {"tables": [{**TABLE, "card": {**CARD, "checks_failed": 2}}]},
    "its card is not in this store": {"tables": [{**TABLE, "card": None}]},
    "charged to clinic, ward": {"sources": [{**SOURCE, "accounts": ["clinic", "ward"]}]},
    "account low": {"accounts": [account([], cost_spent=3_700_000_000)]},
    "1 open reservation": {"accounts": [account([release(1, state="reserved")])]},
}


@pytest.mark.parametrize("concern", CONCERNS)
def test_what_needs_a_look_is_said_at_the_top(concern: str) -> None:
    text = words(render_governance(told(**CONCERNS[concern])))
    assert concern in text.partition("Released tables")[0]
    assert "Nothing to look into" not in text


def test_one_data_set_in_two_accounts_is_no_concern_where_an_umbrella_bounds_their_sum() -> None:
    sources = [{**SOURCE, "accounts": ["clinic", "ward"]}]
    accounts = [account([], name=name, under="persons") for name in ("clinic", "ward")]
    assert "Nothing to look into" in words(render_governance(told(accounts=accounts, sources=sources)))
    apart = [accounts[0], account([], name="ward")]
    assert "protected by their sum only" in words(render_governance(told(accounts=apart, sources=sources)))


def test_what_other_tools_released_is_told_with_who_entered_it_and_why() -> None:
    charge = {"account": "clinic", "at": iso(21), "who": "Ana", "why": "OpenDP query, 3 May"}
    text = words(render_governance(told(by_hand=[{**charge, "final_epsilon": 0.5, "final_delta": 1e-5}])))
    assert "Charged by hand" in text
    assert [n for n in ("OpenDP query, 3 May", "Ana", "ε 0.5") if n not in text] == []
    assert "Charged by hand" not in words(render_governance(told()))


def test_what_must_be_acted_on_comes_before_what_to_look_at() -> None:
    table = {**TABLE, "card": {**CARD, "checks_failed": 1}, "reads_rows": ["scratch/peek"]}
    text = words(render_governance(told(tables=[table])))
    assert text.index("real rows are read") < text.index("1 check failed")


def test_without_an_event_log_nobody_claims_that_nothing_was_refused() -> None:
    text = words(render_governance(told(event_log=False, refused=[])))
    assert "set DAGSTER_HOME" in text
    assert "None in this event log" not in text


def test_the_burn_down_is_a_picture_with_its_words_and_no_script() -> None:
    chart = layout(account([])["history"], None, iso(30))
    assert chart is not None
    svg = drawing(chart, "ε 6 <b>")
    assert svg.startswith("<svg xmlns=")
    assert "limit, ε 6 &lt;b&gt;" in svg
    assert chart["line"] in svg
    assert "80 %" in svg
    assert not re.search(r"<script|href|url\(|@import", svg)
