"""Bounds the rows of each privacy unit, out of core: sort by unit and chance, then keep the first few of each.

Which rows of a unit are left out is uniformly random and fresh in every run. The result is ordered by unit.

Units are told apart by the bytes of their keys' text. No other equality is safe: a NaN differs from itself, and a collation
sorts together what is not equal, so either would let one unit pass for several.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sql import quoted

BATCH = 1 << 17


def key_of(name: str) -> str:
    """Return the SQL of a unit's key, as bytes that are equal for equal keys alone; null for a null and for NaN.

    A NaN names nobody, so a row that has one for a key has no owner, like a row with a null. A whole number has one spelling
    whatever its type: a column of whole keys is one of floats in pandas as soon as a key is missing.
    """
    column = quoted(name)
    text = f"CAST({column} AS VARCHAR)"
    whole = f"regexp_replace({text}, '\\.0*$', '')"
    number = f"CASE {whole} WHEN 'nan' THEN NULL WHEN '-nan' THEN NULL WHEN '-0' THEN '0' ELSE {whole} END"
    of_type = f"regexp_extract(typeof({column}), '^[A-Z]+') IN ('FLOAT', 'DOUBLE', 'DECIMAL')"
    return f"encode(CASE WHEN {of_type} THEN {number} ELSE {text} END)"


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
        """Return which rows of the next batch stay (bool) and every row's unit number (int64).

        Raises:
            InvalidInput: if keys do not ascend, so that a unit could come again after its rows were counted.
        """
        n = len(keys)
        before = keys[:-1] if self._last is None else pa.concat_arrays([pa.array([self._last], keys.type), keys[:-1]])
        begun = int(self._last is None)
        first = np.ones(n, dtype=bool)
        first[begun:] = _rises(before, keys[begun:])
        unit = np.cumsum(first) + self.units - 1
        start = np.maximum.accumulate(np.where(first, np.arange(n), -self._run))
        rank = np.arange(n) - start
        self.units, self._last, self._run = int(unit[-1]) + 1, keys[n - 1], int(rank[-1]) + 1
        return rank < self.max_rows, unit.astype(np.int64)


def _rises(before: pa.Array, after: pa.Array) -> np.ndarray:
    """Return where a key is greater than the one before it (bool); all others must equal it."""
    greater, same = pc.less(before, after), pc.equal(before, after)  # type: ignore[attr-defined]
    if not pc.all(pc.or_(greater, same), skip_nulls=False, min_count=0).as_py():  # type: ignore[attr-defined]
        raise InvalidInput(
            "the rows could not be sorted by the privacy unit's column, so its rows cannot be bounded; make it text or a "
            "whole number in the source."
        )
    return np.asarray(greater)


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
