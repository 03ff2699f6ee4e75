"""Columns in which no two real rows of one parent are the same, and synthetic ones are: a person may want to declare them.

Restricted: that no two real rows are the same is a fact about the rows, found without noise. Whoever declares it says that
it is public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.relations.unique_rows import repeated
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.related_frames import RelatedFrame

MOST_COLUMNS = 12
"""Columns of names that are looked at, at most, the first ones."""

TOGETHER = 2
"""Columns of names of which rows must differ in one, at most."""

FEWEST = 100
"""Real rows that follow another one of their parent, from which it is believed that none are the same."""

BROKEN = 0.01
"""Share of the synthetic rows that are the same as another one of their parent, from which it is worth a line."""


@dataclass(frozen=True)
class SuggestedKey:
    """Columns that tell the rows of one parent apart.

    Attributes:
        columns: their names.
        rows: real rows that follow another one of their parent.
        broken: share of the synthetic rows that are the same in all of them as another one of their parent.
    """

    columns: tuple[str, ...]
    rows: int
    broken: float


def suggested_key(
    table: Related, schema: TableSchema, real: RelatedFrame, synthetic: RelatedFrame
) -> SuggestedKey | None:
    """Return the fewest columns that tell all real rows of a parent apart, of several those that most synthetic rows break.

    Names are looked at, and the order with them; numbers would tell rows apart by chance.

    Args:
        schema: the learned columns.
    """
    following = len(real.steps[0])
    if table.unique or following < FEWEST:
        return None
    names = [
        c.name for c in schema.learned if not c.kind.numeric and not c.kind.composed and c.name not in table.static
    ]
    names = [name for name in names if name != table.order][:MOST_COLUMNS]
    wanted = [*names, *([] if table.order is None else [table.order])]
    cells = [_cells(frame, wanted) for frame in (real, synthetic)]
    for size in range(1, TOGETHER + 2):
        of_real = (columns for columns in _candidates(names, table.order, size) if not _same(real, cells[0], columns))
        keys = [SuggestedKey(columns, following, _same(synthetic, cells[1], columns)) for columns in of_real]
        best = max(keys, key=lambda key: key.broken, default=None)
        if best is not None and best.broken >= BROKEN:
            return best
    return None


def _candidates(names: list[str], order: str | None, size: int) -> Iterator[tuple[str, ...]]:
    """Yield so many columns at a time: names alone, and names with the order."""
    if size <= TOGETHER:
        yield from combinations(names, size)
    if order is not None:
        yield from ((order, *some) for some in combinations(names, size - 1))


def _cells(frame: RelatedFrame, names: list[str]) -> dict[str, pa.Array]:
    """Return a number for each value of some columns."""
    codes = {name: pd.factorize(frame.rows[name])[0] for name in names}
    return {name: pa.array(numbers, mask=numbers < 0) for name, numbers in codes.items()}


def _same(frame: RelatedFrame, cells: Mapping[str, pa.Array], columns: tuple[str, ...]) -> float:
    """Return the share of the rows that are the same as a later one of their parent."""
    assert frame.parent is not None
    return float(np.mean(repeated(frame.parent, [cells[name] for name in columns])))
