"""What is remembered of a ledger outside of what a decision reads: its key, and its last checkpoint.

SQLite: two files beside the ledger, without which nothing is decided. PostgreSQL: two rows in the store itself, which
show an edit; and one file for each ledger at this user's home, which shows that the server was restored. A home that has
no such file, or cannot hold one, goes without.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

import sqlalchemy as sa

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.home import home
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger import tables
from dp_synth_pipeline.ledger.checkpoint import Checkpoint, differs
from dp_synth_pipeline.ledger.kept import Kept, sync_folder
from dp_synth_pipeline.ledger.place import Place

STATE = tables.store.c
SINCE_VERSION = 3
"""The first version of the tables whose ledgers have a checkpoint."""


class Memory:
    """The key of one ledger, and what it was when somebody last decided something."""

    def __init__(self, place: Place, key: bytes) -> None:
        self.key = key
        self._on_server = place.path is None
        named = home() / "heads" / f"{keys.key_id(key)[:32]}.head" if self._on_server else place.beside(".head")
        self.file = Kept(named)
        self._where = "in its store" if self._on_server else str(named)

    def exists(self) -> bool:
        """Whether a checkpoint was ever kept here."""
        return self.file.path.exists()

    def checked(self, conn: sa.Connection) -> Checkpoint:
        """Return the last checkpoint, once the ledger was found to be that one, grown; `conn` holds the write lock.

        Raises:
            LedgerCorrupted: if it is not: rolled back, edited, replaced, or without its checkpoint.
        """
        checkpoints = self.known(conn)
        check(conn, checkpoints)
        return checkpoints[0]

    def known(self, conn: sa.Connection) -> list[Checkpoint]:
        """Return the last checkpoint, and then the one that this home saw last; raise LedgerCorrupted without the first."""
        last = self.last(conn)
        if last is None:
            differs(f"its last checkpoint, {self._where}, is missing")
        at_home = self._seen() if self._on_server else None
        return [last] if at_home is None else [last, at_home]

    def last(self, conn: sa.Connection) -> Checkpoint | None:
        """Return the last checkpoint, or None if there is none; raise LedgerCorrupted for one that is not genuine."""
        if self._on_server:
            text = conn.execute(sa.select(tables.checkpoint.c.text)).scalar()
        elif (text := self.file.read()) is None:  # a first one may have been interrupted
            text = self.file.recover(conn.execute(sa.select(STATE.length)).scalar_one())
        return None if text is None else self._unsealed(text, self._where)

    def any(self, conn: sa.Connection) -> Checkpoint | None:
        """Return the checkpoint that a person gives up, for the record; None if it is missing or damaged."""
        try:
            return (self._seen() if self._on_server else None) or self.last(conn)
        except LedgerCorrupted:
            return None

    def draft(self, conn: sa.Connection, made: Checkpoint) -> None:
        """Write a checkpoint inside the decision's transaction; `put` makes it the last one."""
        text = made.sealed(self.key)
        if not self._on_server:
            self.file.draft(text, made.length)
            return
        if not conn.execute(sa.update(tables.checkpoint).values(text=text)).rowcount:
            conn.execute(sa.insert(tables.checkpoint).values(id=1, text=text))
        with suppress(OSError):
            self.file.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.file.draft(text, made.length)

    def put(self, length: int, *, durably: bool = False) -> None:
        """Make a drafted checkpoint the last one, its transaction being committed."""
        with suppress(OSError) if self._on_server else nullcontext():
            self.file.put(length)
            if durably:
                sync_folder(self.file.path.parent)

    def _seen(self) -> Checkpoint | None:
        try:
            text = self.file.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return self._unsealed(text, str(self.file.path))

    def _unsealed(self, text: str, where: str) -> Checkpoint:
        try:
            return Checkpoint.unsealed(text, self.key)
        except ValueError:
            differs(f"its last checkpoint, {where}, is damaged, or another ledger's")


def check(conn: sa.Connection, checkpoints: list[Checkpoint]) -> None:
    """Raise LedgerCorrupted if the ledger is not the one, grown, that `Memory.known` told of; nothing if it told nothing."""
    if not checkpoints:
        return
    last, *others = checkpoints
    last.check(conn)
    for one in others:
        if (one.length, one.head) != (last.length, last.head):
            one.check_held(conn)
