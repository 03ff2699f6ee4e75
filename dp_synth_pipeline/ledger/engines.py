"""Connections to a ledger's store: what SQLite and PostgreSQL must be told before a decision on them is durable.

Threads never share a connection and a forked process never uses one it inherited. SQLite's are not pooled.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger.place import Place
from dp_synth_pipeline.ledger.trouble import sqlite_code

WAIT_SECONDS = 60
"""How long a decision waits for the one before it."""

_POOLED: weakref.WeakSet[sa.Engine] = weakref.WeakSet()
"""Engines of this process that keep connections."""

_COPIES: list[tempfile.TemporaryDirectory[str]] = []
"""Copies of ledgers that cannot be written; they go when the process ends."""


def connect(place: Place) -> tuple[sa.Engine, bool]:
    """Return an engine for the store at `place`, and whether it can only be read."""
    if place.path is None:
        return _postgresql(place.url), False
    engine = _sqlite(place.path)
    try:
        with engine.connect() as conn:
            conn.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    except OperationalError as error:
        if sqlite_code(error.orig) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        return _sqlite(_copy(place.path)), True
    return engine, False


def _copy(path: Path) -> Path:
    """Copy a ledger with its write-ahead log to a folder of this user's own, and return where.

    SQLite reads a ledger through files that it must be able to write beside it. Where it cannot, opening the file as one
    that never changes would pass over all that is in the log only.
    """
    _COPIES.append(folder := tempfile.TemporaryDirectory(prefix="dp-synth-ledger-"))
    copy, log = Path(folder.name) / path.name, path.with_name(f"{path.name}-wal")
    while True:
        before = _state(path, log)
        shutil.copyfile(path, copy)
        if log.exists():
            shutil.copyfile(log, copy.with_name(log.name))
        if _state(path, log) == before:  # else somebody who may write did so meanwhile
            return copy


def _state(*paths: Path) -> list[tuple[int, int] | None]:
    return [(s.st_size, s.st_mtime_ns) if p.exists() and (s := p.stat()) else None for p in paths]


def _sqlite(path: Path) -> sa.Engine:
    url = sa.URL.create("sqlite", database=str(path))
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own, which start too late
        connection.execute("PRAGMA foreign_keys=ON")
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # on macOS, fsync alone leaves a charge in the disk's cache

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("dp_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a new file to write-ahead logging; SQLite itself does not wait for a process doing the same."""
    for _ in range(WAIT_SECONDS * 20):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.05)


def _postgresql(url: sa.URL) -> sa.Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        engine = sa.create_engine(
            url, pool_size=1, max_overflow=8, pool_pre_ping=True, pool_recycle=300, isolation_level="READ COMMITTED"
        )
    except NoSuchModuleError:
        raise InvalidInput(f"unknown driver {url.drivername!r}; expected postgresql+psycopg.") from None
    except ImportError:
        raise InvalidInput("a ledger on PostgreSQL needs a driver: pip install 'psycopg[binary]'.") from None
    _POOLED.add(engine)
    return engine


def _forget_parents_connections() -> None:
    """Start a forked child with pools of its own: it must neither talk on its parent's connections nor close them."""
    for engine in list(_POOLED):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_parents_connections)
