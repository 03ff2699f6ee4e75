from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted, LedgerUnavailable
from dp_synth_pipeline.ledger import Ledger, tables
from dp_synth_pipeline.ledger.store import Store
from tests.unit.ledger.stores import ask, in_processes


def test_a_bare_path_is_a_sqlite_ledger_with_its_folders_made_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "ledger.db"
    Ledger.open(str(path)).open_account("a", epsilon=1.0, delta=1e-5)
    assert Ledger.open(f"sqlite:///{path}").accounts()[0].name == "a"
    for kept in (path, path.with_name("ledger.db.key")):
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "wrong", ["", "sqlite://", "sqlite:///:memory:", ":memory:", "duckdb:///l.db", "mysql://h/d", "://"]
)
def test_what_cannot_hold_a_ledger_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput):
        Ledger.open(wrong)


def test_a_reservation_costs_as_much_after_a_hundred_releases_as_after_ten(tmp_path: Path) -> None:
    ledger, work = Ledger.open(str(tmp_path / "ledger.db")), [0]

    def tick() -> int:
        work[0] += 1
        return 0

    def watch(connection: Any, *_: object) -> None:
        connection.set_progress_handler(tick, 1)  # called at each instruction of SQLite

    sa.event.listen(ledger._store.engine.pool, "checkout", watch)
    ledger.open_account("a", epsilon=1e5, delta=0.1, rule="plan")

    def cost(key: str) -> int:
        work[0] = 0
        ask(ledger, "a", key)
        return work[0]

    for number in range(10):
        cost(f"short {number}")
    short = cost("short")
    for number in range(100):
        cost(f"long {number}")
    assert 0 < cost("long") < 1.2 * short


def test_a_file_that_is_no_database_is_named_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("name,age\nsecret,42\n" * 100)
    with pytest.raises(LedgerCorrupted, match="another kind of file") as caught:
        Ledger.open(str(path))
    assert "secret" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_no_ledger_is_made_in_the_database_of_another_program(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'theirs.db'}")
    with engine.begin() as conn:
        conn.execute(sa.text("CREATE TABLE customers (name TEXT)"))
    with pytest.raises(LedgerUnavailable, match="of another program"):
        Ledger.open(str(tmp_path / "theirs.db")).open_account("a", epsilon=1, delta=1e-5)
    assert sa.inspect(engine).get_table_names() == ["customers"]
    assert not [p for p in tmp_path.iterdir() if p.suffix in (".key", ".head")]


def test_a_ledger_that_another_program_s_database_replaced_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(str(path)).open_account("a", epsilon=1, delta=1e-5)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with sa.create_engine(f"sqlite:///{path}").begin() as conn:
        conn.execute(sa.text("CREATE TABLE customers (name TEXT)"))
    with pytest.raises(LedgerCorrupted, match="still there: it was deleted, moved, emptied or replaced"):
        Ledger.open(str(path))


def test_a_server_that_does_not_answer_is_a_named_failure() -> None:
    with pytest.raises(LedgerUnavailable, match="does not answer") as caught:
        Ledger.open("postgresql://nobody:hunter2@127.0.0.1:1/none?connect_timeout=1&password=hunter3")
    assert "postgresql://nobody:***@127.0.0.1:1/none" in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_a_ledger_of_another_version_is_refused(url: str) -> None:
    Ledger.open(url)
    with Store.open(url).write() as conn:
        conn.execute(sa.update(tables.store).values(schema_version=99))
    with pytest.raises(InvalidInput, match="version"):
        Ledger.open(url)


def test_the_representation_hides_a_password() -> None:
    store = Store.open("postgresql+psycopg://u:hunter2@127.0.0.1/x?password=hunter3")
    assert repr(Ledger(store, b"")) == "Ledger('postgresql+psycopg://u:***@127.0.0.1/x')"


def test_commits_reach_the_disk(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path / "l.db"))
    with ledger._store.write() as conn:
        assert conn.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert conn.exec_driver_sql("PRAGMA busy_timeout").scalar() >= 10_000


def test_a_failed_decision_leaves_no_trace(ledger: Ledger) -> None:
    before = ledger.accounts()

    def fail() -> None:
        with ledger._store.write() as conn:
            conn.execute(sa.delete(tables.account))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert ledger.accounts() == before


def test_a_ledger_may_be_created_by_several_processes_at_once(url: str) -> None:
    def create() -> None:
        Ledger.open(url).seal("x")

    assert in_processes(4, create) == [0] * 4
    assert Ledger.open(url).verify().accounts == 0


def test_one_ledger_serves_many_threads(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: ask(ledger, "p", f"k{i}", epsilon=0.1, delta=1e-7).id, range(12)))
    assert len(set(made)) == 12
    assert ledger.verify().releases == 12


def test_an_open_ledger_survives_a_fork(ledger: Ledger) -> None:
    ask(ledger, "p", "before")

    def work() -> None:
        ask(ledger, "p", f"child-{os.getpid()}")

    assert in_processes(1, work) == [0]
    ask(ledger, "p", "after")
    assert ledger.verify().releases == 3
