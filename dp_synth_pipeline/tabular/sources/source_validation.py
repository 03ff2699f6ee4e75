"""What makes a source unusable, told without quoting a value.

What is public (a missing file or table, a wrong password, a filter that names no column) is refused before a row is read.
What fails once rows are read is told to the owner of the restricted folder, who may see rows, and to nobody else: see
`synthesis.stages.Ingestion`. No message here holds a value.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import duckdb

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.sources.source import Source
from dp_synth_pipeline.tabular.sources.warehouse import predicate
from dp_synth_pipeline.tabular.sql import quoted


def check_order(where: str | None, undeclared: Collection[str]) -> None:
    """Refuse a filter, or a partition's window, that compares columns of a CSV by order of which nobody said what they are.

    As text, `9:05` comes after `10:00`, and `02.01.2024` after `01.12.2024`.

    Args:
        undeclared: the columns that the filter would see as text.
    """
    ordered = {n.lower() for n in predicate.ordered_columns(where)} if where is not None else set()
    names = sorted(n for n in undeclared if n.lower() in ordered)
    if names:
        raise InvalidInput(
            f"filter: it compares {', '.join(names)} by order, and nobody declared what this CSV holds in it; declare it, "
            f"as in columns: {{{names[0]}: {{kind: integer}}}} or, for a date, {{format: '%Y-%m-%d'}}. Nothing was charged."
        )


def check_filter(con: duckdb.DuckDBPyConnection, relation: str, where: str | None) -> None:
    """Refuse a filter that DuckDB cannot apply to this relation; the filter is public, DuckDB's words are not repeated."""
    try:
        if where is not None:
            con.execute(f"SELECT * FROM {relation} WHERE ({where}) LIMIT 0").fetchall()
    except duckdb.Error as error:
        raise InvalidInput(
            f"filter: DuckDB cannot apply it to this source ({type(error).__name__}); check the names of its columns and "
            f"the types of its literals. In a CSV, columns of which no kind is declared are text: declare those that the "
            f"filter compares with numbers or dates."
        ) from None


def check_filter_names(where: str, names: Sequence[str]) -> None:
    """Refuse a filter for DuckDB that reads a column which a source of these columns does not have; no source is opened."""
    columns = ", ".join(f"NULL AS {quoted(name)}" for name in names)
    try:
        with duckdb.connect() as con:
            con.execute(f"SELECT 1 FROM (SELECT {columns}) WHERE ({where}) LIMIT 0")
    except duckdb.Error as error:  # of types, it is told when the source is opened
        if missing := re.search(r'Referenced column "(.+?)" not found', str(error)):
            raise InvalidInput(
                f"filter: there is no column {missing[1]!r}; the source has: {', '.join(names)}.{nearest(missing[1], names)}"
            ) from None


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Turn DuckDB's errors, which quote values, into ours, which do not."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise InvalidInput("the disk or memory is full while reading the source; free some space.") from None
    except duckdb.IOException as error:
        full = "No space left" in str(error)
        what = "the disk is full" if full else "the source cannot be opened: it is locked, damaged or of another format"
        raise InvalidInput(f"{source.uri}: {what}. Nothing was charged.") from None
    except duckdb.CatalogException:
        raise InvalidInput(f"{source.uri}: no such table in this DuckDB file.") from None
    except duckdb.InvalidInputException:
        raise InvalidInput(f"{source.uri} cannot be read: it is damaged, or not what its name says.") from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise InvalidInput(f"{source.uri}: the disk is full. Free some space; nothing was charged.") from None
    except duckdb.Error as error:
        raise InvalidInput(
            f"{source.uri} cannot be read ({type(error).__name__}). Check its format; the details are withheld because "
            f"they may quote values."
        ) from None
