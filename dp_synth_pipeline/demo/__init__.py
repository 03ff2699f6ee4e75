"""Tables to try the pipeline on: a real one, and a simulated clinic with a known truth."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from dp_synth_pipeline.demo import clinic
from dp_synth_pipeline.demo.rand_hie import rand_hie
from dp_synth_pipeline.errors import InvalidInput

TABLES: dict[str, Callable[[], pa.Table]] = {
    "rand_hie": rand_hie,
    "patients": lambda: clinic.clinic()[0],
    "visits": lambda: clinic.clinic()[1],
    "clinic_visits": clinic.clinic_visits,
}
"""What `demo://NAME` reads, by name."""


def load(name: str) -> pa.Table:
    """Return a demo table by name.

    Raises:
        InvalidInput: for an unknown name, or if the package that ships the real table is not installed.
    """
    if name not in TABLES:
        raise InvalidInput(f"no demo table {name!r}; there are: {', '.join(TABLES)}.")
    return TABLES[name]()
