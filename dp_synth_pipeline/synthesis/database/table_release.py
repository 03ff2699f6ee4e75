"""The release of one table of a database: a flat release that reads one row of each person, and learns from all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.synthesis import retention
from dp_synth_pipeline.synthesis.reading import may_hang, reading
from dp_synth_pipeline.synthesis.release import Columns, Release, TextRows
from dp_synth_pipeline.synthesis.run_state import dump_schema
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.counting import HistoryValues
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources.csv.values import CellType


@dataclass(frozen=True)
class Given:
    """What the rows of a table are learnt from; restricted.

    Attributes:
        codes: what is given with each row, and then its own codes, int (rows, columns).
        units: number of the person of each row, ascending.
        columns: of both; released, and so is what follows.
        by: what says what the codes of what is given mean.
    """

    codes: np.ndarray
    units: np.ndarray
    columns: Columns
    by: str


class HistoryRows(NamedTuple):
    """What is counted of all rows of a table below others.

    Attributes:
        codes: of their own columns, and how they agree with other rows, int (rows, columns); restricted.
        persons: number of the person of each row, int64 (rows,); restricted.
        layout: which columns and pairs are counted; released.
        bound: the most by which one person may move all counts together, in rows (L2); released.
    """

    codes: np.ndarray
    persons: np.ndarray
    layout: Layout
    bound: float


class RowsAbove(NamedTuple):
    """A table above another one: how its rows are coded, and its row above each row of that one; restricted.

    Attributes:
        codec: how its rows are coded.
        codes: of all its rows, int (rows, columns).
        numbers: of its rows, int64 (rows of the table below,).
    """

    codec: TableCodec
    codes: np.ndarray
    numbers: np.ndarray


class TableRelease(Release):
    """One table on its way through the stages.

    Attributes:
        database: the database's name, in whose folders the table has its own.
        name: the table's name in its database.
        rows: all rows of the table, with their persons.
        given: what its rows are learnt from; None for the root, which is learnt as a table by itself.
        history: what is counted of all rows; None for the root, and where nothing is.
        ruled: what declared rules across tables compute of its columns, with its own columns that they compute it from.
        above: what its texts may hang on besides their own rows; none of the root.
        source: the columns of its source.
        most: how many of its rows one person has, at most; None for the root.
        order: the column that its rows are ordered by; None without.
    """

    database: str
    name: str
    rows: RelatedRows
    source: TableSchema
    most: int | None = None
    order: str | None = None
    given: Given | None = None
    history: HistoryRows | None = None
    ruled: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    above: Sequence[RowsAbove] = ()

    @property
    def folder(self) -> Path:
        folder = self.store.releasable(self.database) / self.name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def restricted(self) -> Path:
        folder = self.store.restricted(self.database, self.id) / self.name
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def typed_schema(self, types: Mapping[str, CellType]) -> TableSchema:
        found = {c.name: c for c in self._typed_columns(types)}
        return TableSchema(tuple(found.get(c.name, c) for c in self.schema.columns))

    def _typed_columns(self, types: Mapping[str, CellType]) -> Sequence[Column]:
        names = self.state.untyped
        terms: ingestion.Reading = reading(self.settings, names)
        facts = {name: (terms.get("declared") or {}).get(name) for name in names}
        # A row without rows below has nulls there, which this table's own policy is not about.
        facts |= {name: {**(facts[name] or {}), "nulls": NullPolicy.KEEP} for name in names if name in self.carried}
        terms = {**terms, "types": types, "declared": facts}
        return ingestion.typed_schema(ingestion.cells_of(names, terms), terms).columns

    def type_rows(self, schema: TableSchema, types: Mapping[str, CellType]) -> None:
        """Write one row of each person, and all rows, with the types that were measured."""
        super().type_rows(schema, types)
        path = self.rows.path.with_suffix(".typed.parquet")
        ingestion.typed(self.rows.path, schema, types, path, relating.NUMBERS)
        self.rows = replace(self.rows, path=path, schema=schema)

    @property
    def dated(self) -> TableSchema:
        """The source's columns that rows have, with the types that were measured, and what they are ordered by."""
        return self._dated(self.schema)

    def _dated(self, schema: TableSchema) -> TableSchema:
        own = {c.name: c for c in schema}
        found = [own.get(c.name, c) for c in self.source if c.name in own or c.name == self.order]
        return TableSchema((*found, *(own[name] for name in self.begins if name in own)))

    @property
    def may_hang(self) -> frozenset[str]:
        """The dates, and parts of them, that may hang on others: not the order, by which rows follow each other."""
        return may_hang(self.settings, self.dated) - {self.order}

    @property
    def read(self) -> frozenset[str]:
        return super().read & {*self.source.names, *self.carried}

    @property
    def may_be_computed(self) -> tuple[str, ...]:
        """The numbers of its source of which a person left open whether others of their row give them.

        What it carries of other tables, and distances to next rows, are columns of no source.
        """
        return tuple(name for name in super().may_be_computed if name in self.source.names)

    @property
    def computed(self) -> Mapping[str, tuple[str, ...]]:
        return self.ruled

    def hung(self, schema: TableSchema, dates: Mapping[str, Mapping[str, str]]) -> TableSchema:
        dated = self._dated(schema)
        free = may_hang(self.settings, dated) - {self.order}
        hanging = ordered_dates.hung(dated, {name: facts for name, facts in dates.items() if name in free})
        return relating.hung(schema, hanging, self.order)

    @property
    def profiled(self) -> TableSchema:
        return replace(self.modelled, order=self._order)

    @property
    def profile(self) -> TableProfile:
        """The released profile. One of an earlier release does not say where histories end: they went on since."""
        found = super().profile
        return found if self.state.facts.profile_release in (None, self.id) else replace(found, end=None)

    @property
    def _order(self) -> Column | None:
        """What the rows of one parent are ordered by."""
        return None if self.order is None else self.source[self.order]

    def measured_rows(self) -> Path:
        """Write one row of each person with its order, if it has one; return where."""
        if self._order is None:
            return super().measured_rows()
        with retention.private():
            return relating.one_row_each(self.rows, self.restricted / "measured.parquet", self._order)

    @property
    def history_values(self) -> HistoryValues | None:
        """What persons have in all of their rows; None for the root, of which each row is a person."""
        return None if self.most is None else HistoryValues(self.rows.path, self.rows.unit, self.most)

    def dated_rows(self) -> Path:
        """Write one row of each person with its order; return where."""
        with retention.private():
            return relating.one_row_each(self.rows, self.restricted / "dates.parquet", self._order)

    def hang(self, found: Mapping[str, Mapping[str, str]]) -> None:
        """Go on with offsets in the place of columns that hang on others: of all rows, and of one row of each person."""
        dated = ordered_dates.hung(self.dated, found)
        with retention.private():
            path = self.rows.path.with_suffix(".dated.parquet")
            self.rows = relating.hang(self.rows, dated, self.order, path)
            snapshot = relating.one_row_each(self.rows, self.restricted / "snapshot.dated.parquet")
        known = {c.name: c for c in dated}
        self.source = TableSchema(tuple(known.get(c.name, c) for c in self.source))
        self.state = self.state.typed(dump_schema(self.rows.schema), snapshot)

    def whole_rows(self) -> Path:
        """Write all rows of the table, nulls handled and in the order of their numbers; return where. Restricted."""
        path = self.restricted / "rows.parquet"
        if not path.exists():
            with retention.private():
                nulls.complete(self.rows.path, self.schema, self.profile, path)
        return path

    @property
    def text_codecs(self) -> list[TableCodec]:
        return [*super().text_codecs, *(table.codec for table in self.above)]

    def text_rows(self, columns: Sequence[str]) -> TextRows:
        """Return one row of each person, chosen anew, with the rows above it.

        Raises:
            TrainingError: if rows do not lie in the order of their numbers, so that a person would be counted twice.
        """
        if not self.above:
            return super().text_rows(columns)
        chosen = relating.one_number_each(self.rows)
        rows = pq.read_table(self.whole_rows()).take(pa.array(chosen))
        if len(rows.column(self.rows.unit).unique()) != len(chosen):
            raise TrainingError(
                "rows must lie in the order of their numbers, so that one row of each person is counted."
            )
        above = [table.codes[table.numbers[chosen]] for table in self.above]
        return TextRows(rows.select(list(columns)), np.concatenate([self.codec.encode(rows), *above], 1))

    def drop(self) -> None:
        retention.drop(self.store, self.database, self.id)

    @property
    def columns(self) -> Columns:
        return super().columns if self.given is None else self.given.columns

    @property
    def given_by(self) -> str:
        return "" if self.given is None else self.given.by

    def counted(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what is learnt from: of all tables below the root, a person's rows count as one together."""
        from dp_synth_pipeline.model.marginals.measuring import parts_of

        return super().counted() if self.given is None else (self.given.codes, parts_of(self.given.units))

    def codes(self, codec: TableCodec) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what is learnt from: of the root its own codes, of others what is given with each row as well."""
        return super().codes(codec) if self.given is None else (self.given.codes, self.given.units)
