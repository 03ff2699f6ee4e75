"""Assembles the assets, checks, jobs and resources of a table.

Decisions about privacy, tables or networks do not belong here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import accounts, lineage, metadata
from dp_synth_pipeline.orchestration.alerts import Notify, alerts, calling
from dp_synth_pipeline.orchestration.assets.one_run_audit import one_run_audits
from dp_synth_pipeline.orchestration.assets.related import related_assets
from dp_synth_pipeline.orchestration.assets.stage import STATES, key
from dp_synth_pipeline.orchestration.assets.table import table_assets
from dp_synth_pipeline.orchestration.automation import refuse_eager_spending
from dp_synth_pipeline.orchestration.checks import checks, related_checks
from dp_synth_pipeline.orchestration.dagster_internals import LazyDefs, discover_config_file
from dp_synth_pipeline.orchestration.executors.placing import executor_for, executor_of
from dp_synth_pipeline.orchestration.io_managers import StateIOManager
from dp_synth_pipeline.orchestration.new_data import sensors
from dp_synth_pipeline.orchestration.preflight import asking
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.schedules import ACCOUNT, schedules
from dp_synth_pipeline.orchestration.settings import AnySettings, RelatedTablesSettings, TableSettings
from dp_synth_pipeline.synthesis.database.settings import DatabaseTable
from dp_synth_pipeline.synthesis.store import default_store, ledger_url
from dp_synth_pipeline.tabular.sources.warehouse.address import shown

STATE_IO_MANAGER = StateIOManager()
"""The same object for every table: `Definitions.merge` refuses two under one key."""


def build_synthetic_table(settings: TableSettings) -> dg.Definitions:
    """Return the assets, checks, refresh job and alerts of one table, which lack nothing, for `Definitions.merge`.

    The ledger is DP_SYNTH_LEDGER, or a `LedgerResource` among the project's own resources.

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
    assets = table_assets(settings)
    job = dg.define_asset_job(
        f"{settings.name}_refresh",
        dg.AssetSelection.assets(*assets),
        description=f"One refresh of {settings.name}: {_price(settings)}.",
        executor_def=executor_of(settings.compute),
        tags={metadata.GUARANTEE: settings.privacy, **({ACCOUNT: settings.account} if settings.account else {})},
        metadata=asking(settings),
    )
    table = dg.Definitions(
        assets=[upstream, *assets, *accounts.assets(settings)],
        asset_checks=[checks(settings)],
        jobs=[job],
        schedules=schedules(settings, job),
        sensors=[*sensors(settings, job), *alerts()],
        resources={STATES: STATE_IO_MANAGER},
    )
    return dg.Definitions.merge(table, one_run_audits(settings))


def build_synthetic_database(settings: RelatedTablesSettings) -> dg.Definitions:
    """Return the assets, checks, refresh job and alerts of related tables, which lack nothing, for `Definitions.merge`.

    Example:
        `build_synthetic_database(RelatedTablesSettings(database="clinic", account="patients", epsilon=3, tables={...}))`
    """
    sources = [_source(settings, name, table) for name, table in settings.tables.items() if table.source]
    assets = related_assets(settings)
    job = dg.define_asset_job(
        f"{settings.name}_refresh",
        dg.AssetSelection.assets(*assets),
        description=f"One refresh of {settings.name}: {_price(settings)}.",
        executor_def=executor_of(settings.compute),
        tags={metadata.GUARANTEE: settings.privacy, ACCOUNT: settings.account},
    )
    return dg.Definitions(
        assets=[*sources, *assets, *accounts.assets(settings)],
        asset_checks=[related_checks(settings, table) for table in settings.relations],
        jobs=[job],
        schedules=schedules(settings, job),
        sensors=alerts(),
        resources={STATES: STATE_IO_MANAGER},
    )


def _source(settings: RelatedTablesSettings, name: str, table: DatabaseTable) -> dg.AssetSpec:
    """Return the asset that stands for what is read of one table; person-level but for public tables."""
    place, public = shown(table.source), table.public
    whose = (
        f"Public: {public.why}, says {public.by}." if public else "Person-level data; never copied into the event log."
    )
    return dg.AssetSpec(
        key(settings, f"{name}/source"),
        description=f"The source itself: {place}. {whose}",
        group_name=settings.group or settings.name,
        kinds={"source"},
        tags={metadata.VISIBILITY: metadata.RELEASABLE if public else metadata.RESTRICTED},
        metadata={"source": place} if public else {lineage.SOURCE: place, lineage.ACCOUNT: settings.account},
    )


