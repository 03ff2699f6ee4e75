"""`ingested`: reserve the whole release, then, and only then, open the source and copy it into a restricted snapshot."""

import shutil
from dataclasses import asdict

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration import metadata, planning, progress
from dp_synth_pipeline.orchestration.assets.handles import Refresh, dump_schema
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.continuity import HEAD, check_continuity
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import HANDLES_FOLDER, LedgerResource, Store, StoreResource
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.tabular import sink, source


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
            book, shelf = ledger.get(), store.get()
            check_continuity(context.instance, book, settings)
            release = reserve(context, book, settings)
            report = progress.reporter(context, f"{settings.name}: reading")
            report(0, 1)
            forget(shelf, book, settings.name)
            try:
                for target in settings.targets:
                    sink.check_writable(target)
                found = source.parse(settings.source, settings.columns)
                snapshot = source.snapshot(
                    found,
                    shelf.restricted(settings.name, release.id) / "snapshot.parquet",
                    declared=settings.columns,
                    nulls=settings.nulls,
                    unit=settings.privacy_unit,
                    complete=settings.columns_complete,
                    delta=None if settings.delta == "auto" else settings.delta,
                )
            except Exception:  # no mechanism has started, so nothing was learnt from what was read
                book.void(release.id, "the source could not be ingested")
                raise
            book.note_source(release.id, snapshot.digest)
            same = book.same_source(snapshot.digest, not_account=settings.account)
            if same:
                context.log.warning(
                    f"accounts {', '.join(same)} already released from this very content: whoever is in it is protected "
                    f"by the sum of those budgets, not by each alone. Charge one account for one data set."
                )
            report(1, 1)
        handle = Refresh(release.id, dump_schema(snapshot.schema), snapshot.digest, snapshot.units)
        return dg.MaterializeResult(
            value=handle.with_({"snapshot": snapshot.path}),
            metadata={
                **metadata.cost(release),
                "visibility": metadata.RESTRICTED,
                HEAD: book.head(),
                "source_fingerprint": book.fingerprint(snapshot.digest),
                **({"same_content_as_accounts": same} if same else {}),
                "dagster/column_schema": metadata.column_schema(snapshot.schema),
            },
            data_version=dg.DataVersion(book.fingerprint(snapshot.digest)[:16]),
        )

    return _ingested


def reserve(context: dg.AssetExecutionContext, ledger: Ledger, settings: TableSettings) -> Release:
    """Reserve the release; the key is this run, this step and this attempt, so a retry is a new charge."""
    account = ledger.account(settings.account)
    asked = planning.ask(settings, account.delta)
    # A use of a declared plan costs what the plan declared, whatever the YAML asks for.
    costs = {"plan": settings.plan} if settings.plan else asdict(asked)
    return ledger.reserve(
        settings.account,
        key=f"{context.run_id}:{settings.name}:{context.retry_number}",
        **costs,  # type: ignore[arg-type]
        unit=str(settings.privacy_unit),
        max_rows=settings.privacy_unit.max_rows,
        table=settings.name,
        run_id=context.run_id,
        code_version=settings.code_version(),
        nominal=last_events(ledger, settings),
    )


def last_events(ledger: Ledger, settings: TableSettings) -> list[Event]:
    """Return what this table's last settled release ran, so that a refusal can say which steps and noise would fit."""
    settled = [r for r in ledger.releases(settings.account) if r.table == settings.name and r.state == "settled"]
    return [e for entry in ledger.entries(release_id=settled[-1].id) for e in entry.events] if settled else []


def forget(store: Store, ledger: Ledger, table: str) -> None:
    """Delete the snapshots of this table's earlier releases that are settled or voided; they are needed no more."""
    open_states = ("reserved", "started")
    still_open = {r.id for r in ledger.releases() if r.table == table and r.state in open_states}
    for folder in store.restricted(table).iterdir():
        if folder.is_dir() and folder.name not in (*still_open, HANDLES_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)
