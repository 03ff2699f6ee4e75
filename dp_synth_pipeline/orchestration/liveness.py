"""Tells whether the process of a run is still alive, and keeps two runs from refreshing one table at once.

A run of the command line holds a lock of the operating system for as long as its process lives, however it ends. A run that
Dagster launched is as alive as Dagster says: its daemon looks after those (`run_monitoring` in dagster.yaml).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from filelock import FileLock, Timeout

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.home import home
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.synthesis import no_protection
from dp_synth_pipeline.synthesis.no_protection import Unprotected
from dp_synth_pipeline.synthesis.retention import partition_of
from dp_synth_pipeline.synthesis.store import Store

HOST, LOCK = "dp_synth/host", "dp_synth/lock"
"""Run tags: the machine whose command line runs it, in its own process; and the lock that this process holds."""

UNFINISHED = [
    s
    for s in dg.DagsterRunStatus
    if s not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
]

RECENT = 50
"""Releases of a table, the newest ones, whose runs may still be alive."""


@contextmanager
def alive(run_id: str | None) -> Iterator[dict[str, str]]:
    """Hold the lock that says that this process runs `run_id`, if there is one; yield the tag to give the run.

    Raises:
        ReleaseStateError: if another process runs it.
    """
    if run_id is None:
        yield {}
        return
    lock = FileLock(_lock(run_id), timeout=0)
    path = Path(lock.lock_file)
    try:
        lock.acquire()
    except Timeout:
        raise ReleaseStateError(
            f"run {run_id[:8]} is still under way in another process; wait until it ends, or end that process first."
        ) from None
    try:
        yield {HOST: socket.gethostname(), LOCK: str(path)}
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def is_alive(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Say whether a run may still be under way."""
    run = instance.get_run_by_id(run_id)
    if run is None or run.tags.get(HOST) == socket.gethostname():
        return _is_held(_lock(run_id) if run is None else Path(run.tags[LOCK]))
    return not run.is_finished


def bury(instance: dg.DagsterInstance) -> None:
    """Mark the command line's runs whose process is gone as failed, and free what they hold of Dagster's pools."""
    host_filter = dg.RunsFilter(statuses=UNFINISHED, tags={HOST: socket.gethostname()})
    for run in instance.get_runs(filters=host_filter):
        lock = Path(run.tags[LOCK])  # where its own process said, which may have another home than this one
        if not _is_held(lock):
            instance.report_run_failed(run, "Its process is gone: it was killed, or the machine went down.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            lock.unlink(missing_ok=True)


@contextmanager
def only_refresh(
    instance: dg.DagsterInstance, ledger: Ledger, store: Store, table: str, partition: str, run_id: str
) -> Iterator[None]:
    """Let a release of a table be begun, unless another run refreshes this table, or this partition of it.

    Two at once would each pay, and one would draw from what the other learnt.

    Raises:
        ReleaseStateError: if another does; nothing was read or charged then.
    """
    with FileLock(store.locks() / f"{table}.lock"):
        for release in _releases(ledger, store, table):
            elsewhere = partition_of(store.restricted(table) / release.id) != partition
            if release.run_id in ("", run_id) or elsewhere or not is_alive(instance, release.run_id):
                continue
            raise ReleaseStateError(
                f"table {table} is being refreshed by run {release.run_id[:8]}, as release {release.id[:12]}. Wait until it "
                f"ends, and run again; if its machine is gone, mark that run as failed in Dagster first. Nothing was read "
                f"or charged."
            )
        yield


def _releases(ledger: Ledger, store: Store, table: str) -> Iterable[Release | Unprotected]:
    charged_releases = [r for r in ledger.releases() if r.table == table and r.state != "voided"]
    public_releases = [r for r in no_protection.releases(store) if r.table == table and r.state != "voided"]
    return [*charged_releases[-RECENT:], *public_releases[-RECENT:]]


def _is_held(lock: Path) -> bool:
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def _lock(run_id: str) -> Path:
    folder = home() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run_id}.lock"
