"""The one place where assets, checks, jobs and resources of a table meet.

Belongs here: assembly. Does not belong here: any decision about privacy, tables or networks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration.assets.card import release_card
from dp_synth_pipeline.orchestration.assets.completed import completed
from dp_synth_pipeline.orchestration.assets.generator import generator
from dp_synth_pipeline.orchestration.assets.ingested import ingested
from dp_synth_pipeline.orchestration.assets.link import HANDLES, key
from dp_synth_pipeline.orchestration.assets.profile import profile
from dp_synth_pipeline.orchestration.assets.published import published
from dp_synth_pipeline.orchestration.assets.report import quality_report
from dp_synth_pipeline.orchestration.assets.synthetic import synthetic
from dp_synth_pipeline.orchestration.checks import checks
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.io_managers import HandleIOManager
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.schedules import schedules

LINKS = (ingested, profile, completed, generator, synthetic, published, quality_report, release_card)


def build_synthetic_table(settings: TableSettings) -> dg.Definitions:
    """Return the assets, checks and refresh job of one table, without resources.

    Example:
        `build_synthetic_table(TableSettings(table="visits", source="visits.parquet", account="clinic", epsilon=2))`
    """
    upstream = dg.AssetSpec(
        key(settings, "source"),
        description=f"The source itself: {_shown(settings.source)}. Person-level data; never copied into the event log.",
        group_name=settings.group or settings.name,
        kinds={"source"},
        tags={"dp_synth/visibility": "restricted"},
    )
    links = [build(settings) for build in LINKS]
    job = dg.define_asset_job(
        f"{settings.name}_refresh",
        dg.AssetSelection.assets(*links),
        description=f"One refresh of {settings.name}: charges account {settings.account} at most {settings.epsilon:g}.",
        tags={"dp_synth/account": settings.account},
    )
    return dg.Definitions(
        assets=[upstream, *links], asset_checks=[checks(settings)], jobs=[job], schedules=schedules(settings, job)
    )


def resources(ledger: str = "", store: str = "") -> dict[str, Any]:
    """Return the resources that every table needs."""
    shelf = StoreResource(root=store)
    return {"ledger": LedgerResource(url=ledger), "store": shelf, HANDLES: HandleIOManager(store=shelf)}


def build_defs(tables: list[TableSettings], ledger: str = "", store: str = "") -> dg.Definitions:
    """Return complete definitions for some tables."""
    parts = [build_synthetic_table(t) for t in tables]
    return dg.Definitions.merge(*parts, dg.Definitions(resources=resources(ledger, store)))


def project_definitions() -> dg.Definitions:
    """Return the definitions of every table described under this project's `defs/`."""
    tables = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(tables, dg.Definitions(resources=resources()))


def _shown(uri: str) -> str:
    """A source URI without what may be a secret."""
    return uri.split("@")[-1] if "@" in uri else uri
