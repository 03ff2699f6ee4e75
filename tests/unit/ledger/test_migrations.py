"""A ledger written by an older version is upgraded when it is opened, and says afterwards what it said before."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, journal, migrations, tables
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.checkpoint import Checkpoint
from dp_synth_pipeline.ledger.kept import Kept
from dp_synth_pipeline.ledger.store import Store
from tests.unit.ledger.stores import SMALL, ask, in_processes

pytestmark = pytest.mark.slow

Older = Callable[[int], str]

NEW = {
    "dp_account": ["unit_in_one_block", "umbrella", "under", "approve_above", "quotas"],
    "dp_release": [
        "plan",
        "blocks",
        "relation",
        "mirrors",
        "by_hand",
        "umbrella_order",
        "umbrella_cost",
        "purpose",
    ],
    "dp_entry": ["planned", "upon"],
}


def first_version(url: str) -> None:
    """Create an empty store as version 1 did."""
    store = Store.open(url)
    with store._writer.begin() as conn:
        migrations.upgrade(conn, 0, 1)
        key = keys.new_key()
        kept = key.hex() if store.place.path is None else None
        if store.place.path is not None:
            store.place.beside(".key").write_text(key.hex())
        row = {"id": 1, "schema_version": 1, "length": 0, "head": journal.GENESIS}
        conn.execute(sa.insert(tables.store).values(**row, key_id=keys.key_id(key), key=kept))


def schema(url: str) -> dict[str, list[tuple[str, str, bool]]]:
    with Store.open(url).read() as conn:
        seen = sa.inspect(conn)
        return {
            t: sorted((c["name"], str(c["type"]), bool(c["nullable"])) for c in seen.get_columns(t))
            for t in seen.get_table_names()
        }


def test_the_scripts_lead_to_the_tables_that_the_code_uses(url: str) -> None:
    first_version(url)
    assert "dp_plan" not in schema(url)
    Ledger.open(url)
    with Store.open(url).read() as conn:
        assert compare_metadata(MigrationContext.configure(conn), tables.metadata) == []


def test_the_last_script_is_the_version_of_the_code() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_current_head() == f"{tables.SCHEMA_VERSION:04d}"


def test_a_ledger_that_was_written_by_version_1_upgrades_verifies_and_goes_on(url: str) -> None:
    first_version(url)
    old = Ledger.open(url)
    for account, rule in (("f", "filter"), ("p", "plan")):
        old.open_account(account, epsilon=3.0, delta=1e-5, rule=rule)  # type: ignore[arg-type]
        old.start(ask(old, account, f"{account}1").id, "profile", SMALL)
        old.settle(old.releases(account)[0].id)
        ask(old, account, f"{account}2")
    downgrade(old)
    with Store.open(url).read() as conn:
        assert "relation" not in {c["name"] for c in sa.inspect(conn).get_columns("dp_release")}
    again = Ledger.open(url)
    assert again.verify().releases == 4
    assert again.head() == old.head()
    again.start(again.releases("f")[1].id, "profile", SMALL)
    again.declare_plan("f", name="w", events=SMALL, times=2, why="w", who="w")
    assert again.verify().entries == 3


def downgrade(ledger: Ledger) -> None:
    """Make of a ledger what version 1 would have written: without the new columns, in tables or journal."""
    bodies, previous = [], journal.GENESIS
    for row in ledger.history():
        facts = row.facts
        for kind in ("account", "release"):
            for name in NEW[f"dp_{kind}"] if facts[kind] else ():
                del facts[kind][name]
        for entry in facts["entries"]:
            del entry["planned"], entry["upon"]
        draft = type(row)(
            **{**row.to_record(), "body": journal.json.dumps(facts, sort_keys=True), "previous": previous}
        )
        previous = journal.link(draft)
        bodies.append({**draft.to_record(), "hash": previous})
    ledger._store.memory.file.path.unlink()
    with ledger._store.locked() as conn:
        conn.execute(sa.delete(tables.journal))
        conn.execute(sa.insert(tables.journal), bodies)
        conn.execute(sa.update(tables.store).values(head=previous, schema_version=1))
        conn.execute(sa.text("DROP TABLE dp_checkpoint"))
        conn.execute(sa.text("DROP TABLE dp_plan"))
        conn.execute(sa.text("DROP TABLE dp_request"))
        conn.execute(sa.text("DROP TABLE dp_block"))
        conn.execute(sa.text("DROP INDEX dp_release_source"))
        conn.execute(sa.text("DROP INDEX dp_release_mirrors"))
        for table, columns in NEW.items():
            for column in columns:
                conn.execute(sa.text(f'ALTER TABLE {table} DROP COLUMN "{column}"'))


def test_several_processes_that_open_an_old_ledger_upgrade_it_once(url: str) -> None:
    first_version(url)
    assert in_processes(4, lambda: Ledger.open(url).verify()) == [0] * 4
    assert Ledger.open(url).verify().accounts == 0


def test_an_upgrade_that_fails_leaves_the_old_ledger(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first_version(url)
    whole = migrations.upgrade

    def half(conn: sa.Connection, version: int, to: int) -> None:
        whole(conn, version, to)
        raise RuntimeError

    monkeypatch.setattr(migrations, "upgrade", half)
    with pytest.raises(RuntimeError):
        Ledger.open(url)
    assert "dp_plan" not in schema(url)
    monkeypatch.undo()
    assert Ledger.open(url).verify().accounts == 0


def test_a_newer_ledger_is_refused_by_name(url: str) -> None:
    Ledger.open(url)
    with Store.open(url).write() as conn:
        conn.execute(sa.update(tables.store).values(schema_version=tables.SCHEMA_VERSION + 1))
    with pytest.raises(InvalidInput, match="a newer release"):
        Ledger.open(url)


def test_alembic_is_not_loaded_to_use_a_ledger(tmp_path: Path) -> None:
    code = "import sys; from dp_synth_pipeline.ledger import Ledger; Ledger.open(sys.argv[1])"
    code += "; assert 'alembic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "l.db")], check=True)
    shutil.rmtree(tmp_path)


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A ledger as version 2 wrote it: releases that are settled, open, voided, of a plan and over a block."""
    return second_version(tmp_path)


