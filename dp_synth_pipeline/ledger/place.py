"""Where a ledger lies, read from what a person wrote, and as it may be shown: a path, or a URL without its secrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from dp_synth_pipeline.errors import InvalidInput


@dataclass(frozen=True)
class Place:
    """A SQLite file, or a database on a PostgreSQL server.

    Attributes:
        path: the file itself, with symbolic links followed: its key lies beside it, not beside the link. None on a
            server.
    """

    url: sa.URL
    path: Path | None

    def __str__(self) -> str:
        """The path, or the URL without password and parameters."""
        return str(self.path or self.url.set(query={}).render_as_string(hide_password=True))

    def beside(self, suffix: str) -> Path:
        """Return the file that belongs to a SQLite ledger: `ledger.db.key` for `.key`."""
        assert self.path is not None
        return self.path.with_name(self.path.name + suffix)


def parse(text: str) -> Place:
    """Return the place that a bare path or a URL names.

    Raises:
        InvalidInput: if it names no store that can hold a ledger.
    """
    if not text:
        raise InvalidInput("the ledger needs a place: a file path, sqlite:///PATH, or postgresql+psycopg://….")
    try:
        url = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    except SQLAlchemyError:
        raise InvalidInput(
            "the ledger's URL cannot be read; expected sqlite:///PATH or postgresql+psycopg://…."
        ) from None
    backend = url.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(
            f"a ledger lives in SQLite or PostgreSQL, got {backend!r}. DuckDB in particular locks out a second process."
        )
    if backend == "postgresql":
        return Place(url, None)
    if "://" in text and "?" in text:
        raise InvalidInput(
            f"a SQLite ledger's URL has no parameters, got {text!r}. If the question mark is part of the file's name, give "
            f"the plain path, without sqlite:///."
        )
    if url.database in (None, "", ":memory:"):
        raise InvalidInput("a ledger in memory forgets what was spent; give it a file: sqlite:///PATH.")
    return Place(url, Path(str(url.database)).expanduser().resolve())
