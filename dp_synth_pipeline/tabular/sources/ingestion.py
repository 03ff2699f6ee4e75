"""Copies a source, read once and out of core, into an immutable Parquet snapshot with a bound on each unit's rows.

A snapshot is restricted: it holds real rows, in a folder only its owner can open. `opened` looks at what is public: names,
storage types, whether the filter can be applied. Only `Opened.copy` reads rows, and it refuses none of them: what a column
cannot hold is a null, row by row. The cells of a CSV stay text until their types are known, by declaration or by
`profiling.types`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import offsets, recognition
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import source_validation, stored
from dp_synth_pipeline.tabular.sources.csv import declared as declared_cells
from dp_synth_pipeline.tabular.sources.csv import text, words
from dp_synth_pipeline.tabular.sources.csv.declared import Untyped
from dp_synth_pipeline.tabular.sources.csv.values import CellType, storage_type
from dp_synth_pipeline.tabular.sources.header import header_of
from dp_synth_pipeline.tabular.sources.source import Source
from dp_synth_pipeline.tabular.sources.units import bound_rows, key_of
from dp_synth_pipeline.tabular.sources.warehouse import engines, predicate
from dp_synth_pipeline.tabular.sql import keep_order, literal, one_file, quoted

UNIT = "__privacy_unit"
"""The snapshot's column of dense unit numbers, when a unit is not a row."""

KEY_OF = "__key_"
"""How columns of a snapshot begin that hold the keys of related tables, as bytes."""

KEY = "__privacy_unit_key"
"""The units' own names, in the sorted copy that is bounded and then deleted."""

WHOLE = "source_unfiltered"
"""The source as DuckDB reads it, before the declared filter."""

MEMORY_LIMIT = "768MB"
"""What DuckDB may hold before it spills to disk beside the snapshot."""


@dataclass(frozen=True)
class Snapshot:
    """A restricted copy of the source.

    Attributes:
        path: the Parquet file, readable by its owner only.
        schema: the source's schema, with what a person declared; columns of `untyped` are text in it.
        digest: order-independent SHA-256 of the rows. Private, and so is whether it equals another one.
        units: the exact number of privacy units. Private: publish it only noised.
        untyped: the columns of a CSV whose types must be measured.
        set_aside: how many lines of a CSV were set aside, where a line is a unit and the source has no filter; else None,
            since it cannot be told whose lines they are. Private: publish it only noised.
    """

    path: Path
    schema: TableSchema
    digest: str
    units: int
    untyped: tuple[str, ...] = ()
    set_aside: int | None = None


class Reading(TypedDict, total=False):
    """How a source is read.

    Attributes:
        declared: column name to declared facts, as `schema.build` takes them.
        nulls, other: the table's policies, for columns that declare none.
        unit: the privacy unit; a row without it.
        complete: whether `declared` must name every column of the source.
        types: what the cells of a CSV's undeclared columns are, where it is known already.
        kept: columns that stay what they are, whatever their names say; without it no column is recognised by its name.
        locale: of made-up names and numbers, for columns that declare none.
        keys: columns by which rows of related tables belong to each other; the snapshot has them too, as bytes.
    """

    declared: Mapping[str, Mapping[str, Any] | None] | None
    nulls: str
    other: str
    unit: PrivacyUnit
    complete: bool
    types: Mapping[str, CellType]
    kept: Collection[str]
    locale: str
    keys: Collection[str]


def snapshot(source: Source, path: Path, **reading: Unpack[Reading]) -> Snapshot:
    """Open a source and copy it.

    Raises:
        InvalidInput: as `opened` and `Opened.copy` do; the message holds no value.
    """
    with opened(source, path.parent, **reading) as table:
        return table.copy(path)


