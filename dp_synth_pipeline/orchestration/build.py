"""Assembles the assets, checks, jobs and resources of a table.

Decisions about privacy, tables or networks do not belong here.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.orchestration import lineage, metadata
from dp_synth_pipeline.orchestration.alerts import Notify, build_alerts
from dp_synth_pipeline.orchestration.assets.card import release_card
from dp_synth_pipeline.orchestration.assets.completed import completed
from dp_synth_pipeline.orchestration.assets.generator import generator
from dp_synth_pipeline.orchestration.assets.ingested import ingested
from dp_synth_pipeline.orchestration.assets.marginals import marginals
from dp_synth_pipeline.orchestration.assets.one_run_audit import one_run_audits
from dp_synth_pipeline.orchestration.assets.profile import profile
from dp_synth_pipeline.orchestration.assets.published import published
from dp_synth_pipeline.orchestration.assets.report import quality_report
from dp_synth_pipeline.orchestration.assets.stage import STATES, key
from dp_synth_pipeline.orchestration.assets.synthetic import synthetic
from dp_synth_pipeline.orchestration.automation import refuse_eager_spending
from dp_synth_pipeline.orchestration.checks import checks
from dp_synth_pipeline.orchestration.dagster_internals import discover_config_file
from dp_synth_pipeline.orchestration.executors.placing import executor_for, executor_of
from dp_synth_pipeline.orchestration.io_managers import StateIOManager
from dp_synth_pipeline.orchestration.new_data import sensors
from dp_synth_pipeline.orchestration.preflight import asking
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.schedules import ACCOUNT, schedules
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.store import ledger_url
from dp_synth_pipeline.tabular.sources.warehouse.address import shown

STAGES = (ingested, profile, completed, marginals, generator, synthetic, published, quality_report, release_card)


def build_synthetic_table(settings: TableSettings) -> dg.Definitions:
    """Return the assets, checks and refresh job of one table, without resources.

    Example:
        `build_synthetic_table(TableSettings(table="visits", source="visits.parquet", account="clinic", epsilon=2))`
    """
    upstream = dg.AssetSpec(
        key(settings, "source"),
        description=f"The source itself: {shown(settings.source)}. Person-level data; never copied into the event log.",
        group_name=settings.group or settings.name,
        kinds={"source"},
        tags={metadata.VISIBILITY: metadata.RESTRICTED},
        metadata={
            lineage.SOURCE: shown(settings.source),
            lineage.UNIT: str(settings.privacy_unit),
            **({lineage.ACCOUNT: settings.account} if settings.account else {}),
        },
    )
    measures = Method(settings.training.spec().method).measures
    assets = [build(settings) for build in STAGES if measures or build is not marginals]
    job = dg.define_asset_job(
        f"{settings.name}_refresh",
        dg.AssetSelection.assets(*assets),
        description=f"One refresh of {settings.name}: {_price(settings)}.",
        executor_def=executor_of(settings.compute),
        tags={metadata.GUARANTEE: settings.privacy, **({ACCOUNT: settings.account} if settings.account else {})},
        metadata=asking(settings),
    )
    table = dg.Definitions(
        assets=[upstream, *assets],
        asset_checks=[checks(settings)],
        jobs=[job],
        schedules=schedules(settings, job),
        sensors=sensors(settings, job),
    )
    return dg.Definitions.merge(table, one_run_audits(settings))


def resources(ledger: str = "", store: str = "") -> dict[str, Any]:
    """Return the resources that every table needs."""
    releases = StoreResource(root=store)
    return {"ledger": LedgerResource(url=ledger), "store": releases, STATES: StateIOManager(store=releases)}


def build_defs(
    tables: list[TableSettings],
    ledger: str = "",
    store: str = "",
    *,
    notify: Notify | None = None,
    alert_below: float = 0.2,
) -> dg.Definitions:
    """Return complete definitions for some tables; `notify` and `alert_below` are those of `alerts.build_alerts`."""
    parts = dg.Definitions.merge(*(build_synthetic_table(t) for t in tables))
    common_defs = dg.Definitions(
        resources=resources(ledger, store),
        executor=executor_for(parts, ledger or ledger_url()),
        sensors=build_alerts(notify, alert_below=alert_below),
    )
    return refuse_eager_spending(dg.Definitions.merge(parts, common_defs))


def project_definitions() -> dg.Definitions:
    """Return the definitions of every table described under this project's `defs/`."""
    tables = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    common_defs = dg.Definitions(
        resources=resources(), executor=executor_for(tables, ledger_url()), sensors=build_alerts()
    )
    return refuse_eager_spending(dg.Definitions.merge(tables, common_defs))


def completed_definitions(tables: dg.Definitions, ledger: str = "") -> dg.Definitions:
    """Return another project's definitions with the resources and the executor that they lack."""
    lacking = {k: v for k, v in resources(ledger).items() if k not in (tables.resources or {})}
    executor = None if tables.executor else executor_for(tables, ledger or ledger_url())
    return refuse_eager_spending(dg.Definitions.merge(tables, dg.Definitions(resources=lacking, executor=executor)))


def current_project(ledger: str = "") -> dg.Definitions:
    """Return the definitions of the Dagster project here, or else of this one, complete with ledger and store."""
    if discover_config_file(Path.cwd()) is None:
        return project_definitions()
    if str(Path.cwd()) not in sys.path:  # as `dagster` and `dg` do
        sys.path.insert(0, str(Path.cwd()))
    return completed_definitions(dg.load_from_defs_folder(path_within_project=Path.cwd()), ledger)


def load_project(module: str) -> dg.Definitions:
    """Return the definitions of a module, named as for `dagster dev -m`; this package's own project without a name.

    Raises:
        InvalidInput: if the module cannot be imported, or does not hold exactly one `Definitions`.
    """
    if not module:
        return project_definitions()
    try:
        definitions = [v for v in vars(importlib.import_module(module)).values() if isinstance(v, dg.Definitions)]
    except ImportError:
        raise InvalidInput(f"module {module!r} cannot be imported; name it as for `dagster dev -m`.") from None
    if len(definitions) != 1:
        raise InvalidInput(
            f"module {module!r} holds {len(definitions)} dagster.Definitions, expected one; name another module."
        )
    return definitions[0]


def _price(settings: TableSettings) -> str:
    if settings.privacy == "none":
        return "no privacy guarantee, nothing is charged"
    return f"charges account {settings.charge.account} at most {settings.charge.epsilon:g}"
