"""Bounds the rows of each privacy unit, out of core: sort by unit and chance, then keep the first few of each.

Which rows of a unit are left out is uniformly random and fresh in every run. The result is ordered by unit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH = 1 << 17


class Bound:
    """Passes over rows sorted by unit, keeping at most `max_rows` of each and numbering units from 0.

    Attributes:
        units: units seen so far; private.
    """

    def __init__(self, max_rows: int) -> None:
        self.max_rows, self.units = max_rows, 0
        self._last: pa.Scalar | None = None
        self._run = 0

    def __call__(self, keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows of the next batch stay (bool) and every row's unit number (int64)."""
        n = len(keys)
        first = np.ones(n, dtype=bool)
        if n > 1:
            first[1:] = ~np.asarray(pc.equal(keys[1:], keys[:-1]))  # type: ignore[attr-defined]
        first[0] = self._last is None or not self._last.equals(keys[0])
        unit = np.cumsum(first) + self.units - 1
        start = np.maximum.accumulate(np.where(first, np.arange(n), -self._run))
        rank = np.arange(n) - start
        self.units, self._last, self._run = int(unit[-1]) + 1, keys[n - 1], int(rank[-1]) + 1
        return rank < self.max_rows, unit.astype(np.int64)


def bound_rows(ordered: Path, out: Path, key: str, *, max_rows: int, number: str) -> int:
    """Write the bounded rows of a file sorted by `key`, with unit numbers in column `number` instead; return the units."""
    source, bound = pq.ParquetFile(ordered), Bound(max_rows)
    kept = [f for f in source.schema_arrow if f.name != key]
    schema = pa.schema([*kept, pa.field(number, pa.int64())])
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in source.iter_batches(BATCH):
            if batch.num_rows == 0:
                continue
            stays, unit = bound(batch.column(key))
            columns = [batch.column(f.name) for f in kept]
            whole = pa.RecordBatch.from_arrays([*columns, pa.array(unit)], schema=schema)
            writer.write_batch(whole.filter(pa.array(stays)))
    return bound.units
