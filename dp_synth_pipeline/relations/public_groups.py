"""What a public table says of the keys that rows refer to, modelled beside these: in which region a hospital is.

A key has too many values for a model to learn who has which. Few groups of them are learnt better, and a row's group is
drawn before its key, which is then one of that group. Nothing of it is private: a key tells its group in a public table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.storage import is_text

FEWEST_KEYS = 13
"""Keys from which on they are grouped: as many codes more than a model tells apart of other rows."""

MOST_GROUPS = 12
"""Groups of a column, at most."""

MOST = 2
"""Columns of a public table that group its keys, at most: the first ones that can."""


class Group(NamedTuple):
    """A column that groups the keys of another one.

    Attributes:
        column: as it is modelled, beside the column of the keys.
        refers: the column of the keys.
        table: the public table.
        name: the column there.
    """

    column: Column
    refers: str
    table: str
    name: str


def grouped(rows: pa.Table, key: str) -> dict[str, dict[str, object]]:
    """Return which columns of a public table group its keys, with the groups' names, as facts of these columns."""
    if rows.num_rows < FEWEST_KEYS:
        return {}
    found = {}
    for name in rows.column_names:
        if name != key and is_text(rows[name].type):
            names = rows[name].unique().drop_null().to_pylist()
            if 2 <= len(names) <= MOST_GROUPS:
                found[name] = {"kind": "category", "categories": sorted(names)}
    return dict(list(found.items())[:MOST])


def of(table: Related, sources: Mapping[str, TableSchema]) -> Iterator[Group]:
    """Yield the columns that group the keys which rows below others hold; none before public tables were read.

    Rows of the root are learnt from counts of pairs of columns, which need no groups.

    Args:
        sources: the columns of each table.
    """
    for refers, other in table.refers if table.parent is not None else ():
        if other in sources and refers not in table.carries:
            for column in sources[other]:
                if column.categories is not None:
                    name = f"{refers}: {column.name}"
                    if name not in sources[table.name].names:
                        yield Group(replace(column, name=name), refers, other, column.name)


def never(groups: np.ndarray, keys: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return which codes of groups and of keys go together in no row, bool (codes of groups, codes of keys).

    Codes that the public table has in no row, such as that of a null, go together with each other alone.

    Args:
        groups: the group's code of each row of the public table, int (rows,); keys: of its key.
    """
    found = np.zeros(shape, bool)
    found[np.unique(groups)] = True
    found[:, np.unique(keys)] = True
    found[groups, keys] = False
    return found
