"""A CSV as text: each record is one row, whose cells nobody has interpreted yet.

Column names and the delimiter come from the header line. Nothing is detected from the rows, so what becomes of one line
depends on no other. A line with another number of fields, or that is not UTF-8, is set aside. Quotes that do not close are
another matter: they take the lines that follow with them, so such a file is damaged and is not read at all.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path

import duckdb

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources.csv.header import Header
from dp_synth_pipeline.tabular.sql import literal

PINNED = (
    """auto_detect=false, header=true, skip=0, strict_mode=true, quote='"', escape='"', null_padding=false, comment='', """
    "ignore_errors=true, store_rejects=true, rejects_limit=0, parallel=false, hive_partitioning=false"
)
"""The dialect. One thread reads, since several would have to guess where lines begin behind one that is set aside."""

SET_ASIDE = ("TOO MANY COLUMNS", "MISSING COLUMNS", "INVALID ENCODING")
"""DuckDB's names for what is wrong with one line alone."""

LONGEST, CHUNK = 1 << 30, 1 << 20


def relation(files: str, header: Header) -> str:
    """Write the relation that reads a CSV's cells as text.

    Args:
        files: the quoted path or pattern.
    """
    columns = ", ".join(f"{literal(n)}: 'VARCHAR'" for n in header.names)
    return f"read_csv({files}, {PINNED}, delim={literal(header.delimiter)}, columns={{{columns}}})"


def check_quotes(files: Iterable[Path], header: Header) -> None:
    """Refuse files in which a quote does not close: DuckDB would leave out what follows, and say nothing.

    Raises:
        InvalidInput: naming the line.
    """
    limit = csv.field_size_limit(LONGEST)
    try:
        for file in filter(_is_quoted, files):
            opened = gzip.open if file.suffix == ".gz" else open
            with opened(file, "rt", encoding="latin-1", newline="") as lines:  # one character a byte, whatever it is
                records = csv.reader(lines, delimiter=header.delimiter, strict=True)
                try:
                    for _ in records:
                        pass
                except csv.Error:
                    raise _damaged(records.line_num) from None
    finally:
        csv.field_size_limit(limit)


def set_aside(con: duckdb.DuckDBPyConnection) -> int:
    """Return how many lines the connection has set aside while it read a CSV once; private.

    Raises:
        InvalidInput: if text follows a closing quote, or a line is longer than DuckDB can read, naming the line.
    """
    errors = ", ".join(map(literal, SET_ASIDE))
    ((lines, damaged),) = con.execute(
        f"SELECT count(DISTINCT (file_id, line)) FILTER (error_type IN ({errors})), "
        f"min(line) FILTER (error_type NOT IN ({errors})) FROM reject_errors"
    ).fetchall()
    if damaged is not None:
        raise _damaged(damaged)
    return lines


def _is_quoted(file: Path) -> bool:
    """Whether there is any quote in a file; of a compressed one, nobody knows before it is read."""
    if file.suffix == ".gz":
        return True
    with file.open("rb") as content:
        return any(b'"' in chunk for chunk in iter(lambda: content.read(CHUNK), b""))


def _damaged(line: int) -> InvalidInput:
    return InvalidInput(
        f"line {line} is not valid CSV: a quote in it does not close, or it is too long. Mend that line."
    )
