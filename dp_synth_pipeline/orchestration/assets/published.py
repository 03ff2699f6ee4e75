"""`published` atomically replaces the table that analysts read by the checked one, if the ledger settled its release."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis.publication import Publication


def published(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table; it runs only after every blocking check passed."""
    rows = dg.AssetKey([settings.name, "synthetic"])

    @stage(
        settings,
        "published",
        visibility=metadata.RELEASABLE,
        description="The synthetic table where analysts read it: replaced atomically, old or new, never half.",
        kinds={"duckdb", "table"},
        after=("synthetic",),
    )
    def _published(context: dg.AssetExecutionContext, synthetic: dict, ledger: LedgerResource, store: StoreResource):
        with reported("published"):
            release = opened(context, settings, synthetic, ledger, store)
            facts = release.run(Publication())
        return materialized(
            release,
            metadata.RELEASABLE,
            {
                **metadata.cost(release.record, release.protection.entries(release.id), release.lineage),
                "dagster/row_count": release.state.facts.synthetic_rows,
                "dagster/column_schema": metadata.column_schema(release.schema, settings.descriptions),
                "dagster/column_lineage": metadata.column_lineage(release.schema, rows),
                "preview": metadata.preview(release.state.path("synthetic")),
                **facts,
                "data_docs": dg.MetadataValue.path(str(release.folder / data_docs.PAGE)),
            },
        )

    return _published
