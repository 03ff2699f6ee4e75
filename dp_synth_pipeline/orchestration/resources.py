"""Resources: the ledger and the store, each handing out a plain object."""

import os
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.home import home
from dp_synth_pipeline.ledger import Ledger


def ledger_url() -> str:
    """The ledger to use when none is given: DP_SYNTH_LEDGER, else ledger.db at home."""
    return os.environ.get("DP_SYNTH_LEDGER") or str(home() / "ledger.db")


class LedgerResource(dg.ConfigurableResource):
    """The privacy budget that refuses; `get()` hands out the plain `Ledger`."""

    url: str = ""

    def get(self) -> Ledger:
        """Open the ledger, creating its store if it is missing; accounts are never created here."""
        return Ledger.open(self.url or ledger_url())


HANDLES_FOLDER = "handles"
"""Where the handles of recent runs lie, in a table's restricted folder."""


RESTRICTED_FOLDER = "restricted"
"""The part of the store that holds real rows."""


@dataclass(frozen=True)
class Store:
    """Where artifacts live: `restricted/` (its owner only; real rows) and `releasable/` (noised or synthetic)."""

    root: Path

    def restricted(self, table: str, release: str = "") -> Path:
        """A folder for what holds real rows or exact numbers; neither it nor what it lies in can be opened by others."""
        folder = self.root / RESTRICTED_FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for part in filter(None, (table, release)):
            folder = folder / part
            folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def locks(self) -> Path:
        """A folder for locks of the operating system, which hold nothing."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def releasable(self, table: str) -> Path:
        """A folder for what may leave."""
        folder = self.root / "releasable" / table
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class StoreResource(dg.ConfigurableResource):
    """Where snapshots, generators, synthetic tables and reports are kept."""

    root: str = ""

    def get(self) -> Store:
        """Return the store; `store/` at home unless configured."""
        return Store(Path(self.root).expanduser() if self.root else home() / "store")
