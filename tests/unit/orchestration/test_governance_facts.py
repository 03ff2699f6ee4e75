"""What a governance review is told, from a ledger and a store alone."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import governance
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.reporting.card import to_json
from dp_synth_pipeline.reporting.governance_page import render_governance
from dp_synth_pipeline.synthesis.no_protection import FOLDER
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.targets import sink
from tests.unit.reporting.test_card_verification import card_of, released

UNPROTECTED = {
    "id": "unprotected-1", "table": "open", "by": "Ana", "why": "open data", "source": "open.csv",
    "run_id": "run-9", "code_version": "c", "who": "ana", "started_at": "2026", "ledger_head": "0" * 64,
    "state": "settled", "fingerprint": "f" * 64,
}  # fmt: skip
"""The record of a release without a guarantee, as the version before wrote it."""


@pytest.fixture
def ledger(tmp_path):
    found = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    found.open_account("people", epsilon=5.0, delta=1e-5)
    return found


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def put(ledger, store, release, folder):
    """Write the card of a release where its run would."""
    parquet = store.releasable(folder) / "synthetic.parquet"
    parquet.write_bytes(b"synthetic rows")
    path = parquet.with_name("release_card.json")
    sink.write_text(to_json(card_of(ledger, release, parquet)), path)
    return path


def test_without_a_project_a_source_is_known_by_its_table_and_by_its_releases(ledger, store):
    release = released(ledger)
    put(ledger, store, release, "people")
    told = governance.facts(ledger, store)
    assert (told["verified"], told["lineage"], told["event_log"]) == (True, False, False)
    (source,) = told["sources"]
    assert source["name"] == "source of people"
    assert [r["id"] for r in governance.dependent(told, release.id[:10])] == [release.id]
    assert "not known: no project was given" in render_governance(told)


def test_each_partition_has_its_card_and_every_one_is_compared_with_the_ledger(ledger, store):
    put(ledger, store, released(ledger, "jan"), "people/partition=2026-01")
    february = put(ledger, store, released(ledger, "feb"), "people/partition=2026-02")
    (table,) = governance.facts(ledger, store)["tables"]
    assert (len(table["cards"]), table["card_problems"]) == (2, [])
    sink.write_text(json.dumps(json.loads(february.read_text()) | {"epsilon": 0.1}), february)
    told = governance.facts(ledger, store)
    assert any("epsilon of the table" in p for p in told["tables"][0]["card_problems"])
    assert "does not agree with the ledger" in render_governance(told)


def test_what_is_no_card_is_told_and_stops_nothing(ledger, store):
    sink.write_text("{}", put(ledger, store, released(ledger), "people"))
    (table,) = governance.facts(ledger, store)["tables"]
    assert table["card"] is None
    assert "expected a release card" in table["card_problems"][0]


def test_what_was_settled_for_a_reason_released_no_table(ledger, store):
    release = ledger.reserve(
        "people", key="lost", table="lost", run_id="run-2", code_version="c", epsilon=1.0, delta=1e-6
    )
    ledger.start(release.id, "training", [Gaussian(10.0)])
    ended = ledger.settle(release.id, why="its audit failed", who="run run-2")
    assert (ended.state, ended.released) == ("settled", False)
    assert released(ledger).released
    assert [t["table"] for t in governance.facts(ledger, store)["tables"]] == ["people"]


def test_the_same_content_under_another_name_is_the_same_source(ledger, store):
    first, second = released(ledger, "a", "people"), released(ledger, "b", "persons")
    assert first.fingerprint != second.fingerprint
    told = governance.facts(ledger, store)
    assert {t["table"] for t in told["tables"]} == {"people", "persons"}
    (source,) = told["sources"]
    assert {r["id"] for r in source["releases"]} == {first.id, second.id}
    assert source["same_content"] == [], "one account pays for both"


def test_the_same_content_under_two_accounts_and_without_a_guarantee_is_told_to_whoever_reviews(ledger, store):
    ledger.open_account("others", epsilon=5.0, delta=1e-5)
    first, second = released(ledger, "a", "people"), released(ledger, "b", "persons", account="others")
    facts = UNPROTECTED | {"fingerprint": ledger.encrypted_fingerprint("digest")}
    sink.write_text(json.dumps(facts), store.releasable("open") / FOLDER / "unprotected-1.json")
    told = governance.facts(ledger, store)
    (source,) = told["sources"]
    (match,) = source["same_content"]
    assert (match["accounts"], match["without_guarantee"]) == (["others", "people"], ["open"])
    assert match["tables"] == ["open", "people", "persons"]
    assert match["releases"] == [first.id, second.id, "unprotected-1"]
    page = " ".join(render_governance(told).split())
    assert "The very same content was released under others, people and without a guarantee as open." in page
    assert "the content of account others, people was released without a guarantee, as open" in page


def test_no_fact_of_a_review_holds_a_fingerprint(ledger, store):
    released(ledger, "a", "people"), released(ledger, "b", "persons")
    told = governance.facts(ledger, store)
    fingerprint = ledger.seal("digest")  # of the digest that both releases noted
    assert fingerprint not in json.dumps(told) + render_governance(told)


def test_a_release_without_a_guarantee_is_among_the_releases_of_its_source(ledger, store):
    sink.write_text(json.dumps(UNPROTECTED), store.releasable("open") / FOLDER / "unprotected-1.json")
    told = governance.facts(ledger, store)
    assert [(t["table"], t["guarantee"]) for t in told["tables"]] == [("open", "none")]
    assert "released without a privacy guarantee" in render_governance(told)
    (source,) = told["sources"]
    assert [(r["id"], r["state"]) for r in source["releases"]] == [("unprotected-1", "without a guarantee")]


def test_a_ledger_that_does_not_verify_is_told(ledger, store, tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("UPDATE dp_account SET why = 'another reason'")
    assert governance.facts(ledger, store)["verified"] is False


def test_a_source_that_nobody_knows_is_refused_with_the_known_ones(ledger, store):
    released(ledger)
    with pytest.raises(InvalidInput, match="known sources: source of people"):
        governance.dependent(governance.facts(ledger, store), "nowhere.csv")


def test_an_empty_ledger_makes_an_empty_page(ledger, store):
    text = render_governance(governance.facts(ledger, store))
    assert "No table was released." in text


def test_what_was_charged_refused_asked_approved_and_raised_since_a_day_is_told_one_by_one(ledger, store):
    released(ledger)
    word = {"why": "decided", "who": "Ana"}
    ledger.amend_account("people", approve_above=0.25, **word)
    asked = {"table": "people", "run_id": "r", "code_version": "c", "epsilon": 3.0, "delta": 1e-6}
    with pytest.raises(ApprovalNeeded):
        ledger.reserve("people", key="second", purpose="<b>waiting times</b>", **asked)
    ledger.approve(ledger.requests()[0].id, **word)
    with pytest.raises(ApprovalNeeded):
        ledger.raise_account("people", epsilon=6.0, why="w", who="Bob")
    ledger.approve(ledger.requests()[-1].id, **word)
    ledger.raise_account("people", epsilon=6.0, why="w", who="Bob")
    ledger.open_account("clinic", epsilon=4.0, delta=1e-5, unit="patient_id", umbrella=True)
    ledger.open_account("visits", epsilon=4.0, delta=1e-5, under="clinic")
    ledger.charge_by_hand("visits", [Gaussian(10.0)], **word)
    since = datetime.now(UTC).date() - timedelta(days=1)
    told = governance.facts(ledger, store, since=since)
    refusal = {
        "run_id": "r-9",
        "at": f"{since + timedelta(days=3)}T00:00:00+00:00",
        "table": "people",
        "why": "too much",
    }
    told["decided"] = governance.decided(ledger, [refusal, refusal | {"at": "2020-01-01"}], since)
    assert [d["act"] for d in told["decided"]] == [
        "opened", "charged", "amended", "asked", "approved", "asked", "approved", "raised", "opened", "opened",
        "charged by hand", "refused",
    ]  # fmt: skip
    raised = told["decided"][7]
    assert (raised["who"], raised["what"]) == ("Bob", "ε 5 to 6, δ 1e-05 to 1e-05: w")
    assert governance.decided(ledger, [refusal], since + timedelta(days=9)) == []
    page = " ".join(render_governance(told).split())
    assert f"Since {since}" in page
    assert "A charge of more than 25 % of it needs a second person." in page
    assert "Under umbrella clinic, which each release charges too." in page
    assert "1 request waiting" not in page
    assert "Ana on" in page
    assert "<b>waiting" not in page
    ledger.amend_account("people", quotas=["purpose=<b>testing:0.25", "requester=*:0.9"], **word)
    told = governance.facts(ledger, store, since=since)
    assert told["decided"][-1]["what"].endswith(", quota purpose=<b>testing:0.25, quota requester=*:0.9: decided")
    page = " ".join(render_governance(told).split())
    assert "Purpose &lt;b&gt;testing may take at most 25 % of it, which is at most ε " in page
    who = ledger.releases("people")[0].who
    assert "Each requester that has no quota of its own may take at most 90 % of it, which is at most ε" in page
    assert f"{who} took " in page
    waiting = governance.facts(ledger, store)
    waiting["requests"][0]["state"] = "waiting"
    assert "1 request waiting for a second person" in render_governance(waiting)
