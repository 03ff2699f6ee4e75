"""Who can open what holds real rows, and when it goes."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import DiscreteGaussian
from dp_synth_pipeline.synthesis import retention
from dp_synth_pipeline.synthesis.store import Store


@pytest.fixture
def ledger(tmp_path):
    book = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.open_account("people", epsilon=9.0, delta=1e-5, why="test")
    return book


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def release(ledger, key, state):
    made = ledger.reserve(
        "people", key=key, epsilon=1.0, delta=1e-5, own_delta=1e-9, table="people", run_id="r", code_version="c"
    )
    if state == "voided":
        ledger.void(made.id, "test")
    if state in ("started", "settled"):
        ledger.start(made.id, "profile", [DiscreteGaussian(50.0, 1, 1)])
    if state == "settled":
        ledger.settle(made.id)
    return made.id


def fill(store, table, name, **handle):
    folder = store.restricted(table, name)
    (folder / "snapshot.parquet").write_text("rows")
    if handle:
        path = store.restricted(table) / "ingested.json"
        path.write_text(json.dumps({"release": name, **handle}))
    return folder


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_files_and_folders_made_in_private_are_their_owners_only_whatever_the_mask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with retention.private(), retention.private():
            (tmp_path / "folder").mkdir()
            (tmp_path / "file").write_text("rows")
        (tmp_path / "after").write_text("public")
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "after").stat().st_mode & 0o777 == 0o666 & ~mask


def test_one_thread_that_leaves_does_not_open_the_files_of_another(tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with retention.private():
            entered.set()
            leave.wait(10)
            (tmp_path / "late").write_text("rows")

    with retention.private():
        thread = threading.Thread(target=stay)
        thread.start()
        entered.wait(10)
    leave.set()
    thread.join()
    assert (tmp_path / "late").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_every_folder_of_the_restricted_store_is_its_owners_only(store, mask):
    before = os.umask(mask)
    try:
        store.restricted("people", "release")
    finally:
        os.umask(before)
    folders = [f for f in (store.root / "restricted").rglob("*") if f.is_dir()]
    assert len(folders) == 2
    assert all(f.stat().st_mode & 0o777 == 0o700 for f in folders)


def test_a_purge_takes_what_ended_and_leaves_what_is_open_or_unknown(ledger, store):
    ended = [fill(store, "people", release(ledger, s, s)) for s in ("settled", "voided")]
    alive = [fill(store, "people", release(ledger, s, s)) for s in ("reserved", "started")]
    alive.append(fill(store, "people", "unknown"))
    for kind in ("html", "headline"):
        (store.restricted("people") / f"quality_report.{kind}").write_text("page")
    would = retention.purge(store, ledger, dry_run=True)
    assert all(f.exists() for f in (*ended, *alive))
    gone = retention.purge(store, ledger)
    assert gone == would
    assert sorted(gone) == sorted(
        [f"people/{f.name}/snapshot.parquet" for f in ended]
        + ["people/quality_report.html", "people/quality_report.headline"]
    )
    assert not any(f.exists() for f in ended)
    assert all(f.exists() for f in alive)
    assert len(retention.purge(store, ledger, open_too=True)) == 3
    assert not any(f.exists() for f in alive)


def test_a_purge_leaves_what_a_settled_release_learnt_and_did_not_release_yet(ledger, store):
    settled = fill(store, "people", release(ledger, "settled", "settled"))
    (settled / retention.LEARNT).mkdir()
    (settled / retention.LEARNT / "generator.json").write_text("{}")
    assert retention.purge(store, ledger) == [f"people/{settled.name}/snapshot.parquet"]
    assert [f.name for f in settled.rglob("*") if f.is_file()] == ["generator.json"]
    assert retention.purge(store, ledger) == []
    assert len(retention.purge(store, ledger, open_too=True)) == 1
    assert not settled.exists()


def test_a_purge_of_one_table_or_of_old_files_leaves_the_others(ledger, store):
    old, new = (fill(store, "people", release(ledger, k, "settled")) for k in ("old", "new"))
    other = fill(store, "visits", release(ledger, "other", "settled"))
    long_ago = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    for path in (old / "snapshot.parquet", old):
        os.utime(path, (long_ago, long_ago))
    assert len(retention.purge(store, ledger, "people", older_than=timedelta(days=7))) == 1
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)
    retention.purge(store, ledger, "people")
    assert (new.exists(), other.exists()) == (False, True)
    with pytest.raises(InvalidInput, match="it has: people, visits"):
        retention.purge(store, ledger, "nobody")


def test_a_purge_makes_handles_of_ended_releases_forget_exact_counts_and_keeps_the_rest_of_them(ledger, store):
    ended = release(ledger, "k", "settled")
    fill(store, "people", ended, units=4711, digest="d", files={"generator": "g"})
    retention.purge(store, ledger)
    handle = json.loads((store.restricted("people") / "ingested.json").read_text())
    assert handle == {"release": ended, "units": 0, "digest": "", "files": {"generator": "g"}}
    running = release(ledger, "l", "started")
    fill(store, "people", running, units=4711, digest="d")
    retention.purge(store, ledger)
    assert json.loads((store.restricted("people") / "ingested.json").read_text())["units"] == 4711


def test_a_refresh_forgets_its_tables_snapshots_and_every_tables_expired_ones(ledger, store):
    mine = fill(store, "people", release(ledger, "mine", "settled"))
    running = fill(store, "people", release(ledger, "running", "started"))
    fresh, expired = (fill(store, "visits", release(ledger, k, "settled")) for k in ("fresh", "expired"))
    kept = fill(store, "visits", release(ledger, "expired but open", "started"))
    retention.keep_for(fresh, 7)
    for folder in (expired, kept):
        (folder / retention.EXPIRES).write_text((datetime.now(UTC) - timedelta(minutes=1)).isoformat())
    retention.forget(store, ledger, "people")
    assert [f.exists() for f in (mine, running, fresh, expired, kept)] == [False, True, True, False, True]