@contextmanager
def opened(source: Source, folder: Path, **reading: Unpack[Reading]) -> Iterator[Opened]:
    """Open a source and look at what is public of it; no row is read.

    Args:
        folder: where DuckDB may spill what it cannot hold; it is as restricted as a snapshot.

    Raises:
        InvalidInput: if the source cannot be opened, its columns are not those declared, or its filter cannot be applied.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _connection(folder) as con:
        with source_validation.explained(source):
            table = _csv(con, source, reading) if source.is_csv else _stored(con, source, reading)
        yield table


class Opened:
    """A source of which only public facts are known so far.

    Attributes:
        schema: its columns; those whose types must be measured are text.
        untyped: the names of these.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        source: Source,
        schema: TableSchema,
        unit: PrivacyUnit,
        cells: Mapping[str, CellType | Untyped] | None = None,
        keys: Collection[str] = (),
    ) -> None:
        self._con, self._source, self._unit, self._cells = con, source, unit, cells or {}
        self._keys = tuple(keys)
        self.schema = schema
        self.untyped = tuple(c.name for c in schema.learned if isinstance(self._cells.get(c.name), Untyped))

    def copy(self, path: Path) -> Snapshot:
        """Copy the rows that the filter keeps into a Parquet file with at most `max_rows` rows per unit.

        Rows of a unit beyond `max_rows` are left out uniformly at random, with fresh randomness. Rows with keys keep the
        order of their source, if it has one, and else come in a random one.

        Raises:
            InvalidInput: if the source cannot be read to its end. Whoever may see rows may see the message; it says which.
        """
        partial, staged = path.with_suffix(".partial"), path.with_suffix(".staged")
        try:
            with source_validation.explained(self._source):
                if self._keys:
                    keep_order(self._con)
                set_aside, digest = self._stage(staged)
                query = _selection(self.schema, self._unit, self._keys)
                if self._keys and not self._source.ordered:
                    query += " ORDER BY random()"
                self._con.execute(f"COPY ({query}) TO {literal(partial)} (FORMAT parquet, COMPRESSION zstd)")
                units = _bounded(partial, self._unit)
                offsets.write_offsets(partial, self.schema)
            partial.chmod(0o400)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
            staged.unlink(missing_ok=True)
        return Snapshot(path, self.schema, digest, units, self.untyped, set_aside)

    def _stage(self, staged: Path) -> tuple[int | None, str]:
        """Make the view of typed rows; return how many lines were set aside, if that may be told, and the digest."""
        con, source = self._con, self._source
        if source.is_csv:
            set_aside = self._stage_text(staged)
            digest = _digest(con, self.schema, stored.TEXT)
            learned = {c.name for c in self.schema.learned}
            columns = ", ".join(
                f"{_value(self._cells, n) if n in learned else words.key(quoted(n))} AS {quoted(n)}"
                for n in _needed(self.schema, self._unit, self._keys)
            )
            con.execute(f"CREATE VIEW {stored.RAW} AS SELECT {columns} FROM {stored.TEXT}")
            stored.open_rows(con, [], None)
            return set_aside, digest
        files, table = source.parquet, source.table
        if source.warehouse is not None:
            files, table = [staged], None
            engines.stage(source.warehouse, _needed(self.schema, self._unit, self._keys), source.where, staged)
            con.execute(f"CREATE VIEW {stored.RAW} AS SELECT * FROM read_parquet({one_file(staged)})")
            stored.open_rows(con, files, table)
        if self._cells:
            stored.read_texts(con, _typed(self._cells), files, table)
        return None, _digest(con, self.schema, stored.ROWS)

    def _stage_text(self, staged: Path) -> int | None:
        """Copy a CSV's cells as they stand, of the rows that the filter keeps, and of the columns that are needed."""
        con, where = self._con, self._source.where
        text.check_quotes(self._source.csv, header_of(self._source))
        names = _needed(self.schema, self._unit, self._keys)
        columns = ", ".join(f"{quoted(n)}" for n in names)
        if where is not None:  # the filter sees declared columns as what they are, beside the text that is copied
            kept = ", ".join(f"{quoted(n)} AS {quoted(f'{UNIT}_text_{i}')}" for i, n in enumerate(names))
            typed = f"SELECT *{_typed(self._cells)}, {kept} FROM {WHOLE}"
            columns = ", ".join(f"{quoted(f'{UNIT}_text_{i}')} AS {quoted(n)}" for i, n in enumerate(names))
            query = f"SELECT {columns} FROM ({typed}) WHERE {predicate.row_by_row(where)}"
        else:
            query = f"SELECT {columns} FROM {WHOLE}"
        con.execute(f"COPY ({query}) TO {literal(staged)} (FORMAT parquet, COMPRESSION zstd)")
        lines = text.set_aside(con)
        con.execute(f"CREATE VIEW {stored.TEXT} AS SELECT * FROM read_parquet({one_file(staged)})")
        return lines if where is None and self._unit.column is None else None


def copy_public(source: Source, path: Path) -> None:
    """Copy a public table whole into a Parquet file, in the order of its source; the cells of a CSV stay text.

    Raises:
        InvalidInput: if it cannot be opened, or not be read to its end.
    """
    with tempfile.TemporaryDirectory() as spill, _connection(Path(spill)) as con, source_validation.explained(source):
        if source.warehouse is not None:
            engines.stage(source.warehouse, list(source.warehouse.types()), source.where, path)
            return
        if source.is_csv:
            header = header_of(source)
            cells = ", ".join(f"NULLIF(trim({quoted(name)}), '') AS {quoted(name)}" for name in header.names)
            kept = f" WHERE {predicate.row_by_row(source.where)}" if source.where else ""
            query = f"SELECT {cells} FROM {text.relation(source.relation, header)}{kept}"
        else:
            _storage(con, source)
            query = f"SELECT * FROM {stored.RAW}"
        keep_order(con)
        con.execute(f"COPY ({query}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")


