"""`published`: the checked table replaces the one that analysts read, atomically, if the ledger settled its release."""

import dagster as dg

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.handles import load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.checks import DATA_DOCS
from dp_synth_pipeline.orchestration.config import TableSettings, table_name
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource, home
from dp_synth_pipeline.orchestration.unprotected import Book, book_of
from dp_synth_pipeline.tabular import sink


def published(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table; it runs only after every blocking check passed."""

    @link(
        settings,
        "published",
        visibility=metadata.RELEASABLE,
        description="The synthetic table where analysts read it: replaced atomically, old or new, never half.",
        kinds={"duckdb", "table"},
        after=("synthetic",),
        pool="warehouse_writer",
    )
    def _published(synthetic: dict, ledger: LedgerResource, store: StoreResource):
        with reported("published"):
            refresh, book = load(synthetic), book_of(settings, ledger.get(), store.get())
            require_settled(book, refresh.release)
            here = part(settings, refresh.partitions)
            wanted = here.targets or [default_target(settings.name, here.label)]
            for target in wanted:
                sink.check_writable(target)
            places = [sink.publish(refresh.path("synthetic"), target) for target in wanted]
            schema = refresh.table_schema()
        return dg.MaterializeResult(
            value=refresh.with_(published=places),
            metadata={
                **metadata.cost(book.release(refresh.release), book.entries(release_id=refresh.release)),
                "visibility": metadata.RELEASABLE,
                "dagster/row_count": int((refresh.facts or {})["synthetic_rows"]),
                "dagster/column_schema": metadata.column_schema(schema),
                "dagster/column_lineage": metadata.column_lineage(schema, dg.AssetKey([settings.name, "synthetic"])),
                "places": places,
                "data_docs": dg.MetadataValue.path(str(store.get().releasable(here.folder) / DATA_DOCS)),
            },
        )

    return _published


def default_target(table: str, partition: str = "") -> str:
    """The DuckDB warehouse at home, schema `synthetic`; a table of its own for each partition."""
    name = f"{table}__{partition}" if partition else table
    return f"duckdb:///{home() / 'warehouse.duckdb'}?table=synthetic.{table_name(name) if partition else name}"


def require_settled(book: Ledger | Book, release: str) -> None:
    """Refuse to publish what no settled release paid for, or no record of an unprotected one accounts for."""
    state = book.release(release).state
    if state != "settled":
        raise ReleaseStateError(
            f"the release behind this table is {state}, not settled, so nobody paid for it; nothing was published. "
            f"Materialize the table again from `ingested`."
        )
