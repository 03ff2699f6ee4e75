"""`synthetic` draws as many rows as asked from released weights. This is post-processing, so it is free."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.sampling import Sampling


def synthetic(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""
    source = dg.AssetKey([settings.name, "source"])

    @stage(
        settings,
        "synthetic",
        visibility=metadata.RELEASABLE,
        description="Synthetic rows with the source's columns, types, precision, null rates and declared rules.",
        kinds={"parquet"},
        after=("generator",),
    )
    def _synthetic(context: dg.AssetExecutionContext, generator: dict, ledger: LedgerResource, store: StoreResource):
        with reported("synthetic"):
            release = opened(context, settings, generator, ledger, store)
            facts = release.run(Sampling())
        return materialized(
            release,
            metadata.RELEASABLE,
            {
                "dagster/row_count": facts["rows"],
                "dagster/column_schema": metadata.column_schema(release.schema, settings.descriptions),
                "dagster/column_lineage": metadata.column_lineage(release.schema, source),
                "preview": metadata.preview(release.state.path("synthetic")),
                "path": dg.MetadataValue.path(str(facts["path"])),
            },
        )

    return _synthetic
