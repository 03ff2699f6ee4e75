"""Runs the checks of a release's drawn rows, and writes what they found beside the rows: results, suite and Data Docs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.reporting.data_docs import Heading
from dp_synth_pipeline.synthesis.blocks import FOLDER
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.validation import drift, related
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import OUTPUT, Check, CheckResult
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.rules import rule_checks
from dp_synth_pipeline.validation.run import validate


def write(state: RunState, plan: CheckPlan, folder: Path, run_id: str = "") -> list[CheckResult]:
    """Return the result of each check, and write all of them, so that the files never tell half.

    Args:
        folder: the table's folder for what may leave, or that of its partition.
        run_id: the run that checks, for the page's head.
    """
    profile, heading, besides = state.table_profile(), _heading(state, folder, run_id), []
    suite = plan.suite(
        state.table_schema(),
        profile,
        state.facts.asked_rows or 0,
        state.facts.accuracy,
        moved=state.facts.drift,
        conditional=state.facts.effective is not None,
    )
    for name in plan.outputs:
        with sink.replacing(folder / data_docs.page_of_output(name)) as partial:
            page = data_docs.to(partial, replace(heading, table=f"{heading.table}: {name}"))
            besides.append(_output_result(state, plan, profile, name, page))
    return _written(state, suite, besides, folder, heading)


def write_related(
    state: DatabaseState,
    table: Related,
    relations: Relations,
    rules: Sequence[Rule],
    folder: Path,
    run_id: str = "",
    drift_at_most: float | None = None,
) -> list[CheckResult]:
    """Return the result of each check of one of some related tables, its relations included, and write all of them.

    Args:
        state: how far the related tables are.
        table: the one to check.
        rules: the rules across tables that judge its rows.
        folder: the table's folder for what may leave.
        run_id: the run that checks, for the page's head.
        drift_at_most: how far the table may have moved since the releases before it; None if it remembers none.
    """
    own, source = state.table(table.name), state.sources[table.name]
    found = _of_relations(state, table, relations, rules)
    computed = ruling.computed([ruling.read(text, relations) for text in state.rules], table.name)
    suite = related.suite(table, source, _profile(state, table), own.facts.asked_rows or 0, computed)
    suite += [] if drift_at_most is None else [drift.check_for(drift_at_most, own.facts.drift)]
    return _written(own, suite, [replace(r, column=None) for r in found], folder, _heading(own, folder, run_id))


def _of_relations(
    state: DatabaseState, table: Related, relations: Relations, rules: Sequence[Rule]
) -> list[CheckResult]:
    """Return the results of the checks of a table's relations, and of the rules that judge its rows."""

    def read(name: str, columns: Sequence[str]) -> pa.Table:
        path = state.public[name] if name in state.public else state.table(name).path("synthetic")
        return pq.read_table(path, columns=list(columns))

    parent_keys = None
    if table.parent is not None:
        key = str(relations[table.parent].key)
        parent_keys = read(table.parent, [key])[key]
    made = related.made_for_parents(table, state.sources[table.name])
    public_keys = {name: read(name, [key := str(relations.public_key(name))])[key] for _, name in table.refers}
    facts = related.facts_of(table, read(table.name, related.columns_of(table)), parent_keys, made, public_keys)
    digits = _digits(state, rules)
    for name, cells in related.rule_rows(table, relations, rules, read, digits).items():
        facts = facts.append_column(name, cells)
    checks = rule_checks(rules, ruling.joined_schema(rules, state.sources), digits)
    return validate(facts, [*related.related_checks(table), *checks])


def _profile(state: DatabaseState, table: Related) -> TableProfile:
    """Return what was released of a table's columns, and of the static ones that its parent carries."""
    own = state.table(table.name).table_profile()
    if not table.static:
        return own
    above = {c.name: c for c in state.table(str(table.parent)).table_profile().columns}
    found = {name: above.get(table.carried(name)) for name in table.static}
    return replace(own, columns=(*own.columns, *(replace(c, name=name) for name, c in found.items() if c is not None)))


def _digits(state: DatabaseState, rules: Sequence[Rule]) -> dict[str, int]:
    """Return the released digits after the point of the columns of which rules across tables speak, by TABLE.COLUMN."""
    digits = {}
    for name in ruling.tables_of(rules) - set(state.public):
        own = state.table(name)
        found = constraints.digits(own.table_schema(), own.table_profile())
        digits |= {f"{name}.{column}": count for column, count in found.items()}
    return digits


def _heading(state: RunState, folder: Path, run_id: str) -> Heading:
    return Heading(
        table=", ".join([_table(folder), *state.partitions]),
        release=state.release,
        run=run_id,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _written(
    state: RunState, suite: Sequence[Check], besides: Sequence[CheckResult], folder: Path, heading: Heading
) -> list[CheckResult]:
    """Run a suite, and write its results and those that were found besides."""
    with sink.replacing(folder / data_docs.PAGE) as partial:
        results = [*validate(state.path("synthetic"), suite, docs=data_docs.to(partial, heading)), *besides]
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
