"""A small file beside the ledger, replaced whole, and only after what it tells of was committed.

It is drafted inside the decision's transaction, so that a full disk stops the decision and not its record, and put in
place after the commit. A kill in between leaves it one decision behind; it is never ahead. Each draft first removes the
one before it, so whoever is late with theirs finds it gone, and the file never goes back: no lock but the ledger's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class Kept:
    """A file at `path` whose content belongs to a numbered state of the ledger; readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def draft(self, text: str, number: int) -> None:
        """Write, durably, what `put` will put in place; the draft of the state before can no longer be."""
        self._draft(number - 1).unlink(missing_ok=True)
        self._draft(number).unlink(missing_ok=True)
        handle = os.open(self._draft(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._draft(number).unlink(missing_ok=True)  # no part of it may take up a disk that is full
            raise

    def put(self, number: int) -> None:
        """Put a draft in place, unless a later state did so first."""
        with suppress(FileNotFoundError):
            os.replace(self._draft(number), self.path)

    def read(self) -> str | None:
        """Return the content, or None if there is none."""
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def recover(self, number: int) -> str | None:
        """Return the content after state `number`, if it was only drafted, was put in place."""
        with suppress(OSError):  # where nothing can be written, nothing was interrupted
            self.put(number)
        return self.read()

    def _draft(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the system can."""
    if os.name == "posix":  # elsewhere a directory cannot be opened, nor need it be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
