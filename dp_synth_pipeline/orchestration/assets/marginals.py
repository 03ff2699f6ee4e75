"""`marginals` counts pairs and triples of columns, noisy and charged: the network's start, and what draws are raked to."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import stages


def marginals(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "marginals",
        visibility=metadata.RELEASABLE,
        description="Noisy counts of pairs (and, if asked, triples) of columns, charged to the account.",
        kinds={"opendp"},
        after=("texts" if settings.text_columns else "completed",),
    )
    def _marginals(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("marginals"):
            (state,) = states.values()
            release = opened(context, settings, state, ledger, store)
            facts = release.run(stages.Measuring())
        return materialized(release, metadata.RELEASABLE, facts)

    return _marginals
