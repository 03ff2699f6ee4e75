"""How DuckDB reads a CSV: a pinned dialect, and storage types that all of its rows agree on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import duckdb

from dp_synth_pipeline.tabular.sql import literal
from dp_synth_pipeline.tabular.words import Read

if TYPE_CHECKING:
    from dp_synth_pipeline.tabular.refusals import Header
    from dp_synth_pipeline.tabular.source import Source

PINNED = """header=true, skip=0, strict_mode=true, quote='"', escape='"', null_padding=false, comment=''"""
"""A dialect guessed from damaged lines would skip rows in silence; the delimiter comes from the header."""

PLAIN = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "TIME")
"""Types that are pinned once they are known; dates are not, since DuckDB finds them together with their format."""


def reader(con: duckdb.DuckDBPyConnection, source: Source, header: Header) -> Read:
    """Detect the types of a CSV's columns from all rows of all files, and return what reads it with some as text.

    DuckDB alone would look at 20,480 rows, and stop at the first later one that its guess does not fit.
    """
    told = {**dict.fromkeys(source.durations, "INTERVAL"), **dict.fromkeys(source.text, "VARCHAR")}
    described = con.execute(f"DESCRIBE SELECT * FROM {_relation(source, header, told, 'sample_size=-1')}").fetchall()
    known = {name: kind for name, kind, *_ in described if kind in PLAIN} | told

    def read(text: Iterable[str]) -> str:
        return _relation(source, header, {**known, **dict.fromkeys(text, "VARCHAR")})

    return read


def _relation(source: Source, header: Header, types: dict[str, str], *more: str) -> str:
    pairs = [f"{literal(n)}: '{kind}'" for n, kind in types.items() if n in header.names]
    typed = [f"types={{{', '.join(pairs)}}}"] if pairs else []
    options = ", ".join([f"delim={literal(header.delimiter)}", *typed, *more])
    return f"{source.relation.removesuffix(')')}, {options})"
