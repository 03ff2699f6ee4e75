"""Copies a source, read once and out of core, into an immutable Parquet snapshot with a bound on each unit's rows.

A snapshot is restricted: it holds real rows, in a folder only its owner can open. What makes a source unusable is in
`source_validation`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import source_validation, stored
from dp_synth_pipeline.tabular.sources.csv import dialect, spelling
from dp_synth_pipeline.tabular.sources.header import Header, header_of
from dp_synth_pipeline.tabular.sources.source import Source
from dp_synth_pipeline.tabular.sources.units import bound_rows
from dp_synth_pipeline.tabular.sources.warehouse import engines
from dp_synth_pipeline.tabular.sql import literal, one_file, quoted

UNIT = "__privacy_unit"
"""The snapshot's column of dense unit numbers, when a unit is not a row."""

KEY = "__privacy_unit_key"
"""The units' own names, in the sorted copy that is bounded and then deleted."""

WHOLE = "source_unfiltered"
"""The source as DuckDB reads it, before the declared filter."""

MEMORY_LIMIT = "768MB"
"""What DuckDB may hold before it spills to disk beside the snapshot."""


Stored = tuple[Mapping[str, pa.DataType], Mapping[str, str]]


@dataclass(frozen=True)
class Snapshot:
    """A restricted copy of the source.

    Attributes:
        path: the Parquet file, readable by its owner only.
        schema: the source's schema, with what a person declared.
        digest: order-independent SHA-256 of the rows. Private: publish it only keyed (`Ledger.fingerprint`).
        units: the exact number of privacy units. Private: publish it only noised.
    """

    path: Path
    schema: TableSchema
    digest: str
    units: int


class Reading(TypedDict, total=False):
    """How a source is read.

    Attributes:
        declared: column name to declared facts, as `schema.build` takes them.
        nulls, other: the table's policies, for columns that declare none.
        unit: the privacy unit; a row without it.
        delta: a fixed delta, to be refused when it is not below one over the number of units.
        complete: whether `declared` must name every column of the source.
    """

    declared: Mapping[str, Mapping[str, Any] | None] | None
    nulls: str
    other: str
    unit: PrivacyUnit
    delta: float | None
    complete: bool


def snapshot(source: Source, path: Path, **reading: Unpack[Reading]) -> Snapshot:
    """Copy the source into an immutable Parquet file with at most `max_rows` rows per unit, and check that it is usable.

    Rows of a unit beyond `max_rows` are left out uniformly at random, with fresh randomness.

    Raises:
        InvalidInput: for what cannot be synthesized honestly, see `source_validation`; the message holds no value and no
            count.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unit = reading.get("unit", PrivacyUnit())
    header = header_of(source)
    partial, staged = path.with_suffix(".partial"), path.with_suffix(".staged")
    try:
        with _connection(path.parent) as con, source_validation.explained(source, header):
            schema = _schema(*_types(con, source, header), unit, reading)
            if source.warehouse is not None:
                engines.stage(source.warehouse, _needed(schema, unit), source.where, staged)
                _open_staged(con, staged)
            stored.check_whole(con, [c.name for c in schema.learned])
            source_validation.check_rows(con, schema, source)
            digest = _digest(con, schema)
            con.execute(f"COPY ({_selection(schema, unit)}) TO {literal(partial)} (FORMAT parquet, COMPRESSION zstd)")
        with source_validation.explained(source, header):
            units = _bounded(partial, unit)
        source_validation.check_units(source, unit, units, reading.get("delta"))
        partial.chmod(0o400)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
        staged.unlink(missing_ok=True)
    return Snapshot(path, schema, digest, units)


def _schema(
    storage: Mapping[str, pa.DataType], formats: Mapping[str, str], unit: PrivacyUnit, reading: Reading
) -> TableSchema:
    return schema_lib.build(
        storage,
        reading.get("declared"),
        nulls=reading.get("nulls", "keep"),
        other=reading.get("other", "drop"),
        unit_column=unit.column,
        complete=reading.get("complete", False),
        formats=formats,
    )


def storage_types(source: Source) -> Mapping[str, pa.DataType]:
    """Return column names and storage types, which are public; a CSV's types are detected from its rows.

    Raises:
        InvalidInput: if the source cannot be opened; the message holds no value.
    """
    header = header_of(source)
    with (
        tempfile.TemporaryDirectory() as spill,
        _connection(Path(spill)) as con,
        source_validation.explained(source, header),
    ):
        return _types(con, source, header)[0]


@contextmanager
def _connection(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    try:
        con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
        con.execute("SET threads = 2")
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET preserve_insertion_order = false")
        con.execute(f"SET temp_directory = {literal(folder / 'spill')}")
        yield con
    finally:
        con.close()


def _types(con: duckdb.DuckDBPyConnection, source: Source, header: Header) -> Stored:
    """Return the storage types of all columns, and how a CSV writes its dates and datetimes.

    The view `source` is open then, unless a warehouse must be staged first.
    """
    return _open(con, source, header) if source.warehouse is None else (source.warehouse.types(), {})


def _needed(schema: TableSchema, unit: PrivacyUnit) -> list[str]:
    """Return the columns that are read: the learned ones and the unit's; the others never leave a warehouse."""
    learned = [c.name for c in schema.learned]
    return learned if unit.column is None or unit.column in learned else [*learned, unit.column]


