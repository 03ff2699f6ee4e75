"""Draws the rows of one table upon those above them, a parent's rows one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.base import Possible
from dp_synth_pipeline.model.histories.context import Beside, Context, RowsBeside
from dp_synth_pipeline.model.histories.pair_weights import PairWeights
from dp_synth_pipeline.model.histories.so_far import Past
from dp_synth_pipeline.model.marginals.dependencies import NOTHING, Impossible
from dp_synth_pipeline.relations.adding_up import AddingUp, Total, columns_of, totals_of, with_values
from dp_synth_pipeline.relations.clock import Clock
from dp_synth_pipeline.relations.had_before import HadBefore
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.synthesis.database.beside import Matched, Neighbours, NumbersBeside, numbers_beside
from dp_synth_pipeline.synthesis.database.dated_gaps import TRIES, DatedGaps
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, at_points
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.copula import Succession
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.schema import Column

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
        added: values of running totals and their terms, float64 (rows, `columns_of` these); None if there are no totals.
    """

    who: np.ndarray
    drawn: np.ndarray
    codes: np.ndarray
    stays: np.ndarray
    times: np.ndarray | None
    beside: np.ndarray | None
    copied: np.ndarray
    given: np.ndarray
    added: np.ndarray | None = None

    def replaced(self, rows: np.ndarray, by: Part) -> Part:
        """Return the part with other rows in the place of some, whose parents are the same."""
        drawn = {name: values for name, values in vars(self).items() if name != "who" and values is not None}
        return replace(self, **{name: _replaced(values, rows, getattr(by, name)) for name, values in drawn.items()})

    def leading(self, rows: np.ndarray, column: int, distances: np.ndarray) -> Part:
        """Return the part with other codes of the distance to the next row, in some rows.

        Args:
            column: number of the column that holds it.
        """
        codes, drawn = (_replaced(values, (rows, column), distances) for values in (self.codes, self.drawn))
        return replace(self, codes=codes, drawn=drawn, stays=_replaced(self.stays, (rows, column), False))


def _replaced(values: np.ndarray, where: Any, by: Any) -> np.ndarray:
    """Return values of which some are others."""
    found = values.copy()
    found[where] = by
    return found


class Above(NamedTuple):
    """What the rows of one table hang on: drawn rows of its parent, one to each place in these arrays.

    Attributes:
        codes: of the parent and of the root, int64 (parents, columns).
        counts: how many rows each parent has, int64 (parents,).
        times: where they begin on the line of times, (parents,); None without an order.
        root: number of each parent's person.
        beside: drawn rows of the table beside which its rows lie; None if there is none.
        neighbours: the same rows by their times, on the table's own line.
        ends: the times after which each parent has no rows, float64 (parents,); infinite where there is none.
    """

    codes: np.ndarray
    counts: np.ndarray
    times: np.ndarray | None
    root: np.ndarray
    beside: Rows | None = None
    neighbours: Neighbours | None = None
    ends: np.ndarray | None = None


class Reached(NamedTuple):
    """Where the rows of each parent that has another one have come to.

    Attributes:
        who: numbers of the parents, int64 (rows,), ascending.
        now: the times of their next rows, (rows,); None without an order.
        previous: codes of the rows before, int64 (rows, columns); -1 where there is none.
        turn: how many rows came before each at its very time, int64 (rows,).
        past: what their histories were like; None if that is not given.
        totals: what their running totals came to; None if there are none.
    """

    who: np.ndarray
    now: np.ndarray | None
    previous: np.ndarray
    turn: np.ndarray
    past: Past | None
    totals: AddingUp | None


class Upon(NamedTuple):
    """What the rows of one place are drawn upon.

    Attributes:
        who: numbers of their parents, int64 (rows,), ascending.
        given: what the model is given, int (rows, given columns).
        previous: codes of the rows before, int64 (rows, columns); -1 where there is none.
        own: own codes of what is beside, int (rows, columns); -1 where nothing is.
        left: how many rows follow, int64 (rows,).
        now: their times, (rows,); None without an order.
        most: the codes that were most frequent so far, int64 (rows, columns), -1 where none was; None if that is not known.
        totals: what the running totals of all parents came to; None if there are none.
    """

    who: np.ndarray
    given: np.ndarray
    previous: np.ndarray
    own: np.ndarray
    left: np.ndarray
    now: np.ndarray | None
    most: np.ndarray | None
    totals: AddingUp | None

    def of(self, rows: np.ndarray) -> Upon:
        """Return what some rows are drawn upon."""
        return Upon(*(values[rows] if isinstance(values, np.ndarray) else values for values in self))  # type: ignore[arg-type]


