"""`ingested` reserves the whole release; only then does it open the source and copy it into a restricted snapshot."""

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import metadata, partitions
from dp_synth_pipeline.orchestration.assets.stage import materialized, stage
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.preflight import check_backfill
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import blocks, no_protection, publication, stages
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
            release = _reserve(context, settings, ledger.get(), store.get())
            release.run(stages.Ingestion())
            digest, protection = release.state.digest, release.protection
            overlaps = _overlapping_releases(context, release) if protection.guaranteed else {}
        return materialized(
            release,
            metadata.RESTRICTED,
            {
                HEAD: protection.head(),
                "source_fingerprint": protection.fingerprint(digest),
                **overlaps,
                "dagster/column_schema": metadata.column_schema(release.schema),
            },
            data_version=dg.DataVersion(protection.fingerprint(digest)[:16]),
        )

    return _ingested


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


def _overlapping_releases(context: dg.AssetExecutionContext, release: Release) -> dict[str, list[str]]:
    """Return, and warn of, other accounts and unprotected tables that were released from this very content."""
    ledger, digest = release.protection.ledger, release.state.digest
    accounts = ledger.same_source(digest, not_account=release.settings.account)
    tables = no_protection.same_source(release.store, ledger.fingerprint(digest))
    if accounts:
        context.log.warning(
            f"accounts {', '.join(accounts)} already released from this very content: whoever is in it is protected "
            f"by the sum of those budgets, not by each alone. Charge one account for one data set."
        )
    if tables:
        context.log.warning(
            f"{', '.join(tables)} was released from this very content without a privacy guarantee: no budget protects "
            f"whoever is in it from that."
        )
    overlaps = {"same_content_as_accounts": accounts, "same_content_without_guarantee": tables}
    return {name: values for name, values in overlaps.items() if values}
