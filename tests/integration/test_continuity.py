"""A ledger that was deleted, rolled back, edited or recreated stops the next run, before the source is opened."""

import shutil
import sqlite3

import pytest

from dp_synth_pipeline.ledger import Ledger
from tests.integration.conftest import failure


def files(bench):
    return [p for p in bench.folder.glob("ledger.db*") if p.is_file()]


def stopped_on_a_damaged_ledger(bench):
    (bench.folder / "people.parquet").unlink()  # were it opened, the error would be another
    result = bench.refresh()
    told = failure(result).user_failure_data
    return told.metadata["error"].value == "LedgerCorrupted" and told.metadata["exit_code"].value == 4


@pytest.fixture
def charged(bench):
    assert bench.refresh().success
    return bench


def test_a_grown_ledger_is_welcome(charged):
    assert charged.refresh().success


def test_a_deleted_and_recreated_ledger_is_noticed(charged):
    for path in files(charged):
        path.unlink()
    Ledger.open(f"sqlite:///{charged.folder / 'ledger.db'}").open_account("people", epsilon=10.0, delta=1e-4)
    assert stopped_on_a_damaged_ledger(charged)


def test_a_ledger_rolled_back_to_a_backup_is_noticed(bench):
    backup = bench.folder / "backup"
    backup.mkdir()
    for path in files(bench):
        shutil.copy(path, backup)
    assert bench.refresh().success
    for path in files(bench):
        path.unlink()
    for path in backup.iterdir():
        shutil.copy(path, bench.folder)
    assert stopped_on_a_damaged_ledger(bench)


def test_an_edited_ledger_is_noticed(charged):
    with sqlite3.connect(charged.folder / "ledger.db") as con:
        con.execute("UPDATE dp_entry SET cost = 1")
    assert stopped_on_a_damaged_ledger(charged)
