"""`quality_report` compares real with synthetic rows for the data's owner only. It reads real rows, so it is restricted."""

import dagster as dg

from dp_synth_pipeline.orchestration import evidence_checks, metadata
from dp_synth_pipeline.orchestration.assets.stage import opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.run_state import RunState


def quality_report(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic table is to the real one. Restricted: it is computed from real rows.",
        kinds={"html"},
        after=("synthetic", "completed"),
        checks=evidence_checks.specs(settings) or None,
    )
    def _quality_report(
        context: dg.AssetExecutionContext,
        synthetic: dict,
        completed: dict,
        ledger: LedgerResource,
        store: StoreResource,
    ):
        from dp_synth_pipeline.reporting import quality_report as page

        with reported("quality_report"):
            release = opened(context, settings, synthetic, ledger, store)
            evidence = page.write(release, RunState.from_dict(completed), context.run_id)
        # The figures themselves are exact functions of real rows: they stay on the page, out of the event log. So does
        # whether an attack did better than chance, unless a person lets that bit out: all who may see the run read it.
        place = dg.MetadataValue.path(str(release.state.path("report")))
        yield dg.MaterializeResult(
            value=release.state.to_dict(), metadata={"visibility": metadata.RESTRICTED, "page": place}
        )
        yield from evidence_checks.evaluations(settings, evidence)

    return _quality_report
