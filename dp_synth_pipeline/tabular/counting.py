"""Exact counts of a restricted snapshot, out of core. Nothing here may leave without noise; only `measure` calls it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular import exact, grid
from dp_synth_pipeline.tabular.schema import Column, Kind
from dp_synth_pipeline.tabular.sql import literal, quoted

MAX_DECIMALS = 6
"""Digits after the point that are told apart; more means full precision."""

RESOLUTIONS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Microseconds of a day, hour, minute, second, millisecond and microsecond."""

BATCH = 1 << 18


class Counts:
    """Counts over one snapshot; every method looks at each row once, and the file's footer is read once for all of them.

    Of a wide table, reading the footer and naming every column anew for each count takes more time than the counts do.
    """

    def __init__(self, snapshot: Path) -> None:
        self.snapshot = snapshot
        self.source = f"read_parquet({literal(snapshot)}, hive_partitioning = false)"  # folders' names add no column

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("SET threads = 2")
        con.execute("SET memory_limit = '768MB'")
        con.execute("SET parquet_metadata_cache = true")
        return con

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.snapshot)

    def rows(self, without_nulls_in: list[str]) -> tuple[int, int]:
        """Count the rows without a null in the named columns, and the others."""
        kept = " AND ".join(f"{quoted(n)} IS NOT NULL" for n in without_nulls_in) or "true"
        left, everything = self._sql(f"SELECT count(*) FILTER (WHERE {kept}), count(*) FROM {self.source}")[0]
        return left, everything - left

    def nulls(self, column: Column) -> int:
        """Count the nulls of a column."""
        return self._sql(f"SELECT count(*) FROM {self.source} WHERE {quoted(column.name)} IS NULL")[0][0]

    def values(self, column: Column, floor: int) -> list[tuple[Any, int]]:
        """Count the values of a column that occur at least `floor` times, ascending; numbers as `exact` tells them apart."""
        name = quoted(column.name)
        key = {
            Kind.BOOLEAN: f"CASE WHEN {name} THEN 'true' ELSE 'false' END",
            Kind.CATEGORY: f"CAST({name} AS VARCHAR)",
            Kind.ORDINAL: f"CAST({name} AS VARCHAR)",
            Kind.DATE: f"date_diff('day', DATE '1970-01-01', CAST({name} AS DATE))",
            Kind.DATETIME: f"epoch_us({name})",
            Kind.DURATION: name,
        }.get(column.kind, name if exact.is_whole(column) or exact.is_long(column) else f"CAST({name} AS DOUBLE)")
        return self._sql(
            f"SELECT {key} AS k, count(*) AS n FROM {self.source} WHERE {name} IS NOT NULL "
            f"GROUP BY 1 HAVING count(*) >= {floor} ORDER BY 1"
        )

    def line(self, column: Column, edges: np.ndarray, named: np.ndarray, decimals: int | None = None) -> np.ndarray:
        """Count the cells of a grid, the nulls and the `named` values of a column: each row once, in one pass.

        Args:
            named: ascending values of the number line; the grid's cells leave them out.
            decimals: digits after the point that the others are written with; None for full precision.

        Returns:
            int64 (cells + 1 + named values,): cells, nulls, named values.
        """
        size = max(len(edges) - 1, 0)
        total = np.zeros(size + 1 + len(named), dtype=np.int64)
        for x, nulls in self._axis(column):
            total[size] += nulls
            place = np.searchsorted(named, x)
            own = place < len(named)
            own[own] = named[place[own]] == x[own]
            total[size + 1 :] += np.bincount(place[own], minlength=len(named))
            total[:size] += grid.count_cells(grid.written(x[~own], decimals), edges)
        return total

    def precision(self, column: Column) -> np.ndarray:
        """Count values by the precision they need: decimals by digits after the point, others by resolution."""
        single = pa.types.is_float32(column.arrow_type)
        of = partial(_digits, single=single) if column.kind is Kind.DECIMAL else _resolutions
        return sum((of(x) for x, _ in self._axis(column)), start=of(np.zeros(0)))

    def _axis(self, column: Column) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the values of a column on its number line, and how many nulls stood between them."""
        for batch in self._file.iter_batches(BATCH, columns=[column.name]):
            x, null = grid.to_axis(batch.column(0), column.kind)
            yield x[~null], int(null.sum())

    def _sql(self, query: str) -> list[tuple]:
        return self._con.execute(query).fetchall()


def _digits(x: np.ndarray, *, single: bool) -> np.ndarray:
    needed = np.full(len(x), MAX_DECIMALS + 1)
    for d in range(MAX_DECIMALS, -1, -1):
        with np.errstate(over="ignore", invalid="ignore"):  # near the end of double precision, no digit is kept
            rounded = np.round(x, d)
        # 0.1 in single precision is 0.10000000149; in double precision, sums of cents are off by a few last digits.
        same = rounded.astype(np.float32) == x if single else np.isclose(rounded, x, rtol=1e-12, atol=1e-15)
        needed[same] = d
    return np.bincount(needed, minlength=MAX_DECIMALS + 2).astype(np.int64)


def _resolutions(x: np.ndarray) -> np.ndarray:
    needed = np.full(len(x), len(RESOLUTIONS) - 1)
    for i in range(len(RESOLUTIONS) - 1, -1, -1):
        needed[x % RESOLUTIONS[i] == 0] = i
    return np.bincount(needed, minlength=len(RESOLUTIONS)).astype(np.int64)
