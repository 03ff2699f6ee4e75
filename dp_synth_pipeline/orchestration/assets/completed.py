"""`completed` handles the snapshot's nulls by released numbers, and is as restricted as the snapshot."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import stages


def completed(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "completed",
        visibility=metadata.RESTRICTED,
        description="The snapshot with nulls kept, filled with private values, or their rows left out.",
        kinds={"duckdb", "parquet"},
        after=("profile",),
    )
    def _completed(context: dg.AssetExecutionContext, profile: dict, ledger: LedgerResource, store: StoreResource):
        with reported("completed"):
            release = opened(context, settings, profile, ledger, store)
            facts = release.run(stages.Completion())
        return materialized(release, metadata.RESTRICTED, facts)

    return _completed
