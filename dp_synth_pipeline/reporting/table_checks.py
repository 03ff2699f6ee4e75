"""Runs the checks of a release's drawn rows, and writes what they found beside the rows: results, suite and Data Docs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.run import validate


def write(state: RunState, plan: CheckPlan, folder: Path) -> list[CheckResult]:
    """Return the result of each check, and write all of them, so that the files never tell half."""
    profile = TableProfile.from_json(state.path("profile").read_text(encoding="utf-8"))
    suite = plan.suite(state.table_schema(), profile, state.facts.asked_rows or 0)
    with sink.replacing(folder / data_docs.PAGE) as partial:
        results = validate(state.path("synthetic"), suite, docs=data_docs.to(partial))
    sink.write_text(json.dumps([asdict(r) for r in results], indent=1, default=str), folder / "checks.json")
    sink.write_text(suite_json(suite), folder / "suite.json")
    return results
