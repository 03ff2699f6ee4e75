"""A draft of an assessment: each question has facts or says who must answer, and what is outside the guarantee is quoted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput, UnknownAccount
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import governance
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.reporting import assessment, wording
from dp_synth_pipeline.synthesis.no_protection import FOLDER
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.targets import sink
from tests.unit.orchestration.test_governance_facts import UNPROTECTED, put
from tests.unit.reporting.test_card_verification import released

THREATS = Path(__file__).parents[3] / "docs" / "threat-model.md"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    found.open_account("people", epsilon=5.0, delta=1e-5, why="the board agreed")
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def draft(
    ledger: Ledger, store: Store, questionnaire: str = "dpia", account: str = "people", **more: Any
) -> dict[str, Any]:
    facts = governance.of_account(governance.facts(ledger, store), ledger, store, account)
    return assessment.draft(questionnaire, {**facts, **more})


def told(drafted: dict[str, Any], what: str) -> str:
    """Return the one answer to something."""
    (found,) = [a for s in drafted["sections"] for a in s["answers"] if a["what"] == what]
    return " ".join(found["told"])


def test_the_questions_are_those_of_the_article_and_of_the_pyramid_from_its_top_down() -> None:
    _, _, dpia = assessment.QUESTIONNAIRES["dpia"]
    assert [question.title[:3] for question in dpia] == ["(a)", "(b)", "(c)", "(d)"]
    _, _, nist = assessment.QUESTIONNAIRES["nist"]
    assert [question.title for question in nist] == [
        "Top: the privacy parameters ε and δ", "Top: the unit of privacy", "Middle: algorithms and correctness",
        "Middle: utility", "Middle: bias", "Bottom: side channels", "Bottom: trust models", "Bottom: access control",
        "Bottom: data collection exposure",
    ]  # fmt: skip
    assert all(question.unanswered for question in (*dpia, *nist)), "no assessment is done without a person"


def test_every_hazard_of_the_threat_model_stands_at_one_question_of_the_pyramid(ledger: Ledger, store: Store) -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (.+?) \|", THREATS.read_text(encoding="utf-8"), re.MULTILINE)
    drafted = [a["what"] for s in draft(ledger, store, "nist")["sections"] for a in s["answers"]]
    hazards = [what for what in drafted if what.startswith("Hazard")]
    assert len(rows) > 20
    assert sorted(hazards) == sorted(f"Hazard (§ {section}): {hazard}" for section, hazard in rows)


def test_what_does_not_hold_is_quoted_for_each_attacker_of_the_threat_model(ledger: Ledger, store: Store) -> None:
    page = THREATS.read_text(encoding="utf-8")
    outside = [a for a in draft(ledger, store)["sections"][2]["answers"] if a["what"].startswith("Outside")]
    assert len(outside) == page.count("**Does not hold.") > 5
    (folder,) = [a for a in outside if a["what"].endswith("someone with the store's folder")]
    assert folder["told"][0].startswith("Nothing is encrypted at rest. Deleting does not overwrite the disk")
    assert not any("](" in a["told"][0] or "**" in a["told"][0] for a in outside)


def test_the_facts_of_the_card_and_of_the_ledger_answer_with_their_place(ledger: Ledger, store: Store) -> None:
    release = released(ledger)
    put(ledger, store, release, "people")
    drafted = draft(ledger, store)
    guarantee = told(drafted, "The guarantee of table people")
    assert "ε = 0.2323 at δ = 10⁻⁶" in guarantee
    assert "guesses right with a probability of at most 51.3 %" in guarantee, "by the card's own trade-off"
    entries = ledger.entries(release_id=release.id)
    assert all(entry.id in told(drafted, "What was done to the rows of table people") for entry in entries)
    assert "the board agreed" in told(drafted, "Why so much may be released, and who decided")
    assert "1 card was compared with the ledger, and agrees with it" in told(drafted, "Whether the record is whole")
    assert "0 of 1 check passed. Failed or warned: Rows." in told(drafted, "Checks of table people")
    assert all(a["where"] for s in drafted["sections"] for a in s["answers"])


def test_a_card_that_was_edited_and_a_ledger_that_does_not_verify_are_said(ledger: Ledger, store: Store) -> None:
    path = put(ledger, store, released(ledger), "people")
    sink.write_text(json.dumps(json.loads(path.read_text()) | {"epsilon": 0.1}), path)
    record = told(draft(ledger, store, verified=False), "Whether the record is whole")
    assert "does NOT agree with it: " in record
    assert "epsilon of the table" in record
    assert "THE LEDGER DOES NOT VERIFY" in record


def test_a_table_of_the_same_content_without_a_guarantee_is_a_risk_that_is_named(ledger: Ledger, store: Store) -> None:
    released(ledger)
    assert "None" in told(draft(ledger, store), "Tables of the same sources without a guarantee")
    facts = UNPROTECTED | {"fingerprint": ledger.encrypted_fingerprint("digest")}
    sink.write_text(json.dumps(facts), store.releasable("open") / FOLDER / "unprotected-1.json")
    drafted = draft(ledger, store)
    assert "open was released with privacy: none" in told(drafted, "Tables of the same sources without a guarantee")
    assert "was released without a guarantee, as open" in told(drafted, "What the governance report says to look into")


def test_another_accounts_tables_people_and_decisions_stand_in_no_draft(ledger: Ledger, store: Store) -> None:
    ledger.open_account("acme", epsilon=5.0, delta=1e-5, why="a zanzibar plan")
    release = released(ledger, "o", "wages", account="acme")
    ledger.raise_account("acme", epsilon=6.0, why="a zanzibar raise", who="Xanthippe")
    ledger.charge_by_hand("acme", [Gaussian(10.0)], why="a zanzibar query", who="Xanthippe")
    for questionnaire in assessment.QUESTIONNAIRES:
        text = json.dumps(draft(ledger, store, questionnaire))
        assert not [word for word in ("acme", "zanzibar", "Xanthippe", "wages", release.id) if word in text]


def test_a_card_that_another_account_paid_for_answers_nothing_of_this_one(ledger: Ledger, store: Store) -> None:
    ledger.open_account("acme", epsilon=5.0, delta=1e-5)
    released(ledger, "o", "people", account="acme")
    put(ledger, store, released(ledger), "people")
    assert "no release card of it lies in this store" in told(
        draft(ledger, store, account="acme"), "What is made of them"
    )
    assert "no release card" not in told(draft(ledger, store), "What is made of them")


def test_a_card_of_the_first_format_answers_what_it_has(ledger: Ledger, store: Store) -> None:
    release = released(ledger)
    text = Path(__file__).with_name("card_1.json").read_text(encoding="utf-8")
    old = {**json.loads(text), "account": "people", "table": "people"}
    sink.write_text(json.dumps(old), store.releasable("people") / "release_card.json")
    drafted = draft(ledger, store)
    assert f"ε = {wording.at_most(old['epsilon'])}" in told(drafted, "The guarantee of table people")
    assert release.id not in json.dumps(drafted["sections"][0]), "an old card tells of its own release"
    assert draft(ledger, store, "nist")["sections"]


def test_a_refusal_is_told_by_its_first_line_and_one_without_words_by_its_table(ledger: Ledger, store: Store) -> None:
    refused = [
        {"run_id": "r", "at": "2026-05-03T00:00:00+00:00", "table": "people", "why": why}
        for why in ("too much\nby far", "")
    ]
    said = told(draft(ledger, store, refused=refused, event_log=True), "Refusals")
    assert said.startswith("2 releases refused, before any row was read. ")
    assert said.endswith(
        "3 May 2026, 00:00 UTC, people: too much 3 May 2026, 00:00 UTC, people: no reason is on record"
    )


def test_an_umbrella_is_assessed_with_its_members_and_what_was_asked_of_a_second_person(
    ledger: Ledger, store: Store
) -> None:
    word = {"why": "agreed on 3 May", "who": "Ana"}
    ledger.open_account("clinic", epsilon=6.0, delta=1e-5, unit="patient_id", umbrella=True)
    ledger.open_account("visits", epsilon=4.0, delta=1e-5, under="clinic", approve_above=0.25)
    asked = {"table": "visits", "unit": "patient_id", "run_id": "r", "code_version": "c", "epsilon": 3.0, "delta": 1e-6}
    with pytest.raises(ApprovalNeeded):
        ledger.reserve("visits", key="k", purpose="waiting times", **asked)
    ledger.approve(ledger.requests()[0].id, **word)
    ledger.charge_by_hand("visits", [Gaussian(20.0)], **word)
    drafted = draft(ledger, store, account="clinic")
    persons = told(drafted, "Second persons and quotas")
    assert "visits: A charge of more than 25 % needs a second person." in persons
    assert "It is approved, approved by Ana: agreed on 3 May." in persons
    assert "Member visits took" in told(drafted, "Umbrella clinic, over all releases")
    assert "It is under umbrella clinic" in told(drafted, "Account visits, over all releases")
    assert "Ana charged ε" in told(drafted, "What other tools released")
    member = draft(ledger, store, account="visits")
    assert "Umbrella clinic, over all releases" not in json.dumps(member, ensure_ascii=False)


def test_what_people_wrote_is_no_markup_in_the_draft(ledger: Ledger, store: Store) -> None:
    ledger.raise_account("people", epsilon=6.0, why="# <b>bold</b> | [a](b)", who="Ana")
    text = assessment.to_markdown(draft(ledger, store))
    assert r"\# \<b\>bold\</b\> \| \[a\](b)" in text


def test_what_is_kept_of_real_rows_is_told_by_date_and_not_by_size(ledger: Ledger, store: Store) -> None:
    release = released(ledger)
    put(ledger, store, release, "people")
    assert "no real rows lie" in told(draft(ledger, store), "What is kept of real rows here")
    folder = store.restricted("people", release.id)
    assert "1 folder of real rows, kept until the next refresh" in told(
        draft(ledger, store), "What is kept of real rows here"
    )
    (folder / "expires").write_text("2031-05-04T00:00:00+00:00")
    assert "kept until 4 May 2031" in told(draft(ledger, store), "What is kept of real rows here")


def test_a_questionnaire_or_an_account_that_there_is_not_is_refused_with_those_that_there_are(
    ledger: Ledger, store: Store
) -> None:
    with pytest.raises(InvalidInput, match="--for dpia or --for nist"):
        draft(ledger, store, "gdpr")
    with pytest.raises(UnknownAccount, match="dp-synth ledger open nobody"):
        draft(ledger, store, account="nobody")


def test_what_is_read_of_a_page_has_no_marks_and_no_links() -> None:
    text = "**Not** hidden: *who* asks [a page](page.md#here) for `max_rows`,\nand a*b"
    assert assessment._plain(text) == "Not hidden: who asks a page for max_rows, and a*b"
