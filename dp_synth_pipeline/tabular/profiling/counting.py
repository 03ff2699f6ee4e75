"""Exact counts of a restricted snapshot, out of core. Nothing here may leave without noise; only `measure` calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy.odometer import ROUNDING
from dp_synth_pipeline.tabular import calendar_effects
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.sql import connection_beside, literal, quoted

BATCH = 1 << 18

WHOLE = 1_000_000
"""What the values of one person weigh together (L2), so that parts of it are whole numbers."""

MOST_VALUES = 32
"""Values of one column that are counted of one person, at most; which ones is chance."""


class Counts:
    """Counts over one snapshot; every method looks at each row once, and the file's footer is read once for all of them.

    Of a wide table, reading the footer and naming every column anew for each count takes more time than the counts do.
    """

    def __init__(self, snapshot: Path) -> None:
        self.snapshot = snapshot
        self.source = f"read_parquet({literal(snapshot)}, hive_partitioning = false)"  # folders' names add no column

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        con = connection_beside(self.snapshot)
        con.execute("SET parquet_metadata_cache = true")
        return con

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.snapshot)

    def rows(self, without_nulls_in: list[str]) -> tuple[int, int]:
        """Count the rows without a null in the named columns, and the others."""
        kept = " AND ".join(f"{quoted(n)} IS NOT NULL" for n in without_nulls_in) or "true"
        complete, everything = self._sql(f"SELECT count(*) FILTER (WHERE {kept}), count(*) FROM {self.source}")[0]
        return complete, everything - complete

    def nulls(self, column: Column) -> int:
        """Count the nulls of a column."""
        return self._sql(f"SELECT count(*) FROM {self.source} WHERE {quoted(column.name)} IS NULL")[0][0]

    def values(self, column: Column, floor: int) -> list[tuple[Any, int]]:
        """Count the values of a column that occur at least `floor` times, ascending; numbers as `exact` tells them apart."""
        name = quoted(column.name)
        key = column.kind.key(column, name)
        return self._sql(
            f"SELECT {key} AS k, count(*) AS n FROM {self.source} WHERE {name} IS NOT NULL "
            f"GROUP BY 1 HAVING count(*) >= {floor} ORDER BY 1"
        )

    def line(self, column: Column, edges: np.ndarray, released: np.ndarray, decimals: int | None = None) -> np.ndarray:
        """Count the cells of a grid, the nulls and the `released` values of a column: each row once, in one pass.

        Args:
            released: ascending values of the number line; the grid's cells leave them out.
            decimals: digits after the point that the others are written with; None for full precision.

        Returns:
            int64 (cells + 1 + released values,): cells, nulls, released values.
        """
        size = max(len(edges) - 1, 0)
        total = np.zeros(size + 1 + len(released), dtype=np.int64)
        for x, nulls in self._axis(column):
            total[size] += nulls
            place = np.searchsorted(released, x)
            own = place < len(released)
            own[own] = released[place[own]] == x[own]
            total[size + 1 :] += np.bincount(place[own], minlength=len(released))
            total[:size] += grid.count_cells(grid.written(x[~own], decimals), edges)
        return total

    def precision(self, column: Column) -> np.ndarray:
        """Count values by the precision they need: decimals by digits after the point, others by resolution."""
        empty = column.kind.precision_counts(np.zeros(0), column)
        return sum((column.kind.precision_counts(x, column) for x, _ in self._axis(column)), start=empty)

    def calendar(self, column: Column) -> list[np.ndarray]:
        """Count dates by each calendar effect that is looked for: by weekday, day of the month and hour."""
        names, day = column.kind.effects, grid.DAY / column.kind.rule_scale
        counts = [calendar_effects.count(np.zeros(0), day, names)]
        counts += [calendar_effects.count(x, day, names) for x, _ in self._axis(column)]
        return [np.sum(of_name, axis=0) for of_name in zip(*counts, strict=True)]

    def _axis(self, column: Column) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the values of a column on its number line, and how many nulls stood between them."""
        for batch in self._file.iter_batches(BATCH, columns=[column.name]):
            x, null = column.kind.to_axis(batch.column(0))
            yield x[~null], int(null.sum())

    def _sql(self, query: str) -> list[tuple]:
        return self._con.execute(query).fetchall()


class HistoryValues:
    """The values that persons have in all of their rows of a table, so that those of one weigh `WHOLE` together (L2).

    Args:
        rows: Parquet of all rows of a table below others; restricted.
        unit: the column of their persons' numbers.
        most: how many rows one person has there, at most.
    """

    def __init__(self, rows: Path, unit: str, most: int) -> None:
        self._rows, self._unit, self.most = rows, unit, min(most, MOST_VALUES)

    def weights(self, column: Column, known: Sequence[str], floor: int) -> dict[str, int]:
        """Return the weights of known values, and then of others that `floor` persons or more have, in parts of `WHOLE`.

        Of a person with t values, the square of each weighs one t-th part.
        """
        name = quoted(column.name)
        query = f"""
            WITH held AS (
                SELECT DISTINCT {quoted(self._unit)} AS person, {column.kind.key(column, name)} AS value
                FROM read_parquet({literal(self._rows)}) WHERE {name} IS NOT NULL
            ),
            drawn AS (SELECT *, random() AS chance FROM held),
            few AS (
                SELECT * FROM drawn QUALIFY row_number() OVER (PARTITION BY person ORDER BY chance) <= {MOST_VALUES}
            ),
            weighed AS (
                SELECT value, {WHOLE * (1 - ROUNDING)!r} / sqrt(count(*) OVER (PARTITION BY person)) AS weight FROM few
            )
            SELECT value, CAST(sum(CAST(floor(weight) AS BIGINT)) AS BIGINT) FROM weighed GROUP BY value
            HAVING count(*) >= {floor} OR value IN (SELECT unnest(CAST(? AS VARCHAR[]))) ORDER BY value
        """
        with connection_beside(self._rows) as con:
            found = dict(con.execute(query, [list(known)]).fetchall())
        return {**{value: found.get(value, 0) for value in known}, **found}
