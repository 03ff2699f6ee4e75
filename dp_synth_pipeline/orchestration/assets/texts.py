"""`texts` measures the text columns, noisy and charged. A table has it if it declares a column of `kind: text`."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import stages


def texts(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "texts",
        visibility=metadata.RELEASABLE,
        description="Noisy counts of the shapes and words of text columns, charged to the account: what writes them.",
        kinds={"numpy"},
        after=("completed",),
    )
    def _texts(context: dg.AssetExecutionContext, completed: dict, ledger: LedgerResource, store: StoreResource):
        with reported("texts"):
            release = opened(context, settings, completed, ledger, store)
            facts = release.run(stages.TextMeasuring())
        return materialized(release, metadata.RELEASABLE, facts)

    return _texts
