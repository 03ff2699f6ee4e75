"""`TableCodec`: a table to int codes `(rows, columns)` and back, built from released facts only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.categorical import CategoricalCodec
from dp_synth_pipeline.tabular.encoding.copula import Succession, quantiles
from dp_synth_pipeline.tabular.kinds.base import Codec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import UNIT

MOST = 0.9
"""Share of the rows that one code has from which a column's codes are learnt each by itself.

At 0.5, counts of which most are 0, such as stolen bases, were learnt worse.
"""

BATCH = 1 << 17
"""Rows encoded or decoded at a time."""


class TableCodec:
    """Turns rows into codes and released codes into rows.

    Attributes:
        schema: the columns of the rows.
        modelled: the columns that are coded: offsets in the place of columns that come after others.
        cardinalities: number of codes of each modelled column, in table order.
        forbidden: by modelled column, the codes that generation must not draw, and those that may stand for them.
    """

    def __init__(self, schema: TableSchema, profile: TableProfile) -> None:
        self.schema, self.modelled = schema, offsets.modelled(schema).learned
        self.columns = [_codec(c, profile) for c in self.modelled]
        self.cardinalities = tuple(c.cardinality for c in self.columns)
        self.forbidden = {
            i: (c.forbidden, c.released)
            for i, c in enumerate(self.columns)
            if isinstance(c, CategoricalCodec) and c.forbidden
        }

    def encode(self, table: pa.Table | pa.RecordBatch) -> np.ndarray:
        """Return codes, int16 `(rows, modelled columns)`; offsets that the rows lack are computed."""
        table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        table = offsets.with_offsets(table, self.schema)
        codes = np.empty((table.num_rows, len(self.columns)), dtype=np.int16)
        for i, (column, codec) in enumerate(zip(self.modelled, self.columns, strict=True)):
            values = table.column(column.name)
            codes[:, i] = codec.encode(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
        return codes

    def encode_file(self, parquet: Path, out: Path) -> tuple[np.ndarray, np.ndarray | None]:
        """Encode a completed snapshot into a memory-mapped matrix; return it and, if units are not rows, unit numbers.

        Returns:
            codes int16 (rows, columns), and unit numbers int64 (rows,) ascending, or None when each row is a unit.
        """
        file = pq.ParquetFile(parquet)
        rows, has_unit = file.metadata.num_rows, UNIT in file.schema_arrow.names
        codes = np.lib.format.open_memmap(out, "w+", np.int16, (rows, len(self.columns)))
        units = np.empty(rows, dtype=np.int64) if has_unit else None
        start = 0
        for batch in file.iter_batches(BATCH):
            stop = start + batch.num_rows
            codes[start:stop] = self.encode(batch)
            if units is not None:
                units[start:stop] = np.asarray(batch.column(UNIT))
            start = stop
        codes.flush()
        return codes, units

    def number(self, name: str) -> int | None:
        """Return the number of the code that tells of a column: its own, its offset's, or that of what it is the same as."""
        names, column = [c.name for c in self.modelled], self.schema[name]
        own = offsets.modelled_name(column)
        if own in names or column.same_as is None:
            return names.index(own) if own in names else None
        return self.number(column.same_as)

    @property
    def encoded(self) -> list[str]:
        """The names of the columns that have an encoder, so that a model sees them."""
        return [c.name for c, _ in zip(self.modelled, self.columns, strict=True)]

    def marginals(self) -> list[np.ndarray]:
        """Return each column's released probabilities by code: where training may start for free."""
        return [c.marginal for c in self.columns]

    def orders(self) -> list[Sequence[int]]:
        """Return each column's codes that have an order, in that order: those of values on a number line or a scale.

        A column of which one code has nearly all rows, such as the distance 0 of dates that agree, has no order: codes that
        next to no row has would become likelier together.
        """
        return [() if c.marginal.max() > MOST else c.order for c in self.columns]

    def decode(
        self,
        codes: np.ndarray,
        *,
        first_row: int = 0,
        rng: np.random.Generator | None = None,
        known: Mapping[str, pa.Array] | None = None,
        succession: Succession | None = None,
    ) -> pa.RecordBatch:
        """Return `(rows, published columns)` of synthetic values; identifiers number the rows from `first_row` + 1.

        Args:
            rng: decides where in its cell each value lies; a fresh one by default.
            known: values that stay, null where nothing is known; what hangs on them is placed by them.
            succession: how rows of histories follow each other, `stays` by encoded column.
        """
        drawn = self.values(codes, rng or np.random.default_rng(), succession)
        values = offsets.restored(offsets.placed_within(drawn, self.schema, self._within(codes)), self.schema, known)
        arrays = [
            values[c.name] if c.name in values else c.kind.generated(c, first_row, len(codes))
            for c in self.schema.published
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow_schema())

    def values(
        self, codes: np.ndarray, rng: np.random.Generator, succession: Succession | None = None
    ) -> dict[str, pa.Array]:
        """Return the values of the modelled columns by name, drawn within their cells; see `decode`."""
        lines = {i: c for i, c in enumerate(self.columns) if isinstance(c, AxisCodec) and c.cardinality > 1}
        follow = succession and succession._replace(stays=succession.stays[:, list(lines)])
        drawn = quantiles(codes[:, list(lines)].astype(np.int64), [c.centres for c in lines.values()], rng, follow)
        placed = {column: drawn.get(k) for k, column in enumerate(lines)}
        return {
            c.name: codec.decode(codes[:, i], rng, placed.get(i))
            for i, (c, codec) in enumerate(zip(self.modelled, self.columns, strict=True))
        }

    def _within(self, codes: np.ndarray) -> Callable[[str, pa.Array], np.ndarray]:
        """Return what says which values of a date may be drawn of the codes that were, bool (rows,)."""
        dates: dict[str, tuple[int, Any]] = {c.name: (i, self.columns[i]) for i, c in enumerate(self.modelled)}

        def within(name: str, values: pa.Array) -> np.ndarray:
            number, codec = dates[name]
            return codec.may_draw(values, codes[:, number])

        return within

    def decode_stream(
        self, batches: Iterator[np.ndarray], rng: np.random.Generator | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Decode generated codes batch by batch, numbering rows through."""
        row = 0
        for codes in batches:
            yield self.decode(codes, first_row=row, rng=rng)
            row += len(codes)

    def renumber(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield decoded rows, some of which may have been left out or copied, with identifiers numbered through."""
        row = 0
        for table in tables:
            for i, c in enumerate(self.schema.published):
                if c.kind.numbered:
                    table = table.set_column(i, c.name, c.kind.generated(c, row, table.num_rows))
            yield from table.to_batches()
            row += table.num_rows


def _codec(column: Column, profile: TableProfile) -> Codec:
    facts = nulls.filled(column, profile[column.name])
    return column.kind.codec(column, facts, keep_nulls=column.nulls is NullPolicy.KEEP)
