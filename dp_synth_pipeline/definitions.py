"""What Dagster loads: every table described under `defs/`, and the resources they share."""

from pathlib import Path

import dagster as dg

from dp_synth_pipeline.orchestration.build import resources


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all tables of this project."""
    tables = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(tables, dg.Definitions(resources=resources()))
