"""`quality_report`: real against synthetic, for the data's owner only; it looks at real rows, so it is restricted."""

from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Release
from dp_synth_pipeline.orchestration import evidence_checks, metadata
from dp_synth_pipeline.orchestration.assets.handles import load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.restricted import drop
from dp_synth_pipeline.orchestration.unprotected import Unprotected
from dp_synth_pipeline.tabular.targets import sink


def quality_report(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic table is to the real one. Restricted: it is computed from real rows.",
        kinds={"plotly"},
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
        from dp_synth_pipeline.orchestration import holdout
        from dp_synth_pipeline.validation import figures, frames, report

        with reported("quality_report"):
            here = begun(settings, synthetic, ledger, store)
            refresh, release, schema = here.refresh, here.release, here.refresh.table_schema()
            names = [c.name for c in schema.learned]
            rows = load(completed).path("completed")
            if not rows.exists():
                raise InvalidInput(
                    f"the snapshot of {settings.name} was deleted, so there is nothing to compare with; materialize the "
                    f"table again from `ingested`."
                )
            real = frames.read_frame(rows, names)
            drawn = frames.read_frame(refresh.path("synthetic"), names)
            asked = settings.validation
            found = figures.measure(real, drawn, schema, predict=asked.predict, sensitive=asked.sensitive)
            evidence = holdout.gather(here.settings, refresh, load(completed))
            meta = report.ReportMeta(
                table=settings.name,
                unit=here.settings.privacy_unit.column or "row",
                **_promise(release),
                run_id=context.run_id,
                code_version=release.code_version,
                created=release.ended_at,
            )
            page = report.render_report(found, real, drawn, schema, meta, evidence)
            label = part(settings, refresh.partitions).label
            path = store.get().restricted(settings.name) / ".".join(filter(None, ("quality_report", label, "html")))
            sink.write_text(page, path)
            path.chmod(0o600)
            if settings.retention_days == 0:  # no later link reads real rows
                drop(store.get(), settings.name, release.id)
        # The figures themselves are exact functions of real rows: they stay on the page, out of the event log. So does
        # whether an attack did better than chance, unless a person lets that bit out: all who may see the run read it.
        yield dg.MaterializeResult(
            value=refresh.with_({"report": path}),
            metadata={"visibility": metadata.RESTRICTED, "page": dg.MetadataValue.path(str(path))},
        )
        yield from evidence_checks.evaluations(settings, evidence)

    return _quality_report


def _promise(release: Release | Unprotected) -> dict[str, Any]:
    """Return what a report says about the release's guarantee."""
    if isinstance(release, Unprotected):
        return {"guarantee": release.told}
    return {"epsilon": release.final_epsilon, "delta": release.final_delta, "account": release.account}
