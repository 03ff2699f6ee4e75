"""Connections by ADBC, and the drivers' errors in our words: theirs quote values and connection strings."""

from __future__ import annotations

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput

READING = "Nothing was charged."
WRITING = "What was there is intact."

_STATES = {
    "42P01": "there is no such table, or you may not see it; check `table=`",
    "3F000": "there is no such schema; check `table=schema.table`",
    "3D000": "there is no such database; check the URI's path",
    "42501": "permission denied; ask its owner for the grant",
    "42703": "`filter` names a column that the table does not have",
    "42601": "`filter` is not an SQL predicate of this engine",
    "42883": "`filter` compares types that do not fit; write a literal of the column's type",
    "42804": "`filter` is not true or false; write a comparison",
    "22P02": "`filter` compares types that do not fit; write a literal of the column's type",
    "22007": "`filter` compares types that do not fit; write a literal of the column's type",
    "2BP01": "views or keys depend on the old table; drop them, or publish under another name and point them there",
    "55P03": "somebody held a lock on the old table for too long; try again when it is free",
    "53100": "the disk is full; free some space",
    "25006": "the server, or the `filter`, would have to write; name a server that takes writes for a target",
}
"""What an SQLSTATE means and what to do about it."""

_TEXTS = (
    ("password authentication failed", "user or password were refused; check them"),
    ("no password supplied", "a password is needed; give it in the URI by an environment variable, or in PGPASSWORD"),
    ("pg_hba.conf", "the server does not let this user in from here; ask its administrator"),
    ("could not translate host name", "there is no such host; check the URI"),
    ("connection refused", "no server answers there; check host and port, and that it is up"),
    ("timeout expired", "no server answers there; check host and port, and that it is up"),
    ("could not connect", "no server answers there; check host and port, and that it is up"),
    ("role", "there is no such user; check the URI"),
    ("database", "there is no such database; check the URI's path"),
)
"""What the text of an error without an SQLSTATE tells; the text itself is never passed on."""


def driver(module: str, extra: str) -> ModuleType:
    """Import an optional driver.

    Raises:
        InvalidInput: if it is not installed; the message names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidInput(
            f"this URI needs the driver {module.split('.')[0]}, which is not installed: "
            f"pip install 'dp-synth-pipeline[{extra}]'."
        ) from None


@contextmanager
def connected(module: str, extra: str, shown: str, promise: str, **arguments: Any) -> Iterator[Any]:
    """Yield a cursor of a new connection, whose work is rolled back unless it is committed.

    Args:
        promise: what holds if it fails, for the message: `READING` or `WRITING`.
        arguments: of the driver's `connect`, secrets included.
    """
    dbapi = driver(module, extra)
    with explained(shown, promise), dbapi.connect(**arguments) as connection, connection.cursor() as cursor:
        yield cursor


@contextmanager
def explained(shown: str, promise: str) -> Iterator[None]:
    """Turn a driver's error into ours, which quotes neither a value nor a secret."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        raise InvalidInput(f"{shown}: {_why(error)}. {promise}") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise InvalidInput(f"{shown}: {_withheld(error)}; check `filter`, if there is one. {promise}") from None
    except (pa.ArrowException, OverflowError) as error:
        if "libpq" in str(error):  # the stream broke in the server, not in a cast
            raise InvalidInput(f"{shown}: {_withheld(error)}; check `filter`, if there is one. {promise}") from None
        raise InvalidInput(
            f"{shown}: a value does not fit its column's type ({type(error).__name__}), as NaN in a numeric or infinity "
            f"in a date do not; write it as null, or exclude the column. {promise}"
        ) from None


def _why(error: Any) -> str:
    if (state := getattr(error, "sqlstate", None)) is not None:
        return _STATES.get(state) or f"{_withheld(error)}, SQLSTATE {state}"
    text = str(error).lower()
    return next((reason for part, reason in _TEXTS if part in text), _withheld(error))


def _withheld(error: Exception) -> str:
    return f"the driver refused ({type(error).__name__}; its text is withheld because it may quote values)"
