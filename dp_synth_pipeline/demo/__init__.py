"""Two tables to try the pipeline on: one real, one simulated with a known truth."""

from __future__ import annotations

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput

NAMES = ("rand_hie", "clinic_visits")


def load(name: str) -> pa.Table:
    """Return a demo table by name.

    Raises:
        InvalidInput: for an unknown name, or if the package that ships the real table is not installed.
    """
    if name == "rand_hie":
        from dp_synth_pipeline.demo.rand_hie import rand_hie

        return rand_hie()
    if name == "clinic_visits":
        from dp_synth_pipeline.demo.clinic_visits import clinic_visits

        return clinic_visits()
    raise InvalidInput(f"no demo table {name!r}; there are: {', '.join(NAMES)}.")
