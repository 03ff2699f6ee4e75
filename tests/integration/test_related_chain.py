"""Related tables as assets: one release pays for all, checks hold all back, and analysts see all tables change at once."""

import json

import dagster as dg
import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from tests.integration.clinic import clinic

TABLES = {
    "patients": {"key": "patient_id"},
    "visits": {
        "key": "visit_id",
        "parent": {"patient_id": "patients"},
        "order": "visited",
        "max_rows": 6,
        "columns": {
            "ward": {"static": True},
            "email": {"static": True},
            "note": {"kind": "text", "max_length": 24},
        },
    },
    "drugs": {"parent": {"visit_id": "visits"}, "max_rows": 3},
}
OF_A_TABLE = ("profile", "completed", "marginals", "generator")


def settings(folder, **changes) -> RelatedTablesSettings:
    facts = {
        "database": "clinic",
        "account": "patients",
        "epsilon": 4.0,
        "tables": {name: {**facts, "source": str(folder / f"{name}.parquet")} for name, facts in TABLES.items()},
        "training": {"max_epochs": 2, "hidden": 8},
        "owners": ["team:data"],
        "rules": ["visits.visited >= patients.born"],
    }
    return RelatedTablesSettings(**{**facts, **changes})


def prepared(folder, monkeypatch) -> Ledger:
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    tables = clinic(900)
    email = [f"p{n}@clinic.org" for n in tables["visits"]["patient_id"]]
    tables["visits"] = tables["visits"].assign(email=email, note="seen in the " + tables["visits"]["ward"])
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    ledger = Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("patients", epsilon=6, delta=1e-5, unit="patient_id", why="test")
    return ledger


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("related")
    with pytest.MonkeyPatch.context() as patch:
        ledger = prepared(folder, patch)
        definitions = build_defs([settings(folder)])
        outcome = in_process.refresh(definitions, "clinic")
        yield folder, ledger, definitions, outcome


def test_one_refresh_makes_every_asset_of_every_table_and_one_release_pays(refreshed):
    _, ledger, definitions, outcome = refreshed
    assert outcome.exit_code == 0, outcome.message
    (release,) = ledger.releases("patients")
    assert (release.table, release.state) == ("clinic", "settled")
    assert release.final_epsilon <= 4.0
    keys = definitions.resolve_job_def("clinic_refresh").asset_layer.selected_asset_keys
    expected = {("clinic", t, s) for t in TABLES for s in (*OF_A_TABLE, "synthetic", "published")}
    expected |= {("clinic", "visits", "texts")} | {
        ("clinic", s) for s in ("ingested", "settled", "quality_report", "release_card")
    }
    assert {tuple(k.path) for k in keys} == expected
    ledger.verify()


def test_the_warehouse_has_all_tables_with_their_keys_declared_and_no_orphan(refreshed):
    with duckdb.connect(str(refreshed[0] / "warehouse.duckdb"), read_only=True) as con:
        orphans = con.sql(
            "SELECT count(*) FROM clinic.visits WHERE patient_id NOT IN (SELECT patient_id FROM clinic.patients)"
        )
        assert orphans.fetchall() == [(0,)]
        kinds = con.sql("SELECT constraint_type, count(*) FROM duckdb_constraints() GROUP BY 1").fetchall()
    assert dict(kinds)["FOREIGN KEY"] == 2
    assert dict(kinds)["PRIMARY KEY"] == 2


def test_the_checks_of_relations_run_before_anything_is_published_and_pass(refreshed):
    results = json.loads((refreshed[0] / "store/releasable/clinic/visits/checks.json").read_text())
    found = {r["name"]: r for r in results}
    for name in (
        "keys_unique",
        "rows_have_parents",
        "rows_per_parent",
        "rows_in_order",
        "static_columns_stay",
        "columns",
        "identifiers_regenerated",
        "rule_1__visits_visited_ge_patients_born",
    ):
        assert found[name]["passed"], found[name]
        assert found[name]["blocking"]


