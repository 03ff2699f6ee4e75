"""Names and texts, quoted for DuckDB."""

from __future__ import annotations


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
