"""Runs a Great Expectations suite on the synthetic table. Each expectation is an asset check, blocking or warning."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration.assets.stage import key
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import StoreResource, of_project
from dp_synth_pipeline.orchestration.settings import AnySettings, RelatedTablesSettings, TableSettings
from dp_synth_pipeline.relations.ruling import judged
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.blocks import part
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.validation import related
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import CheckName, CheckResult, grouped
from dp_synth_pipeline.validation.user_suite import read_suite


def checks(settings: TableSettings) -> dg.AssetChecksDefinition:
    """Build the checks of one table, before anything is read.

    Their names follow from its declared column names (or are grouped without them), its declared rules and the user's own
    suite.
    """
    check_plan = checked_by(settings)

    def run(state: dict, store: Store, run_id: str) -> tuple[list[CheckResult], Path]:
        from dp_synth_pipeline.reporting import table_checks

        own = RunState.from_dict(state)
        folder = store.releasable(part(settings, own.partitions).folder)
        results = table_checks.write(own, check_plan, folder, run_id)
        return results if check_plan.columns is not None else grouped(results), folder

    return _of_asset(settings, key(settings, "synthetic"), check_plan.names(), run)


def related_checks(settings: RelatedTablesSettings, table: Related) -> dg.AssetChecksDefinition:
    """Build the checks of one of some related tables: its own, its relations', and the rules that judge its rows."""
    relations = settings.relations
    rules = [rule for rule in settings.parsed_rules if judged(rule, relations).name == table.name]
    plan = CheckPlan(drift_at_most=_drift_at_most(settings))

    def run(state: dict, store: Store, run_id: str) -> tuple[list[CheckResult], Path]:
        from dp_synth_pipeline.reporting import table_checks

        folder = store.releasable(settings.name) / table.name
        own = DatabaseState.from_dict(state)
        terms = {} if own.terms is None else {"tables": own.terms["tables"]}  # those that the rows were learnt under
        found = settings.with_terms(terms).with_found(own.found).relations
        results = table_checks.write_related(own, found[table.name], found, rules, folder, run_id, plan.drift_at_most)
        return grouped(results), folder

    names = [*plan.names(), *related.related_names(table, rules)]
    return _of_asset(settings, key(settings, f"{table.name}/synthetic"), names, run)


Run = Callable[[dict, Store, str], tuple[list[CheckResult], Path]]
"""Runs the checks of an asset with a state, and returns the results and the folder with their page."""


def _of_asset(
    settings: AnySettings, asset: dg.AssetKey, names: Sequence[CheckName], run: Run
) -> dg.AssetChecksDefinition:
    """Return a step that runs all checks of one asset of synthetic rows."""

    @dg.multi_asset_check(
        name=f"{'__'.join(asset.path[:-1])}__checks",
        specs=[
            dg.AssetCheckSpec(n.name, asset=asset, blocking=n.blocking, description=f"Checks {n.title}.") for n in names
        ],
        ins={"synthetic": dg.AssetIn(key=asset)},
        op_tags=op_tags(settings.compute, "checks"),
        pool=pool_of(settings.compute, "checks"),
        can_subset=True,
    )
    def _checks(context: dg.AssetCheckExecutionContext, synthetic: dict):
        with reported("checks"):
            DagsterProgress(context).report(f"{'.'.join(asset.path[:-1])}: checks", 0, 1)
            store = of_project(StoreResource, context.job_def.resource_defs).get()
            results, folder = run(synthetic, store, context.run.run_id)
        for result in results:
            if dg.AssetCheckKey(asset, result.name) in context.selected_asset_check_keys:
                yield _evaluation(asset, result, folder / data_docs.PAGE)

    return _checks


def checked_by(settings: TableSettings) -> CheckPlan:
    """Return what is checked of one table; a rule, pattern or suite that cannot be is refused while definitions load."""
    validation = settings.validation
    constraints.check_names(validation.parsed_rules, settings.columns, complete=settings.columns_complete)
    user_suite = read_suite(validation.suite) if validation.suite is not None else []
    names = _published_names(settings)
    outputs = tuple(settings.generation.outputs)
    return CheckPlan(
        names,
        validation.parsed_rules,
        user_suite,
        validation.severity,
        at_least=validation.at_least,
        drift_at_most=_drift_at_most(settings),
        outputs=outputs,
    )


def _drift_at_most(settings: AnySettings) -> float | None:
    """Return how far a table may have moved; None if it remembers no release before it."""
    return settings.refresh.drift_at_most if settings.refresh.remember else None


def _published_names(settings: TableSettings) -> list[str] | None:
    """Return the synthetic table's columns, if a person listed them all."""
    if not settings.columns_complete:
        return None
    return [n for n, facts in settings.columns.items() if (facts or {}).get("kind") != "excluded"]


def _evaluation(key: dg.AssetKey, result: CheckResult, page: Path) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.ERROR if result.blocking else dg.AssetCheckSeverity.WARN
    observed: dict[str, Any] = {k: _value(v) for k, v in result.observed.items()}
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        severity=severity,
        description=result.description,
        metadata={**observed, "data_docs": dg.MetadataValue.path(str(page))},
    )


def _value(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) else json.loads(json.dumps(value, default=str))
