"""`quality_report`: real against synthetic, for the data's owner only; it looks at real rows, so it is restricted."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.handles import load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular import sink


def quality_report(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic table is to the real one. Restricted: it is computed from real rows.",
        kinds={"plotly"},
        after=("synthetic", "completed"),
    )
    def _quality_report(
        context: dg.AssetExecutionContext,
        synthetic: dict,
        completed: dict,
        ledger: LedgerResource,
        store: StoreResource,
    ):
        from dp_synth_pipeline.validation import fidelity, frames, report

        with reported("quality_report"):
            refresh, schema = load(synthetic), load(synthetic).table_schema()
            release = ledger.get().release(refresh.release)
            names = [c.name for c in schema.learned]
            real = frames.read_frame(load(completed).path("completed"), names)
            drawn = frames.read_frame(refresh.path("synthetic"), names)
            found = fidelity.compare(real, drawn, schema)
            meta = report.ReportMeta(
                table=settings.name,
                epsilon=release.final_epsilon,
                delta=release.final_delta,
                unit=settings.privacy_unit.column or "row",
                account=release.account,
                run_id=context.run_id,
                code_version=release.code_version,
                created=release.ended_at,
            )
            page = report.render_report(found, real, drawn, schema, meta)
            path = store.get().restricted(settings.name) / "quality_report.html"
            sink.write_text(page, path)
            path.chmod(0o600)
        # The figures themselves are exact functions of real rows: they stay on the page, out of the event log.
        return dg.MaterializeResult(
            value=refresh.with_({"report": path}),
            metadata={"visibility": metadata.RESTRICTED, "page": dg.MetadataValue.path(str(path))},
        )

    return _quality_report
