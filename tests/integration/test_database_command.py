"""`dp-synth synthesize-database`: from a folder or a YAML file to tables, and every mistake a sentence with exit code 2."""

import json
from pathlib import Path

import pytest
import yaml

from dp_synth_pipeline.synthesis.database import learning
from tests.integration.clinic import clinic
from tests.integration.conftest import interrupt

QUICK = {"max_epochs": 1, "hidden": 8}


@pytest.fixture
def folder(shell):
    data = shell.folder / "data"
    data.mkdir()
    for name, table in clinic(700).items():
        if name != "drugs":
            table.to_parquet(data / f"{name}.parquet", index=False)
    return data


def described(shell, **changes):
    tables = {
        "patients": {"source": "data/patients.parquet", "key": "patient_id"},
        "visits": {
            "source": "data/visits.parquet",
            "key": "visit_id",
            "parent": {"patient_id": "patients"},
            "order": "visited",
            "max_rows": 6,
        },
    }
    facts = {"account": "patients", "epsilon": 4, "tables": tables, "training": QUICK, **changes}
    (shell.folder / "clinic.yaml").write_text(yaml.safe_dump(facts))


def opened(shell):
    return shell("ledger", "open", "patients", "--epsilon", 6, "--delta", 1e-5, "--unit", "patient_id")


def test_a_yaml_file_becomes_synthetic_tables_drawn_from_again_at_no_charge(shell, folder):
    described(shell)
    opened(shell)
    done = shell("synthesize-database", "clinic.yaml", "--out", "made", "--json")
    assert done.code == 0, done.text
    facts = json.loads(done.out)
    assert set(facts["rows"]) == {"patients", "visits"}
    assert facts["epsilon"] <= 4
    assert facts["checks"]["failed"] == 0
    assert {p.name for p in (shell.folder / "made").iterdir()} == {"patients.parquet", "visits.parquet"}
    assert "Histories" in Path(facts["report"]).read_text()
    entries = len(shell.ledger().entries("patients"))
    drawn = shell("sample", "clinic", "--rows", 20, "--out", "more/{table}.csv")
    assert drawn.code == 0, drawn.text
    assert len((shell.folder / "more" / "patients.csv").read_text().splitlines()) == 21
    assert len(shell.ledger().entries("patients")) == entries


def test_one_of_some_related_tables_is_not_drawn_by_itself_and_what_can_be_drawn_is_named(shell, folder):
    described(shell)
    opened(shell)
    assert shell("synthesize-database", "clinic.yaml", "--out", "made").code == 0
    alone = shell("sample", "clinic/visits", "--rows", 5, "--out", "v.csv")
    assert alone.code == 2, alone.text
    assert "one of the related tables 'clinic'" in alone.text
    unknown = shell("sample", "klinik", "--rows", 5, "--out", "more/")
    assert unknown.code == 2, unknown.text
    assert "released are: clinic. Name one" in " ".join(unknown.text.split())


def test_what_a_folder_s_names_tell_is_said_and_written_for_a_person_to_look_over(shell, folder):
    done = shell("synthesize-database", "data", "--write", "guess.yaml")
    assert done.code == 0, done.text
    told = " ".join(done.text.split())
    assert "visits: key visit_id, belongs to patients by patient_id, in the order of visited" in told
    guess = yaml.safe_load((shell.folder / "guess.yaml").read_text())
    assert guess["tables"]["visits"]["parent"] == {"patient_id": "patients"}
    assert guess["tables"]["visits"]["order"] == "visited"
    assert "order" not in guess["tables"]["patients"]
    again = shell("synthesize-database", "data", "--write", "guess.yaml")
    assert (again.code, "there is such a file" in again.text) == (2, True)


def test_an_account_of_the_root_s_unit_is_opened_for_one_release_if_asked_and_no_real_row_is_kept(shell, folder):
    described(shell, retention_days=0)
    done = shell("synthesize-database", "clinic.yaml", "--out", "made", "--open-account")
    assert done.code == 0, done.text
    (page,) = shell.folder.rglob("quality_report.html")
    assert "No real row is shown" in page.read_text()
    assert [p.name for p in page.parent.rglob("*.parquet")] == []
    (account,) = shell.ledger().accounts()
    assert (account.unit, account.rule) == ("patient_id", "plan")
    again = shell("synthesize-database", "clinic.yaml", "--out", "made")
    assert again.code == 3, again.text


