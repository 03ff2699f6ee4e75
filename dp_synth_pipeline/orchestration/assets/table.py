"""The assets of one table, each a stage of its release.

ingested ──► profile ──► completed ──► [texts] ──► [marginals] ──► generator ──► synthetic
                                                                                     │
quality_report, restricted ◄─────────────────────────────────────────────────────────┤
release_card ◄── published ◄── [checks] ◄────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.orchestration import accounts, audits, evidence_checks, metadata, partitions
from dp_synth_pipeline.orchestration.assets.stage import admitted, carded, costs, key, materialized, reported_on, stage
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.preflight import check_backfill
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.reporting import release_card as cards
from dp_synth_pipeline.synthesis import blocks, publication, stages
from dp_synth_pipeline.synthesis.generator import GeneratorStage
from dp_synth_pipeline.synthesis.publication import Publication
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.sampling import Sampling
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.profiling.profile import TableProfile

PREPARING = {
    "profile": (
        metadata.RELEASABLE,
        "Noisy row count and 1-way histograms: charged once, then reused free until a person renews them.",
        {"opendp"},
    ),
    "completed": (
        metadata.RESTRICTED,
        "The snapshot with nulls kept, filled with private values, or their rows left out.",
        {"duckdb", "parquet"},
    ),
    "texts": (
        metadata.RELEASABLE,
        "Noisy counts of the shapes and words of text columns, charged to the account: what writes them.",
        {"numpy"},
    ),
    "marginals": (
        metadata.RELEASABLE,
        "Noisy counts of pairs (and, if asked, triples) of columns, charged to the account.",
        {"opendp"},
    ),
}
"""The stages between the snapshot and the generator: who may see what one makes, what that is, and with what it is made."""

LEARNT = {
    Method.HYBRID: "A network that starts from the fit to the noisy marginals and is trained by DP-SGD",
    Method.AUTOREGRESSIVE: "An autoregressive network trained by DP-SGD",
    Method.MARGINALS: "A network taught by the fits to the noisy marginals",
}


def table_assets(settings: TableSettings) -> list[dg.AssetsDefinition]:
    """Return the assets of one table, in their order."""
    made, after = [_ingested(settings)], "ingested"
    for one in stages.of_release(settings):
        if one.name in PREPARING:
            made.append(_prepared(settings, one, after))
            after = one.name
    made.append(_generator(settings, after))
    return [*made, *(build(settings) for build in (_synthetic, _published, _quality_report, _release_card))]


def _ingested(settings: TableSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "ingested",
        visibility=metadata.RESTRICTED,
        description="An immutable snapshot of the source. The release was reserved in the ledger before it was opened.",
        kinds={"duckdb", "parquet"},
    )
    def _body(context: dg.AssetExecutionContext, ledger: Ledger, store: Store) -> dg.MaterializeResult:
        release = admitted(context, settings, ledger, partial(_reserve, context, settings, ledger, store))
        release.run(stages.Ingestion())
        columns = metadata.column_schema(release.schema, settings.descriptions)
        return materialized(
            release,
            metadata.RESTRICTED,
            {HEAD: release.protection.head(), "dagster/column_schema": columns},
            # A function of the rows would say when not one of them changed. The id is new in each release.
            data_version=dg.DataVersion(release.id),
        )

    return _body


def _reserve(
    context: dg.AssetExecutionContext, settings: TableSettings, ledger: Ledger, store: Store, **how: Any
) -> Release:
    """Reserve the release of one run, if no other refreshes the table and a person asked for it."""
    check_continuity(context.instance, ledger, settings)
    part = blocks.part(settings, partitions.keys_of(context, settings))
    publication.check_targets(settings, part, DagsterProgress(context))
    with only_refresh(context.instance, ledger, store, settings.name, part.label, context.run_id):
        if settings.privacy == "dp":
            refuse_automatic(context.run.tags, settings.name)
            check_backfill(context, settings, ledger)
        return Release.reserve(settings, ledger, store, partitions=part.keys, **how)


def _prepared(settings: TableSettings, one: Stage, after: str) -> dg.AssetsDefinition:
    visibility, description, kinds = PREPARING[one.name]

    @stage(settings, one.name, visibility=visibility, description=description, kinds=kinds, after=(after,))
    def _body(context: dg.AssetExecutionContext, release: Release) -> dg.MaterializeResult:
        facts = release.run(one)
        columns = {"columns": dg.MetadataValue.md(_columns(release.profile))} if one.name == "profile" else {}
        return materialized(release, visibility, {**facts, **columns})

    return _body


def _columns(profile: TableProfile) -> str:
    rows = ["| column | kind | values | cells | null rate | lower | upper |", "|---|---|---|---|---|---|---|"]
    for c in profile.columns:
        ends = [f"{v:.6g}" if v is not None else "" for v in (c.lower, c.upper)]
        rows.append(
            f"| {c.name} | {c.kind} | {len(c.values)} | {len(c.bins)} | {c.null_rate:.3f} | {' | '.join(ends)} |"
        )
    return "\n".join(rows)


def _generator(settings: TableSettings, after: str) -> dg.AssetsDefinition:
    method = Method(settings.training.spec().method)

    @stage(
        settings,
        "generator",
        visibility=metadata.RELEASABLE,
        description=f"{LEARNT[method]}; its weights are released, and all that it learnt from was charged.",
        kinds={"pytorch"},
        after=(after,),
        checks=audits.specs(settings),
    )
    def _body(context: dg.AssetExecutionContext, release: Release) -> Iterator[Any]:
        facts = yield from audits.audited(settings, release, GeneratorStage())
        accounts.show(context.instance, release, "settled")
        converged = metadata.convergence(facts.pop("looks", ()))
        told = {HEAD: release.protection.head(), "method": str(method), **facts, **converged}
        yield materialized(release, metadata.RELEASABLE, {**costs(release), **told})

    return _body


def _synthetic(settings: TableSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "synthetic",
        visibility=metadata.RELEASABLE,
        description="Synthetic rows with the source's columns, types, precision, null rates and declared rules.",
        kinds={"parquet"},
        after=("generator",),
    )
    def _body(context: dg.AssetExecutionContext, release: Release) -> dg.MaterializeResult:
        facts = release.run(Sampling())
        path = dg.MetadataValue.path(str(facts["path"]))
        return materialized(
            release, metadata.RELEASABLE, {**_rows(settings, release, facts["rows"], "source"), "path": path}
        )

    return _body


def _rows(settings: TableSettings, release: Release, count: int | None, upstream: str) -> dict[str, Any]:
    """Return what the UI shows of synthetic rows, whose columns come from the asset `upstream`."""
    return {
        "dagster/row_count": count,
        "dagster/column_schema": metadata.column_schema(release.schema, settings.descriptions),
        "dagster/column_lineage": metadata.column_lineage(release.schema, key(settings, upstream)),
        "preview": metadata.preview(release.state.path("synthetic")),
    }


def _published(settings: TableSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "published",
        visibility=metadata.RELEASABLE,
        description="The synthetic table where analysts read it: replaced atomically, old or new, never half.",
        kinds={"duckdb", "table"},
        after=("synthetic",),
    )
    def _body(context: dg.AssetExecutionContext, release: Release) -> dg.MaterializeResult:
        facts = release.run(Publication())
        rows = _rows(settings, release, release.state.facts.synthetic_rows, "synthetic")
        docs = dg.MetadataValue.path(str(release.folder / data_docs.PAGE))
        return materialized(release, metadata.RELEASABLE, {**costs(release), **rows, **facts, "data_docs": docs})

    return _body


def _quality_report(settings: TableSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic table is to the real one. Restricted: it is computed from real rows.",
        kinds={"html"},
        after=("synthetic", "completed"),
        checks=evidence_checks.specs(settings) or None,
    )
    def _body(context: dg.AssetExecutionContext, release: Release, completed: dict[str, Any]) -> Iterator[Any]:
        from dp_synth_pipeline.reporting import quality_report as page

        evidence = page.write(release, RunState.from_dict(completed), context.run_id)
        yield reported_on(release, release.state.path("report"))
        yield from evidence_checks.evaluations(settings, evidence)

    return _body


def _release_card(settings: TableSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "release_card",
        visibility=metadata.RELEASABLE,
        description="What was released, at what cost, under which assumptions, with the entries that prove it.",
        kinds={"html", "json", "markdown"},
        after=("published",),
    )
    def _body(context: dg.AssetExecutionContext, release: Release) -> dg.MaterializeResult:
        card = cards.write(release, ", ".join(settings.owners))
        return carded(release, card, release.state.path("card"))

    return _body
