"""Draws related tables from released generators: every row has a parent, keys are new, and rows keep their order. Free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.histories.context import Context, RowsBeside
from dp_synth_pipeline.relations import unique_rows
from dp_synth_pipeline.relations.structure import Beginning, Related, Relations
from dp_synth_pipeline.synthesis.conditional import Pool
from dp_synth_pipeline.synthesis.database.beside import Matched, Neighbours
from dp_synth_pipeline.synthesis.database.dated_gaps import TRIES, DatedGaps
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, at_points, carrying, drawn_columns
from dp_synth_pipeline.synthesis.database.had_before import HadBefore
from dp_synth_pipeline.synthesis.database.histories import Clock, clock, hung_on, kept_context
from dp_synth_pipeline.synthesis.database.rule_keeping import RuleKeeping
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.synthesis.sampling import Asked, Drawer, Report
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.condition import Condition, Where, of_root
from dp_synth_pipeline.tabular.constraints import Rule, digits, limits
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.copula import Succession
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel


@dataclass(frozen=True)
class Part:
    """The rows of one place.

    Attributes:
        who: numbers of their parents, int64 (rows,), ascending.
        drawn: codes as they were drawn, int64 (rows, columns).
        codes: those for which they stand, int64 (rows, columns).
        stays: which of them are as in the row before, bool (rows, columns).
        times: where they lie on the line of times, (rows,); None without an order.
        beside: number of the row beside each, int64 (rows,); None if they are not drawn upon such.
        copied: which codes are as in it, bool (rows, columns).
        given: what they are drawn upon, int16 (rows, given columns).
    """

    who: np.ndarray
    drawn: np.ndarray
    codes: np.ndarray
    stays: np.ndarray
    times: np.ndarray | None
    beside: np.ndarray | None
    copied: np.ndarray
    given: np.ndarray


class Above(NamedTuple):
    """What the rows of one table hang on: drawn rows of its parent, one to each place in these arrays.

    Attributes:
        codes: of the parent and of the root, int64 (parents, columns).
        counts: how many rows each parent has, int64 (parents,).
        times: where they begin on the line of times, (parents,); None without an order.
        root: number of each parent's person.
        beside: drawn rows of the table beside which its rows lie; None if there is none.
        neighbours: the same rows by their times, on the table's own line.
    """

    codes: np.ndarray
    counts: np.ndarray
    times: np.ndarray | None
    root: np.ndarray
    beside: Rows | None = None
    neighbours: Neighbours | None = None


class Reached(NamedTuple):
    """Where the rows of each parent that has another one have come to.

    Attributes:
        who: numbers of the parents, int64 (rows,), ascending.
        now: the times of their next rows, (rows,); None without an order.
        previous: codes of the rows before, int64 (rows, columns); -1 where there is none.
        turn: how many rows came before each at its very time, int64 (rows,).
    """

    who: np.ndarray
    now: np.ndarray | None
    previous: np.ndarray
    turn: np.ndarray


class Upon(NamedTuple):
    """What the rows of one place are drawn upon.

    Attributes:
        who: numbers of their parents, int64 (rows,), ascending.
        given: what the model is given, int (rows, given columns).
        previous: codes of the rows before, int64 (rows, columns); -1 where there is none.
        own: own codes of what is beside, int (rows, columns); -1 where nothing is.
        left: how many rows follow, int64 (rows,).
        now: their times, (rows,); None without an order.
    """

    who: np.ndarray
    given: np.ndarray
    previous: np.ndarray
    own: np.ndarray
    left: np.ndarray
    now: np.ndarray | None

    def of(self, rows: np.ndarray) -> Upon:
        """Return what some rows are drawn upon."""
        now = None if self.now is None else self.now[rows]
        return Upon(self.who[rows], self.given[rows], self.previous[rows], self.own[rows], self.left[rows], now)


@dataclass(frozen=True)
class Following:
    """Draws the rows of one table, a parent's one after the other.

    Attributes:
        table: how it hangs on its parent.
        model: draws a row's own codes upon what is given.
        codec: of its own columns.
        context: composes what is given.
        clock: codes the time of each row; None without an order.
        order: the source's column that rows are ordered by; None without an order.
        dated: leads to the days and hours on which rows lie; None where they lie on all alike.
        end: the time beyond which there are no rows, since histories end there together; None where they do not.
    """

    table: Related
    model: GenerativeModel
    codec: TableCodec
    context: Context
    clock: Clock | None
    order: Column | None
    dated: DatedGaps | None = None
    end: float | None = None

    def parts(self, above: Above, rng: np.random.Generator) -> list[Part]:
        """Return the rows of each place, the first one's first."""
        counts, times = above.counts.copy(), None if above.times is None else above.times.copy()
        previous = np.full((len(counts), len(self.codec.columns)), -1, np.int64)
        turn = np.zeros(len(counts), np.int64)
        had = HadBefore.of(self.table, self.codec, len(counts))
        parts: list[Part] = []
        for place in range(int(counts.max(initial=0))):
            who = np.flatnonzero(counts > place)
            now = None if times is None else times[who].copy()
            part, gaps = self._next(above, place, Reached(who, now, previous[who], turn[who]), had, rng)
            if had is not None:
                if had.timed and (again := had.again(who, part.codes)).any():
                    self._later(above, place, parts[-1], (part, gaps), np.flatnonzero(again), rng)
                    had.move_on(who[again])
                    turn[who[again]] = 0
                had.add(who, part.codes)
                had.move_on(who[gaps != 0])
            parts.append(part)
            previous[who] = part.codes
            if times is not None:
                times[who] = part.times + gaps
                turn[who] = np.where(gaps == 0, turn[who] + 1, 0)
                if self.end is not None:
                    counts[who[times[who] > self.end]] = place + 1
        return parts

    def _next(
        self, above: Above, place: int, reached: Reached, had: HadBefore | None, rng: np.random.Generator
    ) -> tuple[Part, np.ndarray]:
        """Return the rows of one place, and the distances to the next ones; without an order, they are 0.

        Args:
            had: what rows of their parents have had that none may have twice; None if they may.
        """
        who, now, previous, turn = reached
        left = above.counts[who] - place - 1
        matched = None if self.context.beside is None or now is None else self._beside(above, who, now, turn)
        beside = None if matched is None else matched.taken(_codes_of(above.beside))
        time = None if now is None else self._time_codes(now)
        given = self.context.given(above.codes[who], np.full(len(who), place), left, previous, time, beside)
        own = (
            np.full(previous.shape, -1) if matched is None or beside is None else self._own_codes(beside, matched, rng)
        )
        upon = Upon(who, given, previous, own, left, now)
        follows, gaps = self._followed(upon, had, rng)
        if self.dated is not None and now is not None:
            self._lead(self.dated, (follows, gaps), upon, had, rng)
        stays, copied = self.context.stays(follows, previous), self.context.copied(follows, own)
        codes = self.context.absolute(follows, previous, own)
        if matched is not None and self.context.beside is not None:
            ends = copied[:, self.context.beside.gap]
            gaps = np.where(ends & (matched.until >= 0), matched.until, gaps)
            ends[:] = False  # a distance is no value of the row beside
        if now is not None:
            gaps = self._before_end(gaps, codes, now, left, rng)
        rows = None if matched is None else matched.rows
        return Part(who, follows, codes, stays, now, rows, copied, given.astype(np.int16)), gaps

    def _followed(self, upon: Upon, had: HadBefore | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows, and the distances to the next ones; without an order, they are 0.

        One that has what its parent must not have twice, at whatever time, is drawn anew, so often.
        """
        follows, gaps = self._drawn(upon, rng)
        pending = np.arange(len(follows) if had is not None and not had.timed else 0)
        for _ in range(TRIES):
            if had is None or not len(pending):
                break
            of_pending = upon.of(pending)
            codes = self.context.absolute(follows[pending], of_pending.previous, of_pending.own)
            pending = pending[had.again(of_pending.who, codes)]
            follows[pending], gaps[pending] = self._drawn(upon.of(pending), rng)
        return follows, gaps

    def _drawn(self, upon: Upon, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        follows = self.model.follow(upon.given, forbidden=self.codec.forbidden, rng=rng)
        codes = self.context.absolute(follows, upon.previous, upon.own)
        return follows, np.zeros(len(follows), np.int64) if upon.now is None else self._gaps(codes, rng)

    def _lead(
        self,
        dated: DatedGaps,
        drawn: tuple[np.ndarray, np.ndarray],
        upon: Upon,
        had: HadBefore | None,
        rng: np.random.Generator,
    ) -> None:
        """Place distances where rows lie, and draw anew, in place, rows that lead to where few do.

        A distance that ends where the next row beside begins leads there, whatever day that is.

        Args:
            drawn: codes and distances.
        """
        number, (follows, gaps) = self.codec.encoded.index(str(self.table.gap)), drawn
        pending = np.flatnonzero(upon.left > 0)
        for tries in range(TRIES + 1):
            of_pending = upon.of(pending)
            if tries:
                follows[pending], gaps[pending] = self._followed(of_pending, had, rng)
            codes = self.context.absolute(follows[pending], of_pending.previous, of_pending.own)[:, number]
            free = ~self.context.copied(follows[pending], of_pending.own)[:, number]
            now = of_pending.now
            assert now is not None
            likely = np.where(free, dated.likely(gaps[pending], codes, now), 1.0)
            gaps[pending] = np.where(free, dated.placed(gaps[pending], codes, now, rng), gaps[pending])
            pending = pending[rng.random(len(pending)) >= likely]

    def _later(
        self,
        above: Above,
        place: int,
        last: Part,
        drawn: tuple[Part, np.ndarray],
        rows: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """Have rows lie later than the rows before, and draw them anew for that time, in place.

        They had what their parents must not have twice at one time. It is likelier that time went on than that they have
        something else. It goes on by distances that are as frequent as those that were released.

        Args:
            last: the rows before, whose distances change.
            drawn: the rows of this place, and the distances to the next ones.
            rows: numbers of those that lie later, int64.
        """
        (part, gaps), number = drawn, self.codec.encoded.index(str(self.table.gap))
        who, further = part.who[rows], self._further(len(rows), rng)
        if further is None or part.times is None or last.times is None:
            return
        at = np.searchsorted(last.who, who)
        for codes in (last.codes, last.drawn):
            codes[at, number] = further
        last.stays[at, number] = False
        distances = self._gaps(last.codes[at], rng)
        if self.dated is not None:
            distances = self.dated.placed(distances, further, last.times[at], rng)
        left = above.counts[who] - place
        now = last.times[at] + self._before_end(distances, last.codes[at], last.times[at], left, rng)
        reached = Reached(who, now, last.codes[at], np.zeros(len(rows), np.int64))
        other, gaps[rows] = self._next(above, place, reached, None, rng)
        for name in ("drawn", "codes", "stays", "times", "beside", "copied", "given"):
            if (values := getattr(part, name)) is not None:
                values[rows] = getattr(other, name)

    def _further(self, rows: int, rng: np.random.Generator) -> np.ndarray | None:
        """Return codes of distances above 0, as frequent as those released, int64 (rows,); None if there are none."""
        number = self.codec.encoded.index(str(self.table.gap))
        column, codec = self.codec.modelled[number], self.codec.columns[number]
        points, null = offsets.points_of(codec.decode(np.arange(codec.cardinality), rng), column)
        shares = np.where(null | (points <= 0), 0.0, codec.marginal)
        return rng.choice(len(shares), rows, p=shares / shares.sum()) if shares.sum() > 0 else None

    def _beside(self, above: Above, who: np.ndarray, now: np.ndarray, turn: np.ndarray) -> Matched:
        """Return what lies beside rows of these parents."""
        if above.neighbours is None:
            raise InvalidInput(f"{self.table.name} lies beside a table of which no rows were drawn.")
        return above.neighbours.matched(who, now, turn)

    def _own_codes(self, beside: RowsBeside, matched: Matched, rng: np.random.Generator) -> np.ndarray:
        """Return the own codes of what is beside, -1 where nothing is, and of distances until the next row there.

        Where no more row lies there, rows go on at distances that are as frequent as those that were released.
        """
        assert self.context.beside is not None
        own, number = self.context.beside.copied(beside.codes), self.context.beside.gap
        column, codec, none = self.codec.modelled[number], self.codec.columns[number], matched.until < 0
        own[:, number] = codec.encode(offsets.values_at(matched.until, none, column))
        further = self._further(int(none.sum()), rng)
        own[none, number] = -1 if further is None else further
        return own

    def _time_codes(self, times: np.ndarray) -> np.ndarray:
        assert self.clock is not None
        assert self.order is not None
        return self.clock.coded(at_points(times, self.order))

    def _room(self, times: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return how far the next row may be, float64 (rows,); infinite where none follows or no end was declared."""
        upper = None if self.order is None else self.order.upper
        if upper is None:
            return np.full(len(times), np.inf)
        return np.where(left > 0, np.maximum(float(grid.axis_value(upper)) - times, 0), np.inf)

    def _before_end(
        self, gaps: np.ndarray, codes: np.ndarray, now: np.ndarray, left: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return distances to next rows of which none leads beyond the order's end.

        Where one would, the rows that are left are taken to lie anywhere before that end, one place as likely as another,
        and the next one is the first of them: as finely as distances are written, on days and hours on which rows lie.

        Args:
            codes: of the rows, int64 (rows, columns); now: their times; left: how many rows follow each.
        """
        number, room = self.codec.encoded.index(str(self.table.gap)), self._room(now, left)
        gap, pending = self.codec.columns[number], np.flatnonzero(gaps > room)
        days = self.order is not None and self.order.kind.name == "date"
        step = 1.0 if days else gap.step if isinstance(gap, AxisCodec) else 0.0  # whole days, however they were coded
        for _ in range(TRIES):
            anywhere = _first_of(room[pending], left[pending], rng)
            gaps[pending] = anywhere // step * step if step else anywhere
            if self.dated is None or not len(pending):
                break
            likely = self.dated.likely(gaps[pending], codes[pending, number], now[pending])
            pending = pending[rng.random(len(pending)) >= likely]
        return gaps

    def _gaps(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the distance from each row to the next; 0 where none was drawn."""
        number = self.codec.encoded.index(str(self.table.gap))
        gap, values = self.codec.modelled[number], self.codec.columns[number].decode(codes[:, number], rng)
        gaps = np.maximum(offsets.points_of(values, gap)[0], 0)
        days = self.order is not None and self.order.kind.name == "date"
        return gaps // grid.DAY if days and gap.kind.name == "duration" else gaps  # as an earlier version coded them


def _first_of(room: np.ndarray, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return where the first of so many rows lies that lie anywhere before an end, float64 (rows,).

    Args:
        room: how far off the end is, float64 (rows,).
        left: how many rows there are, int64 (rows,).
    """
    return room * (1 - rng.random(len(room)) ** (1 / np.maximum(left, 1)))


def _codes_of(rows: Rows | None) -> np.ndarray:
    assert rows is not None
    return rows.codes


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
    """

    relations: Relations
    sources: Mapping[str, TableSchema]
    folders: Mapping[str, Path]
    rules: Sequence[Rule] = ()
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
        return DrawnTables(self._written(drawn, rng), effective, redrawn)

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
        return RuleKeeping.of(self.relations, self.sources, self.rules, facts, rng, also).kept(first, draw, rng)

    def _persons(
        self, persons: int, pool: Pool | None, rng: np.random.Generator, report: Report = unheard
    ) -> dict[str, Rows]:
        """Draw so many persons with all their rows."""
        drawn = {self.relations.root.name: self._root(persons, pool, rng)}
        for table in self.relations:
            report(len(drawn), len(self.folders))
            if table.parent is not None:
                rows, above = self._rows(table, drawn, rng), drawn[table.parent]
                drawn[table.name] = rows
                drawn[table.parent] = carrying(table, above, rows, self.sources[table.name], rng)
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
        columns = {name: [c.name for c in source.published] for name, source in self.sources.items()}
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
        self, name: str, model: GenerativeModel, codec: TableCodec, context: Context, profile: TableProfile
    ) -> Following:
        """Return what draws the rows of a table by a model, upon those above it, whose generators are known."""
        table = self.relations[name]
        if table.order is None:
            return Following(table, model, codec, context, None, None)
        times = clock(self.relations, name, lambda above: self._drawer(above).codec)
        order, gap = self.sources[name][table.order], codec.columns[codec.encoded.index(str(table.gap))]
        dated, end = DatedGaps.of(profile.calendar, order, gap), None if order.upper is not None else profile.end
        return Following(table, model, codec, context, times, order, dated, end)

    def _rows(self, table: Related, drawn: Mapping[str, Rows], rng: np.random.Generator) -> Rows:
        """Draw the rows of a table place by place, each upon what it hangs on."""
        drawer = self._drawer(table.name)
        above = self._above(table, drawn, drawer.profile, rng)
        context = kept_context(self.folders[table.name], drawer.facts)
        parts = self.following(table.name, drawer.model, drawer.codec, context, drawer.profile).parts(above, rng)
        rows = _joined(parts, above, drawer, rng)
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

    def _above(
        self, table: Related, drawn: Mapping[str, Rows], profile: TableProfile, rng: np.random.Generator
    ) -> Above:
        """Return what the rows of a table hang on, of drawn tables."""
        parents, parent = drawn[str(table.parent)], self.relations[str(table.parent)]
        orders = [None if t.order is None else self.sources[t.name][t.order] for t in (parent, table)]
        codec = self._drawer(parent.name).codec
        beginning = self.relations.beginning(table.name, codec.schema.names)
        lead = _leading(codec, parents.codes, beginning.distance, profile.calendar, orders[1], rng)
        counts, times = _shape(table, parents, codec.schema, orders, beginning, lead)
        hung = self._codes_above(table, drawn, np.arange(len(parents.codes)))
        above, other = Above(np.concatenate(hung, 1), counts, times, parents.root), self._lies_beside(table)
        if other is None or orders[1] is None:
            return above
        rows, order = drawn[other.name], self.sources[other.name][str(other.order)]
        assert rows.parent is not None
        assert rows.times is not None
        neighbours = Neighbours(rows.parent, offsets.in_units(rows.times, order, orders[1]))
        return above._replace(beside=rows, neighbours=neighbours)

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


Leading = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Takes distances, which of them there are, and the times they lead from; returns those that lead to where rows lie."""


def _leading(
    codec: TableCodec,
    codes: np.ndarray,
    distance: str | None,
    calendar: CalendarEffects | None,
    order: Column | None,
    rng: np.random.Generator,
) -> Leading | None:
    """Return what leads from a parent's time to its first row; None if rows begin at no distance, or on all days alike.

    Args:
        codes: of the parents, int64 (parents, columns); distance: the column of theirs that holds how far off rows begin.
        calendar, order: of the times of the rows.
    """
    if distance is None:
        return None
    number = codec.encoded.index(distance)
    dated = DatedGaps.of(calendar, order, codec.columns[number])
    if dated is None:
        return None

    def lead(distances: np.ndarray, there: np.ndarray, times: np.ndarray) -> np.ndarray:
        found = distances.copy()
        found[there] = dated.placed(distances[there], codes[there, number], times[there], rng)
        return found

    return lead


def _shape(
    table: Related,
    parents: Rows,
    schema: TableSchema,
    orders: Sequence[Column | None],
    beginning: Beginning,
    lead: Leading | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many rows each parent row has, and when they begin; one that begins at no time has none.

    Args:
        schema: of the parent's values.
        orders: what the parent's rows, and the table's, are ordered by.
        beginning: how the parent says when they begin.
        lead: places distances to first rows; None if they stay as they were drawn.
    """
    counts = pc.fill_null(parents.values[table.count], 0).to_numpy().astype(np.int64)
    counts = np.clip(counts, 0, table.max_rows)
    start, order = orders
    if order is None:
        return counts, None
    begun, points = np.ones(len(counts), bool), parents.times
    if beginning.time is not None:
        start = schema[beginning.time]
        points, begun = _points(parents, start)
    assert points is not None
    assert start is not None
    points = offsets.in_units(points, start, order)
    if beginning.distance is not None:
        distances, valid = _points(parents, schema[beginning.distance])
        begun = begun & valid
        points = points + (distances if lead is None else lead(distances, begun, points))
    low, high = (end if end is None else grid.axis_value(end) for end in (order.lower, order.upper))
    points = points if low is None and high is None else np.clip(points, low, high)
    return np.where(begun, counts, 0), points


def _points(rows: Rows, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawn column's points on its number line, and whether there is a value, bool (rows,)."""
    values = rows.values[column.name].combine_chunks()
    return offsets.points_of(values, column)[0], np.asarray(values.is_valid())


def _joined(parts: Sequence[Part], above: Above, drawer: Drawer, rng: np.random.Generator) -> Rows:
    """Return the rows of all places, ordered by parent and place."""
    columns = len(drawer.codec.columns)
    parent = np.concatenate([np.zeros(0, np.int64), *(p.who for p in parts)])
    codes = np.concatenate([np.zeros((0, columns), np.int64), *(p.codes for p in parts)])
    stays = np.concatenate([np.zeros((0, columns), bool), *(p.stays for p in parts)])
    copied = np.concatenate([np.zeros((0, columns), bool), *(p.copied for p in parts)])
    began = above.times
    whole = None if began is None else np.concatenate([began[:0], *(p.times for p in parts if p.times is not None)])
    order = np.argsort(parent, kind="stable")  # places come one after the other
    parent, stays = parent[order], stays[order]
    succession = Succession(np.append(True, parent[1:] != parent[:-1])[: len(parent)], stays)
    values = pa.Table.from_batches([drawer.codec.decode(codes[order], rng=rng, succession=succession)])
    if above.beside is not None and copied.any():
        rows = np.concatenate([p.beside for p in parts if p.beside is not None])
        values = copying(values, drawer.codec.encoded, copied[order], above.beside.values, rows[order])
    values = staying(values, drawer.codec.encoded, stays)
    return Rows(values, codes[order], parent, above.root[parent], None if whole is None else whole[order])


def copying(values: pa.Table, names: Sequence[str], copied: np.ndarray, beside: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return values of which those that are as in the row beside are that row's.

    Args:
        names: the columns that have codes.
        copied: which values are, bool (rows, len(names)); of columns that the other table has not, none is copied.
        beside: the rows of that table.
        rows: number of the row beside each, int64 (rows,).
    """
    for name, same in zip(names, copied.T, strict=True):
        if same.any() and name in beside.column_names:
            there = beside[name].take(pa.array(np.maximum(rows, 0)))
            copies = pc.if_else(pa.array(same), there, values[name])  # type: ignore[attr-defined]
            values = values.set_column(values.column_names.index(name), name, copies)
    return values


def staying(values: pa.Table, names: Sequence[str], stays: np.ndarray) -> pa.Table:
    """Return values of which those that stay are the row's before, also where one code stands for several values.

    Args:
        names: the columns that have codes.
        stays: which values stay, bool (rows, len(names)); none in the first row of a parent.
    """
    rows = np.arange(len(stays))
    for name, same in zip(names, stays.T, strict=True):
        if same.any():
            source = np.maximum.accumulate(np.where(same, 0, rows))
            values = values.set_column(values.column_names.index(name), name, values[name].take(pa.array(source)))
    return values
