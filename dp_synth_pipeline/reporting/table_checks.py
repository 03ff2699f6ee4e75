"""Runs the checks of a release's drawn rows, and writes what they found beside the rows: results, suite and Data Docs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.blocks import FOLDER
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation import related
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import Check, CheckResult
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.run import validate


def write(state: RunState, plan: CheckPlan, folder: Path, run_id: str = "") -> list[CheckResult]:
    """Return the result of each check, and write all of them, so that the files never tell half.

    Args:
        folder: the table's folder for what may leave, or that of its partition.
        run_id: the run that checks, for the page's head.
    """
    suite = plan.suite(state.table_schema(), _profile(state), state.facts.asked_rows or 0, state.facts.accuracy)
    return _written(state, suite, (), folder, run_id)


def write_related(
    state: DatabaseState, table: Related, relations: Relations, folder: Path, run_id: str = ""
) -> list[CheckResult]:
    """Return the result of each check of one of some related tables, its relations included, and write all of them.

    Args:
        state: how far the related tables are.
        table: the one to check.
        folder: the table's folder for what may leave.
        run_id: the run that checks, for the page's head.
    """
    own = state.table(table.name)
    rows = pq.read_table(own.path("synthetic"), columns=list(related.columns_of(table)))
    parent_keys = None
    if table.parent is not None:
        key = str(relations[table.parent].key)
        parent_keys = pq.read_table(state.table(table.parent).path("synthetic"), columns=[key])[key]
    found = validate(related.facts_of(table, rows, parent_keys), related.related_checks(table))
    suite = related.suite(table, state.sources[table.name], _profile(own), own.facts.asked_rows or 0)
    return _written(own, suite, [replace(r, column=None) for r in found], folder, run_id)


def _profile(state: RunState) -> TableProfile:
    return TableProfile.from_json(state.path("profile").read_text(encoding="utf-8"))


def _written(
    state: RunState, suite: Sequence[Check], besides: Sequence[CheckResult], folder: Path, run_id: str
) -> list[CheckResult]:
    """Run a suite, and write its results and those that were found besides."""
    heading = data_docs.Heading(
        table=", ".join([_table(folder), *state.partitions]),
        release=state.release,
        run=run_id,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    with sink.replacing(folder / data_docs.PAGE) as partial:
        results = [*validate(state.path("synthetic"), suite, docs=data_docs.to(partial, heading)), *besides]
    sink.write_text(json.dumps([asdict(r) for r in results], indent=1, default=str), folder / "checks.json")
    sink.write_text(suite_json(suite), folder / "suite.json")
    return results


def _table(folder: Path) -> str:
    """Return the table whose folder this is, or lies in."""
    return next(place.name for place in (folder, *folder.parents) if not place.name.startswith(FOLDER))