def test_an_interrupted_run_is_gone_on_with_and_pays_for_nothing_twice(shell, folder, monkeypatch):
    described(shell)
    opened(shell)
    with monkeypatch.context() as patch:
        interrupt(patch, learning, "learn")
        stopped = shell("synthesize-database", "clinic.yaml", "--out", "made")
    assert stopped.code == 130, stopped.text
    before = {e.mechanism: e.id for e in shell.ledger().entries("patients")}
    assert "training of patients" in before
    resumed = shell("synthesize-database", "clinic.yaml", "--out", "made", "--resume")
    assert resumed.code == 0, resumed.text
    after = {e.mechanism: e.id for e in shell.ledger().entries("patients")}
    assert before.items() <= after.items()
    (release,) = shell.ledger().releases("patients")
    assert (release.state, release.final_epsilon <= 4) == ("settled", True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None}, "--epsilon is missing"),
        ({"epsilon": -1}, "Epsilon must be"),
        ({"tables": {"patients": {"source": "data/patients.parquet", "key": "patient_id"}, "x": {}}}, "tables"),
        ({"tables": {"patients": {"source": "data/missing.parquet", "key": "patient_id"}}}, "missing.parquet"),
        ({"colour": "red"}, "colour"),
        ({"unit": "visits"}, "unit"),
        ({"rules": ["visits.visited >= bills.paid"]}, "there is no table 'bills'"),
        ({"rules": ["visits.seen >= patients.born"]}, "there is no column 'seen'"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_and_nothing_is_charged(shell, folder, changes, words):
    described(shell, **changes)
    opened(shell)
    done = shell("synthesize-database", "clinic.yaml", "--out", "made")
    assert done.code == 2, done.text
    assert words in done.text
    assert "Traceback" not in done.text
    assert shell.ledger().entries("patients") == []


def test_a_folder_of_one_table_a_missing_one_and_no_place_are_refused(shell, folder):
    (folder / "visits.parquet").unlink()
    assert "at least two" in shell("synthesize-database", "data", "--out", "made", "--epsilon", 1).text
    assert "at least two" in shell("synthesize-database", "nowhere", "--out", "made", "--epsilon", 1).text
    described(shell)
    wrong = shell("synthesize-database", "clinic.yaml", "--out", "made", "--set", "training.epochs=1")
    assert "training.epochs: there is no such setting. Did you mean max_epochs?" in wrong.text
    assert "--out is missing" in shell("synthesize-database", "clinic.yaml").text


def test_persons_are_drawn_on_a_condition_at_no_charge_and_one_on_their_rows_is_refused(shell, folder):
    described(shell)
    opened(shell)
    assert shell("synthesize-database", "clinic.yaml", "--out", "made").code == 0
    entries = len(shell.ledger().entries("patients"))
    done = shell(
        "sample", "clinic", "--rows", 30, "--out", "more/{table}.csv", "--where", "patients.sex = 'F'", "--json"
    )
    assert done.code == 0, done.text
    facts = json.loads(done.out)
    assert (facts["rows"]["patients"], facts["where"]) == (30, "patients.sex = 'F'")
    assert 0 < facts["effective_sample_size"] <= 30
    lines = (shell.folder / "more" / "patients.csv").read_text().splitlines()
    assert all(",F," in line for line in lines[1:])
    assert len(shell.ledger().entries("patients")) == entries
    refused = shell("sample", "clinic", "--rows", 5, "--out", "other", "--where", "ward = 'north'")
    assert (refused.code, "is a column of visits" in refused.text) == (2, True)
    shared = shell("sample", "clinic", "--rows", 5, "--out", "other", "--share", "sex: {F: 0.5}")
    assert (shared.code, "for single tables" in shared.text) == (2, True)