class Drawn(NamedTuple):
    """Rows of one place as they were drawn.

    Attributes:
        codes: int64 (rows, columns), of which some say "as in another row".
        gaps: the distances to the next rows, (rows,); without an order, they are 0.
        added: values of running totals and their terms, float64 (rows, `columns_of` these); None if there are no totals.
    """

    codes: np.ndarray
    gaps: np.ndarray
    added: np.ndarray | None

    def of(self, rows: np.ndarray) -> Drawn:
        """Return some of the rows."""
        return Drawn(*(None if values is None else values[rows] for values in self))  # type: ignore[arg-type]

    def put(self, rows: np.ndarray, others: Drawn) -> None:
        """Let others be in the place of some rows."""
        for own, theirs in zip(self, others, strict=True):
            if own is not None:
                own[rows] = theirs


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
        impossible: which codes no row has together.
        weights: what makes some codes likelier together than the model draws them.
        imputes: whether released categories stand for those that are not; else their code stays, as it was learnt.
    """

    table: Related
    model: GenerativeModel
    codec: TableCodec
    context: Context
    clock: Clock | None
    order: Column | None
    dated: DatedGaps | None = None
    end: float | None = None
    impossible: Impossible = NOTHING
    weights: PairWeights = field(default_factory=PairWeights)
    imputes: bool = True

    @property
    def totals(self) -> tuple[Total, ...]:
        """The running totals that are learnt as such."""
        return totals_of(self.table, self.codec) if self.context.running else ()

    def parts(self, above: Above, rng: np.random.Generator) -> list[Part]:
        """Return the rows of each place, the first one's first."""
        counts, times = above.counts.copy(), None if above.times is None else above.times.copy()
        previous = np.full((len(counts), len(self.codec.columns)), -1, np.int64)
        turn = np.zeros(len(counts), np.int64)
        had, histories = HadBefore.of(self.table, self.codec, len(counts)), self.context.histories(len(counts))
        totals = AddingUp(self.totals, self.codec, len(counts)) if self.context.running else None
        parts: list[Part] = []
        for place in range(int(counts.max(initial=0))):
            who = np.flatnonzero(counts > place)
            now = None if times is None else times[who].copy()
            past = None if histories is None else histories.past(who)
            reached = Reached(who, now, previous[who], turn[who], past, totals)
            part, gaps = self._next(above, place, reached, had, rng)
            if had is not None:
                if had.timed and (again := had.again(who, part.codes)).any():
                    drawn = self._later(above, place, (parts[-1], part, gaps), np.flatnonzero(again), reached, rng)
                    parts[-1], part, gaps = drawn
                    had.move_on(who[again])
                    turn[who[again]] = 0
                had.add(who, part.codes)
                had.move_on(who[gaps != 0])
            parts.append(part)
            previous[who] = part.codes
            if histories is not None:
                histories.add(who, part.codes)
            if totals is not None and part.added is not None:
                totals.add(who, part.added)
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
        who, now, previous, turn, past, totals = reached
        told, most = (None, None) if past is None else past
        left = above.counts[who] - place - 1
        matched = self._beside(above, who, now, turn)
        numbers = None if matched is None else self._numbers(above, matched)
        beside = None if matched is None else matched.taken(_codes_of(above.beside))
        if beside is not None and numbers is not None:
            beside = beside._replace(numbers=numbers.codes)
        time = None if now is None else self._time_codes(now)
        given = self.context.given(above.codes[who], np.full(len(who), place), left, previous, time, beside, told)
        own = (
            np.full(previous.shape, -1)
            if matched is None or beside is None
            else self._own_codes(beside, matched, numbers, rng)
        )
        upon = Upon(who, given, previous, own, left, now, most, totals)
        drawn = self._followed(upon, had, rng)
        if self.dated is not None and now is not None:
            self._lead(self.dated, drawn, upon, had, rng)
        follows, gaps, added = drawn
        stays, copied = self.context.stays(follows, previous), self.context.copied(follows, own)
        codes = self._codes(follows, upon)
        if totals is not None and added is not None:
            totals.code(codes, added, self.context.directions(follows))
        if matched is not None and self.context.beside is not None and not self.context.beside.above:
            ends = copied[:, self.context.beside.gap]
            gaps = np.where(ends & (matched.until >= 0), matched.until, gaps)
            ends[:] = False  # a distance is no value of the row beside
        if now is not None:
            gaps = self._before_end(gaps, codes, now, left, rng, None if above.ends is None else above.ends[who])
        rows = None if matched is None else matched.rows
        return Part(who, follows, codes, stays, now, rows, copied, given.astype(np.int16), added), gaps

    def _followed(self, upon: Upon, had: HadBefore | None, rng: np.random.Generator) -> Drawn:
        """Draw rows.

        One that has what its parent must not have twice, at whatever time, is drawn anew, so often; and one whose total
        leads beyond what was released. The first of several that will do is taken: few rows take hardly longer than one.
        """
        found = self._drawn(upon, rng)
        if (had is None or had.timed) and upon.totals is None:
            return found
        pending, tries, most = np.flatnonzero(self._again(upon, found, had)), 0, len(found.codes)
        while len(pending) and tries < TRIES:
            times = min(max(most // len(pending), 1), TRIES - tries)
            each = np.repeat(pending, times)
            others = self._drawn(upon.of(each), rng)
            will_do = ~self._again(upon.of(each), others, had).reshape(len(pending), times)
            chosen = np.where(will_do.any(1), will_do.argmax(1), times - 1)
            found.put(pending, others.of(np.arange(len(pending)) * times + chosen))
            pending, tries = pending[~will_do.any(1)], tries + times
        return found

    def _again(self, upon: Upon, drawn: Drawn, had: HadBefore | None) -> np.ndarray:
        """Say which rows have what they must not have, bool (rows,)."""
        again = np.zeros(len(drawn.codes), bool)
        if had is not None and not had.timed:
            again |= had.again(upon.who, self._codes(drawn.codes, upon))
        if upon.totals is not None and drawn.added is not None:
            again |= upon.totals.beyond(drawn.added)
        return again

    def _drawn(self, upon: Upon, rng: np.random.Generator) -> Drawn:
        forbidden = self.codec.forbidden if self.imputes else {}
        follows = self.model.follow(upon.given, forbidden=forbidden, allowed=partial(self._possible, upon), rng=rng)
        codes, added = self._codes(follows, upon), None
        if upon.totals is not None:
            stays = self.context.stays(follows, upon.previous)
            added = upon.totals.values(upon.who, codes, stays, self.context.directions(follows), rng)
        return Drawn(follows, np.zeros(len(follows), np.int64) if upon.now is None else self._gaps(codes, rng), added)

    def _codes(self, drawn: np.ndarray, upon: Upon) -> np.ndarray:
        """Return the codes for which drawn ones stand, int64 (rows, columns), of the first columns or of all."""
        return self.context.absolute(drawn, upon.previous, upon.own, upon.most)

    def _possible(self, upon: Upon, rows: np.ndarray, column: int, before: np.ndarray) -> Possible | None:
        """Say which codes of a column are possible after other rows, and beside those before it; None if all alike are."""
        told = [(first, never) for (first, second), never in self.impossible.cells.items() if second == column]
        weighed = self.weights.upon(column)
        if not told and not weighed and self.context.own_cardinalities[column] == len(self.context.own[column]):
            return None  # no code of it says "as in another row"
        previous, own, most = upon.previous[rows], upon.own[rows], None if upon.most is None else upon.most[rows]
        frequent = None if most is None else most[:, column]
        found = self.context.possible(column, previous[:, column], own[:, column], frequent)
        if told or weighed:
            codes = self.context.absolute(before, previous, own, most)
            standing = self.context.standing_for(column, previous, own, most)
            for first, never in told:
                found.may[:] &= ~_with_standing(never[codes[:, first]], standing)
            if weighed:
                leaning = np.sum([cells[codes[:, first]] for first, cells in weighed.items()], axis=0)
                return found._replace(leaning=_with_standing(leaning, standing))
        return found

    def _lead(
        self,
        dated: DatedGaps,
        drawn: Drawn,
        upon: Upon,
        had: HadBefore | None,
        rng: np.random.Generator,
    ) -> None:
        """Place distances where rows lie, and draw anew, in place, rows that lead to where few do.

        A distance that ends where the next row beside begins leads there, whatever day that is.
        """
        number, (follows, gaps, _) = self.codec.encoded.index(str(self.table.gap)), drawn
        pending = np.flatnonzero(upon.left > 0)
        for tries in range(TRIES + 1):
            of_pending = upon.of(pending)
            if tries:
                drawn.put(pending, self._followed(of_pending, had, rng))
            codes = self._codes(follows[pending], of_pending)[:, number]
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
        drawn: tuple[Part, Part, np.ndarray],
        rows: np.ndarray,
        reached: Reached,
        rng: np.random.Generator,
    ) -> tuple[Part, Part, np.ndarray]:
        """Return rows of which some lie later, drawn anew for that time, with those before them and distances to the next.

        They had what their parents must not have twice at one time. It is likelier that time went on than that they have
        something else. It goes on by distances that are as frequent as those that were released.

        Args:
            drawn: the rows before, of which some lead further then; the rows of this place; and their distances.
            rows: numbers of those that lie later, int64.
            reached: where all rows of this place had come to.
        """
        (last, part, gaps), number = drawn, self.codec.encoded.index(str(self.table.gap))
        who, further = part.who[rows], self._further(len(rows), rng)
        if further is None or last.times is None:
            return drawn
        at = np.searchsorted(last.who, who)
        last = last.leading(at, number, further)
        codes, times = last.codes[at], np.asarray(last.times)[at]
        distances = self._gaps(codes, rng)
        if self.dated is not None:
            distances = self.dated.placed(distances, further, times, rng)
        ends = None if above.ends is None else above.ends[who]
        now = times + self._before_end(distances, codes, times, above.counts[who] - place, rng, ends)
        past = None if reached.past is None else reached.past.of(rows)
        later = Reached(who, now, codes, np.zeros(len(rows), np.int64), past, reached.totals)
        other, others = self._next(above, place, later, None, rng)
        return last, part.replaced(rows, other), _replaced(gaps, rows, others)

    def _further(self, rows: int, rng: np.random.Generator) -> np.ndarray | None:
        """Return codes of distances above 0, as frequent as those released, int64 (rows,); None if there are none."""
        number = self.codec.encoded.index(str(self.table.gap))
        column, codec = self.codec.modelled[number], self.codec.columns[number]
        points, null = offsets.points_of(codec.decode(np.arange(codec.cardinality), rng), column)
        shares = np.where(null | (points <= 0), 0.0, codec.marginal)
        return rng.choice(len(shares), rows, p=shares / shares.sum()) if shares.sum() > 0 else None

    def _beside(self, above: Above, who: np.ndarray, now: np.ndarray | None, turn: np.ndarray) -> Matched | None:
        """Return what lies beside rows of these parents; None if they are drawn upon no such rows."""
        how = self.context.beside
        if how is not None and how.above:
            return Matched.above(who)
        if how is None or now is None:
            return None
        if above.neighbours is None:
            raise InvalidInput(f"{self.table.name} lies beside a table of which no rows were drawn.")
        return above.neighbours.matched(who, now, turn)

    def _numbers(self, above: Above, matched: Matched) -> NumbersBeside | None:
        """Return the numbers of what is beside rows that may be as there; None if there are none."""
        how = self.context.beside
        if how is None or not how.numbers or above.beside is None:
            return None
        return numbers_beside(self.codec, how, matched.rows, above.beside.values)

    def _own_codes(
        self, beside: RowsBeside, matched: Matched, numbers: NumbersBeside | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the own codes of what is beside, -1 where nothing is, and of distances until the next row there.

        Where no more row lies there, rows go on at distances that are as frequent as those that were released.
        """
        assert self.context.beside is not None
        own, number = self.context.beside.copied(beside.codes), self.context.beside.gap
        if numbers is not None:
            own[:, self.context.beside.numbers] = np.where(numbers.may, numbers.codes, -1)
        if self.context.beside.above:
            return own
        column, codec, none = self.codec.modelled[number], self.codec.columns[number], matched.until < 0
        own[:, number] = codec.encode(offsets.values_at(matched.until, none, column))
        further = self._further(int(none.sum()), rng)
        own[none, number] = -1 if further is None else further
        return own

    def _time_codes(self, times: np.ndarray) -> np.ndarray:
        assert self.clock is not None
        assert self.order is not None
        return self.clock.coded(at_points(times, self.order))

    def _room(self, times: np.ndarray, left: np.ndarray, ends: np.ndarray | None = None) -> np.ndarray:
        """Return how far the next row may be, float64 (rows,); infinite where none follows or nothing ends.

        Args:
            ends: the times after which their parents have no rows; None if they may at any time.
        """
        upper = None if self.order is None else self.order.upper
        last = np.full(len(times), np.inf if upper is None else float(grid.axis_value(upper)))
        last = last if ends is None else np.minimum(last, ends)
        return np.where(left > 0, np.maximum(last - times, 0), np.inf)

    def _before_end(
        self,
        gaps: np.ndarray,
        codes: np.ndarray,
        now: np.ndarray,
        left: np.ndarray,
        rng: np.random.Generator,
        ends: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return distances to next rows of which none leads beyond the order's end, or its parent's.

        Where one would, the rows that are left are taken to lie anywhere before that end, one place as likely as another,
        and the next one is the first of them: as finely as distances are written, on days and hours on which rows lie.

        Args:
            codes: of the rows, int64 (rows, columns); now: their times; left: how many rows follow each; ends: see `_room`.
        """
        number, room = self.codec.encoded.index(str(self.table.gap)), self._room(now, left, ends)
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


def _with_standing(told: np.ndarray, standing: np.ndarray) -> np.ndarray:
    """Return what is told of own codes, (rows, own codes), with the same of those that stand for one, (rows, such codes)."""
    return np.concatenate([told, np.take_along_axis(told, standing, 1)], 1)


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


def joined(
    parts: Sequence[Part],
    above: Above,
    codec: TableCodec,
    rng: np.random.Generator,
    totals: Sequence[Total] = (),
    beside: Beside | None = None,
) -> Rows:
    """Return the rows of all places, ordered by parent and place.

    Args:
        totals: the running totals of the table, which have values already.
        beside: how they were drawn upon rows beside; None if they were not.
    """
    columns = len(codec.columns)
    parent = np.concatenate([np.zeros(0, np.int64), *(p.who for p in parts)])
    codes = np.concatenate([np.zeros((0, columns), np.int64), *(p.codes for p in parts)])
    stays = np.concatenate([np.zeros((0, columns), bool), *(p.stays for p in parts)])
    copied = np.concatenate([np.zeros((0, columns), bool), *(p.copied for p in parts)])
    began = above.times
    whole = None if began is None else np.concatenate([began[:0], *(p.times for p in parts if p.times is not None)])
    order = np.argsort(parent, kind="stable")  # places come one after the other
    parent, stays = parent[order], stays[order]
    succession = Succession(np.append(True, parent[1:] != parent[:-1])[: len(parent)], stays)
    values = pa.Table.from_batches([codec.decode(codes[order], rng=rng, succession=succession)])
    if totals:
        none = np.zeros((0, len(columns_of(totals))))
        added = np.concatenate([none, *(p.added for p in parts if p.added is not None)])
        values = with_values(values, totals, codec, added[order])
    if above.beside is not None and beside is not None and copied.any():
        names = dict(zip(codec.encoded, beside.names or codec.encoded, strict=True))
        rows = np.concatenate([p.beside for p in parts if p.beside is not None])
        values = copying(values, names, copied[order], above.beside.values, rows[order])
    values = staying(values, codec.encoded, stays)
    return Rows(values, codes[order], parent, above.root[parent], None if whole is None else whole[order])


def copying(
    values: pa.Table, names: Mapping[str, str], copied: np.ndarray, beside: pa.Table, rows: np.ndarray
) -> pa.Table:
    """Return values of which those that are as in the row beside are that row's.

    Args:
        names: the columns that have codes, each with the name of the one that is copied.
        copied: which values are, bool (rows, len(names)); of columns that the other table has not, none is copied.
        beside: the rows of that table.
        rows: number of the row beside each, int64 (rows,).
    """
    for (name, other), same in zip(names.items(), copied.T, strict=True):
        if same.any() and other in beside.column_names:
            there = beside[other].take(pa.array(np.maximum(rows, 0)))
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
