"""Hands out the ledger and the store, each as a plain object, as Dagster resources."""

from pathlib import Path

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis.store import Store, default_store, ledger_url


class LedgerResource(dg.ConfigurableResource):
    """The privacy budget that refuses; `get()` hands out the plain `Ledger`."""

    url: str = ""

    def get(self) -> Ledger:
        """Open the ledger, creating its store if it is missing; accounts are never created here."""
        return Ledger.open(self.url or ledger_url())


class StoreResource(dg.ConfigurableResource):
    """Where snapshots, generators, synthetic tables and reports are kept."""

    root: str = ""

    def get(self) -> Store:
        """Return the store; `store/` at home unless configured."""
        return Store(Path(self.root).expanduser()) if self.root else default_store()