def column_types(source: Source) -> Mapping[str, pa.DataType | None]:
    """Return column names and storage types, which are public; None for the types of a CSV, since no schema says them.

    Raises:
        InvalidInput: if the source cannot be opened; the message holds no value.
    """
    if source.is_csv:
        return dict.fromkeys(header_of(source).names)
    with tempfile.TemporaryDirectory() as spill, _connection(Path(spill)) as con, source_validation.explained(source):
        return _storage(con, source)


def typed(
    taken: Path, schema: TableSchema, types: Mapping[str, CellType], path: Path, numbers: Sequence[str] = (UNIT,)
) -> None:
    """Write a snapshot whose text columns have the types that were measured; what does not fit becomes a null.

    Each row is handled by itself, by released types, so this costs nothing.

    Args:
        taken: the snapshot with text.
        schema: the table's schema with the types.
        types: what the cells of these columns are.
        numbers: columns that no source has and that are copied if they are there: a row's unit, say.
    """
    partial = path.with_suffix(".partial")
    try:
        with _connection(path.parent) as con:
            keep_order(con)  # rows of one unit follow each other
            con.execute(f"CREATE VIEW {WHOLE} AS SELECT * FROM read_parquet({one_file(taken)})")
            con.execute(f"CREATE VIEW {stored.RAW} AS SELECT *{_typed(types)} FROM {WHOLE}")
            stored.open_rows(con, [], None)
            found = pq.ParquetFile(taken).schema_arrow.names
            more = "".join(f", {name}" for name in numbers if name in found)
            query = f"{_columns(schema)}{more} FROM {stored.ROWS}"
            con.execute(f"COPY ({query}) TO {literal(partial)} (FORMAT parquet, COMPRESSION zstd)")
        offsets.write_offsets(partial, schema)
        partial.chmod(0o400)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def typed_schema(names: Mapping[str, CellType | Untyped], reading: Reading) -> TableSchema:
    """Return the schema of a CSV whose columns are these, in their order; columns yet to be measured are text."""
    known = {n: c for n, c in names.items() if isinstance(c, CellType)}
    facts = _facts(dict.fromkeys(names), reading)
    declared = {n: None if n in names and n not in known else _of_known(f, names, known) for n, f in facts.items()}
    policy = reading.get("nulls", "keep")
    return schema_lib.build(
        {n: storage_type(known[n].sql) if n in known else pa.string() for n in names},
        declared,
        nulls=policy if len(known) == len(names) else "keep",
        other=reading.get("other", "drop"),
        unit_column=reading.get("unit", PrivacyUnit()).column,
        complete=reading.get("complete", False),
        formats={n: c.format for n, c in known.items() if c.format is not None},
    )


def _of_known(facts: Mapping[str, Any] | None, names: Collection[str], known: Collection[str]) -> Any:
    """Return a column's facts without the column that it hangs on while the type of that one is not known."""
    unknown = {n for n in names if n not in known}
    return facts and {k: v for k, v in facts.items() if k not in offsets.HANGS or v not in unknown}


def cells_of(names: tuple[str, ...], reading: Reading) -> dict[str, CellType | Untyped]:
    """Return what the cells of a CSV's columns are, or what must be measured of them."""
    declared, types = _facts(dict.fromkeys(names), reading), reading.get("types") or {}
    unit = reading.get("unit", PrivacyUnit()).column
    found: dict[str, CellType | Untyped] = {}
    for name in names:
        facts = dict(declared.get(name) or {})
        if name == unit:
            facts.setdefault("kind", "identifier")
        found[name] = declared_cells.cell_type(name, facts)
        if isinstance(found[name], Untyped):
            found[name] = types.get(name, found[name])
    return found


def _facts(storage: Mapping[str, pa.DataType | None], reading: Reading) -> dict[str, Mapping[str, Any] | None]:
    """Return what is declared of a source's columns, and what was recognised."""
    return recognition.declared_with(
        reading.get("declared"),
        storage,
        kept=reading.get("kept"),
        unit=reading.get("unit", PrivacyUnit()).column,
        locale=reading.get("locale"),
        complete=reading.get("complete", False),
    )


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


def _csv(con: duckdb.DuckDBPyConnection, source: Source, reading: Reading) -> Opened:
    header = header_of(source)
    cells = cells_of(header.names, reading)
    schema = typed_schema(cells, reading)
    con.execute(f"CREATE VIEW {WHOLE} AS SELECT * FROM {text.relation(source.relation, header)}")
    source_validation.check_order(source.where, _open(cells))
    source_validation.check_filter(con, f"(SELECT *{_typed(cells)} FROM {WHOLE})", source.where)
    return Opened(con, source, schema, reading.get("unit", PrivacyUnit()), cells, reading.get("keys", ()))


