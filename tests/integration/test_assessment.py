"""An assessment by the command line: of an account under an umbrella, with a release, one refused and one approved."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import types
from pathlib import Path

import dagster as dg
import pytest

from dp_synth_pipeline.ledger import Ledger, anchors
from tests.integration.conftest import Bench, people

ROWS = people()[["person", "age", "city", "smoker"]]
TERMS = {
    "account": "visits", "unit": {"column": "person", "max_rows": 2}, "delta": 1e-6,
    "columns": {"city": {"categories": ["Rome", "Oslo", "Lima"]}},
    "training": {"method": "marginals"}, "schedule": "0 3 * * 1", "owners": ["team:clinic"],
    "intended_use": "Planning waiting times.",
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where a first refresh waited for a second person, went on once she approved it, and a second one was refused."""
    folder = tmp_path_factory.mktemp("assessment")
    ROWS.to_parquet(folder / "people.parquet")
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = Ledger.open(url)
    ledger.open_account("persons", epsilon=8.0, delta=1e-4, unit="person", umbrella=True, why="board decision 17")
    ledger.open_account(
        "visits", epsilon=6.0, delta=1e-4, max_rows=2, under="persons", approve_above=0.25, why="for planning"
    )
    ledger.open_account("idle", epsilon=1.0, delta=1e-5, why="nothing yet")
    (folder / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:
        bench = Bench(folder, ledger, instance, url)
        assert not bench.refresh(**TERMS).success
        ledger.approve(ledger.requests()[0].id, why="agreed on 3 May", who="Ana Lima")
        assert bench.refresh(**TERMS).success
        assert not bench.refresh(**TERMS, epsilon=50.0).success
        yield bench


@pytest.fixture
def assessed(place, shell, monkeypatch):
    """Runs `dp-synth governance export` on that ledger, store, event log and project."""
    project = types.ModuleType("assessed_project")
    project.defs = place.definitions(**TERMS)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "assessed_project", project)
    for name, value in (
        ("DP_SYNTH_HOME", place.folder),
        ("DP_SYNTH_LEDGER", place.url),
        ("DAGSTER_HOME", place.folder / "dagster"),
    ):
        monkeypatch.setenv(name, str(value))
    return lambda *words: shell("governance", "export", "-m", "assessed_project", *words)


def answers(done) -> dict[str, str]:
    assert done.code == 0, done.err
    path = Path(done.out.partition("Wrote ")[2].partition(":")[0])
    sections = json.loads(path.read_text(encoding="utf-8"))["sections"]
    return {a["what"]: " ".join(a["told"]) for s in sections for a in s["answers"]}


def test_an_impact_assessment_says_what_was_done_promised_asked_approved_and_refused(assessed, place):
    found = answers(assessed("--for", "dpia", "--account", "visits", "--out", "dpia.json"))
    card = json.loads((place.store / "releasable/people/release_card.json").read_text())
    assert "people.parquet, from which people is made" in found["Person-level sources"]
    assert found["Columns of table people"] == (
        "person (identifier, int64) age (integer, int64) city (category, string) smoker (boolean, bool)"
    )
    assert found["What the table is for of table people"] == "Planning waiting times."
    assert "people is refreshed at 0 3 * * 1 (UTC)" in found["Schedule"]
    assert "hides all rows of one person, at most 2 of them" in found["Whom it protects"]
    assert card["derived"]["meaning"] in found["The guarantee of table people"]
    assert "It is under umbrella persons" in found["Account visits, over all releases"]
    assert (
        "city: categories, declared public by team:clinic"
        in found["Declared without a charge, so not protected, of table people"]
    )
    assert "used, approved by Ana Lima: agreed on 3 May." in found["Second persons and quotas"]
    assert "asks for epsilon=50" in found["Refusals"]
    assert (
        f"{sum(c['passed'] for c in card['checks'])} of {len(card['checks'])} checks passed."
        in found["Checks of table people"]
    )
    assert "The ledger verifies" in found["Whether the record is whole"]


def test_the_pyramid_is_answered_of_an_umbrella_with_all_its_members(assessed, place):
    found = answers(assessed("--for", "nist", "--account", "persons", "--out", "nist.json"))
    assert "Member visits took" in found["Umbrella persons, over all releases"]
    assert "ε 6" in found["Account visits, over all releases"]
    assert "1 folder of real rows, kept until the next refresh" in found["What is kept of real rows here"]
    assert "asks for epsilon=50" in found["Refusals"]


def test_a_draft_needs_neither_the_source_nor_what_is_restricted_and_so_holds_nothing_of_them(
    assessed, place, tmp_path
):
    before = answers(assessed("--for", "dpia", "--account", "visits", "--out", "before.json"))
    shutil.move(place.folder / "people.parquet", tmp_path / "source")
    shutil.move(place.store / "restricted", tmp_path / "restricted")
    try:
        after = answers(assessed("--for", "dpia", "--account", "visits", "--out", "after.json"))
    finally:
        shutil.move(tmp_path / "source", place.folder / "people.parquet")
        shutil.move(tmp_path / "restricted", place.store / "restricted")
    assert after.pop("What is kept of real rows here") != before.pop("What is kept of real rows here")
    assert after == before


def test_markdown_is_printed_and_says_for_whom_it_is_and_what_a_person_has_to_write(assessed):
    done = assessed("--for", "dpia", "--account", "idle")
    assert done.code == 0
    assert done.out.startswith("# Data protection impact assessment, draft: account idle\n\nInternal, ")
    assert "> **NOT ANSWERED BY THIS SYSTEM, to be answered by the controller:** the legal basis" in done.out
    assert "Ana Lima" not in done.out, "nothing of another account"


def test_anchors_are_compared_and_a_chain_that_lacks_one_is_said_and_ends_with_4(assessed, place, tmp_path):
    file = tmp_path / "anchors.jsonl"
    with sqlite3.connect(place.folder / "ledger.db") as db:
        key, length, head = db.execute("SELECT key_id, length, head FROM dp_store").fetchone()
    anchor = {
        "at": "2026-01-01",
        "ledger": key,
        "length": length,
        "head": head,
        "signature": "",
        "format": anchors.FORMAT,
    }
    words = ("--for", "nist", "--account", "visits", "--out", "nist.json", "--anchors", file)
    file.write_text(json.dumps(anchor) + "\n")
    assert "The chain holds all 1 that were compared" in answers(assessed(*words))["Anchors"]
    file.write_text(json.dumps({**anchor, "head": "f" * 64}) + "\n")
    done = assessed(*words)
    assert done.code == 4
    assert "does not hold what anchor 1" in (tmp_path / "nist.json").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--for", "dpia", "--account", "nobody"), "There is no privacy account 'nobody'. "),
        (("--for", "dpia", "--account", "nobody"), "dp-synth ledger open nobody"),
        (("--for", "gdpr", "--account", "visits"), "write --for dpia or --for nist"),
        (("--for", "dpia", "--account", "visits", "--out", "dpia.docx"), "name an .md file"),
        (("--for", "dpia", "--account", "visits", "--anchors", "none.jsonl"), "there is no file of anchors"),
    ],
)
def test_a_mistake_is_told_with_what_to_write_and_without_a_trace(assessed, words, said):
    done = assessed(*words)
    assert done.code == 2
    assert said in done.text
    assert "Traceback" not in done.text
