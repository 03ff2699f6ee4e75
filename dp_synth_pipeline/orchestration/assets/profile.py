"""`profile` measures row count, bounds, categories, nulls and fine histograms in one charged pass, or reuses the last."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import stages
from dp_synth_pipeline.tabular.profiling.profile import TableProfile


def profile(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "profile",
        visibility=metadata.RELEASABLE,
        description="Noisy row count and 1-way histograms: charged once, then reused free until a person renews them.",
        kinds={"opendp"},
        after=("ingested",),
    )
    def _profile(context: dg.AssetExecutionContext, ingested: dict, ledger: LedgerResource, store: StoreResource):
        with reported("profile"):
            release = opened(context, settings, ingested, ledger, store)
            facts = release.run(stages.Profiling())
        columns = dg.MetadataValue.md(_table(release.profile))
        return materialized(release, metadata.RELEASABLE, {**facts, "columns": columns})

    return _profile


def _table(profile: TableProfile) -> str:
    rows = ["| column | kind | values | cells | null rate | lower | upper |", "|---|---|---|---|---|---|---|"]
    for c in profile.columns:
        ends = [f"{v:.6g}" if v is not None else "" for v in (c.lower, c.upper)]
        rows.append(
            f"| {c.name} | {c.kind} | {len(c.values)} | {len(c.bins)} | {c.null_rate:.3f} | {' | '.join(ends)} |"
        )
    return "\n".join(rows)