def test_the_card_states_one_promise_for_a_person_and_lists_the_tables_with_their_caps(refreshed):
    card = json.loads((refreshed[0] / "store/releasable/clinic/release_card.json").read_text())
    assert [t["name"] for t in card["tables"]] == list(TABLES)
    assert "6 rows in the order of visited" in card["tables"][1]["belongs"]
    assert "the same in all of them: ward" in card["tables"][1]["belongs"]
    assert card["epsilon"] <= 4.0
    assert card["unit"] == "patient_id"
    page = (refreshed[0] / "store/releasable/clinic/release_card.md").read_text()
    assert "in all tables |" in page, "an account's bound on one table's rows is none of these"
    assert {a["told"].partition(":")[0] for a in card["audit"]} == set(TABLES)


def test_the_report_of_all_tables_is_restricted_and_no_figure_of_it_is_in_metadata(refreshed):
    folder, *_ = refreshed
    (page,) = [p for p in folder.rglob("*quality_report*") if p.suffix == ".html"]
    assert page == folder / "store/restricted/clinic/quality_report.html"
    assert page.stat().st_mode & 0o077 == 0
    html = page.read_text()
    assert "visits, for each row of patients" in html
    assert "drugs beside patients" in html
    headline = json.loads(page.with_suffix(".headline").read_text())
    assert page.with_suffix(".headline").stat().st_mode & 0o077 == 0
    assert set(headline["tables"]) == set(TABLES)
    with dg.DagsterInstance.get() as instance:
        told = instance.get_latest_materialization_event(dg.AssetKey(["clinic", "quality_report"]))
    assert told is not None
    assert set(told.asset_materialization.metadata) <= {"visibility", "page"}
    assert told.asset_materialization.metadata["visibility"].value == "restricted"


def test_rows_are_checked_by_the_terms_that_they_were_learnt_under_and_not_by_those_of_today(refreshed, monkeypatch):
    folder, *_ = refreshed
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    today = settings(folder).tables["visits"].model_dump() | {"max_rows": 1, "columns": {"note": {"kind": "excluded"}}}
    changed = build_defs([settings(folder, tables={**settings(folder).model_dump()["tables"], "visits": today})])
    again = [dg.AssetKey(["clinic", table, "synthetic"]) for table in TABLES]
    outcome = in_process.refresh(changed, "clinic", only=again)
    assert (outcome.exit_code, outcome.failed_checks) == (0, []), outcome.message


def test_a_report_without_the_real_rows_is_refused_in_one_sentence(refreshed, monkeypatch):
    folder, _, definitions, _ = refreshed
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    (rows,) = (folder / "store/restricted/clinic").glob("*/visits.static.parquet")
    away = rows.rename(rows.with_suffix(".away"))
    outcome = in_process.refresh(definitions, "clinic", only=[dg.AssetKey(["clinic", "quality_report"])])
    away.rename(rows)
    assert outcome.exit_code == 2
    assert "materialize its tables again from `ingested`" in outcome.message


def test_a_card_of_related_tables_verifies_and_an_edited_one_does_not(refreshed):
    from dp_synth_pipeline.reporting import card_verification

    folder, ledger, *_ = refreshed
    text = (folder / "store/releasable/clinic/release_card.json").read_text()
    assert [f for f in card_verification.verify(text, ledger) if not f.holds] == []
    edited = text.replace('"name": "drugs"', '"name": "bills"')
    assert any(not f.holds for f in card_verification.claims(edited, ledger))


def test_a_refresh_that_does_not_fit_is_refused_before_anything_is_read(refreshed):
    _, ledger, definitions, _ = refreshed
    before = ledger.head()
    outcome = in_process.refresh(definitions, "clinic")
    assert outcome.exit_code == 3
    assert ledger.head() == before
    assert len(ledger.releases("patients")) == 1


