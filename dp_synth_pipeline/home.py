"""The folder that holds everything unless a person names another place."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the folder for ledger, store and warehouse: DP_SYNTH_HOME, else DAGSTER_HOME, else the user's data folder."""
    named = os.environ.get("DP_SYNTH_HOME") or os.environ.get("DAGSTER_HOME")
    if named:
        return Path(named).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_data_dir("dp_synth"))