def build_defs(
    tables: Sequence[AnySettings],
    ledger: str = "",
    store: str = "",
    *,
    notify: Notify | None = None,
    alert_below: float = 0.2,
) -> dg.Definitions:
    """Return a whole code location of some tables, with the ledger, store and alerts that it names.

    Args:
        ledger: path or URL; by default DP_SYNTH_LEDGER, else the one at home.
        store: folder; by default the one at home.
        notify: called with each alert, as `AlertResource.notify` is.
        alert_below: the share of an account's limit, above 0 and at most 1, under which it is called low.
    """
    own = {
        "ledger": LedgerResource(url=ledger),
        "store": StoreResource(root=store),
        "dp_synth_alerts": calling(notify, alert_below),
    }
    parts = [
        build_synthetic_database(t) if isinstance(t, RelatedTablesSettings) else build_synthetic_table(t)
        for t in tables
    ]
    return completed_definitions(dg.Definitions.merge(*parts, dg.Definitions(resources=own)))


def completed_definitions(tables: dg.Definitions, ledger: str = "") -> dg.Definitions:
    """Return a whole project's definitions with the executor that `compute` asks for, unless they have one of their own.

    Tables work without: this makes what is materialized outside their jobs follow `compute` too.

    Args:
        ledger: path or URL of another ledger than the project's.

    Raises:
        InvalidInput: if an asset would spend epsilon by itself, or a step's worker could not reach the ledger.
    """
    own = [r for r in (tables.resources or {}).values() if isinstance(r, LedgerResource)]
    url = ledger or (own[0].process_config_and_initialize().url if own else "") or ledger_url()
    executor = executor_for(tables, url)
    added = dg.Definitions(
        resources={"dp_synth_ledger": LedgerResource(url=ledger)} if ledger else {},
        executor=None if tables.executor else executor,
    )
    return refuse_eager_spending(dg.Definitions.merge(tables, added))


def project_definitions() -> dg.Definitions:
    """Return the definitions of every table described under this package's own `defs/`."""
    return completed_definitions(dg.load_from_defs_folder(path_within_project=Path(__file__).parent))


def current_project(ledger: str = "") -> dg.Definitions:
    """Return the definitions of the Dagster project here; without one, those of the demo where it ran, or none."""
    if discover_config_file(Path.cwd()) is None:
        return project_definitions() if _demo_ran() else dg.Definitions()
    for folder in (str(Path.cwd() / "src"), str(Path.cwd())):  # as `dagster` and `dg` do
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return completed_definitions(dg.load_from_defs_folder(path_within_project=Path.cwd()), ledger)


def _demo_ran() -> bool:
    """Say whether a table that this package describes was released at home."""
    described = (file.parent.name for file in (Path(__file__).parent.parent / "defs").glob("*/*.yaml"))
    return any((default_store().root / "releasable" / name).is_dir() for name in described)


def load_project(module: str) -> dg.Definitions:
    """Return the definitions of a module, named as for `dagster dev -m`; those of the project here without a name.

    Raises:
        InvalidInput: if the module cannot be imported, or does not hold exactly one `Definitions`, made or to be made.
    """
    if not module:
        return current_project()
    try:
        found = [v for v in vars(importlib.import_module(module)).values() if isinstance(v, (dg.Definitions, LazyDefs))]
    except ImportError:
        raise InvalidInput(f"module {module!r} cannot be imported; name it as for `dagster dev -m`.") from None
    if len(found) != 1:
        raise InvalidInput(
            f"module {module!r} holds {len(found)} dagster.Definitions, expected one; name another module."
        )
    return found[0] if isinstance(found[0], dg.Definitions) else found[0]()


def _price(settings: AnySettings) -> str:
    if settings.privacy == "none":
        return "no privacy guarantee, nothing is charged"
    return f"charges account {settings.charge.account} at most {settings.charge.epsilon:g}"
