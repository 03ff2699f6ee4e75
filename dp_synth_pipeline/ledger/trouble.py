"""What is said when a ledger's store fails: where it is, what is wrong with it, and what to do next.

The store's own message is withheld; DP_SYNTH_DEBUG=1 shows it on a terminal. A ledger that cannot be reached is
`LedgerUnavailable`, one that cannot be read as what it was is `LedgerCorrupted`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dp_synth_pipeline.errors import DpSynthError, LedgerCorrupted, LedgerUnavailable, UnexpectedFailure, UnknownAccount
from dp_synth_pipeline.ledger.place import Place

ASK_AGAIN = "Run again: what was on record stays so, and no decision is made twice."

READ_ONLY = (
    "can be read, but not written: the disk, the folder or the file is read-only",
    "It can be shown, verified and exported. To decide something on it, make the file and its folder writable.",
)
NO_ACCESS = (
    "cannot be opened, or a file beside it cannot",
    "See that its folder exists, and that this user may read and write the folder and every file in it of that name.",
)
FULL = ("could not be written: the disk is full, or failed", f"Nothing was decided. Free space on it. {ASK_AGAIN}")
BUSY = ("is held by another process for too long", f"End the process that hangs, or wait for it. {ASK_AGAIN}")
SILENT = (
    "does not answer, or refuses this user",
    f"See that the server runs and that host, port, user, password and database in the URL are right. {ASK_AGAIN}",
)
FORBIDDEN = ("refuses this user", "Give the user of the URL the right to read and write the ledger's tables.")
DAMAGED = (
    "cannot be read as a ledger: it is damaged, cut short, or another kind of file. If it is the ledger, stop all runs and "
    "restore it from a backup that verifies; what was spent after it must be charged again. If it is not, name the right "
    "one with --ledger, or in DP_SYNTH_LEDGER"
)

_SQLITE = {
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: NO_ACCESS,
    sqlite3.SQLITE_PERM: NO_ACCESS,
    sqlite3.SQLITE_AUTH: NO_ACCESS,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: FULL,
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_PROTOCOL: BUSY,
}
_SQLITE_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
"""SQLITE_ERROR: a table or a column is missing."""

_POSTGRESQL = {"25006": READ_ONLY, "42501": FORBIDDEN, "53100": FULL, "55P03": BUSY, "40P01": BUSY}
_POSTGRESQL_DAMAGED = {"42P01", "42703"}
"""A table or a column is missing."""


@contextmanager
def named(place: Place) -> Iterator[None]:
    """Let our own errors pass, with the ledger's place; turn those of the store and the system into one of ours."""
    try:
        yield
    except UnknownAccount as error:
        raise UnknownAccount(error.account, error.known, str(place)) from None
    except DpSynthError:
        raise
    except (DBAPIError, sqlite3.Error, PoolTimeout, OSError) as error:
        raise _ours(place, error) from error


def sqlite_code(error: BaseException | None) -> int | None:
    """Return the primary code of an error of SQLite, and None for any other."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _ours(place: Place, error: Exception) -> DpSynthError:
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    code, state = sqlite_code(cause), getattr(cause, "sqlstate", None)
    if code in _SQLITE_DAMAGED or state in _POSTGRESQL_DAMAGED:
        return LedgerCorrupted(f"the ledger {place} {DAMAGED}.")
    trouble = _SQLITE.get(code or -1) or _POSTGRESQL.get(state or "")
    if trouble is None and isinstance(error, (OperationalError, InterfaceError, PoolTimeout)):
        trouble = SILENT if place.path is None else NO_ACCESS
    if trouble is None and isinstance(cause, OSError):
        trouble = _of_the_system(cause)
    return (
        UnexpectedFailure("The ledger's store", cause) if trouble is None else LedgerUnavailable(str(place), *trouble)
    )


def _of_the_system(error: OSError) -> tuple[str, str]:
    which = f"the file {error.filename}" if error.filename else "a file beside it"
    what = f"cannot be used: {which} gives {(error.strerror or type(error).__name__).lower()!r}"
    return what, "Mend that, or name another ledger with --ledger, or in DP_SYNTH_LEDGER; then run again."
