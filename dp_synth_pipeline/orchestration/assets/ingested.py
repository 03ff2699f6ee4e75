"""`ingested` reserves the whole release; only then does it open the source and copy it into a restricted snapshot."""

import dagster as dg

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts, metadata, partitions
from dp_synth_pipeline.orchestration.assets.stage import materialized, stage
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.failures import refuse, reported
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.preflight import check_backfill
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import blocks, publication, stages
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.store import Store


def ingested(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "ingested",
        visibility=metadata.RESTRICTED,
        description="An immutable snapshot of the source. The release was reserved in the ledger before it was opened.",
        kinds={"duckdb", "parquet"},
    )
    def _ingested(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource):
        with reported("ingested"):
            release = _admitted(context, settings, ledger.get(), store.get())
            release.run(stages.Ingestion())
        return materialized(
            release,
            metadata.RESTRICTED,
            {
                HEAD: release.protection.head(),
                "dagster/column_schema": metadata.column_schema(release.schema, settings.descriptions),
            },
            # A function of the rows would say when not one of them changed. The id is new in each release.
            data_version=dg.DataVersion(release.id),
        )

    return _ingested


def _admitted(context: dg.AssetExecutionContext, settings: TableSettings, ledger: Ledger, store: Store) -> Release:
    """Reserve the release, and show on its account's page what was held for it, or why it was refused."""
    try:
        release = _reserve(context, settings, ledger, store)
    except BudgetExceeded as refusal:
        accounts.show_refusal(context.instance, ledger, settings, refusal, context.run_id)
        refuse(context, str(refusal))
        raise
    accounts.show(context.instance, release, "began")
    return release


def _reserve(context: dg.AssetExecutionContext, settings: TableSettings, ledger: Ledger, store: Store) -> Release:
    """Reserve the release; the key is this run, this step and this attempt, so a retry is a new charge."""
    check_continuity(context.instance, ledger, settings)
    progress, part = DagsterProgress(context), blocks.part(settings, partitions.keys_of(context, settings))
    publication.check_targets(settings, part, progress)
    with only_refresh(context.instance, ledger, store, settings.name, part.label, context.run_id):
        if settings.privacy == "dp":
            refuse_automatic(context.run.tags, settings.name)
            check_backfill(context, settings, ledger)
        return Release.reserve(
            settings,
            ledger,
            store,
            key=f"{context.run_id}:{settings.name}:{context.retry_number}",
            run_id=context.run_id,
            partitions=part.keys,
            progress=progress,
        )
