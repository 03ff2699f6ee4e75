"""Sources: CSV, Parquet and DuckDB tables read once, out of core, into an immutable Parquet snapshot.

A snapshot is restricted: it holds real rows, bounded per privacy unit, in a folder only its owner can open.
The checks here look at real rows too. They release nothing: a table that fails one is never trained on, and the message
goes to the person who pointed at it, without a value and without a count.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.schema import Kind, TableSchema

UNIT = "__privacy_unit"
"""The snapshot's column of dense unit numbers, when a unit is not a row."""

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
    """Where rows come from: a SQL relation, and a file that must exist for it."""

    uri: str
    relation: str
    file: Path | None = None
    table: pa.Table | None = None
    attach: str | None = None

    @property
    def is_csv(self) -> bool:
        """Whether the rows are text, so that storage types are detected."""
        return self.relation.startswith("read_csv")


def quoted(name: str) -> str:
    """Quote a column or table name for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


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
        return Source(uri, f"read_parquet({_text(path / '**' / '*.parquet')})")
    if not any(c in path.name for c in "*?["):
        if not path.is_file():
            raise InvalidInput(f"no such file: {uri}. Give a CSV or Parquet file, or duckdb:///file.duckdb?table=name.")
        if path.stat().st_size == 0:
            raise InvalidInput(f"{uri} is empty: it holds no header and no row.")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return Source(uri, f"read_parquet({_text(path)})", path)
    if suffix in (".csv", ".tsv", ".txt") or path.name.lower().endswith((".csv.gz", ".tsv.gz")):
        kinds = {n: "VARCHAR" for n, f in (declared or {}).items() if (f or {}).get("kind") == Kind.CATEGORY}
        types = ", types={" + ", ".join(f"{_text(n)}: {_text(t)}" for n, t in kinds.items()) + "}" if kinds else ""
        return Source(uri, f"read_csv({_text(path)}, header=true, strict_mode=true{types})", path)
    raise InvalidInput(f"{uri}: unknown kind of source. Give .csv, .parquet or duckdb:///file.duckdb?table=name.")


def _parse_duckdb(uri: str) -> Source:
    parts = urlsplit(uri)
    tables = parse_qs(parts.query).get("table")
    path = Path(parts.path[1:] if parts.path.startswith("//") else parts.path)
    if not path.is_file():  # duckdb:///relative.duckdb, as in SQLAlchemy URLs
        path = Path(parts.path.lstrip("/"))
    if not path.is_file():
        raise InvalidInput(f"no such DuckDB file in {uri}. The form is duckdb:///file.duckdb?table=schema.table.")
    if not tables:
        raise InvalidInput(f"{uri} names no table. The form is duckdb:///file.duckdb?table=schema.table.")
    name = ".".join(quoted(p) for p in tables[0].split("."))
    return Source(uri, f"source_db.{name}", path, attach=str(path))


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
    if source.is_csv and source.file is not None:
        _check_header(source.file)
    with _connection(path.parent) as con, _explained(source):
        _open(con, source)
        storage = {f.name: f.type for f in con.sql("SELECT * FROM source LIMIT 0").to_arrow_table().schema}
        schema = schema_lib.build(storage, declared, nulls=nulls, unit_column=unit.column, complete=complete)
        _check_rows(con, schema, source)
        digest = _digest(con, schema)
        partial = path.with_suffix(".partial")
        con.execute(f"COPY ({_selection(schema, unit)}) TO {_text(partial)} (FORMAT parquet, COMPRESSION zstd)")
        units = _count_units(con, partial, unit)
    if units < 2:
        partial.unlink()
        raise InvalidInput(f"{source.uri} holds one privacy unit only; a model of one person is not private.")
    if delta is not None and delta * units >= 1:
        partial.unlink()
        raise InvalidInput(
            f"delta={delta:g} is not below one over the number of units of this table, so it would allow the "
            f"publication of someone's row. Use delta auto, or a smaller one, such as 1e-6."
        )
    partial.chmod(0o400)
    os.replace(partial, path)
    return Snapshot(path, schema, digest, units)


@contextmanager
def _connection(folder: Path):
    con = duckdb.connect()
    try:
        con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
        con.execute("SET threads = 2")
        con.execute("SET preserve_insertion_order = false")
        con.execute(f"SET temp_directory = {_text(folder / 'spill')}")
        yield con
    finally:
        con.close()


def _open(con: duckdb.DuckDBPyConnection, source: Source) -> None:
    if source.attach is not None:
        con.execute(f"ATTACH {_text(source.attach)} AS source_db (READ_ONLY)")
    if source.table is not None:
        con.register("source", source.table)
    else:
        con.execute(f"CREATE VIEW source AS SELECT * FROM {source.relation}")


def _selection(schema: TableSchema, unit: PrivacyUnit) -> str:
    columns = ", ".join(quoted(c.name) for c in schema.learned)
    if unit.column is None:
        return f"SELECT {columns} FROM source"
    key = quoted(unit.column)
    # A null unit would be one unit for all rows without an owner; such rows are left out, row by row.
    shuffled = f"SELECT {columns}, {key} AS u, random() AS z FROM source WHERE {key} IS NOT NULL"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY z) AS r FROM ({shuffled})"
    bounded = f"SELECT * FROM ({ranked}) WHERE r <= {unit.max_rows}"
    return f"SELECT {columns}, dense_rank() OVER (ORDER BY u) - 1 AS {UNIT} FROM ({bounded}) ORDER BY {UNIT}"


def _count_units(con: duckdb.DuckDBPyConnection, path: Path, unit: PrivacyUnit) -> int:
    what = "count(*)" if unit.column is None else f"count(DISTINCT {UNIT})"
    return int(con.execute(f"SELECT {what} FROM read_parquet({_text(path)})").fetchall()[0][0])


def _digest(con: duckdb.DuckDBPyConnection, schema: TableSchema) -> str:
    row = ", ".join(quoted(c.name) for c in schema.learned)
    facts = con.execute(f"SELECT count(*), sum(hash({row})::HUGEINT), bit_xor(hash({row}, 1)) FROM source").fetchall()
    names = [(c.name, c.storage) for c in schema.learned]
    return hashlib.sha256(repr((names, facts)).encode()).hexdigest()


def _check_header(path: Path) -> None:
    opened = __import__("gzip").open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
    try:
        names = next(csv.reader([first], csv.Sniffer().sniff(first, ",;\t|")))
    except (csv.Error, StopIteration):
        names = [first.strip()]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InvalidInput(f"duplicate column name {twice[0]!r} in the header of {path.name}; rename one of the two.")
    if any(not n.strip() for n in names):
        raise InvalidInput(f"a column of {path.name} has no name; the first line must name every column.")


def _check_rows(con: duckdb.DuckDBPyConnection, schema: TableSchema, source: Source) -> None:
    """Refuse tables that cannot be synthesized honestly; see the messages for the list."""
    asked = ["count(*)"]
    for column in schema.learned:
        name = quoted(column.name)
        floating = pa.types.is_floating(column.arrow_type)
        text = pa.types.is_string(column.arrow_type) and column.categories is None
        asked += [
            f"count({name})",
            f"count(*) FILTER (WHERE NOT isfinite({name}))" if floating else "0",
            f"approx_count_distinct({name})" if text else "0",
            f"count(TRY_CAST({name} AS DOUBLE))" if text and source.is_csv else "0",
        ]
    rows, *facts = con.execute(f"SELECT {', '.join(asked)} FROM source").fetchall()[0]
    if rows == 0:
        raise InvalidInput(f"{source.uri} has columns but no rows; there is nothing to learn.")
    if rows == 1:
        raise InvalidInput(f"{source.uri} has one row only; a model of one row is not private.")
    for i, column in enumerate(schema.learned):
        filled, infinite, distinct, numbers = facts[4 * i : 4 * i + 4]
        _check_column(con, column.name, rows, filled, infinite, distinct, numbers)


def _check_column(
    con: duckdb.DuckDBPyConnection, name: str, rows: int, filled: int, infinite: int, distinct: int, numbers: int
) -> None:
    leave_out = f"leave it out (--exclude {name}, or in YAML: columns: {{{name}: {{kind: excluded}}}})"
    if filled == 0:
        raise InvalidInput(f"column {name!r} holds only nulls; {leave_out}.")
    if infinite:
        raise InvalidInput(f"column {name!r} holds infinite or NaN numbers; write them as nulls, or {leave_out}.")
    if 0 < numbers < filled and numbers >= 0.5 * filled:
        raise InvalidInput(
            f"column {name!r} mixes numbers and text; clean it, or declare it: columns: {{{name}: {{kind: category}}}}."
        )
    if filled >= 20 and distinct >= 0.9 * filled:
        exact = con.execute(f"SELECT count(DISTINCT {quoted(name)}) FROM source").fetchall()[0][0]
        if exact == filled:
            raise InvalidInput(
                f"column {name!r} is text that never repeats, so nothing in it can be published privately; {leave_out}, "
                f"or declare it as an identifier to have it numbered anew."
            )


@contextmanager
def _explained(source: Source):
    """Turn DuckDB's errors, which quote values, into ours, which do not."""
    try:
        yield
    except duckdb.ConversionException as error:
        column = re.search(r'column (?:name )?"?([^"\n]+?)"? *(?:\n|is being|:)', str(error), re.IGNORECASE)
        raise InvalidInput(_mixed(column.group(1).strip() if column else None)) from None
    except duckdb.OutOfMemoryException:
        raise InvalidInput("the disk or memory is full while reading the source; free some space.") from None
    except duckdb.IOException as error:
        full = "No space left" in str(error)
        what = "the disk is full" if full else "the source cannot be opened: it is locked, damaged or of another format"
        raise InvalidInput(f"{source.uri}: {what}. Nothing was charged.") from None
    except duckdb.CatalogException:
        raise InvalidInput(f"{source.uri}: no such table in this DuckDB file.") from None
    except duckdb.InvalidInputException as error:
        raise InvalidInput(_csv_problem(source, str(error))) from None
    except duckdb.Error as error:
        raise InvalidInput(
            f"{source.uri} cannot be read ({type(error).__name__}). Check its format; the details are withheld because "
            f"they may quote values."
        ) from None


def _mixed(column: str | None) -> str:
    if column is None:
        return "a column mixes types; clean it, or declare it as a category: columns: {NAME: {kind: category}}."
    return f"column {column!r} mixes types; clean it, or declare it: columns: {{{column}: {{kind: category}}}}."


def _csv_problem(source: Source, message: str) -> str:
    line = re.search(r"Line:? *(\d+)", message)
    where = f"line {line.group(1)} of {source.uri}" if line else source.uri
    if re.search(r"Could not convert|Conversion", message):
        column = re.search(r'[Cc]olumn(?: name)?:? *"?([^"\n]+?)"? *(?:\n|is being)', message)
        return _mixed(column.group(1).strip() if column else None)
    return f"{where} is not valid CSV: wrong number of fields, quotes or encoding. Mend that line and run again."