def second_version(tmp_path: Path) -> Path:
    """Put the ledger that version 2 wrote into a folder."""
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parent / "version_2.sql").read_text())
    connection.close()
    shutil.copy(Path(__file__).parent / "version_2.key", tmp_path / "ledger.db.key")
    return path


def test_a_ledger_that_was_written_by_version_2_gets_a_checkpoint_and_goes_on(second: Path) -> None:
    ledger = Ledger.open(str(second))
    assert ledger.verify().releases == 5
    assert len(Checkpoint.unsealed((second.parent / "ledger.db.head").read_text(), ledger._key).balances) == 4
    assert ask(ledger, "f", "next", epsilon=0.1).state == "reserved"
    started = next(e for e in ledger.entries() if e.steps_started)
    assert ledger.settle_at_mark(started.id, why="w", who="w").steps_paid == 4
    ledger.settle(started.release_id)
    assert Ledger.open(str(second)).verify().releases == 6


def test_an_edited_ledger_of_version_2_gets_no_checkpoint(second: Path) -> None:
    with sqlite3.connect(second) as connection:
        connection.execute("UPDATE dp_account SET cost_held = 0")
    connection.close()
    with pytest.raises(LedgerCorrupted, match="balance"):
        Ledger.open(str(second))
    assert not (second.parent / "ledger.db.head").exists()


def test_a_copy_of_version_2_put_back_beside_a_newer_checkpoint_is_noticed(second: Path) -> None:
    shutil.copy(second, second.parent / "copy")
    Ledger.open(str(second)).open_account("later", epsilon=1.0, delta=1e-5)
    for rest in second.parent.glob("ledger.db-*"):
        rest.unlink()
    shutil.copy(second.parent / "copy", second)
    with pytest.raises(LedgerCorrupted, match="rolled back"):
        Ledger.open(str(second))


