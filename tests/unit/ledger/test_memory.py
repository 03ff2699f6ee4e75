"""What is remembered of a ledger beside it: a copy put back, an edit or an emptied file stops the next decision."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted, LedgerUnavailable
from dp_synth_pipeline.ledger import Ledger, tables
from dp_synth_pipeline.ledger.checkpoint import Checkpoint
from dp_synth_pipeline.ledger.kept import Kept
from tests.unit.ledger.stores import ask, in_processes, new_store, sealed

WORD = {"why": "restored", "who": "A. Officer"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A SQLite ledger with one reservation, and `copy`, which was taken before it."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(str(path))
    ledger.open_account("p", epsilon=1.0, delta=1e-5, rule="plan")
    checkpointed(path)
    shutil.copy(path, tmp_path / "copy")
    ask(ledger, "p", "first")
    checkpointed(path)
    return path


def checkpointed(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def head(path: Path) -> Path:
    return path.with_name("ledger.db.head")


def put_back(path: Path) -> None:
    shutil.copy(path.with_name("copy"), path)


def test_a_copy_put_back_stops_the_next_decision_and_verify_but_can_be_looked_at(path: Path) -> None:
    put_back(path)
    ledger = Ledger.open(str(path))
    before = sealed(ledger)
    for act in (lambda: ask(ledger, "p", "second"), lambda: ledger.verify()):
        with pytest.raises(LedgerCorrupted, match=r"rolled back.*dp-synth ledger adopt"):
            act()
    assert sealed(ledger) == before
    assert ledger.balance("p").cost_held == 0


def test_a_restored_copy_is_adopted_by_a_person_and_on_record(path: Path) -> None:
    put_back(path)
    ledger = Ledger.open(str(path))
    with pytest.raises(InvalidInput, match="reason"):
        ledger.adopt(why=" ", who="A. Officer")
    ledger.adopt(**WORD)
    assert ask(ledger, "p", "second").state == "reserved"
    row = next(r for r in ledger.history() if r.action == "adopted")
    assert row.facts["note"]["why"] == "restored"
    assert row.facts["note"]["instead_of"]["length"] == 2
    assert ledger.verify().releases == 1


def test_what_does_not_verify_is_not_adopted(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE dp_account SET cost_held = 0")
    ledger = Ledger.open(str(path))
    with pytest.raises(LedgerCorrupted, match="balance"):
        ledger.adopt(**WORD)
    assert "adopted" not in [r.action for r in ledger.history()]


@pytest.mark.parametrize("damage", ["gone", "empty", "another seal", "another ledger's"])
def test_a_checkpoint_that_is_gone_or_not_genuine_stops_the_next_decision_until_the_ledger_is_adopted(
    path: Path, damage: str
) -> None:
    if damage == "gone":
        head(path).unlink()
    elif damage == "empty":
        head(path).write_text("")
    elif damage == "another seal":
        head(path).write_text(head(path).read_text().replace('"length": 2', '"length": 1'))
    else:
        other = path.parent / "other"
        Ledger.open(str(other / "ledger.db"))
        shutil.copy(other / "ledger.db.head", head(path))
    ledger = Ledger.open(str(path))
    with pytest.raises(LedgerCorrupted, match="missing" if damage == "gone" else "damaged"):
        ask(ledger, "p", "second")
    ledger.adopt(**WORD)
    assert ask(ledger, "p", "second").state == "reserved"


def test_an_edited_balance_stops_the_next_reservation(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE dp_account SET cost_held = 0, delta_held = 0")
    with pytest.raises(LedgerCorrupted, match="the balance of account p is not what its journal adds up to"):
        ask(Ledger.open(str(path)), "p", "second")


@pytest.mark.parametrize("left", ["key and head", "key", "head"])
def test_an_emptied_file_whose_key_or_head_is_in_place_is_a_lost_ledger(path: Path, left: str) -> None:
    path.write_bytes(b"")
    if left == "key":
        head(path).unlink()
    if left == "head":
        path.with_name("ledger.db.key").unlink()
    for _ in range(2):
        with pytest.raises(LedgerCorrupted, match="is gone"):
            Ledger.open(str(path))


def test_a_kill_between_a_commit_and_its_checkpoint_leaves_the_ledger_usable(path: Path) -> None:
    def killed() -> None:
        Kept.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        ask(Ledger.open(str(path)), "p", "second", epsilon=0.1)

    assert in_processes(1, killed) == [-signal.SIGKILL]
    ledger = Ledger.open(str(path))
    assert [r.key for r in ledger.releases()] == ["first", "second"]
    assert Checkpoint.unsealed(head(path).read_text(), ledger._key).length == 2
    assert ask(ledger, "p", "third", epsilon=0.1).state == "reserved"
    assert Checkpoint.unsealed(head(path).read_text(), ledger._key).length == 4
    assert sorted(p.name for p in path.parent.glob("*.head*")) == ["ledger.db.head"]


def test_a_kill_at_any_point_of_the_creation_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")

    def killed(name: str) -> None:
        setattr(Kept, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        Ledger.open(path)

    assert in_processes(1, killed, "draft") == [-signal.SIGKILL]
    assert in_processes(1, killed, "put") == [-signal.SIGKILL]
    Ledger.open(path).open_account("p", epsilon=1.0, delta=1e-5)
    assert Ledger.open(path).verify().accounts == 1


def test_a_checkpoint_that_cannot_be_written_stops_the_decision_before_it_is_on_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(str(path))
    before = sealed(ledger)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(head(path)))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerUnavailable, match="no space left"):
        ask(ledger, "p", "second")
    monkeypatch.undo()
    assert sealed(ledger) == before
    assert ask(ledger, "p", "second", epsilon=0.1).state == "reserved"


def test_a_restored_server_is_noticed_by_the_home_that_saw_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
    with new_store("postgresql", tmp_path) as url:
        ledger = Ledger.open(url)
        ledger.open_account("p", epsilon=1.0, delta=1e-5, rule="plan")
        every = (tables.store, tables.checkpoint, tables.journal, tables.account, tables.release)
        with ledger._store.read() as conn:
            kept = {table: [dict(r) for r in conn.execute(sa.select(table)).mappings()] for table in every}
        ask(ledger, "p", "first")
        with ledger._store.locked() as conn:
            for table in reversed(every):
                conn.execute(sa.delete(table))
            for table, content in kept.items():
                if content:
                    conn.execute(sa.insert(table), content)
        with pytest.raises(LedgerCorrupted, match="rolled back"):
            ask(ledger, "p", "second")
        monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "another"))
        assert ask(Ledger.open(url), "p", "second").state == "reserved"  # this one never saw what is gone
        monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
        ledger.adopt(**WORD)
        assert ask(ledger, "p", "third", epsilon=0.1).state == "reserved"
