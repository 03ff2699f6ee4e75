"""The assets of related tables: each table's own stages, one after the other, and what belongs to all tables together.

    ingested ──► visits/profile ──► visits/completed ──► visits/generator ──► … ──► settled ──► visits/synthetic
    all tables   of each table, the root first                                      all          all, in one step

    visits/synthetic ──► [checks of all tables] ──► visits/published ──► release_card
                       │                            all, in one step
                       └──► quality_report, restricted

A table's noise is calibrated to what the tables before it left, so the tables follow each other in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import AuditFailed, BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts, audits, metadata
from dp_synth_pipeline.orchestration.assets.stage import STATES, freshness, in_its_project, key, stage, states_of
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.failures import refuse, reported
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.reporting import card_pages, data_docs, database_card
from dp_synth_pipeline.synthesis.database import stages
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.stages import DatabaseStage, Learning, OfTable
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.store import Store

CHARGING = ("ingested", "settled")
"""The stages whose materializations carry the ledger's head."""

ABOUT = {
    "profile": (
        "Types, bounds, categories and histograms of one row of each person, measured with noise and charged.",
        "json",
    ),
    "completed": ("One row of each person with its nulls handled by released numbers.", "parquet"),
    "marginals": ("Noisy counts of pairs of columns, charged.", "json"),
    "generator": (
        "Learnt from all rows, each given what it hangs on; a person's whole gradient is clipped once.",
        "pytorch",
    ),
}
"""What each stage of one table makes, and its kind."""

RELEASED = ("profile", "marginals")
"""Stages of a table whose outcome may leave; what it learnt may, once the release is settled."""


def related_assets(settings: RelatedTablesSettings) -> list[dg.AssetsDefinition]:
    """Return the assets of related tables, in their order."""
    made, after = [_ingested(settings)], "ingested"
    for one in stages.of_database(settings):
        if isinstance(one, OfTable):
            made.append(_of_table(settings, one, after))
            after = f"{one.table}/{one.name}"
    made.append(_settled(settings, after))
    return [*made, *(build(settings) for build in (_synthetic, _published, _quality_report, _release_card))]


def _opened(
    context: dg.AssetExecutionContext,
    settings: RelatedTablesSettings,
    states: Mapping[str, dict],
    ledger: LedgerResource,
    store: StoreResource,
) -> DatabaseRelease:
    """Go on with the release that the upstream assets' state is of, under the release's own terms."""
    release = DatabaseRelease.open(
        settings,
        DatabaseState.from_dict(next(iter(states.values()))),
        ledger.get(),
        store.get(),
        attempt=f"{context.run_id}:{context.retry_number}",
        progress=DagsterProgress(context),
    )
    if settings.compute is not None and settings.compute.training is not None:
        release.workers = settings.compute.training.processes
    return release


def _materialized(
    release: DatabaseRelease, visibility: str, facts: Mapping[str, Any], **how: Any
) -> dg.MaterializeResult:
    told = {**metadata.cost(release.record), "visibility": visibility, **facts}
    return dg.MaterializeResult(value=release.state.to_dict(), metadata=metadata.readable(told), **how)


def _ingested(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "ingested",
        visibility=metadata.RESTRICTED,
        description="Immutable snapshots of all sources, and the person of each row. All tables were reserved before.",
        kinds={"duckdb", "parquet"},
    )
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource):
        with reported("ingested"):
            release = _admitted(context, settings, ledger.get(), store.get())
            release.run(stages.Ingestion())
        return _materialized(
            release, metadata.RESTRICTED, {HEAD: release.protection.head()}, data_version=dg.DataVersion(release.id)
        )

    return _body


def _admitted(
    context: dg.AssetExecutionContext, settings: RelatedTablesSettings, ledger: Ledger, store: Store
) -> DatabaseRelease:
    """Reserve the release, and show on its account's page what was held for it, or why it was refused."""
    check_continuity(context.instance, ledger, settings, CHARGING)
    progress = DagsterProgress(context)
    stages.check_target(settings, progress)
    try:
        with only_refresh(context.instance, ledger, store, settings.name, "", context.run_id):
            refuse_automatic(context.run.tags, settings.name)
            release = DatabaseRelease.reserve(
                settings,
                ledger,
                store,
                key=f"{context.run_id}:{settings.name}:{context.retry_number}",
                run_id=context.run_id,
                progress=progress,
            )
    except BudgetExceeded as refusal:
        accounts.show_refusal(context.instance, ledger, settings, refusal, context.run_id)
        refuse(context, str(refusal))
        raise
    accounts.show(context.instance, release, "began")
    return release


def _of_table(settings: RelatedTablesSettings, one: OfTable, after: str) -> dg.AssetsDefinition:
    name, learns = f"{one.table}/{one.name}", isinstance(one, Learning)
    description, kind = ABOUT[one.name]
    visibility = metadata.RELEASABLE if one.name in RELEASED else metadata.RESTRICTED

    @stage(
        settings,
        name,
        visibility=visibility,
        description=description,
        kinds={kind},
        after=(after,),
        checks=audits.specs(settings, name) if learns else None,
    )
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported(name):
            release = _opened(context, settings, states, ledger, store)
            this = Learning(one.table) if learns else one
            yield from _run(settings, release, this, name)
        yield _materialized(release, visibility, {"table": one.table})

    return _body