def test_an_upgrade_that_is_killed_before_its_checkpoint_is_in_place_is_ended_by_the_next(second: Path) -> None:
    def killed() -> None:
        Kept.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        Ledger.open(str(second))

    assert in_processes(1, killed) == [-signal.SIGKILL]
    assert not (second.parent / "ledger.db.head").exists()
    assert ask(Ledger.open(str(second)), "f", "next", epsilon=0.1).state == "reserved"


@pytest.fixture
def older(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Older:
    """Return what puts the ledger of a version in place, and returns its URL; this home never saw it.

    Version 3 has a plan that names no mechanisms. Version 4 has trainings that stopped, crashed and resumed, and one that
    still runs. Version 5 has accounts of both rules and of blocks, in every state. Version 6 has an umbrella with a member
    and charges by hand as well. Version 7 has shares that need a second person, and requests that wait, are approved or
    used.
    """
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return partial(put_back, url)


def put_back(url: str, version: int) -> str:
    """Put the ledger that a version wrote where `url` says."""
    kept = Path(__file__).parent / f"version_{version}"
    place = Store.open(url).place
    with sqlite3.connect(":memory:" if place.path is None else place.path) as rows:
        rows.executescript(kept.with_suffix(".sql").read_text())
        if place.path is None:
            fill(url, rows, kept, version)
    rows.close()
    if place.path is not None:
        for suffix in (".key", ".head"):
            shutil.copy(kept.with_suffix(suffix), place.beside(suffix))
    return url


def fill(url: str, rows: sqlite3.Connection, kept: Path, version: int) -> None:
    """Write what a SQLite ledger of a version held into one of that version on a server."""
    rows.row_factory = sqlite3.Row
    with Store.open(url)._writer.begin() as conn:
        migrations.upgrade(conn, 0, version)
        then = sa.MetaData()
        then.reflect(conn)
        for table in then.sorted_tables:
            if found := [dict(r) for r in rows.execute(f"SELECT * FROM {table.name}")]:
                conn.execute(sa.insert(table), found)
        conn.execute(sa.update(then.tables["dp_store"]).values(key=kept.with_suffix(".key").read_text()))
        head = {"id": 1, "text": kept.with_suffix(".head").read_text()}
        conn.execute(sa.insert(then.tables["dp_checkpoint"]).values(head))


def test_a_ledger_that_was_written_by_version_3_upgrades_verifies_and_goes_on(older: Older) -> None:
    ledger = Ledger.open(place := older(3))
    head = ledger.head()
    assert ledger.verify(since=head).releases == 7
    assert [(p.name, p.mechanisms, p.used) for p in ledger.plans()] == [("weekly", (), 2)]
    assert "mechanisms" not in "".join(row.body for row in ledger.history())
    assert ask(ledger, "f", "next", epsilon=0.1).state == "reserved"
    use = ledger.reserve("f", key="use", table="adult", run_id="r", code_version="v", plan="weekly")
    ledger.start(use.id, "any mechanism", ledger.plans()[0].events)
    assert ledger.settle(use.id, ran=ledger.plans()[0].events).charged_cost == 0
    started = next(e for e in ledger.entries() if e.steps_started)
    assert ledger.settle_at_mark(started.id, why="w", who="w").steps_paid == 4
    ledger.declare_plan("f", name="tagged", events=SMALL, mechanisms=["marginals"], times=2, why="w", who="w")
    assert Ledger.open(place).verify(since=head).releases == 9


def test_a_ledger_that_was_written_by_version_4_upgrades_verifies_and_goes_on(older: Older) -> None:
    ledger = Ledger.open(place := older(4))
    head = ledger.head()
    assert ledger.verify(since=head).releases == 6
    whole, stopped, running, resumed = ledger.releases("f")
    assert {(e.planned, e.upon) for e in ledger.entries()} == {((), None)}, "nobody recorded what they build upon"
    assert not ledger.lineage(stopped.id).recorded
    old = pytest.approx(stopped.final_epsilon, rel=1e-9)  # other processors add up in other orders
    assert ledger.lineage(stopped.id).epsilon == old, "an old release costs what it was said to cost"
    assert ledger.lineage(resumed.id).epsilon == pytest.approx(resumed.final_epsilon, rel=1e-9)
    (crashed,) = (r for r in ledger.releases("p") if r.state == "settled")
    assert crashed.charged_cost < crashed.reserved_cost, "a charge is final"
    started = next(e for e in ledger.entries(release_id=running.id) if e.steps_started)
    assert ledger.settle_at_mark(started.id, why="w", who="w").planned == started.events
    assert ledger.settle(running.id).final_epsilon > 1.1 * ledger.release(stopped.id).final_epsilon
    own = ask(ledger, "f", "next", epsilon=0.1)
    ledger.start(own.id, "marginals", SMALL, upon=[e.id for e in ledger.entries(release_id=whole.id)][:2])
    assert ledger.settle(own.id).final_epsilon < ledger.lineage(own.id).epsilon
    assert Ledger.open(place).verify(since=head).releases == 7


def test_a_ledger_that_was_written_by_version_5_upgrades_verifies_and_goes_on(older: Older) -> None:
    ledger = Ledger.open(place := older(5))
    head = ledger.head()
    assert ledger.verify(since=head).releases == 8
    assert [(a.umbrella, a.under) for a in ledger.accounts()] == [(False, None)] * 3
    assert {(r.mirrors, r.by_hand, r.umbrella_cost) for r in ledger.releases()} == {(None, False, None)}
    running = next(r for r in ledger.releases("f") if r.state == "started")
    assert ledger.settle(running.id, why="it crashed").charged_cost == ledger.entries(release_id=running.id)[0].cost
    ledger.raise_account("f", epsilon=4.0, why="w", who="w")
    ledger.charge_by_hand("p", SMALL, delta=1e-7, why="w", who="w")
    ask(ledger, "b", "feb", epsilon=0.2, unit="patient_id", max_rows=3, blocks=["feb"])
    assert Ledger.open(place).verify(since=head).releases == 10


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_an_older_ledger_takes_umbrellas_and_charges_by_hand_and_its_accounts_stay_under_none(
    older: Older, url: str, tmp_path: Path, version: int
) -> None:
    if version == 2 and "postgresql" in url:
        pytest.skip("version 2 kept its checkpoint nowhere")
    place = str(second_version(tmp_path)) if version == 2 else older(version)
    ledger = Ledger.open(place)
    head = ledger.head()
    ledger.open_account("shop", epsilon=4.0, delta=1e-5, unit="patient_id", umbrella=True)
    ledger.open_account("carts", epsilon=2.0, delta=1e-5, under="shop")
    with pytest.raises(InvalidInput, match="never later"):
        ledger.open_account("f", epsilon=2.0, delta=1e-5, under="shop")
    release = ask(ledger, "carts", "v", unit="patient_id")
    ledger.start(release.id, "training", SMALL)
    ledger.settle(release.id)
    ledger.charge_by_hand("carts", SMALL, why="w", who="w")
    ledger.charge_by_hand("f", SMALL, why="w", who="w")
    spent = ledger.balance("shop").cost_spent
    assert spent == sum(r.charged_cost or 0 for r in ledger.releases("shop")) > 0
    assert Ledger.open(place).verify(since=head).head == ledger.head()


def test_a_ledger_that_was_written_by_version_6_upgrades_verifies_and_goes_on(older: Older) -> None:
    ledger = Ledger.open(place := older(6))
    head, hashes = ledger.head(), [row.hash for row in ledger.history()]
    assert ledger.verify(since=head).releases == 14
    assert {a.approve_above for a in ledger.accounts()} == {None}
    assert ledger.requests(used=True) == []
    running = next(r for r in ledger.releases("f") if r.state == "started")
    assert ledger.settle(running.id, why="it crashed").state == "settled"
    assert ask(ledger, "visits", "next", epsilon=0.1, unit="patient_id", max_rows=30).state == "reserved"
    ledger.raise_account("f", epsilon=4.0, why="w", who="w")
    assert [row.hash for row in ledger.history()][: len(hashes)] == hashes
    assert Ledger.open(place).verify(since=head).releases == 16


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_an_account_of_an_older_ledger_may_be_amended_to_need_a_second_person(older: Older, version: int) -> None:
    ledger = Ledger.open(place := older(version))
    ledger.amend_account("f", approve_above=0.01, why="w", who="w")
    with pytest.raises(ApprovalNeeded):
        ask(ledger, "f", "next", epsilon=0.4)
    ledger.approve(ledger.requests()[0].id, why="w", who="Ana")
    ask(ledger, "f", "next", epsilon=0.4)
    assert Ledger.open(place).verify().head == ledger.head()


def test_a_ledger_that_was_written_by_version_7_upgrades_verifies_and_goes_on(older: Older) -> None:
    ledger = Ledger.open(place := older(7))
    head, hashes = ledger.head(), [row.hash for row in ledger.history()]
    assert ledger.verify(since=head).releases == 19
    assert {a.quotas for a in ledger.accounts()} == {()}
    assert {r.purpose for r in ledger.releases()} == {""}, "nobody recorded it"
    approved = ask(ledger, "f", "approved", epsilon=3.0, purpose="waiting times")
    (waiting,) = ledger.requests()
    ledger.approve(waiting.id, why="w", who="Ana")
    ledger.amend_account("f", approve_above=0.5, why="fewer questions", who="B. Analyst")
    assert (approved.purpose, ledger.requests()) == ("waiting times", [])
    assert [row.hash for row in ledger.history()][: len(hashes)] == hashes
    assert Ledger.open(place).verify(since=head).releases == 20


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_an_account_of_an_older_ledger_may_be_amended_to_have_quotas_in_which_its_releases_count(
    older: Older, version: int
) -> None:
    ledger = Ledger.open(place := older(version))
    who = ledger.releases("f")[0].who
    ledger.amend_account("f", quotas=[f"requester={who}:0.0"], why="w", who="w")
    with pytest.raises(BudgetExceeded, match=r"at most 0 % of it and has [1-9]") as refused:
        ledger.charge_by_hand("f", SMALL, why="w", who=who)
    assert refused.value.facts["taken"] > 0
    ledger.charge_by_hand("f", SMALL, why="w", who="Ana")
    assert Ledger.open(place).verify().head == ledger.head()


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_several_processes_that_open_an_older_ledger_in_use_upgrade_it_once(older: Older, version: int) -> None:
    place = older(version)
    assert in_processes(4, lambda: Ledger.open(place).verify()) == [0] * 4


@pytest.mark.parametrize(
    ("version", "edit", "told", "new"),
    [
        (3, "dp_plan SET used = 0", "another used", ("dp_plan", "mechanisms")),
        (4, "dp_account SET cost_spent = 0 WHERE name = 'f'", "balance", ("dp_entry", "upon")),
        (5, "dp_account SET cost_spent = 0 WHERE name = 'f'", "balance", ("dp_account", "under")),
        (6, "dp_account SET cost_spent = 0 WHERE name = 'clinic'", "balance", ("dp_account", "approve_above")),
        (7, "dp_request SET state = 'approved' WHERE state = 'waiting'", "another state", ("dp_account", "quotas")),
    ],
)
def test_an_edited_older_ledger_is_not_upgraded(
    older: Older, version: int, edit: str, told: str, new: tuple[str, str]
) -> None:
    store = Store.open(place := older(version))
    with store._writer.begin() as conn:
        conn.execute(sa.text(f"UPDATE {edit}"))
    with pytest.raises(LedgerCorrupted, match=told):
        Ledger.open(place)
    table, column = new
    with Store.open(place).read() as conn:
        assert column not in {c["name"] for c in sa.inspect(conn).get_columns(table)}
