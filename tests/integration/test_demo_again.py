"""Starting the demo over: its ledger and releases are renamed, everybody else's stay where they are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import dagster as dg
import pytest

from dp_synth_pipeline.cli import demo
from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.build import project_definitions
from dp_synth_pipeline.orchestration.continuity import CHARGING, HEAD, check_continuity
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.orchestration.settings import TableSettings

NAMES = (*demo.TABLES, *demo.FORMER)


@pytest.fixture
def home(shell, monkeypatch):
    """A home that is Dagster's too, where this demo and the one before were run: a ledger, releases, and chain heads."""
    monkeypatch.delenv("DP_SYNTH_HOME")
    folder = shell.folder / "dagster_home"
    folder.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    book = Ledger.open(str(folder / "ledger.db"))
    for name, facts in demo.ACCOUNTS.items():
        book.open_account(name, **facts)
    book.open_account("clinic_visits", epsilon=8.0, delta=1e-5, unit="patient_id", max_rows=3)
    for part in ("restricted", "releasable"):
        for name in (*NAMES, "mine"):
            (folder / "store" / part / name).mkdir(parents=True)
            (folder / "store" / part / name / "file").write_text(name)
    with in_process.instance() as instance:
        for name in (*NAMES, "mine"):
            for stage in CHARGING:
                event = dg.AssetMaterialization(dg.AssetKey([name, stage]), metadata={HEAD: book.head()})
                instance.report_runless_asset_event(event)
    return folder


def stops(folder, table: str) -> bool:
    """Whether the continuity check stops a table's next run."""
    settings = TableSettings(table=table, source="s.csv", account=table, epsilon=1)
    with in_process.instance() as instance:
        try:
            check_continuity(instance, Ledger.open(str(folder / "ledger.db")), settings)
        except LedgerCorrupted:
            return True
    return False


def test_fresh_renames_the_demo_s_ledger_and_releases_and_nothing_else_and_runs_go_on(home) -> None:
    head = Ledger.open(str(home / "ledger.db")).head()
    told = demo._put_aside()
    (aside,) = home.glob("ledger.db.aside-*")
    assert str(aside) in told[0]
    assert not (home / "ledger.db").exists()
    assert Ledger.open(str(aside / "ledger.db"), create=False).head() == head
    Ledger.open(str(aside / "ledger.db"), create=False).verify()
    for part in ("restricted", "releasable"):
        assert sorted(p.name for p in (aside / "store" / part).iterdir()) == sorted(NAMES)
        assert [p.name for p in (home / "store" / part).iterdir()] == ["mine"]
    Ledger.open(str(home / "ledger.db")).open_account("rand_hie", epsilon=6.0, delta=1e-5)
    assert not any(stops(home, name) for name in NAMES)
    assert stops(home, "mine")  # whose ledger is another one now, which nobody said was meant


def test_a_ledger_that_was_deleted_by_hand_is_no_obstacle(home) -> None:
    (home / "ledger.db").unlink()
    demo._put_aside()
    assert Ledger.open(str(home / "ledger.db")).accounts() == []


def test_a_ledger_with_somebody_s_account_stays_where_it_is(home) -> None:
    book = Ledger.open(str(home / "ledger.db"))
    book.open_account("patients", epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match=r"also keeps patients, whose promises stand.*DP_SYNTH_HOME=FOLDER"):
        demo._put_aside()
    assert (home / "ledger.db").exists()
    assert (home / "store" / "restricted" / "rand_hie").exists()


def test_nothing_to_put_aside_is_said(shell) -> None:
    assert demo._put_aside() == ["There was nothing to put aside."]


def test_a_ledger_on_a_server_is_not_renamed(shell, monkeypatch) -> None:
    monkeypatch.setenv("DP_SYNTH_LEDGER", "postgresql+psycopg://ada:CANARY@server/ledger")
    with pytest.raises(InvalidInput, match="is on a server") as caught:
        demo._put_aside()
    assert "CANARY" not in str(caught.value)


def test_the_demo_says_what_it_does_and_what_to_do_when_the_ledger_refuses(shell, monkeypatch) -> None:
    refusal = Outcome("run", 3, "Account 'x' refuses this release.", "Rényi filter")
    monkeypatch.setattr(in_process, "refresh", lambda *_, **__: refusal)
    done = shell("demo")
    assert done.code == 3
    for part in ("Synthesizing rand_hie: the RAND Health Insurance Experiment", "Ledger: ", "refused by the ledger"):
        assert part in done.text
    assert f"DP_SYNTH_HOME={shell.folder / 'home'} " in done.text
    assert "dp-synth demo --fresh (or make demo FRESH=1)" in done.text
    assert "Rényi" not in done.text
    assert "Rényi filter" in shell("demo", "--verbose").text
    assert shell("demo", "--table", "nothing").code == 2


@pytest.mark.parametrize("ledger", ["", "sqlite:///dagster_home/ledger.db"])
def test_what_the_demo_says_to_type_next_finds_its_ledger_from_a_shell_that_knows_nothing_of_it(
    home, tmp_path, monkeypatch, ledger
) -> None:
    """`make demo` names a home that the shell which typed it never sees, and runs a program that is not on its path."""
    monkeypatch.setenv("DP_SYNTH_LEDGER", ledger)
    monkeypatch.setenv("DAGSTER_HOME", "elsewhere" if ledger else "dagster_home")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = subprocess.run(
        demo._from_any_shell("ledger show rand_hie --json"),
        shell=True,
        cwd=elsewhere,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(Path(demo.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(home / "ledger.db") in json.loads(told.stdout)["ledger"]


def test_the_demo_never_shows_a_password_of_a_ledger_on_a_server(shell, monkeypatch) -> None:
    monkeypatch.setenv("DP_SYNTH_LEDGER", "postgresql+psycopg://ada:CANARY@server/ledger")
    assert "CANARY" not in demo._from_any_shell("demo")


def test_the_account_of_the_demo_before_stays_as_it_is_when_the_demo_runs(shell, monkeypatch) -> None:
    book = shell.ledger()
    book.open_account("clinic_visits", epsilon=8.0, delta=1e-5, unit="patient_id", max_rows=3)
    (before,) = book.accounts()
    monkeypatch.setattr(in_process, "refresh", lambda *_, **__: Outcome("run", 3, "Account 'x' refuses this release."))
    assert shell("demo").code == 3
    accounts = {a.name: a for a in book.accounts()}
    assert set(accounts) == {*demo.ACCOUNTS, "clinic_visits"}
    assert accounts["clinic_visits"] == before


def test_each_of_the_demo_has_an_account_and_a_job(shell) -> None:
    definitions = project_definitions()
    assert tuple(demo.TABLES) == tuple(demo.ACCOUNTS)
    for name in demo.TABLES:
        assert definitions.resolve_job_def(f"{name}_refresh")
    assert set(demo.DATABASES) <= set(demo.TABLES)
