"""Sources: files, DuckDB tables and warehouses read once, out of core, into an immutable Parquet snapshot.

A snapshot is restricted: it holds real rows, bounded per privacy unit, in a folder only its owner can open. What makes a
source unusable is in `refusals`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import dialect, duckdb_uri, refusals, spelling, stored
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.kinds.base import KINDS
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sql import literal, one_file, quoted
from dp_synth_pipeline.tabular.units import bound_rows
from dp_synth_pipeline.tabular.warehouse import engines, predicate
from dp_synth_pipeline.tabular.warehouse.address import shown

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


@dataclass(frozen=True)
class Source:
    """Where rows come from: a SQL relation, and a file that must exist for it; or a warehouse.

    `uri` holds no secret, and `where` is the declared row filter, in the source's own SQL. `text`, `durations`
    and `booleans` name the columns of a CSV that a person declared to be so, and whose type is not guessed; `told` is what
    was declared about its dates. `parquet` are the files whose footers tell zones and durations.
    """

    uri: str
    relation: str
    file: Path | None = None
    table: pa.Table | None = None
    attach: str | None = None
    text: tuple[str, ...] = ()
    durations: tuple[str, ...] = ()
    booleans: tuple[str, ...] = ()
    told: spelling.Told = field(default_factory=spelling.Told)
    parquet: tuple[Path, ...] = ()
    warehouse: engines.Warehouse | None = None
    where: str | None = None

    @property
    def is_csv(self) -> bool:
        """Whether the rows are text, so that storage types are detected."""
        return self.relation.startswith("read_csv")


def parse(uri: str, declared: Mapping[str, Any] | None = None, where: str | None = None) -> Source:
    """Understand a source URI without reading a row or connecting.

    Accepted: `file.csv`, `file.parquet` (globs and folders too), `duckdb:///file.duckdb?table=schema.table`,
    `demo://rand_hie`, `demo://clinic_visits`, and what `warehouse.engines` knows, such as
    `postgresql://user@host/database?table=schema.table`.

    Args:
        where: a predicate of one row's columns; only rows that it holds for are read. Public by declaration.

    Raises:
        InvalidInput: for an unknown form, a file that does not exist or a filter that looks beyond its row.
    """
    found, judged = _parse(uri, declared), None if where is None else predicate.check(where)
    if judged is not None and engines.runs_duckdb(found.warehouse):
        predicate.check_parsed(judged)
    return replace(found, uri=shown(uri), where=judged)


def _parse(uri: str, declared: Mapping[str, Any] | None) -> Source:
    warehouse = engines.engine(uri)
    if warehouse is not None:
        return Source(uri, "warehouse", warehouse=warehouse)
    if uri.startswith("demo://"):
        from dp_synth_pipeline import demo

        return Source(uri, "demo", table=demo.load(uri.removeprefix("demo://")))
    if uri.startswith("duckdb://"):
        return _parse_duckdb(uri)
    path = Path(uri.removeprefix("file://")).expanduser()
    if path.is_dir():
        files = tuple(sorted(path.rglob("*.parquet")))
        if not files:
            raise InvalidInput(
                f"the folder {shown(uri)} holds no .parquet file; name one that does, or the file itself."
            )
        return Source(uri, f"read_parquet({one_file(path)[:-1]}/**/*.parquet')", parquet=files)
    found = [path] if path.is_file() else [Path(p) for p in sorted(glob(str(path), recursive=True))]
    if not found:
        raise InvalidInput(f"no such file: {shown(uri)}. Give {engines.FORMS}.")
    if found[0].stat().st_size == 0:
        raise InvalidInput(f"{shown(uri)} is empty: it holds no header and no row. Name a file that holds both.")
    named = one_file(path) if path.is_file() else literal(path)  # a file that is there is meant, whatever it is called
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return Source(uri, f"read_parquet({named})", found[0], parquet=tuple(found))
    if suffix in (".csv", ".tsv", ".txt") or path.name.lower().endswith((".csv.gz", ".tsv.gz")):
        types = {n: _csv_type(f or {}) for n, f in (declared or {}).items()}
        text, durations, booleans = (
            tuple(n for n, t in types.items() if t == of) for of in ("VARCHAR", "INTERVAL", "BOOLEAN")
        )
        told = spelling.declared(declared or {})
        relation = f"read_csv({named}, {dialect.PINNED})"
        return Source(uri, relation, found[0], text=text, durations=durations, booleans=booleans, told=told)
    raise InvalidInput(f"{shown(uri)}: unknown kind of source. Give {engines.FORMS}.")


def _csv_type(facts: Mapping[str, Any]) -> str | None:
    """Return the SQL type that the cells of a column are read as because of its declared kind."""
    kind = KINDS.get(str(facts.get("kind")))
    return None if kind is None else kind.csv_type


def _parse_duckdb(uri: str) -> Source:
    path, table = duckdb_uri.split(uri)
    if not path.is_file():
        raise InvalidInput(f"no such DuckDB file in {shown(uri)}. The form is {duckdb_uri.FORM}.")
    return Source(uri, f"source_db.{'.'.join(map(quoted, table))}", path, attach=str(path))


def snapshot(
    source: Source,
    path: Path,
    *,
    declared: Mapping[str, Mapping[str, Any] | None] | None = None,
    nulls: str = "keep",
    other: str = "drop",
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
    partial, staged = path.with_suffix(".partial"), path.with_suffix(".staged")
    try:
        with _connection(path.parent) as con, refusals.explained(source, header):
            storage, formats = _types(con, source, header)
            schema = schema_lib.build(
                storage,
                declared,
                nulls=nulls,
                other=other,
                unit_column=unit.column,
                complete=complete,
                formats=formats,
            )
            if source.warehouse is not None:
                engines.stage(source.warehouse, _needed(schema, unit), source.where, staged)
                _open_staged(con, staged)
            stored.check_whole(con, [c.name for c in schema.learned])
            refusals.check_rows(con, schema, source)
            digest = _digest(con, schema)
            con.execute(f"COPY ({_selection(schema, unit)}) TO {literal(partial)} (FORMAT parquet, COMPRESSION zstd)")
        with refusals.explained(source, header):
            units = _bounded(partial, unit)
        refusals.check_units(source, unit, units, delta)
        partial.chmod(0o400)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
        staged.unlink(missing_ok=True)
    return Snapshot(path, schema, digest, units)


def storage_types(source: Source) -> Mapping[str, pa.DataType]:
    """Return column names and storage types, which are public; a CSV's types are detected from its rows.

    Raises:
        InvalidInput: if the source cannot be opened; the message holds no value.
    """
    header = refusals.header(source)
    with tempfile.TemporaryDirectory() as spill, _connection(Path(spill)) as con, refusals.explained(source, header):
        return _types(con, source, header)[0]


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


def _types(con: duckdb.DuckDBPyConnection, source: Source, header: refusals.Header) -> Stored:
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


def _open(con: duckdb.DuckDBPyConnection, source: Source, header: refusals.Header) -> Stored:
    spelled = spelling.Spelling()
    if source.attach is not None:
        con.execute(f"ATTACH {literal(source.attach)} AS source_db (READ_ONLY)")
    if source.table is not None:
        con.register(WHOLE, source.table)
    else:
        relation = source.relation
        if source.is_csv:
            read = dialect.reader(con, source, header)
            spelled = spelling.find(con, source, read, header.names)
            relation = read(spelled.text)
        con.execute(f"CREATE VIEW {WHOLE} AS SELECT *{spelled.replaced} FROM {relation}")
    refusals.check_filter(con, WHOLE, source.where)
    kept = f" WHERE ({source.where})" if source.where else ""
    con.execute(f"CREATE VIEW {stored.RAW} AS SELECT * FROM {WHOLE}{kept}")
    return stored.open_rows(con, source.parquet, source.table), spelled.formats


def _selection(schema: TableSchema, unit: PrivacyUnit) -> str:
    # Categories become text here, once, so that the profile and the codec spell each of them alike.
    columns = ", ".join(
        f"CAST({quoted(c.name)} AS VARCHAR) AS {quoted(c.name)}" if c.kind.named else quoted(c.name)
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
