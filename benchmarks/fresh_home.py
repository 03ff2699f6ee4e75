"""One release in a home of its own, with a ledger and a store that go when it ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.store import Store


@contextmanager
def synthesizer(
    table: str, epsilon: float, *, unit: str = "row", max_rows: int = 1, **how: Any
) -> Iterator[dps.Synthesizer]:
    """Yield what fits one table under a new account that holds twice its epsilon, at δ = 1e-5."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
        ledger.open_account(table, epsilon=2 * epsilon, delta=1e-5, unit=unit, max_rows=max_rows)
        store = Store(Path(folder) / "store")
        yield dps.Synthesizer(table, epsilon, ledger, **{"table": table, "store": store, "show": False, **how})
