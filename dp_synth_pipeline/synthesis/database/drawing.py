"""Draws related tables from released generators: every row has a parent, keys are new, and rows keep their order. Free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.histories import pair_weights
from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.model.histories.pair_weights import PairWeights
from dp_synth_pipeline.model.marginals.dependencies import Impossible
from dp_synth_pipeline.relations import unique_rows
from dp_synth_pipeline.relations.clock import clock
from dp_synth_pipeline.relations.structure import Beginning, Related, Relations
from dp_synth_pipeline.synthesis.conditional import Pool
from dp_synth_pipeline.synthesis.database import public_tables
from dp_synth_pipeline.synthesis.database.beginnings import after_bases, beginnings, leading
from dp_synth_pipeline.synthesis.database.beside import Neighbours
from dp_synth_pipeline.synthesis.database.dated_gaps import DatedGaps
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, carrying, drawn_columns
from dp_synth_pipeline.synthesis.database.histories import hung_on, kept_context
from dp_synth_pipeline.synthesis.database.row_by_row import Above, Following, joined
from dp_synth_pipeline.synthesis.database.rule_keeping import RuleKeeping
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.synthesis.sampling import Asked, Drawer, Report
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.condition import Condition, Where, of_root
from dp_synth_pipeline.tabular.constraints import Rule, digits, limits
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel


class DrawnTables(NamedTuple):
    """Drawn related tables.

    Attributes:
        tables: the rows of each.
        effective: how many persons drawn one by one they are worth; None without a condition.
        redrawn: how many persons broke a rule as they were drawn first, and gave way.
    """

    tables: dict[str, pa.Table]
    effective: int | None
    redrawn: int


def redrawn_sentence(persons: int) -> str:
    """Say how many persons broke a rule as they were drawn first, and gave way."""
    return f"{persons:,} persons as drawn had a row that broke a rule; others were drawn in their place."


@dataclass
class DatabaseDrawer:
    """Draws databases from what a release let out.

    Attributes:
        relations: how the tables hang together.
        sources: the columns of each source.
        folders: the released generator of each table.
        rules: rules across tables that rows keep.
        public: the copies of public tables, which are drawn tables as they are.
    """

    relations: Relations
    sources: Mapping[str, TableSchema]
    folders: Mapping[str, Path]
    rules: Sequence[Rule] = ()
    public: Mapping[str, Path] = field(default_factory=dict)
    _drawers: dict[str, Drawer] = field(default_factory=dict, init=False)

    def draw(self, persons: int, asked: Asked = Asked(), report: Report = unheard) -> DrawnTables:
        """Return the synthetic tables of so many persons, with the sources' columns and types.

        Args:
            asked: a condition on the root's columns; the rows below follow those that satisfy it.
            report: is told how many tables are drawn, and of how many.

        Raises:
            InvalidInput: if nothing fits the condition, or it is on another table's columns.
        """
        if isinstance(persons, bool) or not isinstance(persons, (int, np.integer)) or persons < 1:
            raise InvalidInput(f"persons: expected a whole number from 1, got {persons!r}.")
        if asked.share is not None:
            raise InvalidInput("share: related tables are drawn as the model has them, or on a condition: where.")
        rng = asked.chance()
        pool = None if asked.where is None else self._pool(int(persons), asked.where, rng)
        draw = partial(self._persons, pool=pool, rng=rng)
        drawn, redrawn = self._kept(draw(int(persons), report=report), draw, pool, rng)
        report(len(drawn), len(drawn))
        effective = None if pool is None else min(int(persons), pool.effective)
        return DrawnTables(self._public_rows | self._written(drawn, rng), effective, redrawn)

    @cached_property
    def _public_rows(self) -> dict[str, pa.Table]:
        return public_tables.read(self.public)

    def _kept(
        self,
        first: dict[str, Rows],
        draw: Callable[[int], dict[str, Rows]],
        pool: Pool | None,
        rng: np.random.Generator,
    ) -> tuple[dict[str, Rows], int]:
        """Return the rows of as many persons that keep the rules, and how many persons gave way for that."""
        if not self.rules:
            return first, 0
        drawers = {name: self._drawer(name) for name in self.folders}
        facts = {
            name: (limits(d.codec.schema, d.profile), digits(d.codec.schema, d.profile)) for name, d in drawers.items()
        }
        also = None if pool is None else pool.condition.holds
        keeping = RuleKeeping.of(self.relations, self.sources, self.rules, facts, rng, also, self._public_rows)
        return keeping.kept(first, draw, rng)

    def _persons(
        self, persons: int, pool: Pool | None, rng: np.random.Generator, report: Report = unheard
    ) -> dict[str, Rows]:
        """Draw so many persons with all their rows."""
        drawn = {self.relations.root.name: self._root(persons, pool, rng)}
        for table in self.relations:
            report(len(drawn), len(self.folders))
            if table.parent is not None:
                drawn[table.name] = rows = self._rows(table, drawn, rng)
                drawn[table.parent] = carrying(table, drawn[table.parent], rows, self.sources[table.name], rng)
        return drawn

    @property
    def persons(self) -> int:
        """The released number of persons: of a refresh that remembers, what all releases so far tell together."""
        drawer = self._drawer(self.relations.root.name)
        return drawer.facts["rows"] if drawer.facts.get("memory") else drawer.profile.population

    def _drawer(self, name: str) -> Drawer:
        if name not in self._drawers:
            folder = self.folders[name]
            self._drawers[name] = Drawer(folder, folder / "profile.json", [])
        return self._drawers[name]

    def _pool(self, persons: int, where: Where, rng: np.random.Generator) -> Pool:
        """Return what draws persons who satisfy a condition."""
        root = self.relations.root.name
        drawer = self._drawer(root)
        columns = {t.name: [c.name for c in self.sources[t.name].published] for t in self.relations.everything}
        begun = {table.carried(name) for table in self.relations for name in table.monotone}  # true of first rows alone
        columns[root] = [name for name in drawer.schema.names if name not in begun]
        condition = Condition(of_root(where, root, columns), drawer.codec)
        return Pool(drawer.model, drawer.codec, condition, persons, rng)

    def _root(self, persons: int, pool: Pool | None, rng: np.random.Generator) -> Rows:
        """Draw the persons."""
        if pool is not None:
            found = pool.draw(persons)
            return Rows(found.rows, found.codes, None, np.arange(persons))
        drawer = self._drawer(self.relations.root.name)
        codes = drawer.model.sample(persons, forbidden=drawer.codec.forbidden, rng=rng)
        return Rows(pa.Table.from_batches([drawer.codec.decode(codes, rng=rng)]), codes, None, np.arange(persons))

    def above(self, name: str, persons: int, rng: np.random.Generator, profile: TableProfile) -> Above:
        """Draw so many persons, and the rows on the way from them to a table; return what its rows hang on.

        Args:
            profile: of the table's rows, which may not be released yet.
        """
        path = [self.relations[name]]
        while path[0].parent is not None:
            path.insert(0, self.relations[str(path[0].parent)])
        drawn = {path[0].name: self._root(persons, None, rng)}
        for table in path[1:]:
            other = self._lies_beside(table)
            if other is not None and other.name not in drawn:
                drawn[other.name] = self._rows(other, drawn, rng)
            if table.name != name:
                drawn[table.name] = self._rows(table, drawn, rng)
        return self._above(path[-1], drawn, profile, rng)

    def _lies_beside(self, table: Related) -> Related | None:
        """Return the table upon whose rows those of another one are drawn."""
        return self.relations.beside(table.name, self._drawer(str(table.parent)).codec.schema.names)

    def following(
        self,
        name: str,
        model: GenerativeModel,
        codec: TableCodec,
        context: Context,
        profile: TableProfile,
        impossible: Impossible,
    ) -> Following:
        """Return what draws the rows of a table by a model, upon those above it, whose generators are known."""
        table = self.relations[name]
        times = clock(self.relations, name, lambda above: self._drawer(above).codec, self.sources[name])
        if table.order is None:
            return Following(table, model, codec, context, None, None, impossible=impossible)
        order, gap = self.sources[name][table.order], codec.columns[codec.encoded.index(str(table.gap))]
        dated, end = DatedGaps.of(profile.calendar, order, gap), None if order.upper is not None else profile.end
        return Following(table, model, codec, context, times, order, dated, end, impossible)

    def _rows(self, table: Related, drawn: dict[str, Rows], rng: np.random.Generator) -> Rows:
        """Draw the rows of a table place by place, each upon what it hangs on."""
        drawer = self._drawer(table.name)
        above = self._above(table, drawn, drawer.profile, rng)
        context = kept_context(self.folders[table.name], drawer.facts)
        impossible = Impossible.from_list(drawer.facts.get("impossible", []))  # an earlier version kept none
        following = self.following(table.name, drawer.model, drawer.codec, context, drawer.profile, impossible)
        following = replace(following, weights=PairWeights.load(self.folders[table.name] / pair_weights.FILE))
        parts = following.parts(above, rng)
        rows = joined(parts, above, drawer.codec, rng, following.totals, context.beside)
        return self._told_apart(table, rows, drawn) if table.unique else rows

    def _told_apart(self, table: Related, rows: Rows, drawn: Mapping[str, Rows]) -> Rows:
        """Return rows of which no two of one parent are the same in its unique columns: of those, the last one stays.

        The last, since rows hold how far the next one is: of rows that are equally far, those before it are at 0 from it.
        """
        assert rows.parent is not None
        values = drawn_columns(table, {**drawn, table.name: rows}, self.sources[table.name])
        again = unique_rows.repeated(rows.parent, [values[name] for name in table.unique])
        kept = np.flatnonzero(~again)
        return rows.take(kept, rows.parent[kept], rows.root[kept]) if again.any() else rows

    def _above(self, table: Related, drawn: dict[str, Rows], profile: TableProfile, rng: np.random.Generator) -> Above:
        """Return what the rows of a table hang on, of drawn tables; its parents hold when their rows begin from here on."""
        parent, codec = self.relations[str(table.parent)], self._drawer(str(table.parent)).codec
        orders = [None if t.order is None else self.sources[t.name][t.order] for t in (parent, table)]
        beginning = self.relations.beginning(table.name, codec.schema.names)
        drawn[parent.name] = parents = self._timed(parent, beginning, drawn, profile, rng)
        lead = leading(codec, parents.codes, beginning.distance, profile.calendar, orders[1], rng)
        schema = TableSchema((*codec.schema, *self._time(beginning)))
        counts, times = beginnings(table, parents, schema, orders, beginning, lead)
        hung = self._codes_above(table, drawn, np.arange(len(parents.codes)))
        ends = self._ends(table, drawn)
        times = times if ends is None or times is None else np.minimum(times, ends).astype(times.dtype)
        above = Above(np.concatenate(hung, 1), counts, times, parents.root, ends=ends)
        other = self._lies_beside(table)
        if other is None or orders[1] is None:
            return above._replace(beside=parents)
        rows, order = drawn[other.name], self.sources[other.name][str(other.order)]
        assert rows.parent is not None
        assert rows.times is not None
        neighbours = Neighbours(rows.parent, offsets.in_units(rows.times, order, orders[1]))
        return above._replace(beside=rows, neighbours=neighbours)

    def _ends(self, table: Related, drawn: Mapping[str, Rows]) -> np.ndarray | None:
        """Return the times after which each parent has no rows, on the line of the order; None if it may at any time."""
        if not table.before or table.order is None:
            return None
        source, order = self.sources[str(table.parent)], self.sources[table.name][table.order]
        dates = drawn_columns(self.relations[str(table.parent)], drawn, source)
        found = np.full(len(drawn[str(table.parent)].codes), np.inf)
        for name in table.before:
            points, null = offsets.placed(dates[name], source[name], order)
            found = np.where(null, found, np.minimum(found, points))
        return found

    def _time(self, beginning: Beginning) -> list[Column]:
        """Return the column of times that parents hold as distances from another one; none if they do not."""
        if beginning.since is None or beginning.leader is None:
            return []
        order = self.sources[beginning.leader.name][str(beginning.leader.order)]
        return [replace(order, name=str(beginning.time), lower=None, upper=None)]

    def _timed(
        self,
        parent: Related,
        beginning: Beginning,
        drawn: Mapping[str, Rows],
        profile: TableProfile,
        rng: np.random.Generator,
    ) -> Rows:
        """Return parents with the times at which rows begin, where they hold distances from another column for that.

        Args:
            profile: of those rows.
        """
        parents, codec = drawn[parent.name], self._drawer(parent.name).codec
        for time in self._time(beginning):
            if time.name not in parents.values.column_names:
                lead = leading(codec, parents.codes, beginning.since, profile.calendar, time, rng)
                source = self.sources[parent.name]
                base = drawn_columns(parent, drawn, source)[beginning.base], source[beginning.base]
                begun = after_bases(parents, codec.schema[str(beginning.since)], base, time, lead, rng)
                return parents.with_value(time.name, begun)
        return parents

    def _texts(self, table: Related, drawn: Mapping[str, Rows], rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the texts of a table's rows, written upon them and upon those above."""
        drawer, rows = self._drawer(table.name), drawn[table.name]
        texts = [c.name for c in self.sources[table.name] if c.kind.composed]
        (batch,) = rows.values.combine_chunks().to_batches() or [None]
        if batch is None or not texts:
            return {name: rows.values[name].combine_chunks() for name in texts}
        above = [] if rows.parent is None else self._codes_above(table, drawn, rows.parent)
        written = drawer.written(batch, rng, above)
        return {name: written[name] for name in texts}

    def _codes_above(self, table: Related, drawn: Mapping[str, Rows], parents: np.ndarray) -> list[np.ndarray]:
        """Return the codes of the parent, and of the root, that are above each row; its parents are numbered."""
        rows, root = drawn[str(table.parent)], self.relations.root.name
        above = {str(table.parent): rows.codes[parents], root: drawn[root].codes[rows.root[parents]]}
        return [above[name] for name in hung_on(self.relations, table.name)]

    def _written(self, drawn: Mapping[str, Rows], rng: np.random.Generator) -> dict[str, pa.Table]:
        """Return the tables as their sources have them, with new keys, and texts that are written upon their rows."""
        keys: dict[str, pa.Array] = {}
        tables = {}
        for table in self.relations:
            schema, rows = self.sources[table.name], drawn[table.name]
            values = drawn_columns(table, drawn, schema) | self._texts(table, drawn, rng)
            if rows.parent is not None:
                reference = keys[str(table.parent)].take(pa.array(rows.parent))
                values[str(table.reference)] = reference.cast(schema[str(table.reference)].arrow_type)
            arrays = {
                c.name: values[c.name] if c.name in values else c.kind.generated(c, 0, rows.values.num_rows)
                for c in schema.published
            }
            if table.key is not None:
                keys[table.name] = arrays[table.key]
            tables[table.name] = pa.table(arrays, schema=schema.arrow_schema())
        return tables
