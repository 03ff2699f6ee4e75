"""Copies tables that everybody may see, such as a catalogue, into a release: as they are, and free.

They are read with the sources, and kept with the restricted rows until the release is settled: then the keys that drawn rows
refer to and the rows that have them leave together.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.privacy.odometer import Unmetered
from dp_synth_pipeline.relations import public_groups
from dp_synth_pipeline.synthesis.database.settings import DatabaseTable
from dp_synth_pipeline.tabular import schema as schemas
from dp_synth_pipeline.tabular.profiling import types
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv import declared
from dp_synth_pipeline.tabular.sources.csv.values import CellType
from dp_synth_pipeline.targets import sink

FILE = "public.parquet"
"""The copy of a public table, in its releasable folder."""

EXACT = 1e-3
"""Noise of a count of cells: as good as none, since they are public."""


def copy(table: DatabaseTable, stored_as: pa.DataType | None, path: Path) -> TableSchema:
    """Copy a public table into a Parquet file and return its columns: with the types of its source, or those of all cells.

    Of those that group its keys, the groups are named.

    Args:
        stored_as: the type of the columns that refer to it, which its key takes; None if none does.

    Raises:
        InvalidInput: if it cannot be read, or its key does not name each of its rows. The message may hold values: they are
            public.
    """
    key, place = str(table.key), source.parse(table.source, where=table.filter)
    names = list(ingestion.column_types(place))
    if key not in names:
        raise InvalidInput(f"key: there is no column {key!r}; it has: {', '.join(names)}.{nearest(key, names)}")
    ingestion.copy_public(place, path)
    rows = _typed(path, key) if place.is_csv else pq.read_table(path)
    if stored_as is not None:
        try:
            rows = rows.set_column(names.index(key), key, rows[key].cast(stored_as))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidInput(
                f"key: {key!r} holds {rows[key].type}, and columns that refer to it hold {stored_as}; store both alike."
            ) from None
    _check_keys(rows[key], key)  # as they are stored: 7 and 007 are one number
    sink.write_parquet(rows.to_batches(), rows.schema, path)
    return schemas.build(dict(zip(names, rows.schema.types, strict=True)), public_groups.grouped(rows, key))


def read(copies: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Return the rows of copied public tables."""
    return {name: pq.read_table(path) for name, path in copies.items()}


def release_to(copied: Path, folder: Path) -> Path:
    """Copy a public table to where it may leave; return where it is."""
    with sink.replacing(folder / FILE) as partial:
        shutil.copyfile(copied, partial)
    return folder / FILE


def _check_keys(keys: pa.ChunkedArray, name: str) -> None:
    """Refuse a public table without rows, and one of which a row has no key, or another one's."""
    if not len(keys) or keys.null_count:
        raise InvalidInput(
            f"key: {name!r} is empty in {keys.null_count:,} of {len(keys):,} rows; each row needs its own."
        )
    counts = pc.value_counts(keys)  # type: ignore[attr-defined]
    several = counts.filter(pc.greater(counts.field(1), 1)).field(0)  # type: ignore[attr-defined]
    if len(several):
        raise InvalidInput(f"key: {several[0].as_py()!r} in {name!r} names several rows; each row needs its own.")


def _typed(path: Path, key: str) -> pa.Table:
    """Return the rows of a CSV with the types that all cells of a column fit; its key stays text."""
    names = pq.read_schema(path).names
    columns = [c for n in names if n != key and isinstance(c := declared.cell_type(n, {}), declared.Untyped)]
    if not columns:
        return pq.read_table(path)
    measured = types.measure(path, columns, types.TypesPlan(EXACT, len(columns)), Unmetered())
    cells = {n: c for n, c in measured.cells.items() if not measured.misfits.get(n)}
    schema = ingestion.typed_schema({n: cells.get(n, CellType()) for n in names}, {})
    typed = path.with_suffix(".typed")
    ingestion.typed(path, schema, cells, typed, numbers=())
    try:
        return pq.read_table(typed)
    finally:
        typed.unlink()
