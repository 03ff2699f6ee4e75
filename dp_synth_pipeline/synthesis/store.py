"""Says where the ledger and releases live: on disk, `restricted/` holds real rows, and `releasable/` what may leave."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dp_synth_pipeline.home import home

HANDLES_FOLDER = "handles"
"""Where the handles of recent runs lie, in a table's restricted folder."""


RESTRICTED_FOLDER = "restricted"
"""The part of the store that holds real rows."""


@dataclass(frozen=True)
class Store:
    """Where artifacts live: `restricted/` (its owner only; real rows) and `releasable/` (noised or synthetic)."""

    root: Path

    def restricted(self, table: str, release: str = "") -> Path:
        """Return a folder for what holds real rows or exact numbers. Others can open neither it nor what it lies in."""
        folder = self.root / RESTRICTED_FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for part in filter(None, (table, release)):
            folder = folder / part
            folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def locks(self) -> Path:
        """Return a folder for locks of the operating system, which hold nothing."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def releasable(self, table: str) -> Path:
        """Return a folder for what may leave."""
        folder = self.root / "releasable" / table
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def ledger_url() -> str:
    """Return the ledger to use when none is given: DP_SYNTH_LEDGER, else ledger.db at home."""
    return os.environ.get("DP_SYNTH_LEDGER") or str(home() / "ledger.db")


def default_store() -> Store:
    """Return the store at home."""
    return Store(home() / "store")