def _run(
    settings: RelatedTablesSettings, release: DatabaseRelease, one: DatabaseStage, name: str
) -> Iterator[dg.AssetCheckResult]:
    """Run a stage of one table; tell what the audit of a training saw, whether or not it passed."""
    try:
        release.run(one)
    except AuditFailed:
        if isinstance(one, Learning):
            yield from audits.evaluations(settings, one.audit, name)
        raise
    if isinstance(one, Learning):
        yield from audits.evaluations(settings, one.audit, name)


def _settled(settings: RelatedTablesSettings, after: str) -> dg.AssetsDefinition:
    @stage(
        settings,
        "settled",
        visibility=metadata.RELEASABLE,
        description="The release is settled for what ran in all tables; only then are their weights released.",
        kinds={"pytorch"},
        after=(after,),
    )
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("settled"):
            release = _opened(context, settings, states, ledger, store)
            facts = release.run(stages.Settlement())
        accounts.show(context.instance, release, "settled")
        costs = metadata.cost(release.record, release.protection.entries(release.id), release.lineage)
        return _materialized(release, metadata.RELEASABLE, {**costs, HEAD: release.protection.head(), **facts})

    return _body


def _synthetic(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("synthetic"):
            release = _opened(context, settings, states, ledger, store)
            counts = release.run(stages.Sampling())
        for name, rows in counts.items():
            table, schema = release.state.table(name), release.state.sources[name]
            facts = {
                "dagster/row_count": rows,
                "dagster/column_schema": metadata.column_schema(schema, {}),
                "dagster/column_lineage": metadata.column_lineage(schema, key(settings, f"{name}/source")),
                "preview": metadata.preview(table.path("synthetic")),
                "path": dg.MetadataValue.path(str(table.path("synthetic"))),
            }
            yield _materialized(release, metadata.RELEASABLE, facts, asset_key=key(settings, f"{name}/synthetic"))

    about = "Synthetic rows with the source's columns and types: keys are new, and each row has its parent."
    return _together(settings, "synthetic", about, ("settled",), _body)


def _published(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("published"):
            release = _opened(context, settings, states, ledger, store)
            places = release.run(stages.Publication())["places"]
        for name, place in places.items():
            facts = {
                "dagster/row_count": release.state.table(name).facts.synthetic_rows,
                "place": place,
                "data_docs": dg.MetadataValue.path(str(release.folder / name / data_docs.PAGE)),
            }
            yield _materialized(release, metadata.RELEASABLE, facts, asset_key=key(settings, f"{name}/published"))

    about = "The synthetic table where analysts read it. All tables are replaced together, so no row lacks its parent."
    return _together(settings, "published", about, [f"{name}/synthetic" for name in settings.tables], _body)


def _together(
    settings: RelatedTablesSettings, name: str, description: str, after: Sequence[str], body: Any
) -> dg.AssetsDefinition:
    """Return the assets of one stage of all tables, which one step makes."""
    outs = {
        f"{table}__{name}": dg.AssetOut(
            key=key(settings, f"{table}/{name}"),
            description=description,
            kinds={"parquet" if name == "synthetic" else "table"},
            tags=metadata.tags(metadata.RELEASABLE, settings.privacy, settings.tags),
            group_name=settings.group or settings.name,
            owners=settings.owners or None,
            code_version=settings.code_version(),
            io_manager_key=STATES,
            freshness_policy=freshness(settings) if name == "published" else None,
        )
        for table in settings.tables
    }
    return dg.multi_asset(
        name=f"{settings.name}__{name}",
        outs=outs,
        ins=states_of(settings, after),
        op_tags=op_tags(settings.compute, name),
        pool=pool_of(settings.compute, name),
    )(in_its_project(settings, name, body))


def _quality_report(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic tables are to the real ones, alone and together. Restricted like those.",
        kinds={"html"},
        after=[f"{name}/synthetic" for name in settings.tables],
    )
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        from dp_synth_pipeline.reporting import related_quality_report as page

        with reported("quality_report"):
            release = _opened(context, settings, states, ledger, store)
            place = dg.MetadataValue.path(str(page.write(release, context.run_id)))
        # The figures are exact functions of real rows: they stay on the page, out of the event log.
        facts = {"visibility": metadata.RESTRICTED, "page": place}
        return dg.MaterializeResult(value=release.state.to_dict(), metadata=facts)

    return _body


def _release_card(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "release_card",
        visibility=metadata.RELEASABLE,
        description="What was released, at what cost, under which assumptions, with the entries that prove it.",
        kinds={"html", "json", "markdown"},
        after=[f"{name}/published" for name in settings.tables],
    )
    def _body(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("release_card"):
            release = _opened(context, settings, states, ledger, store)
            card = database_card.write(release, ", ".join(settings.owners))
        costs = metadata.cost(release.record, release.protection.entries(release.id), release.lineage)
        return _materialized(
            release,
            metadata.RELEASABLE,
            {
                **costs,
                "ledger_head": release.protection.head(),
                "seal": card.facts.seal,
                metadata.CARD: dg.MetadataValue.md(card_pages.render_markdown(card)),
                "account_page": dg.MetadataValue.asset(accounts.key(release.record.account)),
                "page": dg.MetadataValue.path(str(release.state.card)),
            },
        )

    return _body
