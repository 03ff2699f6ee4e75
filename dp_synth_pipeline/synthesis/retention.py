"""Makes what holds real rows readable by its owner only, keeps it as long as a person said, and then deletes it.

How restricted files come and go belongs here. What is in them does not.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis import no_protection
from dp_synth_pipeline.synthesis.store import HANDLES_FOLDER, RESTRICTED_FOLDER, Store

EXPIRES = "expires"
"""File in a release's restricted folder: when its snapshot is to be deleted, as an ISO date and time."""

PARTITION = "partition"
"""File in a release's restricted folder: which partition its snapshot is of, if its table has any."""

PAGES = ("*.html", "*.headline")
"""In a table's restricted folder: the report on real rows, and its verdict in figures."""

LEARNT = "learnt"
"""In a release's restricted folder: what it learnt and did not release yet. It is private, and it is paid for."""

EXACT = {"units": 0, "digest": ""}
"""What a state holds of the exact rows, and what stands there once it is forgotten."""

CLOSED = ("settled", "voided")
"""Releases whose snapshot nothing but the quality report still needs."""

_lock = threading.Lock()
_inside, _before = 0, 0


@contextmanager
def private() -> Iterator[None]:
    """Let every file and folder made meanwhile be readable and writable by its owner only.

    The mask belongs to the process, so it is put back when the last thread leaves; files that other threads make
    meanwhile are tighter than they asked, never looser.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = os.umask(0o077)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                os.umask(_before)


def keep_for(folder: Path, days: int | None, partition: str = "") -> None:
    """Note in a release's folder when it expires; at least a day from now, since its own run deletes it before that."""
    with private():
        if partition:
            (folder / PARTITION).write_text(partition, encoding="utf-8")
        if days is not None:
            (folder / EXPIRES).write_text((datetime.now(UTC) + timedelta(days=max(days, 1))).isoformat())


def forget(store: Store, ledger: Ledger, table: str, partition: str = "") -> None:
    """Delete what a refresh makes needless: this partition's earlier snapshots, and every table's that have expired.

    Releases that are still open keep theirs.
    """
    still_open = {release for release, state in _states(store, ledger) if state not in CLOSED}
    for folder in _release_folders(store, [table]):
        if folder.name not in still_open and partition_of(folder) == partition:
            shutil.rmtree(folder, ignore_errors=True)
    for folder in _release_folders(store, tables(store)):
        if folder.name not in still_open and _expired(folder):
            shutil.rmtree(folder, ignore_errors=True)


def drop(store: Store, table: str, release: str) -> None:
    """Delete the snapshot of one release and all that was made of it on the way."""
    shutil.rmtree(store.restricted(table, release), ignore_errors=True)


def tables(store: Store) -> list[str]:
    """Return the tables that have a restricted folder, by name."""
    root = store.root / RESTRICTED_FOLDER
    return sorted(f.name for f in root.iterdir() if f.is_dir()) if root.is_dir() else []


def kept(store: Store, table: str) -> list[dict[str, str]]:
    """Return the releases of a table whose restricted folder is still there: `release`, and `expires`, empty if never set.

    Without a date a snapshot stays until the next refresh of its table or partition. No file but that date is opened.
    """
    if table not in tables(store):
        return []
    return [{"release": f.name, "expires": _expiry(f)} for f in _release_folders(store, [table])]


def purge(
    store: Store,
    ledger: Ledger,
    table: str | None = None,
    *,
    older_than: timedelta = timedelta(0),
    open_too: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Delete restricted files of releases that ended, and return their names, relative to the restricted folder.

    States stay, since a released generator is drawn from through them, but forget the exact counts in them. What was
    learnt, and not released yet, stays until its release is resumed: it is paid for, and holds no row.

    Args:
        table: only this one's.
        older_than: only what was last written so long ago.
        open_too: also of releases that are open, or that this ledger does not know.

    Raises:
        InvalidInput: if the store has no such table.
    """
    table_names = _chosen(store, table)
    closed = {release for release, state in _states(store, ledger) if state in CLOSED}
    limit = (datetime.now(UTC) - older_than).timestamp()
    names: list[str] = []
    for name in table_names:
        candidates = [f for f in _release_folders(store, [name]) if open_too or f.name in closed]
        folders = [f for f in candidates if _last_written(f) <= limit]
        home = store.restricted(name)
        pages = [page for kind in PAGES for page in home.glob(kind) if page.stat().st_mtime <= limit]
        paths = [path for folder in folders for path in _purged(folder, open_too=open_too)]
        names += [n for path in paths for n in _names(store, [path, *path.rglob("*")])] + _names(store, pages)
        if not dry_run:
            _delete([*paths, *pages])
            _forget_counts(home, None if open_too else closed)
    return names


def _chosen(store: Store, table: str | None) -> list[str]:
    """Return the tables that the store has something restricted of, or the one that was asked for."""
    table_names = tables(store)
    if table is None:
        return table_names
    if table not in table_names:
        raise InvalidInput(
            f"the store has nothing restricted of a table {table!r}; it has: {', '.join(table_names) or 'none'}."
        )
    return [table]


def _purged(folder: Path, *, open_too: bool) -> list[Path]:
    """Return what of a release's folder is to go: all of it, unless something paid for was not released yet."""
    if open_too or not (folder / LEARNT).exists():
        return [folder]
    return [path for path in folder.iterdir() if path.name != LEARNT]


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _states(store: Store, ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield every release that has or had a folder here, protected or not, with its state."""
    yield from ((r.id, r.state) for r in ledger.releases())
    yield from ((r.id, r.state) for r in no_protection.releases(store))


def _release_folders(store: Store, names: Iterable[str]) -> list[Path]:
    homes = [store.restricted(n) for n in names]
    return [f for home in homes for f in sorted(home.iterdir()) if f.is_dir() and f.name != HANDLES_FOLDER]


def _names(store: Store, files: Iterable[Path]) -> list[str]:
    return [str(f.relative_to(store.root / RESTRICTED_FOLDER)) for f in sorted(files) if f.is_file()]


def _last_written(folder: Path) -> float:
    return max(f.stat().st_mtime for f in (folder, *folder.rglob("*")))


def partition_of(folder: Path) -> str:
    """Return the partition that a release's restricted folder is of; empty for a table without."""
    try:
        return (folder / PARTITION).read_text(encoding="utf-8")
    except OSError:
        return ""


def _expired(folder: Path) -> bool:
    try:
        return datetime.fromisoformat(_expiry(folder)) <= datetime.now(UTC)
    except ValueError:
        return False


def _expiry(folder: Path) -> str:
    """Return when a release's snapshot is to be deleted, as it was noted; empty if no date was."""
    try:
        return (folder / EXPIRES).read_text(encoding="utf-8")
    except OSError:
        return ""


def _forget_counts(home: Path, releases: set[str] | None) -> None:
    """Blank the exact counts and the content digests in the states of some releases, or of all."""
    for path in (*home.glob("*.json"), *(home / HANDLES_FOLDER).rglob("*.json")):
        state = json.loads(path.read_text(encoding="utf-8"))
        if (releases is None or state["release"] in releases) and (blank := _without_counts(state)) != state:
            partial = path.with_suffix(".partial")
            with private():
                partial.write_text(json.dumps(blank, indent=1), encoding="utf-8")
            os.replace(partial, path)


def _without_counts(state: Any) -> Any:
    """Return a state without exact counts and digests, its own and those of its tables."""
    if not isinstance(state, dict):
        return state
    return {name: EXACT[name] if name in EXACT else _without_counts(value) for name, value in state.items()}
