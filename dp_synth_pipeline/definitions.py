"""What Dagster loads: every table described under `defs/`, and the resources they share."""

import dagster as dg

from dp_synth_pipeline.orchestration.build import project_definitions

defs = dg.definitions(project_definitions)
