"""Asset checks: a Great Expectations suite on the synthetic table, each expectation its own check, blocking or warning."""

import json
from dataclasses import asdict
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration import progress
from dp_synth_pipeline.orchestration.assets.handles import load
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.tabular.profile import TableProfile
from dp_synth_pipeline.validation.checks import CheckResult, check_names, grouped


def checks(settings: TableSettings) -> dg.AssetChecksDefinition:
    """Build the checks of one table; their names follow from its declared column names, or are grouped without them."""
    key = dg.AssetKey([settings.name, "synthetic"])
    known = _published_names(settings)
    names = check_names(known)

    @dg.multi_asset_check(
        name=f"{settings.name}__checks",
        specs=[
            dg.AssetCheckSpec(n.name, asset=key, blocking=n.blocking, description=f"Checks {n.title}.") for n in names
        ],
        ins={"synthetic": dg.AssetIn(key=key)},
    )
    def _checks(context: dg.AssetCheckExecutionContext, synthetic: dict, store: StoreResource):
        from dp_synth_pipeline.validation.expectations import suite_for
        from dp_synth_pipeline.validation.run import validate

        with reported("checks"):
            refresh = load(synthetic)
            shown = progress.REPORTER.get()
            if shown is not None:
                shown(f"{settings.name}: checks", 0, 1)
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            suite = suite_for(refresh.table_schema(), profile, int((refresh.facts or {})["asked_rows"]))
            results = validate(refresh.path("synthetic"), suite)
            sink.write_text(
                json.dumps([asdict(r) for r in results], indent=1, default=str),
                store.get().releasable(settings.name) / "checks.json",
            )
        for result in results if known is not None else grouped(results):
            yield _evaluation(key, result)

    return _checks


def _published_names(settings: TableSettings) -> list[str] | None:
    """The synthetic table's columns, if a person listed them all."""
    if not settings.columns_complete:
        return None
    return [n for n, facts in settings.columns.items() if (facts or {}).get("kind") != "excluded"]


def _evaluation(key: dg.AssetKey, result: CheckResult) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.ERROR if result.blocking else dg.AssetCheckSeverity.WARN
    observed: dict[str, Any] = {k: _value(v) for k, v in result.observed.items()}
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        severity=severity,
        description=result.description,
        metadata=observed,
    )


def _value(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) else json.loads(json.dumps(value, default=str))
