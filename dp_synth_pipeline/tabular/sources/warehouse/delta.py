"""Delta Lake tables in a folder: one version is read, and a new version replaces it in one commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.warehouse import adbc, predicate, types
from dp_synth_pipeline.tabular.sql import quoted

FORM = "delta://folder or delta:///absolute/folder"


class Delta:
    """One Delta table, in a local or mounted folder."""

    def __init__(self, uri: str) -> None:
        self.shown = uri
        if not uri.removeprefix("delta://").strip("/"):
            raise InvalidInput(f"{uri} names no folder. The form is {FORM}.")
        self.folder = Path(uri.removeprefix("delta://")).expanduser()

    @property
    def exists(self) -> bool:
        """Whether the folder holds a Delta table."""
        return (self.folder / "_delta_log").is_dir()

    def types(self) -> dict[str, pa.DataType]:
        """Return column names and storage types from the log; no row is read."""
        return {f.name: f.type for f in self._dataset().schema}

    @contextmanager
    def read(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows that `where` keeps, with these columns only, as a stream of one version."""
        condition = f" WHERE {predicate.row_by_row(where)}" if where else ""
        with duckdb.connect() as con:
            con.execute("SET TimeZone = 'UTC'")
            con.register("delta_rows", self._dataset())
            query = f"SELECT {', '.join(map(quoted, columns)) or '1'} FROM delta_rows{condition}"
            yield con.execute(query).to_arrow_reader(types.ROWS)

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written, or that holds something else."""
        adbc.driver("deltalake", "delta")
        folder = self.folder.absolute()
        if folder.exists() and not self.exists and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{self.shown} holds something else than a Delta table; name a new or empty folder.")
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK):
            raise InvalidInput(f"{self.shown} cannot be written: {folder} is not a folder that you may write to.")

    def publish(self, parquet: Path) -> None:
        """Commit a version that holds these rows only; readers see the old version or the new one."""
        deltalake = adbc.driver("deltalake", "delta")
        rows = types.batches(parquet, types.portable_without_durations)
        try:
            deltalake.write_deltalake(str(self.folder), rows, mode="overwrite", schema_mode="overwrite")
        except (deltalake.exceptions.DeltaError, OSError) as error:
            raise InvalidInput(
                f"{self.shown} cannot be written ({type(error).__name__}); check its folder and the free space. "
                f"{adbc.WRITING}"
            ) from None

    def _dataset(self) -> Any:
        deltalake = adbc.driver("deltalake", "delta")
        if not self.exists:
            raise InvalidInput(f"there is no Delta table in {self.shown}. The form is {FORM}.")
        try:
            return deltalake.DeltaTable(str(self.folder)).to_pyarrow_dataset()
        except (deltalake.exceptions.DeltaError, OSError) as error:
            raise InvalidInput(
                f"{self.shown} cannot be read ({type(error).__name__}): its log is damaged or asks for a reader feature "
                f"that this version lacks. {adbc.READING}"
            ) from None
