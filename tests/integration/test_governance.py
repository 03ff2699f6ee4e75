"""From a released table to its source, entries, run, code and remaining budget, with the exported files alone."""

import hashlib
import json
import shutil
import sys
import types

import dagster as dg
import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.orchestration import governance
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.reporting import card_verification
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.conftest import lent

FAST = {"training": {"max_epochs": 1, "method": "autoregressive"}}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One refresh that is published, and one that the ledger refuses."""
    folder = tmp_path_factory.mktemp("governance")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        parquet = {**FAST, "target": str(folder / "published.parquet"), "description": "A survey."}
        assert bench.refresh(**parquet).success
        assert not bench.refresh(**parquet, epsilon=9.9).success
        bench.ledger.raise_account("people", epsilon=12.0, why="board decision 17", who="Ana Lima")
        yield bench


@pytest.fixture(scope="module")
def definitions(bench):
    report = dg.AssetSpec(["marts", "report"], deps=[dg.AssetKey(["people", "published"])])
    return dg.Definitions.merge(bench.definitions(**FAST), dg.Definitions(assets=[report]))


@pytest.fixture(scope="module")
def told(bench, definitions):
    return governance.facts(bench.ledger, Store(bench.store), definitions, bench.instance)


@pytest.fixture
def shell(bench, definitions, monkeypatch, capsys, tmp_path):
    """Runs `dp-synth` on the bench's ledger and store, for a project in a module."""
    project = types.ModuleType("bench_project")
    project.defs = definitions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bench_project", project)
    monkeypatch.setenv("DP_SYNTH_HOME", str(bench.folder))
    monkeypatch.setenv("DP_SYNTH_LEDGER", bench.url)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["dp-synth", *map(str, args)])
        try:
            code = cli.main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, capsys.readouterr().out

    return run


def chain(journal):
    """The hash of every journal row, computed anew from its content; fails at the first that differs."""
    previous = "0" * 64
    for row in journal:
        record = {**row, "body": json.dumps(row["body"], sort_keys=True), "hash": None}
        assert row["previous"] == previous
        previous = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        assert row["hash"] == previous
        yield previous


def test_a_reviewer_walks_from_the_table_to_its_source_with_the_exported_files_alone(shell, bench, tmp_path):
    code, told = shell("governance", "report", "-m", "bench_project", "--out", "review.html")
    assert (code, "review.json: 1 account, 1 table, 0 runs refused." in told) == (0, True)
    assert shell("ledger", "export", "--format", "json", "--out", "statement.json")[0] == 0
    shutil.copy(bench.store / "releasable" / "people" / "release_card.json", tmp_path)
    shutil.copy(bench.folder / "published.parquet", tmp_path)

    # From here on there are four files, and nothing else.
    card = json.loads((tmp_path / "release_card.json").read_text())
    review = json.loads((tmp_path / "review.json").read_text())
    statement = json.loads((tmp_path / "statement.json").read_text())
    assert hashlib.sha256((tmp_path / "published.parquet").read_bytes()).hexdigest() == card["table_sha256"]

    release = next(r for r in statement["releases"] if r["id"] == card["release"])
    for fact in ("table", "account", "run_id", "code_version"):
        assert release[fact] == card[fact] != ""
    assert (release["state"], release["final_epsilon"]) == ("settled", card["epsilon"])

    entries = {e["id"]: e for e in statement["entries"] if e["release_id"] == card["release"]}
    paid = [(m["entry"], m["event"]) for m in card["mechanisms"]]
    assert paid == [(e["id"], event) for e in entries.values() for event in e["events"]]
    assert sum(e["cost"] for e in entries.values()) == release["charged_cost"]

    assert card["ledger_head"] in list(chain(statement["journal"]))
    assert statement["head"] == review["head"]

    (source,) = [s for s in review["sources"] if card["release"] in [r["id"] for r in s["releases"]]]
    assert source["name"].endswith("people.parquet")

    (account,) = [a for a in statement["accounts"] if a["name"] == card["account"]]
    (reviewed,) = [a for a in review["accounts"] if a["name"] == card["account"]]
    left = account["cost_limit"] - release["charged_cost"]
    assert account["balance"]["cost_left"] == reviewed["cost_left"] == left > 0
    assert reviewed["epsilon_left"] == bench.ledger.balance("people").epsilon_left
    assert left / NANO > 0
    page = (tmp_path / "review.html").read_text()
    assert all(text in page for text in (card["run_id"], card["code_version"], "marts/report", "board decision 17"))


