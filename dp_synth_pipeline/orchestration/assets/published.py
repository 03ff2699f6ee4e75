"""`published`: the checked table replaces the one that analysts read, atomically, if the ledger settled its release."""

import dagster as dg

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import metadata, progress
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.assets.synthetic import sealed
from dp_synth_pipeline.orchestration.begun import Begun, begun
from dp_synth_pipeline.orchestration.checks import DATA_DOCS
from dp_synth_pipeline.orchestration.config import TableSettings, table_name
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import Part, part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource, home
from dp_synth_pipeline.orchestration.unprotected import Book
from dp_synth_pipeline.tabular.targets import sink


def published(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table; it runs only after every blocking check passed."""

    @link(
        settings,
        "published",
        visibility=metadata.RELEASABLE,
        description="The synthetic table where analysts read it: replaced atomically, old or new, never half.",
        kinds={"duckdb", "table"},
        after=("synthetic",),
    )
    def _published(context: dg.AssetExecutionContext, synthetic: dict, ledger: LedgerResource, store: StoreResource):
        with reported("published"):
            here = begun(settings, synthetic, ledger, store)
            refresh = here.refresh
            require_settled(here.book, refresh.release)
            require_drawn(here)
            wanted = part(here.settings, refresh.partitions)
            told = progress.waiting(context, f"{settings.name}: publishing")
            for target in targets_of(settings.name, wanted):
                sink.check_spared(target, here.settings.read)
                sink.check_writable(target, told=told)
            places = [sink.publish(refresh.path("synthetic"), t, told) for t in targets_of(settings.name, wanted)]
            schema = refresh.table_schema()
        return dg.MaterializeResult(
            value=refresh.with_(published=places),
            metadata={
                **metadata.cost(here.release, here.book.entries(release_id=refresh.release)),
                "visibility": metadata.RELEASABLE,
                "dagster/row_count": int((refresh.facts or {})["synthetic_rows"]),
                "dagster/column_schema": metadata.column_schema(schema),
                "dagster/column_lineage": metadata.column_lineage(schema, dg.AssetKey([settings.name, "synthetic"])),
                "places": places,
                "data_docs": dg.MetadataValue.path(str(here.store.releasable(wanted.folder) / DATA_DOCS)),
            },
        )

    return _published


def targets_of(table: str, wanted: Part) -> list[str]:
    """Return where a run writes its rows: where a person said, else the warehouse at home."""
    return wanted.targets or [default_target(table, wanted.label)]


def default_target(table: str, partition: str = "") -> str:
    """The DuckDB warehouse at home, schema `synthetic`; a table of its own for each partition."""
    name = f"{table}__{partition}" if partition else table
    return f"duckdb:///{home() / 'warehouse.duckdb'}?table=synthetic.{table_name(name) if partition else name}"


def require_drawn(here: Begun) -> None:
    """Refuse to publish any file but the one that was drawn from this very release, whatever a handle says.

    Raises:
        ReleaseStateError: if it is another one, or was changed since.
    """
    refresh = here.refresh
    rows, seal = refresh.path("synthetic"), (refresh.facts or {}).get("seal")
    if not rows.is_file() or seal != here.book.fingerprint(sealed(refresh.release, rows)):
        raise ReleaseStateError(
            "the file to publish is gone, was changed, or is not the one that was drawn under this release; what was "
            "published before is intact. Materialize `synthetic` again, which is free."
        )


def require_settled(book: Ledger | Book, release: str) -> None:
    """Refuse to publish what no settled release paid for, or no record of an unprotected one accounts for."""
    state = book.release(release).state
    if state != "settled":
        raise ReleaseStateError(
            f"the release behind this table is {state}, not settled, so nobody paid for it; nothing was published. "
            f"Materialize the table again from `ingested`."
        )
