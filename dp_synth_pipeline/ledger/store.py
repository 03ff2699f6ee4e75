"""Where a ledger lives, and how one decision is one durable write that no other decision can interleave with.

SQLite: BEGIN IMMEDIATE takes the write lock before the balance is read; the write-ahead log is synced at every commit.
PostgreSQL: the chain's head is read FOR UPDATE first, by every decision, since the chain orders them all anyway.
Threads never share a connection and a forked process never uses one it inherited. SQLite's are not pooled.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dp_synth_pipeline.errors import DpSynthError, InvalidInput, LedgerCorrupted, UnexpectedFailure
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger import migrations, tables, turns
from dp_synth_pipeline.ledger.journal import GENESIS

WAIT_SECONDS = 60
"""How long a decision waits for the one before it."""

CREATION_LOCK = 0x6470_7379
"""PostgreSQL advisory lock that creates a ledger once."""


_POOLED: weakref.WeakSet[sa.Engine] = weakref.WeakSet()
"""Engines of this process that keep connections."""


class Store:
    """An open ledger store: reads see one consistent state, writes are decided one at a time and then durable."""

    def __init__(self, engine: sa.Engine, path: Path | None) -> None:
        self.engine = engine
        self.path = path
        self._writer = engine.execution_options(dp_write=True)
        snapshot: dict[str, Any] = {} if path else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**snapshot)

    @classmethod
    def open(cls, url: str) -> Store:
        """Open the store at `url`, creating it if it is missing.

        Raises:
            InvalidInput: if `url` names no store that can be used.
            LedgerCorrupted: if a SQLite ledger is gone while its key is still there.
        """
        parsed = _parse(url)
        if parsed.get_backend_name() == "sqlite":
            path = Path(str(parsed.database)).expanduser().absolute()
            _create_file(path)
            return cls(_sqlite(path), path)
        try:
            return cls(_postgresql(parsed), None)
        except ImportError:
            raise InvalidInput("a ledger on PostgreSQL needs a driver: pip install 'psycopg[binary]'.") from None

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Hold the ledger's one write lock; commit durably on the way out, or leave no trace."""
        with _named_errors(), self._turn(), self._writer.begin() as conn:
            if self.path is None:
                # A server may be set to lose the last commits in a crash; a lost charge would be overspent.
                conn.execute(sa.text("SET LOCAL synchronous_commit = on"))
                conn.execute(sa.text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
                conn.execute(sa.text(f"SET LOCAL idle_in_transaction_session_timeout = '{WAIT_SECONDS}s'"))
                conn.execute(sa.select(tables.store.c.id).with_for_update())
            yield conn

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self.path is None else turns.taken(self.path, WAIT_SECONDS)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """See one consistent state of the ledger, without holding up those who write."""
        with _named_errors(), self._reader.begin() as conn:
            yield conn

    def key(self) -> bytes:
        """Return the ledger's key, creating ledger and key if this is the first time.

        Raises:
            LedgerCorrupted: if the key is missing or is not the one that the ledger was created with.
            InvalidInput: if the ledger was written by another version.
        """
        row = self._head() or self._create()
        if row["schema_version"] < tables.SCHEMA_VERSION:
            row = self._upgraded()
        if row["schema_version"] != tables.SCHEMA_VERSION:
            raise InvalidInput(
                f"expected a ledger of version {tables.SCHEMA_VERSION} or older, got {row['schema_version']}: a newer "
                f"release of this package wrote it. Install that release, or a later one."
            )
        key = bytes.fromhex(row["key"]) if self.path is None else keys.read_key(_key_path(self.path))
        if keys.key_id(key) != row["key_id"]:
            raise LedgerCorrupted("the ledger's key is not the one it was created with. Restore the key from a backup.")
        return key

    def _head(self) -> dict[str, Any] | None:
        with self.read() as conn:
            if not sa.inspect(conn).has_table(tables.store.name):
                return None
            row = conn.execute(sa.select(tables.store)).mappings().one_or_none()
            return dict(row) if row else None

    def _create(self) -> dict[str, Any]:
        with _named_errors(), self._writer.begin() as conn:
            if self.path is None:
                conn.execute(sa.text(f"SELECT pg_advisory_xact_lock({CREATION_LOCK})"))
            tables.metadata.create_all(conn)
            # Whoever waited for the lock finds the ledger that the other one made.
            if conn.execute(sa.select(tables.store.c.id)).first() is None:
                key = self._first_key()
                first: dict[str, Any] = {"id": 1, "schema_version": tables.SCHEMA_VERSION, "length": 0, "head": GENESIS}
                first |= {"key_id": keys.key_id(key), "key": key.hex() if self.path is None else None}
                conn.execute(sa.insert(tables.store).values(first))
        row = self._head()
        assert row is not None
        return row

    def _upgraded(self) -> dict[str, Any]:
        with self.write() as conn:
            version = conn.execute(sa.select(tables.store.c.schema_version)).scalar_one()
            if version < tables.SCHEMA_VERSION:  # whoever waited for the lock finds it done
                migrations.upgrade(conn, version, tables.SCHEMA_VERSION)
                conn.execute(sa.update(tables.store).values(schema_version=tables.SCHEMA_VERSION))
            return dict(conn.execute(sa.select(tables.store)).mappings().one())

    def _first_key(self) -> bytes:
        if self.path is None:
            return keys.new_key()
        path = _key_path(self.path)
        if not path.exists():  # a key without a ledger is left by a crash at this very point
            keys.write_key(path, keys.new_key())
        return keys.read_key(path)


def _parse(url: str) -> sa.URL:
    text = str(url)
    if not text:
        raise InvalidInput("the ledger needs a place: a file path, sqlite:///PATH, or postgresql+psycopg://….")
    try:
        parsed = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    except SQLAlchemyError:
        raise InvalidInput(
            "the ledger's URL cannot be read; expected sqlite:///PATH or postgresql+psycopg://…."
        ) from None
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(
            f"a ledger lives in SQLite or PostgreSQL, got {backend!r}. DuckDB in particular locks out a second process."
        )
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidInput("a ledger in memory forgets what was spent; give it a file: sqlite:///PATH.")
    return parsed


def _key_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.key")


def _create_file(path: Path) -> None:
    # The key is looked for first: it is made after the file, so a key that is there before the file was lost its file.
    orphaned = _key_path(path).exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    if orphaned:
        path.unlink()
        raise LedgerCorrupted(
            f"the ledger {path} is gone, but its key is still there: it was deleted or moved, and what was spent is "
            f"not known. Restore it from a backup. Only if it was never used, delete {_key_path(path).name} as well."
        )


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
    _POOLED.add(engine)
    return engine


def _forget_parents_connections() -> None:
    """Start a forked child with pools of its own: it must neither talk on its parent's connections nor close them."""
    for engine in list(_POOLED):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_parents_connections)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except DpSynthError:
        raise
    except DBAPIError as error:
        raise UnexpectedFailure("The ledger's store", error.orig or error) from error