def test_new_rows_are_drawn_and_published_from_the_settled_release_at_no_charge(refreshed):
    _, ledger, definitions, _ = refreshed
    entries = len(ledger.entries("patients"))
    names = [("clinic", t, s) for t in TABLES for s in ("synthetic", "published")]
    outcome = in_process.refresh(definitions, "clinic", only=[dg.AssetKey(list(n)) for n in names])
    assert outcome.exit_code == 0, outcome.message
    assert len(ledger.entries("patients")) == entries


def test_a_rule_across_tables_that_rows_break_keeps_all_tables_from_being_published(refreshed):
    """A rule is no term of the release: one that is added later is checked of new rows, at no charge."""
    folder, ledger, *_ = refreshed
    written = (folder / "warehouse.duckdb").stat().st_mtime_ns
    entries = len(ledger.entries("patients"))
    definitions = build_defs([settings(folder, rules=["visits.visited < patients.born"])])
    names = [("clinic", t, s) for t in TABLES for s in ("synthetic", "published")]
    outcome = in_process.refresh(definitions, "clinic", only=[dg.AssetKey(list(n)) for n in names])
    assert outcome.exit_code == 1, outcome.message
    assert "rule_1__visits_visited_lt_patients_born" in outcome.message
    assert (folder / "warehouse.duckdb").stat().st_mtime_ns == written
    assert len(ledger.entries("patients")) == entries
    results = json.loads((folder / "store/releasable/clinic/visits/checks.json").read_text())
    (found,) = [r for r in results if r["name"].startswith("rule_1")]
    assert found["observed"]["unexpected"] > 0


def test_a_rule_that_was_added_after_the_release_is_kept_by_new_rows_which_are_published(refreshed):
    folder, ledger, *_ = refreshed
    entries = len(ledger.entries("patients"))
    definitions = build_defs([settings(folder, rules=["visits.visited >= patients.born", "visits.score >= 42"])])
    names = [("clinic", t, s) for t in TABLES for s in ("synthetic", "published")]
    outcome = in_process.refresh(definitions, "clinic", only=[dg.AssetKey(list(n)) for n in names])
    assert outcome.exit_code == 0, outcome.message
    visits = pq.read_table(folder / "store/releasable/clinic/visits/synthetic.parquet")
    assert pc.min(visits["score"]).as_py() >= 42
    assert len(ledger.entries("patients")) == entries


def test_a_changed_term_is_refused_by_name_while_the_release_is_open(tmp_path, monkeypatch):
    ledger = prepared(tmp_path, monkeypatch)
    first = [dg.AssetKey(["clinic", "ingested"])]
    assert in_process.refresh(build_defs([settings(tmp_path)]), "clinic", only=first).exit_code == 0
    looser = {name: {**t, "source": str(tmp_path / f"{name}.parquet")} for name, t in TABLES.items()}
    looser["visits"]["max_rows"] = 1
    definitions = build_defs([settings(tmp_path, tables=looser)])
    outcome = in_process.refresh(definitions, "clinic", only=[dg.AssetKey(["clinic", "patients", "profile"])])
    assert outcome.exit_code == 2
    assert "tables.visits.max_rows changed since release" in outcome.message
    assert ledger.entries("patients") == []


def test_an_account_of_another_unit_is_refused_since_one_of_its_units_may_own_many_roots(tmp_path, monkeypatch):
    ledger = prepared(tmp_path, monkeypatch)
    ledger.open_account("homes", epsilon=6, delta=1e-5, unit="household_id", why="test")
    outcome = in_process.refresh(build_defs([settings(tmp_path, account="homes")]), "clinic")
    assert outcome.exit_code == 2
    assert "protects all rows of one household_id" in outcome.message
    assert ledger.releases("homes") == []


def test_a_target_that_holds_other_files_is_refused_before_anything_is_reserved(tmp_path, monkeypatch):
    ledger = prepared(tmp_path, monkeypatch)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    outcome = in_process.refresh(build_defs([settings(tmp_path, target=str(tmp_path / "out"))]), "clinic")
    assert outcome.exit_code == 2
    assert "holds other files" in outcome.message
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"
    assert ledger.releases("patients") == []