def _open_staged(con: duckdb.DuckDBPyConnection, staged: Path) -> None:
    con.execute(f"CREATE VIEW {stored.RAW} AS SELECT * FROM read_parquet({one_file(staged)})")
    stored.open_rows(con, [staged], None)


def _open(con: duckdb.DuckDBPyConnection, source: Source, header: Header) -> Stored:
    spelled = spelling.Spelling()
    if source.attach is not None:
        con.execute(f"ATTACH {literal(source.attach)} AS source_db (READ_ONLY)")
    if source.table is not None:
        con.register(WHOLE, source.table)
    else:
        relation = source.relation
        if source.is_csv:
            read = dialect.reader(con, source.relation, source.cells, header)
            spelled = spelling.find(con, read, header.names, source.cells)
            relation = read(spelled.text)
        con.execute(f"CREATE VIEW {WHOLE} AS SELECT *{spelled.replaced} FROM {relation}")
    source_validation.check_filter(con, WHOLE, source.where)
    kept = f" WHERE ({source.where})" if source.where else ""
    con.execute(f"CREATE VIEW {stored.RAW} AS SELECT * FROM {WHOLE}{kept}")
    return stored.open_rows(con, source.parquet, source.table), spelled.formats


def _selection(schema: TableSchema, unit: PrivacyUnit) -> str:
    # Categories become text here, once, so that the profile and the codec spell each of them alike.
    columns = ", ".join(
        f"CAST({quoted(c.name)} AS VARCHAR) AS {quoted(c.name)}" if c.kind.categorical else quoted(c.name)
        for c in schema.learned
    )
    if unit.column is None:
        return f"SELECT {columns} FROM source"
    key = quoted(unit.column)
    # A null unit would be one unit for all rows without an owner; such rows are left out, row by row.
    return f"SELECT {columns}, {key} AS {KEY} FROM source WHERE {key} IS NOT NULL ORDER BY {KEY}, random()"


def _bounded(path: Path, unit: PrivacyUnit) -> int:
    """Bound the rows per unit of a freshly written snapshot, if units are not rows, and return the number of units."""
    if unit.column is None:
        return pq.ParquetFile(path).metadata.num_rows
    bounded = path.with_suffix(".bounded")
    try:
        units = bound_rows(path, bounded, KEY, max_rows=unit.max_rows, number=UNIT)
        os.replace(bounded, path)
    finally:
        bounded.unlink(missing_ok=True)
    return units


def _digest(con: duckdb.DuckDBPyConnection, schema: TableSchema) -> str:
    row = ", ".join(quoted(c.name) for c in schema.learned)
    facts = con.execute(f"SELECT count(*), sum(hash({row})::HUGEINT), bit_xor(hash({row}, 1)) FROM source").fetchall()
    names = [(c.name, c.storage) for c in schema.learned]
    return hashlib.sha256(repr((names, facts)).encode()).hexdigest()
