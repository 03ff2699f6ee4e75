"""Reads related tables for comparison, real and synthetic in one form: rows of one parent together, in their order.

Of large tables some persons are read, with all that is theirs. Restricted, where the rows are real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.relations import monotone_columns, periods
from dp_synth_pipeline.relations.relating import PARENT, TIME
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.validation.frames import LARGEST, plain

BATCH = 1 << 16
"""Rows that are looked at in one piece."""


@dataclass(frozen=True)
class RelatedFrame:
    """The rows of one table of some persons; those of one parent are together, in their order.

    Attributes:
        rows: the learned columns of the source, the order among them.
        parent: number of each row's parent among the parent's rows, int64 (rows,), ascending; None for the root.
        person: number of each row's person among the root's rows, int64 (rows,).
    """

    rows: pd.DataFrame
    parent: np.ndarray | None
    person: np.ndarray

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the rows that follow another one of their parent, and of those before them: int64 (steps,) each."""
        assert self.parent is not None
        after = np.flatnonzero(self.parent[1:] == self.parent[:-1]) + 1
        return after, after - 1


@dataclass(frozen=True)
class RealFiles:
    """Where the real rows of one table lie; restricted.

    Attributes:
        rows: its own columns as they are modelled, nulls handled, in the order of `numbers`.
        numbers: each row's person, its parent's number and its place in the order, as `relating` wrote them.
    """

    rows: Path
    numbers: Path


def real_frames(
    relations: Relations, sources: Mapping[str, TableSchema], files: Mapping[str, RealFiles]
) -> dict[str, RelatedFrame]:
    """Return the real rows of each table.

    Args:
        sources: the columns of each table's source.
    """
    links = {}
    for table in relations:
        numbers = pq.read_table(files[table.name].numbers, columns=[UNIT, *([PARENT] if table.parent else [])])
        parent = numbers[PARENT].to_numpy() if table.parent else None
        links[table.name] = (parent, numbers[UNIT].to_numpy())

    def cells(table: Related, kept: np.ndarray) -> dict[str, pa.Array]:
        own, source = files[table.name], sources[table.name]
        values = {}
        for column in offsets.modelled(source, parts=False).learned:
            name = column.name
            if name in dict(table.until):
                continue  # the next row tells it
            if name in table.carries:
                carried = pq.read_table(files[str(table.parent)].rows, columns=[table.carried(name)]).column(0)
                parent = links[table.name][0][kept]
                values[name] = carried.combine_chunks().take(pa.array(parent))
                if name in table.monotone:
                    steps = _kept(own.rows, table.step(name), kept)
                    values[name] = monotone_columns.restored(values[name], steps, parent, column, table)
            else:
                values[name] = _kept(own.numbers, TIME, kept) if name == table.order else _kept(own.rows, name, kept)
        written = {c.name: _kept(own.rows, c.name, kept) for c in source if c.kind.composed}
        values = offsets.restored(values, source) | written
        if table.until:
            ends = periods.endings(table, pq.read_schema(own.rows).names)
            values |= {name: _kept(own.rows, name, kept) for name in ends}
            values |= periods.restored(values, links[table.name][0][kept], table, source)
        return values

    return _frames(relations, sources, links, cells)


def synthetic_frames(
    relations: Relations, sources: Mapping[str, TableSchema], files: Mapping[str, Path]
) -> dict[str, RelatedFrame]:
    """Return the synthetic rows of each table, put together by their keys; a row without a parent is left out."""
    links: dict[str, tuple[np.ndarray | None, np.ndarray]] = {}
    for table in relations:
        if table.parent is None:
            links[table.name] = None, np.arange(pq.ParquetFile(files[table.name]).metadata.num_rows)
            continue
        key = str(relations[table.parent].key)
        keys = pq.read_table(files[table.parent], columns=[key])[key].to_pandas()
        reference = pq.read_table(files[table.name], columns=[table.reference])[str(table.reference)].to_pandas()
        parent = pd.Index(keys).get_indexer(pd.Index(reference))
        links[table.name] = parent, np.where(parent < 0, -1, links[table.parent][1][parent])

    def cells(table: Related, kept: np.ndarray) -> dict[str, pa.Array]:
        return {c.name: _kept(files[table.name], c.name, kept) for c in sources[table.name].learned}

    return _frames(relations, sources, links, cells)


def _frames(
    relations: Relations,
    sources: Mapping[str, TableSchema],
    links: Mapping[str, tuple[np.ndarray | None, np.ndarray]],
    cells: Callable[[Related, np.ndarray], Mapping[str, pa.Array]],
) -> dict[str, RelatedFrame]:
    """Return the rows of some persons, numbered anew.

    Args:
        links: of each table, the number of each row's parent, and of its person.
        cells: reads the learned columns of a table, of those rows that a mask keeps.
    """
    persons = _chosen(len(links[relations.root.name][1]), max(len(person) for _, person in links.values()))
    kept, found = {name: np.isin(person, persons) for name, (_, person) in links.items()}, {}
    for table in relations:
        parents, person = links[table.name]
        mask, parent, order = kept[table.name], None, slice(None)
        if parents is not None:
            parent = (np.cumsum(kept[str(table.parent)]) - 1)[parents[mask]]
            order = np.argsort(parent, kind="stable")
            parent = parent[order]
        read = cells(table, mask)
        learned = pa.table({c.name: read[c.name] for c in sources[table.name].learned})
        rows = (
            plain(learned).reindex(np.arange(mask.sum())[order]).reset_index(drop=True)
        )  # keys alone are rows as well
        found[table.name] = RelatedFrame(rows, parent, np.searchsorted(persons, person[mask])[order])
    return found


def _chosen(persons: int, rows: int) -> np.ndarray:
    """Return the numbers of the persons that are read: all, unless the largest table has more rows than are compared."""
    if rows <= LARGEST:
        return np.arange(persons)
    rng = np.random.Generator(np.random.PCG64(22))  # for the same figures each time; not a noise that protects
    return np.sort(rng.choice(persons, max(1, persons * LARGEST // rows), replace=False))


def _kept(path: Path, name: str, kept: np.ndarray) -> pa.Array:
    """Return the cells of a column that a mask keeps, batch by batch."""
    file, parts, at = pq.ParquetFile(path), [], 0
    for batch in file.iter_batches(BATCH, columns=[name]):
        parts.append(batch.column(0).filter(pa.array(kept[at : at + len(batch)])))
        at += len(batch)
    return pa.chunked_array(parts, file.schema_arrow.field(name).type).combine_chunks()
