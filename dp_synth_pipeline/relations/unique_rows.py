"""Rows of which no two of one parent are the same in some columns: of an order's lines, none has a product twice.

A person declares the columns, which is free. Together with the key of the parent they are a key of the table, as a database
knows it, and drawn rows keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import TableSchema


def check(table: Related, source: TableSchema) -> None:
    """Refuse columns that cannot tell the rows of one parent apart.

    Raises:
        InvalidInput: naming the column, and what to do.
    """
    columns = {c.name: c for c in source}
    for name in table.unique:
        said = f"tables.{table.name}: unique: {name}:"
        if table.parent is None:
            raise InvalidInput(
                f"{said} rows of the root have no parent; what names each of them is its key: leave it out."
            )
        if name not in columns:
            raise InvalidInput(f"{said} there is no such column; it has: {', '.join(columns)}.{nearest(name, columns)}")
        if name in table.keys or columns[name].kind.regenerated:
            raise InvalidInput(f"{said} it is made anew for each row; name the columns that tell rows apart besides.")
        if columns[name].kind.composed or not columns[name].kind.learned:
            raise InvalidInput(f"{said} it is of kind {columns[name].kind}, which tells no rows apart; leave it out.")
        if name in table.static:
            raise InvalidInput(f"{said} it is declared static, the same in all rows of a parent; keep one of the two.")


def repeated(parent: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray:
    """Say which rows have the same values as a later one of their parent, bool (rows,). A null is the same as nothing.

    Args:
        parent: number of each row's parent, int64 (rows,).
        columns: the values by which rows are told apart.

    Example:
        >>> repeated(np.array([0, 0, 0, 1]), [pa.array(["a", "b", "a", "a"])]).tolist()
        [True, False, False, False]
    """
    cells = {i: column.dictionary_encode().indices.to_pandas() for i, column in enumerate(columns)}
    rows = pd.DataFrame({"parent": parent, **cells})
    return np.asarray(rows.duplicated(keep="last") & rows.notna().all(axis=1))
