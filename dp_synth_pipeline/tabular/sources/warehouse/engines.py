"""Which engine a URI names, and its rows staged as Parquet: the one door to this room."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.sources.warehouse.cloud import BigQuery, Snowflake
from dp_synth_pipeline.tabular.sources.warehouse.delta import Delta
from dp_synth_pipeline.tabular.sources.warehouse.postgres import Postgres
from dp_synth_pipeline.tabular.sources.warehouse.predicate import DUCKDB

FORMS = (
    ".csv, .parquet, duckdb:///file.duckdb?table=name, postgresql://user@host/database?table=schema.table, "
    "delta://folder, snowflake://... or bigquery://..."
)
"""What sources and targets look like, for messages."""


DIALECTS = {"postgresql": "postgres", "postgres": "postgres", "snowflake": "snowflake", "bigquery": "bigquery"}
"""By scheme, what an engine speaks that applies a filter itself. DuckDB applies it to all other sources."""


class Warehouse(Protocol):
    """A table that is read in Arrow batches and replaced atomically."""

    @property
    def shown(self) -> str:
        """The URI without its secrets."""
        ...

    def types(self) -> dict[str, pa.DataType]:
        """Return column names and storage types, which are public; no row is read."""
        ...

    def read(self, columns: Sequence[str], where: str | None) -> AbstractContextManager[pa.RecordBatchReader]:
        """Yield the rows that `where` keeps, with these columns only, as a stream."""
        ...

    def check_writable(self) -> None:
        """Refuse a target that cannot be replaced, before anything is spent on it."""
        ...

    def publish(self, parquet: Path) -> None:
        """Replace the table by these rows; readers see the old table or the new one, a crash leaves the old one."""
        ...


ENGINES = {
    "postgresql": Postgres,
    "postgres": Postgres,
    "delta": Delta,
    "snowflake": Snowflake,
    "bigquery": BigQuery,
}


def engine(uri: str) -> Warehouse | None:
    """Return the table that a URI names, without connecting; None if the URI is for files or DuckDB."""
    scheme = _scheme(uri)
    if scheme in ENGINES:
        return ENGINES[scheme](uri)
    return Delta(uri) if not scheme and Delta(uri or ".").exists else None


def dialect(uri: str) -> str:
    """Return what the engine that applies a source's filter speaks, as sqlglot names it; of a malformed URI, too."""
    return DIALECTS.get(_scheme(uri), DUCKDB)


def _scheme(uri: str) -> str:
    return uri.partition("://")[0].lower() if "://" in uri else ""


def stage(table: Warehouse, columns: Sequence[str], where: str | None, path: Path) -> None:
    """Stream rows into a Parquet file that only its owner can read, batch by batch."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    with table.read(columns, where) as rows, pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
