"""What a ledger's store can fail of: one clear message with the place and what to do, exit code 4, no traceback."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import DpSynthError, InvalidInput, LedgerCorrupted, LedgerUnavailable
from dp_synth_pipeline.ledger import Ledger, export
from dp_synth_pipeline.ledger.place import parse
from tests.unit.ledger.stores import ask, in_processes, new_store

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept" / "ledger.db"
    ledger = Ledger.open(str(path))
    ledger.open_account("p", epsilon=1.0, delta=1e-5, rule="plan")
    ask(ledger, "p", "first")
    return path


def as_nobody(work: Callable[[], None]) -> None:
    """Do `work` in a process that is not root, to which every door is open."""

    def dropped() -> None:
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        work()

    assert in_processes(1, dropped) == [0]


def opened_to_nobody(folder: Path, files: int, itself: int) -> None:
    """Let others into a folder, and those above it, with these rights."""
    for one in folder.iterdir():
        one.chmod(files)
    folder.chmod(itself)
    for above in folder.parents:
        if above.stat().st_mode & 0o77 == 0:  # as pytest makes its own, however deep they lie
            above.chmod(0o755)


def refused(call: Callable[[], object], kind: type[DpSynthError], *said: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.exit_code == 4
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize("size", [100, 5000, 40_000])
def test_a_truncated_ledger_is_damaged(path: Path, size: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    for rest in path.parent.glob("*-wal"):
        rest.unlink()

    def use() -> None:
        ledger = Ledger.open(str(path))
        ledger.verify()
        ask(ledger, "p", "second")

    refused(use, LedgerCorrupted, str(path))


def test_a_table_that_is_gone_is_damage(ledger: Ledger) -> None:
    with ledger._store.locked() as conn:
        conn.execute(sa.text("DROP TABLE dp_journal"))
    refused(ledger.history, LedgerCorrupted, ledger.place)


def test_a_ledger_that_cannot_be_written_can_be_read_with_all_that_its_log_holds(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with sqlite3.connect(path) as reader:  # as long as somebody reads, the log stays beside the file
        reader.execute("SELECT * FROM dp_store").fetchall()
        ask(Ledger.open(str(path)), "p", "second", epsilon=0.1)
        shutil.copytree(path.parent, copy)
    (copy / "ledger.db-shm").unlink(missing_ok=True)
    assert (copy / "ledger.db-wal").stat().st_size > 0
    opened_to_nobody(copy, 0o444, 0o555)

    def look() -> None:
        ledger = Ledger.open(str(copy / "ledger.db"))
        assert [r.key for r in ledger.releases()] == ["first", "second"]
        assert ledger.verify().releases == 2
        assert len(ledger.history()) == 3
        assert '"second"' in export.to_json(ledger)
        refused(lambda: ask(ledger, "p", "third", epsilon=0.1), LedgerUnavailable, str(copy), "read-only")

    as_nobody(look)
    copy.chmod(0o755)


@pytest.mark.parametrize(("version", "releases"), [("version_2", 5), ("version_3", 7)])
def test_a_ledger_of_an_older_version_that_cannot_be_written_can_be_read(
    tmp_path: Path, version: str, releases: int
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    kept = Path(__file__).parent / version
    connection = sqlite3.connect(old / "ledger.db")
    connection.executescript(kept.with_suffix(".sql").read_text())
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    for suffix in (".key", ".head"):
        if kept.with_suffix(suffix).exists():
            shutil.copy(kept.with_suffix(suffix), old / f"ledger.db{suffix}")
    opened_to_nobody(old, 0o444, 0o555)

    def look() -> None:
        ledger = Ledger.open(str(old / "ledger.db"))
        assert ledger.verify().releases == releases
        assert all(plan.mechanisms == () for plan in ledger.plans())

    as_nobody(look)
    old.chmod(0o755)


def test_a_folder_that_cannot_be_written_and_a_file_that_cannot_be_read_are_named(path: Path) -> None:
    opened_to_nobody(path.parent, 0o600, 0o755)
    new = path.parent / "new" / "ledger.db"
    as_nobody(lambda: refused(lambda: Ledger.open(str(path)), LedgerUnavailable, str(path), "permission denied"))
    as_nobody(lambda: refused(lambda: Ledger.open(str(new)), LedgerUnavailable, str(new), "permission denied"))


def test_a_full_disk_is_named_and_leaves_the_ledger_as_it_was(path: Path) -> None:
    ledger = Ledger.open(str(path))

    def full(dbapi: sqlite3.Connection, *_: object) -> None:
        dbapi.execute(f"PRAGMA max_page_count={dbapi.execute('PRAGMA page_count').fetchone()[0]}")

    sa.event.listen(ledger._store.engine, "connect", full)
    name = {"why": "w" * 100_000}
    refused(lambda: ledger.open_account("q", epsilon=1.0, delta=1e-5, **name), LedgerUnavailable, str(path), "full")
    sa.event.remove(ledger._store.engine, "connect", full)
    assert [a.name for a in ledger.accounts()] == ["p"]
    assert ledger.verify().releases == 1


def test_a_server_that_forbids_it_is_named(tmp_path: Path) -> None:
    with new_store("postgresql", tmp_path) as url:
        Ledger.open(url)
        plain = url.split("?")[0].replace("postgresql://", "postgresql+psycopg://")
        read_only = f"{url}%20-cdefault_transaction_read_only%3Don"
        ledger = Ledger.open(read_only)
        refused(lambda: ledger.open_account("p", epsilon=1.0, delta=1e-5), LedgerUnavailable, "read-only", "@127.0.0.1")
        with pytest.raises(LedgerUnavailable):
            Ledger.open(plain.replace("/test", "/no_such_database"))


def test_a_question_mark_in_a_url_is_refused_and_in_a_path_is_a_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="plain path"):
        Ledger.open(f"sqlite:///{tmp_path}/a?b.db")
    assert list(tmp_path.iterdir()) == []
    Ledger.open(f"{tmp_path}/a?b.db").open_account("p", epsilon=1.0, delta=1e-5)
    assert {p.name for p in tmp_path.iterdir()} >= {"a?b.db", "a?b.db.key", "a?b.db.head"}


def test_a_symbolic_link_to_a_ledger_finds_its_key(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert ask(Ledger.open(str(link)), "p", "second", epsilon=0.1).state == "reserved"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "link.db"]
    assert parse(str(link)).path == path


def test_a_ledger_that_is_missing_is_not_made_by_a_question(url: str) -> None:
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        Ledger.open(url, create=False)
    Ledger.open(url)
    assert Ledger.open(url, create=False).accounts() == []