def _stored(con: duckdb.DuckDBPyConnection, source: Source, reading: Reading) -> Opened:
    unit, storage = reading.get("unit", PrivacyUnit()), _storage(con, source)
    facts = _facts(storage, reading)
    cells = declared_cells.of_texts(storage, facts)
    schema = schema_lib.build(
        {**storage, **{name: storage_type(cell.sql) for name, cell in cells.items()}},
        facts,
        nulls=reading.get("nulls", "keep"),
        other=reading.get("other", "drop"),
        unit_column=unit.column,
        complete=reading.get("complete", False),
    )
    if source.warehouse is not None and source.where is not None:  # a wrong filter is told before a row is read
        with source.warehouse.read(_needed(schema, unit, reading.get("keys", ())), f"({source.where}) AND 1 = 0"):
            pass
    return Opened(con, source, schema, unit, cells, reading.get("keys", ()))


def _storage(con: duckdb.DuckDBPyConnection, source: Source) -> Mapping[str, pa.DataType]:
    """Return the storage types of all columns. The view `source` is open then, unless a warehouse must be staged first."""
    if source.warehouse is not None:
        return source.warehouse.types()
    header_of(source)  # refuses names that DuckDB would change
    if source.attach is not None:
        con.execute(f"ATTACH {literal(source.attach)} AS source_db (READ_ONLY)")
    if source.table is not None:
        con.register(WHOLE, source.table)
    else:
        con.execute(f"CREATE VIEW {WHOLE} AS SELECT * FROM {source.relation}")
    source_validation.check_filter(con, WHOLE, source.where)
    kept = f" WHERE {predicate.row_by_row(source.where)}" if source.where else ""
    con.execute(f"CREATE VIEW {stored.RAW} AS SELECT * FROM {WHOLE}{kept}")
    return stored.open_rows(con, source.parquet, source.table)


def _needed(schema: TableSchema, unit: PrivacyUnit, keys: Collection[str]) -> list[str]:
    """Return the columns that are read: the learned ones, the unit's and the keys; the others never leave a source."""
    learned = [c.name for c in schema.learned]
    return list(dict.fromkeys([*learned, *([] if unit.column is None else [unit.column]), *keys]))


def _typed(cells: Mapping[str, CellType | Untyped]) -> str:
    """Write what follows `SELECT *` so that text columns of which anything is declared hold values."""
    known = {n: c if isinstance(c, CellType) else c.otherwise for n, c in cells.items()}
    values = ", ".join(f"{c.value(n)} AS {quoted(n)}" for n, c in known.items() if c != CellType())
    return f" REPLACE ({values})" if values else ""


def _open(cells: Mapping[str, CellType | Untyped]) -> set[str]:
    """Return the columns that a filter sees as text though nobody declared that they are."""
    return {n for n, c in cells.items() if isinstance(c, Untyped) and c.otherwise == CellType()}


def _value(cells: Mapping[str, CellType | Untyped], name: str) -> str:
    cell_type = cells[name]
    return cell_type.value(name) if isinstance(cell_type, CellType) else quoted(name)


def _columns(schema: TableSchema) -> str:
    # Categories become text here, once, so that the profile and the codec spell each of them alike.
    columns = ", ".join(
        f"CAST({quoted(c.name)} AS VARCHAR) AS {quoted(c.name)}"
        if c.kind.categorical or c.kind.composed
        else quoted(c.name)
        for c in schema.learned
    )
    return f"SELECT {columns}"


def _selection(schema: TableSchema, unit: PrivacyUnit, keys: Collection[str]) -> str:
    if unit.column is None:
        more = "".join(f", {key_of(name)} AS {quoted(KEY_OF + name)}" for name in keys)
        return f"{_columns(schema)}{more} FROM {stored.ROWS}"
    # Without a key, all rows that have no owner would be one unit; such rows are left out, row by row.
    key = key_of(unit.column)
    return f"{_columns(schema)}, {key} AS {KEY} FROM {stored.ROWS} WHERE {key} IS NOT NULL ORDER BY {KEY}, random()"


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


def _digest(con: duckdb.DuckDBPyConnection, schema: TableSchema, view: str) -> str:
    row = ", ".join(quoted(c.name) for c in schema.learned)
    facts = con.execute(f"SELECT count(*), sum(hash({row})::HUGEINT), bit_xor(hash({row}, 1)) FROM {view}").fetchall()
    names = [(c.name, "text" if view == stored.TEXT else c.storage) for c in schema.learned]
    return hashlib.sha256(repr((names, facts)).encode()).hexdigest()
