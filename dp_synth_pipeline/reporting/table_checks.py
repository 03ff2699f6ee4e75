"""Runs the checks of a release's drawn rows, and writes what they found beside the rows: results, suite and Data Docs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.blocks import FOLDER
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import OUTPUT, CheckResult
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.run import validate


def write(state: RunState, plan: CheckPlan, folder: Path, run_id: str = "") -> list[CheckResult]:
    """Return the result of each check, and write all of them, so that the files never tell half.

    Args:
        folder: the table's folder for what may leave, or that of its partition.
        run_id: the run that checks, for the page's head.
    """
    profile = TableProfile.from_json(state.path("profile").read_text(encoding="utf-8"))
    suite = plan.suite(
        state.table_schema(),
        profile,
        state.facts.asked_rows or 0,
        state.facts.accuracy,
        conditional=state.facts.effective is not None,
    )
    heading = data_docs.Heading(
        table=", ".join([_table(folder), *state.partitions]),
        release=state.release,
        run=run_id,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    with sink.replacing(folder / data_docs.PAGE) as partial:
        results = validate(state.path("synthetic"), suite, docs=data_docs.to(partial, heading))
    for name in plan.outputs:
        with sink.replacing(folder / data_docs.page_of_output(name)) as partial:
            page = data_docs.to(partial, replace(heading, table=f"{heading.table}: {name}"))
            results.append(_output_result(state, plan, profile, name, page))
    sink.write_text(json.dumps([asdict(r) for r in results], indent=1, default=str), folder / "checks.json")
    sink.write_text(suite_json(suite), folder / "suite.json")
    return results


def _output_result(
    state: RunState, plan: CheckPlan, profile: TableProfile, name: str, page: Callable[[Any], None]
) -> CheckResult:
    """Return the one result of a further table; a table that was not drawn yet is not published, so it blocks nothing."""
    drawn = (state.facts.outputs or {}).get(name)
    if drawn is None:
        page(None)
        text = f"The further table {name!r} was not drawn yet; materialize `synthetic` again, which is free."
        return CheckResult(f"{OUTPUT}{name}", False, False, None, text)
    conditional = drawn["effective"] is not None
    suite = plan.suite_of_output(state.table_schema(), profile, drawn["rows"], conditional=conditional)
    return plan.output_result(name, validate(drawn["path"], suite, docs=page))


def _table(folder: Path) -> str:
    """Return the table whose folder this is, or lies in."""
    return next(place.name for place in (folder, *folder.parents) if not place.name.startswith(FOLDER))