def test_a_review_outside_of_a_project_tells_of_the_demo_only_where_it_ran(shell, bench, tmp_path):
    for tables in ({"people"}, {"people", "clinic", "rand_hie"}):
        code, _ = shell("governance", "report", "--out", "review.html")
        review = json.loads((tmp_path / "review.json").read_text())
        assert (code, {t["table"] for t in review["tables"]}) == (0, tables)
        page = (tmp_path / "review.html").read_text()
        assert {name for name in ("people", "clinic", "rand_hie") if name in page} == tables
        (bench.store / "releasable" / "rand_hie").mkdir(exist_ok=True)
    (bench.store / "releasable" / "rand_hie").rmdir()


def test_the_card_of_the_run_is_true_and_so_is_the_published_file(bench):
    text = (bench.store / "releasable" / "people" / "release_card.json").read_text()
    found = card_verification.verify(text, bench.ledger, bench.folder / "published.parquet")
    assert [f.what for f in found if not f.holds] == []


def test_the_card_stays_beside_the_newest_one_under_its_release(bench, told):
    folder = bench.store / "releasable" / "people"
    (release,) = told["tables"][0]["releases"]
    assert (folder / "cards" / f"{release}.json").read_text() == (folder / "release_card.json").read_text()
    assert (folder / "release_card.md").read_text().startswith("# people: release card")


def test_the_asset_shows_card_and_seal_and_names_the_account_that_shows_the_burn_down_as_a_picture(bench):
    event = bench.instance.get_latest_materialization_event(dg.AssetKey(["people", "release_card"]))
    shown = event.asset_materialization.metadata
    assert shown["card"].value.endswith("release_card.json")
    (seen,) = bench.instance.fetch_materializations(shown["account_page"].asset_key, limit=1).records
    assert "](data:image/svg+xml;base64," in seen.asset_materialization.metadata["burn_down"].value
    assert shown["seal"].value == json.loads((bench.store / "releasable/people/release_card.json").read_text())["seal"]


def test_a_refusal_is_found_in_the_event_log_with_what_was_asked(told):
    (refused,) = told["refused"]
    assert refused["table"] == "people"
    assert "asks for epsilon=9.9" in refused["why"]


def test_a_raise_is_told_with_its_reason_and_who_decided(told):
    (raised,) = told["raises"]
    assert (raised["who"], raised["why"], raised["from"][0], raised["to"][0]) == (
        "Ana Lima",
        "board decision 17",
        10.0,
        12.0,
    )


def test_the_table_is_told_with_what_is_made_from_it(told):
    (table,) = told["tables"]
    assert table["downstream"] == ["marts/report"]
    assert (table["card_problems"], table["reads_rows"], table["guarantee"]) == ([], [], "dp")


def test_which_releases_depend_on_a_source_by_name_and_by_a_release_that_read_it(shell, told):
    (release,) = told["tables"][0]["releases"]
    for source in ("people.parquet", release[:12]):
        code, said = shell("governance", "sources", source, "-m", "bench_project", "--json")
        assert (code, [r["id"] for r in json.loads(said)]) == (0, [release])
    assert shell("governance", "sources", "nowhere.csv", "-m", "bench_project")[0] == 2


def test_which_person_level_sources_feed_a_table_and_what_is_made_of_it(shell):
    for name in ("people", "marts/report"):
        code, said = shell("governance", "table", name, "-m", "bench_project", "--json")
        assert (code, [t["table"] for t in json.loads(said)]) == (0, ["people"])
    assert "marts/report" in shell("governance", "table", "people", "-m", "bench_project")[1]
    assert shell("governance", "table", "nothing", "-m", "bench_project")[0] == 2


def test_a_question_about_the_past_makes_no_ledger(shell, tmp_path):
    assert shell("governance", "report", "--ledger", tmp_path / "none.db")[0] == 2
    assert not (tmp_path / "none.db").exists()
