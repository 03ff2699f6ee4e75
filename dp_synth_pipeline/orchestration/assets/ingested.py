"""`ingested`: reserve the whole release, then, and only then, open the source and copy it into a restricted snapshot."""

from dataclasses import asdict
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration import holdout, metadata, partitions, planning, progress, unprotected
from dp_synth_pipeline.orchestration.assets.handles import Refresh, dump_schema
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.assets.published import targets_of
from dp_synth_pipeline.orchestration.automation import refuse_automatic
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.deliveries import claim
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.liveness import only_refresh
from dp_synth_pipeline.orchestration.partitions import Part
from dp_synth_pipeline.orchestration.preflight import check_backfill
from dp_synth_pipeline.orchestration.resources import LedgerResource, Store, StoreResource
from dp_synth_pipeline.orchestration.restricted import drop, forget, keep_for, private
from dp_synth_pipeline.orchestration.unprotected import Book
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.targets import sink


def ingested(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "ingested",
        visibility=metadata.RESTRICTED,
        description="An immutable snapshot of the source. The release was reserved in the ledger before it was opened.",
        kinds={"duckdb", "parquet"},
        deps=("source",),
    )
    def _ingested(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource):
        with reported("ingested"):
            shelf = store.get()
            book = unprotected.book_of(settings, ledger.get(), shelf)
            check_continuity(context.instance, ledger.get(), settings)
            wanted = partitions.part(settings, partitions.keys_of(context, settings))
            for target in targets_of(settings.name, wanted):
                sink.check_writable(target, told=progress.waiting(context, f"{settings.name}: publishing"))
            with only_refresh(context.instance, ledger.get(), shelf, settings.name, wanted.label, context.run_id):
                release = (
                    book.begin(context.run_id) if isinstance(book, Book) else reserve(context, book, settings, wanted)
                )
                folder = claim(shelf, settings.name, release)  # before `try`: a second delivery may not void the first
                keep_for(folder, settings.retention_days, wanted.label)
            report = progress.reporter(context, f"{settings.name}: reading")
            report(0, 1)
            forget(shelf, ledger.get(), settings.name, wanted.label)
            try:
                snapshot = ingest(settings, folder, wanted)
                book.note_source(release.id, snapshot.digest)
            except Exception:  # no mechanism has started, so nothing was learnt from what was read
                book.void(release.id, "the source could not be ingested")
                drop(shelf, settings.name, release.id)
                raise
            same = {} if isinstance(book, Book) else _also_released(context, settings, book, shelf, snapshot.digest)
            report(1, 1)
        handle = Refresh(
            release.id,
            dump_schema(snapshot.schema),
            snapshot.digest,
            snapshot.units,
            partitions=wanted.keys,
            terms=settings.terms(),
        )
        return dg.MaterializeResult(
            value=handle.with_({"snapshot": snapshot.path}),
            metadata={
                **metadata.cost(release),
                "visibility": metadata.RESTRICTED,
                HEAD: book.head(),
                "source_fingerprint": book.fingerprint(snapshot.digest),
                **same,
                "dagster/column_schema": metadata.column_schema(snapshot.schema),
            },
            data_version=dg.DataVersion(book.fingerprint(snapshot.digest)[:16]),
        )

    return _ingested


def reserve(context: dg.AssetExecutionContext, ledger: Ledger, settings: TableSettings, wanted: Part) -> Release:
    """Reserve the release; the key is this run, this step and this attempt, so a retry is a new charge."""
    refuse_automatic(context.run.tags, settings.name)
    check_backfill(context, settings, ledger)
    account = ledger.account(settings.charge.account)
    asked = planning.ask(settings, account.delta)
    # A use of a declared plan costs what the plan declared, whatever the YAML asks for.
    costs = {"plan": settings.plan} if settings.plan else asdict(asked)
    partitions.open_blocks(ledger, settings, wanted, context.run_id, **asdict(asked))
    return ledger.reserve(
        account.name,
        key=f"{context.run_id}:{settings.name}:{context.retry_number}",
        **costs,  # type: ignore[arg-type]
        unit=str(settings.privacy_unit),
        max_rows=settings.privacy_unit.max_rows,
        table=settings.name,
        run_id=context.run_id,
        code_version=settings.code_version(),
        blocks=wanted.blocks,
        nominal=last_events(ledger, settings),
    )


def _also_released(
    context: dg.AssetExecutionContext, settings: TableSettings, ledger: Ledger, store: Store, digest: str
) -> dict[str, list[str]]:
    """Return, and warn of, other accounts and unprotected tables that were released from this very content."""
    accounts = ledger.same_source(digest, not_account=settings.account)
    tables = unprotected.same_source(store, ledger.fingerprint(digest))
    if accounts:
        context.log.warning(
            f"accounts {', '.join(accounts)} already released from this very content: whoever is in it is protected "
            f"by the sum of those budgets, not by each alone. Charge one account for one data set."
        )
    if tables:
        context.log.warning(
            f"{', '.join(tables)} was released from this very content without a privacy guarantee: no budget protects "
            f"whoever is in it from that."
        )
    found = {"same_content_as_accounts": accounts, "same_content_without_guarantee": tables}
    return {name: values for name, values in found.items() if values}


def last_events(ledger: Ledger, settings: TableSettings) -> list[Event]:
    """Return what this table's last settled release ran, so that a refusal can say which steps and noise would fit."""
    settled = [r for r in ledger.releases(settings.account) if r.table == settings.name and r.state == "settled"]
    return [e for entry in ledger.entries(release_id=settled[-1].id) for e in entry.events] if settled else []


def ingest(settings: TableSettings, folder: Path, wanted: Part | None = None) -> ingestion.Snapshot:
    """Copy the source, or only the rows of a part of it, into a restricted folder, where nobody else can read it."""
    where = settings.filter if wanted is None else wanted.where
    from dp_synth_pipeline.validation.figures import check_declared

    with private():
        snapshot = ingestion.snapshot(
            source.parse(settings.source, settings.columns, where),
            folder / "snapshot.parquet",
            declared=settings.columns,
            nulls=settings.nulls,
            other=settings.other,
            unit=settings.privacy_unit,
            complete=settings.columns_complete,
            delta=None if settings.delta == "auto" else settings.delta,
        )
    constraints.check(settings.validation.parsed_rules, snapshot.schema)
    check_declared(snapshot.schema, settings.validation.predict, settings.validation.sensitive)
    holdout.check(settings, snapshot.schema)
    return snapshot
