"""How one decision is one durable write that no other decision can interleave with, on the ledger that was left last.

SQLite: BEGIN IMMEDIATE takes the write lock before the balance is read; the write-ahead log is synced at every commit.
PostgreSQL: the chain's head is read FOR UPDATE first, by every decision, since the chain orders them all anyway.
Under that lock, before anything else, the ledger is compared with its last checkpoint; the next one is kept with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted, LedgerUnavailable
from dp_synth_pipeline.ledger import engines, journal, migrations, tables, trouble, writer_queue
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.balance import Verification
from dp_synth_pipeline.ledger.checkpoint import Checkpoint, differs
from dp_synth_pipeline.ledger.engines import WAIT_SECONDS
from dp_synth_pipeline.ledger.kept import Kept
from dp_synth_pipeline.ledger.memory import SINCE_VERSION, STATE, Memory, check
from dp_synth_pipeline.ledger.place import Place, parse
from dp_synth_pipeline.ledger.verify import verify

CREATION_LOCK = 0x6470_7379
"""PostgreSQL advisory lock that creates a ledger once."""


class Store:
    """An open ledger store: reads see one consistent state, writes are decided one at a time and then durable."""

    def __init__(self, engine: sa.Engine, place: Place, *, read_only: bool = False) -> None:
        self.engine = engine
        self.place = place
        self.read_only = read_only
        self._writer = engine.execution_options(dp_write=True)
        snapshot: dict[str, Any] = {} if place.path else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**snapshot)

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Store:
        """Open the store at `url`, creating its file if it is missing.

        Raises:
            InvalidInput: if `url` names no store that can be used, or one that is missing and not to be created.
            LedgerCorrupted: if a SQLite ledger is gone while its key is still there.
            LedgerUnavailable: if it cannot be reached or read.
        """
        place = parse(str(url))
        with trouble.named(place):
            if place.path is not None:
                _make_file(place, create)
            engine, read_only = engines.connect(place)
        return cls(engine, place, read_only=read_only)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Hold the ledger's one write lock; commit durably on the way out, or leave no trace.

        Raises:
            LedgerCorrupted: if the ledger is not the one, grown, that was left by the decision before.
            LedgerUnavailable: if it cannot be reached or written.
        """
        with self._decision(self.memory.checked) as conn:
            yield conn

    @contextmanager
    def adoption(self) -> Iterator[tuple[sa.Connection, Checkpoint | None]]:
        """Hold the write lock of a ledger that agrees with itself, if not with its last checkpoint; begin a new one."""
        last: list[Checkpoint | None] = []

        def accept(conn: sa.Connection) -> None:
            last.append(self.memory.any(conn))
            verify(conn)

        with self._decision(accept) as conn:
            yield conn, last[0]

    @contextmanager
    def locked(self) -> Iterator[sa.Connection]:
        """Hold the write lock alone: nothing is compared, and nothing remembered."""
        if self.read_only:
            raise LedgerUnavailable(str(self.place), *trouble.READ_ONLY)
        with trouble.named(self.place), self._writer.begin() as conn:
            if self.place.path is None:
                # A server may be set to lose the last commits in a crash; a lost charge would be overspent.
                conn.execute(sa.text("SET LOCAL synchronous_commit = on"))
                conn.execute(sa.text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
                conn.execute(sa.text(f"SET LOCAL idle_in_transaction_session_timeout = '{WAIT_SECONDS}s'"))
                conn.execute(sa.select(STATE.id).with_for_update())
            yield conn

    @contextmanager
    def _decision(self, begin: Callable[[sa.Connection], Checkpoint | None]) -> Iterator[sa.Connection]:
        """Hold the write lock, and keep the checkpoint that `begin` returns, carried on; the first one if it is None."""
        with trouble.named(self.place), self._turn():
            with self.locked() as conn:
                last = begin(conn)
                yield conn
                since = last or Checkpoint()
                made = since.carried_on(journal.rows(conn, after=since.length))
                if made != last:
                    self.memory.draft(conn, made)
            if made != last:
                self.memory.put(made.length, durably=last is None)

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self.place.path is None else writer_queue.turn(self.place.path, WAIT_SECONDS)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """See one consistent state of the ledger, without holding up those who write."""
        with trouble.named(self.place), self._reader.begin() as conn:
            yield conn

    @contextmanager
    def checked(self) -> Iterator[sa.Connection]:
        """See one consistent state of the ledger, once it was found to be the one that the last decision left, grown.

        Raises:
            LedgerCorrupted: if it is not, as for `write`.
        """
        checkpoints = self._known()
        with self.read() as conn:
            check(conn, checkpoints)
            yield conn

    def verify(self, since: str | None = None) -> Verification:
        """Recompute all that can be recomputed, and compare the last checkpoint; raise LedgerCorrupted if it differs."""
        checkpoints = self._known()
        with self.read() as conn:
            verification = verify(conn, since)
            check(conn, checkpoints)
        return verification

    def _known(self) -> list[Checkpoint]:
        """Return what the ledger was, before it is compared with that: others may carry it on meanwhile."""
        row = self._first()
        if row is None or row["schema_version"] < SINCE_VERSION:
            return []
        with self.read() as conn:
            return self.memory.known(conn)

    @cached_property
    def memory(self) -> Memory:
        """The ledger's key and last checkpoint.

        Raises:
            LedgerCorrupted: if the key is missing or is not the one that the ledger was created with.
        """
        row = self._first()
        assert row is not None
        if self.place.path is None:
            key = bytes.fromhex(row["key"])
        else:
            file = Kept(self.place.beside(".key"))
            with trouble.named(self.place):
                key = keys.read_key(file.path, file.read() or file.recover(0))
        if keys.key_id(key) != row["key_id"]:
            raise LedgerCorrupted("the ledger's key is not the one it was created with. Restore the key from a backup.")
        return Memory(self.place, key)

    def key(self, *, create: bool = True) -> bytes:
        """Return the ledger's key, creating ledger and key if this is the first time.

        Raises:
            LedgerCorrupted: if the ledger or its key is missing, or the key is not the one it was created with.
            InvalidInput: if the ledger was written by another version, or there is none and none is to be created.
        """
        row = self._first() or self._created(create)
        if row["schema_version"] < tables.SCHEMA_VERSION:
            if self.read_only:
                self._upgrade_copy(row["schema_version"])
            else:
                self._upgrade()
        elif row["schema_version"] > tables.SCHEMA_VERSION:
            raise InvalidInput(
                f"expected a ledger of version {tables.SCHEMA_VERSION} or older, got {row['schema_version']}: a newer "
                f"release of this package wrote it. Install that release, or a later one."
            )
        return self.memory.key

    def _first(self) -> dict[str, Any] | None:
        with self.read() as conn:
            if not sa.inspect(conn).has_table(tables.store.name):
                return None
            row = conn.execute(sa.select(tables.store)).mappings().one_or_none()
            return dict(row) if row else None

    def _created(self, create: bool) -> dict[str, Any]:
        if not create:
            left = _left_over(self.place) if self.place.path is not None else []
            raise _gone(self.place, left) if left else _missing(self.place)
        with trouble.named(self.place), self._writer.begin() as conn:
            if self.place.path is None:
                conn.execute(sa.text(f"SELECT pg_advisory_xact_lock({CREATION_LOCK})"))
            else:
                _check_empty(conn, self.place)
            tables.metadata.create_all(conn)
            # Whoever waited for the lock finds the ledger that the other one made.
            made = conn.execute(sa.select(STATE.id)).first() is None
            if made:
                self._begin(conn)
        if made and self.place.path is not None:
            Kept(self.place.beside(".key")).put(0)
            self.memory.put(0, durably=True)
        row = self._first()
        assert row is not None
        return row

    def _begin(self, conn: sa.Connection) -> None:
        # Only now, under the lock: key and head are put in place once their ledger was committed.
        if self.place.path is not None and (left := _left_over(self.place)):
            raise _gone(self.place, left)
        key = keys.new_key()
        first = {"id": 1, "schema_version": tables.SCHEMA_VERSION, "length": 0, "head": journal.GENESIS}
        on_server = {"key": key.hex()} if self.place.path is None else {}
        conn.execute(sa.insert(tables.store).values(**first, **on_server, key_id=keys.key_id(key)))
        if self.place.path is not None:
            Kept(self.place.beside(".key")).draft(key.hex(), 0)
        Memory(self.place, key).draft(conn, Checkpoint())

    def _upgrade_copy(self, version: int) -> None:
        """Bring the tables of a copy of a ledger that cannot be written to what is read here, and leave its version."""
        with trouble.named(self.place), self._writer.begin() as conn:
            migrations.upgrade(conn, version, tables.SCHEMA_VERSION)

    def _upgrade(self) -> None:
        memory = self.memory

        def begin(conn: sa.Connection) -> Checkpoint | None:
            version = conn.execute(sa.select(STATE.schema_version)).scalar_one()
            if version == tables.SCHEMA_VERSION:  # whoever waited for the lock finds it done
                return memory.checked(conn)
            if version < SINCE_VERSION and memory.exists():
                differs(f"it is of version {version}, and a later one was kept here")
            migrations.upgrade(conn, version, tables.SCHEMA_VERSION)
            conn.execute(sa.update(tables.store).values(schema_version=tables.SCHEMA_VERSION))
            if version >= SINCE_VERSION:
                return memory.checked(conn)
            verify(conn)
            return None

        with self._decision(begin):
            pass


def _make_file(place: Place, create: bool) -> None:
    assert place.path is not None
    # Key and head are looked for first: they are made after the file, so if they are there before it, it was lost.
    lost = _left_over(place)
    if place.path.exists():
        return
    if lost:
        raise _gone(place, lost)
    if not create:
        raise _missing(place)
    place.path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # somebody else was faster
        os.close(os.open(place.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _check_empty(conn: sa.Connection, place: Place) -> None:
    """Refuse to make a ledger in the SQLite file of another program; on a server, tables of others are usual."""
    if not set(sa.inspect(conn).get_table_names()) - set(tables.metadata.tables):
        return
    if left := _left_over(place):
        raise _gone(place, left)
    raise LedgerUnavailable(str(place), "is a database of another program", "Name another file with --ledger.")


def _left_over(place: Place) -> list[str]:
    return [p.name for p in (place.beside(".key"), place.beside(".head")) if p.exists()]


def _gone(place: Place, left: list[str]) -> LedgerCorrupted:
    names, are = " and ".join(left), "is" if len(left) == 1 else "are"
    return LedgerCorrupted(
        f"the ledger {place} is gone, but its {names} {are} still there: it was deleted, moved, emptied or replaced, and "
        f"what was spent is not known. Restore it from a backup. Only if it was never used, delete {names} as well."
    )


def _missing(place: Place) -> InvalidInput:
    return InvalidInput(
        f"there is no ledger at {place}; name yours with --ledger, or set DP_SYNTH_LEDGER. The first account that is opened "
        f"makes one: dp-synth ledger open NAME --epsilon E --delta D."
    )
