"""`profile`: one private pass, charged: row count, bounds, categories, null rates, means and fine histograms."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata, planning, progress
from dp_synth_pipeline.orchestration.assets.handles import declared_events, load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular import measure, sink
from dp_synth_pipeline.tabular.profile import TableProfile


def profile(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "profile",
        visibility=metadata.RELEASABLE,
        description="Noisy row count and 1-way histograms, charged to the account; all that is known of the columns.",
        kinds={"opendp"},
        after=("ingested",),
    )
    def _profile(context: dg.AssetExecutionContext, ingested: dict, ledger: LedgerResource, store: StoreResource):
        with reported("profile"):
            refresh, book = load(ingested), ledger.get()
            release, schema = book.release(refresh.release), refresh.table_schema()
            report = progress.reporter(context, f"{settings.name}: profile")
            report(0, 1)
            asked = planning.Asked(release.epsilon, release.delta, release.own_delta)
            declared = declared_events(book, release)
            plan = (
                planning.plan_profile(settings, asked, schema, release.relation)
                if declared is None
                else planning.declared_profile(settings, declared)
            )
            if plan.count_events():
                book.start(release.id, "row count", plan.count_events())
            population = measure.measure_population(refresh.units, plan)
            book.start(release.id, "profile", plan.histogram_events(schema))
            result = measure.measure(refresh.path("snapshot"), schema, plan, population)
            path = store.get().releasable(settings.name) / "profile.json"
            sink.write_text(result.to_json(), path)
            report(1, 1)
        return dg.MaterializeResult(
            value=refresh.with_({"profile": path}),
            metadata={
                **metadata.cost(release),
                "visibility": metadata.RELEASABLE,
                "noise_per_cell": plan.scale,
                "columns": dg.MetadataValue.md(_table(result)),
            },
        )

    return _profile


def _table(profile: TableProfile) -> str:
    rows = ["| column | kind | values | cells | null rate | lower | upper |", "|---|---|---|---|---|---|---|"]
    for c in profile.columns:
        ends = [f"{v:.6g}" if v is not None else "" for v in (c.lower, c.upper)]
        rows.append(
            f"| {c.name} | {c.kind} | {len(c.values)} | {len(c.bins)} | {c.null_rate:.3f} | {' | '.join(ends)} |"
        )
    return "\n".join(rows)
