"""Sources: CSV, Parquet and DuckDB tables read once, out of core, into an immutable Parquet snapshot.

A snapshot is restricted: it holds real rows, bounded per privacy unit, in a folder only its owner can open. What makes a
source unusable is in `refusals`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import duckdb_uri, refusals
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.schema import Kind, TableSchema
from dp_synth_pipeline.tabular.sql import literal, quoted
from dp_synth_pipeline.tabular.units import bound_rows

UNIT = "__privacy_unit"
"""The snapshot's column of dense unit numbers, when a unit is not a row."""

KEY = "__privacy_unit_key"
"""The units' own names, in the sorted copy that is bounded and then deleted."""

CSV_DIALECT = """header=true, skip=0, strict_mode=true, quote='"', escape='"', null_padding=false, comment=''"""
"""Pinned, since a dialect guessed from damaged lines would skip rows in silence; the delimiter comes from the header."""

MEMORY_LIMIT = "768MB"
"""What DuckDB may hold before it spills to disk beside the snapshot."""


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


@dataclass(frozen=True)
class Source:
    """Where rows come from: a SQL relation, and a file that must exist for it.

    `text` names the columns of a CSV that a person declared to be categories, so that their type is not guessed.
    """

    uri: str
    relation: str
    file: Path | None = None
    table: pa.Table | None = None
    attach: str | None = None
    text: tuple[str, ...] = ()

    @property
    def is_csv(self) -> bool:
        """Whether the rows are text, so that storage types are detected."""
        return self.relation.startswith("read_csv")


def parse(uri: str, declared: Mapping[str, Any] | None = None) -> Source:
    """Understand a source URI without reading a row.

    Accepted: `file.csv`, `file.parquet` (globs and folders too), `duckdb:///file.duckdb?table=schema.table`,
    `demo://rand_hie`, `demo://clinic_visits`.

    Raises:
        InvalidInput: for an unknown form or a file that does not exist.
    """
    if uri.startswith("demo://"):
        from dp_synth_pipeline import demo

        return Source(uri, "demo", table=demo.load(uri.removeprefix("demo://")))
    if uri.startswith("duckdb://"):
        return _parse_duckdb(uri)
    path = Path(uri.removeprefix("file://")).expanduser()
    if path.is_dir():
        return Source(uri, f"read_parquet({literal(path / '**' / '*.parquet')})")
    found = [path] if path.is_file() else [Path(p) for p in sorted(glob(str(path), recursive=True))]
    if not found:
        raise InvalidInput(f"no such file: {uri}. Give a CSV or Parquet file, or duckdb:///file.duckdb?table=name.")
    if found[0].stat().st_size == 0:
        raise InvalidInput(f"{uri} is empty: it holds no header and no row.")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return Source(uri, f"read_parquet({literal(path)})", found[0])
    if suffix in (".csv", ".tsv", ".txt") or path.name.lower().endswith((".csv.gz", ".tsv.gz")):
        text = tuple(n for n, f in (declared or {}).items() if (f or {}).get("kind") == Kind.CATEGORY)
        return Source(uri, f"read_csv({literal(path)}, {CSV_DIALECT})", found[0], text=text)
    raise InvalidInput(f"{uri}: unknown kind of source. Give .csv, .parquet or duckdb:///file.duckdb?table=name.")


def _parse_duckdb(uri: str) -> Source:
    path, table = duckdb_uri.split(uri)
    if not path.is_file():
        raise InvalidInput(f"no such DuckDB file in {uri}. The form is {duckdb_uri.FORM}.")
    return Source(uri, f"source_db.{'.'.join(map(quoted, table))}", path, attach=str(path))


def snapshot(
    source: Source,
    path: Path,
    *,
    declared: Mapping[str, Mapping[str, Any] | None] | None = None,
    nulls: str = "keep",
    unit: PrivacyUnit = PrivacyUnit(),
    delta: float | None = None,
    complete: bool = False,
) -> Snapshot:
    """Copy the source into an immutable Parquet file with at most `max_rows` rows per unit, and check that it is usable.

    Rows of a unit beyond `max_rows` are left out uniformly at random, with fresh randomness.

    Args:
        complete: whether `declared` must name every column of the source.
        delta: a fixed delta, to be refused when it is not below one over the number of units.

    Raises:
        InvalidInput: for what section "bad input" of the manual lists; the message holds no value and no count.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    header = refusals.header(source)
    partial = path.with_suffix(".partial")
    try:
        with _connection(path.parent) as con, refusals.explained(source, header):
            _open(con, source, header)
            storage = {f.name: f.type for f in con.sql("SELECT * FROM source LIMIT 0").to_arrow_table().schema}
            schema = schema_lib.build(storage, declared, nulls=nulls, unit_column=unit.column, complete=complete)
            refusals.check_rows(con, schema, source)
            digest = _digest(con, schema)
            con.execute(f"COPY ({_selection(schema, unit)}) TO {literal(partial)} (FORMAT parquet, COMPRESSION zstd)")
        with refusals.explained(source, header):
            units = _bounded(partial, unit)
        refusals.check_units(source, units, delta)
        partial.chmod(0o400)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return Snapshot(path, schema, digest, units)


@contextmanager
def _connection(folder: Path):
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


def _open(con: duckdb.DuckDBPyConnection, source: Source, header: refusals.Header) -> None:
    if source.attach is not None:
        con.execute(f"ATTACH {literal(source.attach)} AS source_db (READ_ONLY)")
    if source.table is not None:
        con.register("source", source.table)
        return
    relation = source.relation
    if source.is_csv:
        text = [f"{literal(n)}: 'VARCHAR'" for n in source.text if n in header.names]
        types = f", types={{{', '.join(text)}}}" if text else ""
        relation = f"{relation.removesuffix(')')}, delim={literal(header.delimiter)}{types})"
    con.execute(f"CREATE VIEW source AS SELECT * FROM {relation}")


def _selection(schema: TableSchema, unit: PrivacyUnit) -> str:
    # Categories become text here, once, so that the profile and the codec spell each of them alike.
    columns = ", ".join(
        f"CAST({quoted(c.name)} AS VARCHAR) AS {quoted(c.name)}" if c.kind is Kind.CATEGORY else quoted(c.name)
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
