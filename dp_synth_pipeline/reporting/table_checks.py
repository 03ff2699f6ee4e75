"""Runs the checks of a release's drawn rows, and writes what they found beside the rows: results, suite and Data Docs."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.blocks import FOLDER
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.run import validate


def write(state: RunState, plan: CheckPlan, folder: Path, run_id: str = "") -> list[CheckResult]:
    """Return the result of each check, and write all of them, so that the files never tell half.

    Args:
        folder: the table's folder for what may leave, or that of its partition.
        run_id: the run that checks, for the page's head.
    """
    profile = TableProfile.from_json(state.path("profile").read_text(encoding="utf-8"))
    suite = plan.suite(state.table_schema(), profile, state.facts.asked_rows or 0, state.facts.accuracy)
    heading = data_docs.Heading(
        table=", ".join([_table(folder), *state.partitions]),
        release=state.release,
        run=run_id,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    with sink.replacing(folder / data_docs.PAGE) as partial:
        results = validate(state.path("synthetic"), suite, docs=data_docs.to(partial, heading))
    sink.write_text(json.dumps([asdict(r) for r in results], indent=1, default=str), folder / "checks.json")
    sink.write_text(suite_json(suite), folder / "suite.json")
    return results


def _table(folder: Path) -> str:
    """Return the table whose folder this is, or lies in."""
    return next(place.name for place in (folder, *folder.parents) if not place.name.startswith(FOLDER))
