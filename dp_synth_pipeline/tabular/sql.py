"""Names and texts, quoted for DuckDB, columns as it should read them, and a connection that keeps rows where they are."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa


def quoted(name: str) -> str:
    """Quote a column or table name.

    Example:
        >>> print(quoted('a "b" c'))
        "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Write a text, such as a path, as an SQL literal.

    Example:
        >>> print(literal("it's"))
        'it''s'
    """
    return "'" + str(value).replace("'", "''") + "'"


def one_file(path: object) -> str:
    """Write the path of one file for DuckDB, which takes `[1]`, `*` and `?` in a path for patterns of other files' names.

    Example:
        >>> print(one_file("data[1].csv"))
        'data[[]1].csv'
    """
    return literal("".join(f"[{c}]" if c in "[*?" else c for c in str(path)))


def readable(schema: pa.Schema) -> str:
    """List the columns of a Parquet file for a SELECT, with durations as intervals: DuckDB reads bare integers.

    Example:
        >>> readable(pa.schema([("a", pa.int8()), ("took", pa.duration("us"))]))
        '"a", to_microseconds("took") AS "took"'
    """
    return ", ".join(
        f"to_microseconds({quoted(f.name)}) AS {quoted(f.name)}" if pa.types.is_duration(f.type) else quoted(f.name)
        for f in schema
    )


def keep_order(con: duckdb.DuckDBPyConnection) -> None:
    """Have a connection write rows in the order in which it reads them.

    Where two threads compute and write row groups of Parquet, DuckDB 2.0 now and then swaps two, whatever
    `preserve_insertion_order` says. What an ORDER BY sorts is written in that order by any number of threads.
    """
    con.execute("SET threads = 1")
    con.execute("SET preserve_insertion_order = true")


def connection_beside(restricted: Path) -> duckdb.DuckDBPyConnection:
    """Open DuckDB to read a restricted file. Rows that do not fit into memory spill beside that file, and nowhere else.

    By itself DuckDB spills into `.tmp` of whatever folder the run was started in, in files that everybody can read.
    """
    con = duckdb.connect()
    con.execute("SET threads = 2")
    con.execute("SET memory_limit = '768MB'")
    con.execute(f"SET temp_directory = {literal(restricted.parent / 'spill')}")
    return con
