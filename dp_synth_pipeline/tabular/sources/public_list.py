"""Categories from a public table, such as a code list or a register: `categories: {from: icd10.parquet, column: code}`.

Whoever names the table declares that it is public. So it is read in full, at no charge, and every value in it may be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.declarable import COLUMN, FILTER, FROM
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources.place import same_place
from dp_synth_pipeline.tabular.sources.source import parse
from dp_synth_pipeline.tabular.sources.warehouse.address import shown

MOST = 100_000
"""Values of one list, at most: each is a cell of the column's noisy histogram."""


def addresses(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return where the public lists of declared columns lie, by column."""
    named = {n: facts.get("categories") for n, facts in columns.items() if isinstance(facts, Mapping)}
    return {name: str(of[FROM]) for name, of in named.items() if isinstance(of, Mapping) and FROM in of}


def check_public(columns: Mapping[str, Any], private: Iterable[str]) -> None:
    """Refuse lists that lie where private rows do, and addresses with a secret, which every card would show.

    Args:
        private: addresses of tables whose rows are protected; empty ones are none.
    """
    for name, uri in addresses(columns).items():
        if any(same_place(uri, rows) for rows in private if rows):
            raise InvalidInput(
                f"columns.{name}.categories: from: it holds the rows that are to be protected, whose values are not public. "
                f"Name a public table, or leave categories out to have them measured."
            )
        if shown(uri) != uri:
            raise InvalidInput(
                f"columns.{name}.categories: from: its address names a user or a password, and cards show what is public. "
                f"Copy the list into a CSV or Parquet file."
            )


def resolved(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return declared facts with the values of public lists in place of the lists' addresses.

    Raises:
        InvalidInput: if a list cannot be read, lacks its column, or holds no value or too many.
    """
    found = dict(columns)
    for name, uri in addresses(columns).items():
        try:
            listed = columns[name]["categories"]
            found[name] = {**columns[name], "categories": values(uri, listed.get(COLUMN), listed.get(FILTER))}
        except InvalidInput as error:
            raise InvalidInput(f"columns.{name}.categories: {error}") from None
    return found


def values(uri: str, column: str | None = None, where: str | None = None) -> list[str]:
    """Return the distinct values of one column of a public table as text, sorted; nulls and empty cells are none.

    Args:
        uri: as a source's: a CSV or Parquet file, or a table of a warehouse.
        column: its name; a table of one column needs none.
        where: SQL predicate of one row's columns; only such rows are read.
    """
    source = parse(uri, where=where)
    names = list(ingestion.column_types(source))
    if column is None and len(names) > 1:
        raise InvalidInput(f"{shown(uri)} has several columns: {', '.join(names)}. Name one: column: {names[0]}.")
    column = column or names[0]
    if column not in names:
        raise InvalidInput(
            f"{shown(uri)} has no column {column!r}; it has: {', '.join(names)}.{nearest(column, names)}"
        )
    declared = {name: {"kind": "category" if name == column else "excluded"} for name in names}
    with TemporaryDirectory() as folder:
        taken = ingestion.snapshot(source, Path(folder) / "list.parquet", declared=declared)
        cells = pq.read_table(taken.path, columns=[column])[column].unique()
    found = sorted(value for value in cells.to_pylist() if value not in (None, ""))
    if not 0 < len(found) <= MOST:
        raise InvalidInput(f"{shown(uri)}: column {column!r} holds {len(found):,} values; expected 1 to {MOST:,}.")
    return found
