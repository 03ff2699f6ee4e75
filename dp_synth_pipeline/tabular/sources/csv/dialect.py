"""How DuckDB reads a CSV: a pinned dialect, and storage types that all of its rows agree on."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from dp_synth_pipeline.tabular.sources.csv.declared import DeclaredCells
from dp_synth_pipeline.tabular.sources.csv.header import Header
from dp_synth_pipeline.tabular.sources.csv.words import Read
from dp_synth_pipeline.tabular.sql import literal

PINNED = """header=true, skip=0, strict_mode=true, quote='"', escape='"', null_padding=false, comment=''"""
"""A dialect guessed from damaged lines would skip rows in silence; the delimiter comes from the header."""

PLAIN = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "TIME")
"""Types that are pinned once they are known; dates are not, since DuckDB finds them together with their format."""


def reader(con: duckdb.DuckDBPyConnection, relation: str, cells: DeclaredCells, header: Header) -> Read:
    """Detect the types of a CSV's columns from all rows of all files, and return what reads it with some as text.

    DuckDB alone would look at 20,480 rows, and stop at the first later one that its guess does not fit.
    """
    declared = {**dict.fromkeys(cells.durations, "INTERVAL"), **dict.fromkeys(cells.text, "VARCHAR")}
    described = con.execute(f"DESCRIBE SELECT * FROM {_typed(relation, header, declared, 'sample_size=-1')}").fetchall()
    types = {name: sql_type for name, sql_type, *_ in described if sql_type in PLAIN} | declared

    def read(text: Iterable[str]) -> str:
        return _typed(relation, header, {**types, **dict.fromkeys(text, "VARCHAR")})

    return read


def _typed(relation: str, header: Header, types: dict[str, str], *more: str) -> str:
    pairs = [f"{literal(n)}: '{sql_type}'" for n, sql_type in types.items() if n in header.names]
    columns = [f"types={{{', '.join(pairs)}}}"] if pairs else []
    options = ", ".join([f"delim={literal(header.delimiter)}", *columns, *more])
    return f"{relation.removesuffix(')')}, {options})"
