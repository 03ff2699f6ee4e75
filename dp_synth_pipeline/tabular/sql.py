"""Names and texts, quoted for DuckDB, and columns as DuckDB should read them."""

from __future__ import annotations

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
