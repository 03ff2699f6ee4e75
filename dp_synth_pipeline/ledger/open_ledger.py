"""What questions and decisions share: an open store with its key, and a consistent look at one release."""

from __future__ import annotations

from dp_synth_pipeline.ledger import rows
from dp_synth_pipeline.ledger.rows import Charge
from dp_synth_pipeline.ledger.store import Store


class OpenLedger:
    """An open store with its key."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key

    def __repr__(self) -> str:
        return f"Ledger({self.place!r})"

    @property
    def place(self) -> str:
        """Where the ledger lies: its path, or its URL without password and parameters."""
        return str(self._store.place)

    def _charges(self, release_id: str) -> list[Charge]:
        with self._store.read() as conn:
            return rows.charges(conn, release_id)
