"""The assets of related tables: each table's own stages, one after the other, and what belongs to all tables together.

    ingested ──► visits/profile ──► visits/completed ──► visits/generator ──► … ──► settled ──► visits/synthetic
    all tables   of each table, the root first                                      all          all, in one step

    visits/synthetic ──► [checks of all tables] ──► visits/published ──► release_card
                       │                            all, in one step
                       └──► quality_report, restricted

A table's noise is calibrated to what the tables before it left, so the tables follow each other in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts, audits, metadata
from dp_synth_pipeline.orchestration.assets.stage import (
    admitted,
    carded,
    costs,
    described,
    in_its_project,
    key,
    materialized,
    reported_on,
    stage,
    states_of,
)
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.reporting import data_docs, database_card
from dp_synth_pipeline.synthesis.database import stages
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.stages import Learning, OfTable
from dp_synth_pipeline.synthesis.store import Store

ABOUT = {
    "profile": (
        "Types, bounds, categories and histograms of one row of each person, measured with noise and charged.",
        "json",
    ),
    "completed": ("One row of each person with its nulls handled by released numbers.", "parquet"),
    "texts": (
        "Noisy counts of the shapes and words of texts of one row of each person, charged: what writes them.",
        "json",
    ),
    "marginals": ("Noisy counts of pairs of columns, or of the codes of all rows, charged.", "json"),
    "generator": (
        "Learnt from all rows, each given what it hangs on; a person's whole gradient is clipped once.",
        "pytorch",
    ),
}
"""What each stage of one table makes, and its kind."""

COPIED = (
    "The public table where analysts read it, as it is. All tables are replaced together, so no row refers to none."
)
"""What is said of a public table among the published ones."""

RELEASED = ("profile", "texts", "marginals")
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


def _ingested(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "ingested",
        visibility=metadata.RESTRICTED,
        description="Immutable snapshots of all sources, and the person of each row. All tables were reserved before.",
        kinds={"duckdb", "parquet"},
    )
    def _body(context: dg.AssetExecutionContext, ledger: Ledger, store: Store) -> dg.MaterializeResult:
        release = admitted(context, settings, ledger, partial(_reserve, context, settings, ledger, store))
        release.run(stages.Ingestion())
        head = {HEAD: release.protection.head()}
        return materialized(release, metadata.RESTRICTED, head, data_version=dg.DataVersion(release.id))

    return _body


def _reserve(
    context: dg.AssetExecutionContext, settings: RelatedTablesSettings, ledger: Ledger, store: Store, **how: Any
) -> DatabaseRelease:
    """Reserve the release of one run, if no other refreshes the tables and a person asked for it."""
    check_continuity(context.instance, ledger, settings)
    stages.check_target(settings, DagsterProgress(context))
    with only_refresh(context.instance, ledger, store, settings.name, "", context.run_id):
        refuse_automatic(context.run.tags, settings.name)
        return DatabaseRelease.reserve(settings, ledger, store, **how)


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
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease) -> Iterator[Any]:
        if learns:
            yield from audits.audited(settings, release, Learning(one.table), name)
        else:
            release.run(one)
        yield materialized(release, visibility, {"table": one.table})

    return _body


def _settled(settings: RelatedTablesSettings, after: str) -> dg.AssetsDefinition:
    @stage(
        settings,
        "settled",
        visibility=metadata.RELEASABLE,
        description="The release is settled for what ran in all tables; only then are their weights released.",
        kinds={"pytorch"},
        after=(after,),
    )
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease) -> dg.MaterializeResult:
        facts = release.run(stages.Settlement())
        accounts.show(context.instance, release, "settled")
        return materialized(release, metadata.RELEASABLE, {**costs(release), HEAD: release.protection.head(), **facts})

    return _body


def _synthetic(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease) -> Iterator[dg.MaterializeResult]:
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
            yield materialized(release, metadata.RELEASABLE, facts, asset_key=key(settings, f"{name}/synthetic"))

    about = "Synthetic rows with the source's columns and types: keys are new, and each row has its parent."
    return _together(settings, "synthetic", about, ("settled",), _body)


def _published(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease, *_: Any) -> Iterator[dg.MaterializeResult]:
        places = release.run(stages.Publication())["places"]
        for name, place in places.items():
            yield materialized(
                release,
                metadata.RELEASABLE,
                _of_published(release, name, place),
                asset_key=key(settings, f"{name}/published"),
            )

    about = "The synthetic table where analysts read it. All tables are replaced together, so no row lacks its parent."
    return _together(settings, "published", about, [f"{name}/synthetic" for name in settings.private_tables], _body)


def _of_published(release: DatabaseRelease, name: str, place: str) -> dict[str, Any]:
    """Return what is said of one published table."""
    if name in release.state.public:
        rows = pq.ParquetFile(release.state.public[name]).metadata.num_rows
        return {"dagster/row_count": rows, "place": place, "public": True}
    return {
        "dagster/row_count": release.state.table(name).facts.synthetic_rows,
        "place": place,
        "data_docs": dg.MetadataValue.path(str(release.folder / name / data_docs.PAGE)),
    }


def _together(
    settings: RelatedTablesSettings, name: str, description: str, after: Sequence[str], body: Any
) -> dg.AssetsDefinition:
    """Return the assets of one stage of all tables, which one step makes."""
    kinds = {"parquet" if name == "synthetic" else "table"}
    outs = {
        f"{table}__{name}": dg.AssetOut(
            **described(
                settings,
                f"{table}/{name}",
                metadata.RELEASABLE,
                description if table in settings.private_tables else COPIED,
                kinds,
            )
        )
        for table in (settings.tables if name == "published" else settings.private_tables)
    }
    return dg.multi_asset(
        name=f"{settings.name}__{name}",
        outs=outs,
        ins=states_of(settings, after),
        op_tags=op_tags(settings.compute, name),
        pool=pool_of(settings.compute, name),
    )(in_its_project(settings, name, after, body))


def _quality_report(settings: RelatedTablesSettings) -> dg.AssetsDefinition:
    @stage(
        settings,
        "quality_report",
        visibility=metadata.RESTRICTED,
        description="How near the synthetic tables are to the real ones, alone and together. Restricted like those.",
        kinds={"html"},
        after=[f"{name}/synthetic" for name in settings.private_tables],
    )
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease, *_: Any) -> dg.MaterializeResult:
        from dp_synth_pipeline.reporting import related_quality_report as page

        return reported_on(release, page.write(release, context.run_id))

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
    def _body(context: dg.AssetExecutionContext, release: DatabaseRelease, *_: Any) -> dg.MaterializeResult:
        card = database_card.write(release, ", ".join(settings.owners))
        return carded(release, card, release.state.card)

    return _body
