"""What a row of a history is drawn upon: whose it is, its place, how many follow, the time, the row before and one beside.

All of it enters a network as codes, merged to few a column: under noise, a code that few rows have is learnt from few rows.
What was merged follows from released shares alone. Of a number, though, all codes of the row before are given: which code
follows is learnt by how far it lies from that one, and this is as many numbers to learn whatever the code.

A category that stays as it was is a code of its own, "as in the row before". So how long somebody stays with a team is one
number to learn, and not one for each team. A number that has more codes than are told apart of the row before has it, too.
Another code is "as in the row beside", which is the same person's latest one, up to that time, in another table; or, of a
table that has none beside it, the parent's row. Of the distance to the next row, it says that it ends where the next row
beside begins. A number there is given by the own code that it would have: what is not the same is learnt by how far it lies
off.

What all rows before were like is given as well, of each column. A category has one more code, "as most often so far". A
running total, such as a balance, has two more: it goes on from the row before, forth or back, by what its row's terms hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from dp_synth_pipeline.model.base import Before, Possible
from dp_synth_pipeline.model.histories.so_far import LEVELS, SoFar, cardinalities

MOST = 12
"""Codes that one column is merged to, at most."""

EXACT = 11
"""Places, and numbers of rows left, from 0 that are told apart one by one; after them, each code has more of them."""

WIDER = 1.3
"""How many times as many places each further code has."""

REPEATS, NUMBERS_REPEAT = 0.5, 0.1
"""Share at which a value is taken to be as in the row before, or beside, before anything is learnt: others, and numbers."""

TOTALS_FOLLOW = 0.8
"""Likewise, share at which a running total is taken to follow from the row before, or to stay."""

NONE = 0
"""Code of a column of the row before, or beside, where there is none."""

NOW, BEFORE, LAST = 1, 2, 2
"""Codes of when the row beside was: at the row's own time, or before; and what is added if it is the last one there."""

TURNS = 5
"""Rows at one time that are told apart one by one; after them, all have one code."""


@dataclass(frozen=True)
class Beside:
    """How rows are drawn upon those of a table beside theirs, or upon their own parents' values.

    Attributes:
        given: which columns of the table beside are given: few, since under noise each one more makes all of them worse.
        merged: for each of these, the merged code of each of its codes; none of `numbers`, of which the own code is given
            that the value would have.
        namesakes: for each own column, which column beside is the same if values are; -1 if none is.
        copies: for each own column, its own code of each code of that column; -1 where it has none. None of a number, whose
            codes stand for several values each.
        gap: the own column that holds the distance to the next row; -1 if none does.
        names: for each own column, the name of the one beside whose value may be the same; none, if it is its own.
        above: whether the row beside is the parent's: nothing tells then when it was, nor is its gap any own one's.
    """

    given: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]
    namesakes: tuple[int, ...]
    copies: tuple[tuple[int, ...], ...]
    gap: int = -1
    names: tuple[str, ...] = ()
    above: bool = False

    @property
    def numbers(self) -> list[int]:
        """The own columns that are numbers beside as well: of these it is values that are the same, and not codes."""
        both = enumerate(zip(self.namesakes, self.copies, strict=True))
        return [column for column, (namesake, copies) in both if namesake >= 0 and not copies]

    def has_code(self, column: int) -> bool:
        """Say whether an own column has a code for "as in the row beside", or "until the next one"."""
        return self.namesakes[column] >= 0 or column == self.gap

    def copied(self, codes: np.ndarray) -> np.ndarray:
        """Return the own codes of values beside, int64 (rows, own columns); -1 where there is none, and of `numbers`.

        Args:
            codes: of the rows beside, int (rows, their columns); -1 where there is none.
        """
        found = np.full((len(codes), len(self.namesakes)), -1, dtype=np.int64)
        for column, (namesake, copies) in enumerate(zip(self.namesakes, self.copies, strict=True)):
            if namesake >= 0 and copies:
                beside = codes[:, namesake]
                found[:, column] = np.where(beside < 0, -1, np.array(copies)[beside])
        return found


class RowsBeside(NamedTuple):
    """The rows beside some rows.

    Attributes:
        codes: int (rows, their columns); -1 where there is none.
        when: `NONE`, `NOW` or `BEFORE`, with `LAST` added if no row there lies later, int (rows,).
        turn: how many rows of its parent came before each at its very time, int (rows,).
        numbers: the own codes that values beside would have, of `Beside.numbers`, int64 (rows, numbers); -1 where there is
            none. None if there are no such columns.
    """

    codes: np.ndarray
    when: np.ndarray
    turn: np.ndarray
    numbers: np.ndarray | None = None


@dataclass(frozen=True)
class Context:
    """Composes the codes that a row is drawn upon, and the codes of its own that are drawn.

    Attributes:
        parents: for each of the root's columns, the merged code of each of its codes.
        own: for each column of the child, the merged code of each of its codes; those of `moving` are not merged.
        repeats: for each column of the child, whether it has a code for "as in the row before"; it is the last one.
        places: the merged code of each place, and of each number of rows left.
        times: how many codes each fact of a row's time has; none if rows have no time.
        beside: how rows are drawn upon those of a table beside; None if they are not.
        numbers: the columns of the child that repeat and whose codes stand for several values each.
        moving: the columns of the child that are learnt by how far they lie from the row before.
        levels: for each column of the child, the place of each of its codes among its values, as `so_far.places` has it;
            empty for a category, which has a code for "as most often so far". None at all if it is not given what histories
            were like so far.
        running: the columns of the child that are running totals.
    """

    parents: tuple[tuple[int, ...], ...]
    own: tuple[tuple[int, ...], ...]
    repeats: tuple[bool, ...]
    places: tuple[int, ...]
    times: tuple[int, ...] = ()
    beside: Beside | None = None
    numbers: tuple[int, ...] = ()
    moving: tuple[int, ...] = ()
    levels: tuple[tuple[float, ...], ...] = ()
    running: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        parent_shares: Sequence[np.ndarray],
        own_shares: Sequence[np.ndarray],
        *,
        rows: int,
        times: Sequence[int] = (),
        categories: tuple[Sequence[int], Sequence[int]] = ((), ()),
        beside: Beside | None = None,
        following: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Self:
        """Return the context that released shares call for.

        Args:
            parent_shares: released 1-way probabilities of each of the root's columns.
            own_shares: of each of the child's columns.
            rows: most rows that a history has.
            times: how many codes each fact of a row's time has; none if rows have no time.
            categories: which of the root's, and which of the child's columns have codes in no order.
            beside: how rows are drawn upon those of a table beside.
            following: which of the child's columns are numbers that may be as in the row before, and which are learnt by how
                far they lie from it.
        """
        of_parents, of_own = (frozenset(c) for c in categories)
        numbers, moving = following
        staying = tuple(i for i in numbers if len(own_shares[i]) > MOST)  # of others, the code before tells the value
        return cls(
            tuple(merge(s, MOST, i not in of_parents) for i, s in enumerate(parent_shares)),
            tuple(merge(s, len(s) if i in moving else MOST, i not in of_own) for i, s in enumerate(own_shares)),
            tuple(i in of_own or i in staying for i in range(len(own_shares))),
            merge_places(rows),
            tuple(times),
            beside,
            staying,
            tuple(moving),
        )

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Codes of each given column: the root's, place, rows left, the time's, and the rows' before, so far and beside."""
        places = max(self.places) + 1
        return (
            *(max(m) + 1 for m in self.parents),
            places,
            places,
            *self.times,
            *(max(m) + 2 for m in self.own),
            *self._past,
            *self._of_beside,
        )

    @property
    def _of_beside(self) -> list[int]:
        """The codes of each column that tells of the row beside; none if rows are not drawn upon such."""
        if self.beside is None:
            return []
        own = {self.beside.namesakes[number]: len(self.own[number]) + 1 for number in self.beside.numbers}
        columns = zip(self.beside.given, self.beside.merged, strict=True)
        when = [] if self.beside.above else [BEFORE + LAST + 1, TURNS + 1]
        return [*(max(m) + 2 if m else own[column] for column, m in columns), *when]

    @cached_property
    def own_cardinalities(self) -> tuple[int, ...]:
        """Codes of each column that is drawn: its own, and those that say how it follows from other rows.

        These are: as in the row before, as in the row beside, as most often so far; forth, and back.
        """
        return tuple(int(end) for end in self._follows + 2 * self._is_running)

    def shares(self, parents: Sequence[np.ndarray], own: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return about how frequent each code of each column is, before anything is learnt of histories.

        What is given of other rows has the released shares, merged; of what nothing was released, all codes are alike.

        Args:
            parents: released 1-way probabilities of each of the root's columns; own: of each of the child's.
        """
        of_parents = [np.bincount(m, share) for m, share in zip(self.parents, parents, strict=True)]
        before = [np.append(1.0, np.bincount(m, share)) / 2 for m, share in zip(self.own, own, strict=True)]
        known = dict(enumerate(of_parents))
        known |= dict(enumerate(before, len(of_parents) + 2 + len(self.times)))
        given = [known.get(i, np.full(codes, 1 / codes)) for i, codes in enumerate(self.cardinalities)]
        numbers = [*self.numbers, *([] if self.beside is None else self.beside.numbers)]
        known_likely = dict.fromkeys(numbers, NUMBERS_REPEAT) | dict.fromkeys(self.running, TOTALS_FOLLOW)
        likely = [known_likely.get(i, REPEATS) for i in range(len(own))]
        return given + [
            _with_repeats(s, k - len(s), p) for s, k, p in zip(own, self.own_cardinalities, likely, strict=True)
        ]

    def orders(
        self, parents: Sequence[Sequence[int]], times: Sequence[Sequence[int]], own: Sequence[Sequence[int]]
    ) -> list[Sequence[int]]:
        """Return the codes that have an order of each given column, and of each column that is drawn.

        Args:
            parents: of each of the root's columns, its codes in their order; times and own: likewise.
        """
        places = range(max(self.places) + 1)
        before = [[code + 1 for code in _merged_order(m, order)] for m, order in zip(self.own, own, strict=True)]
        levels = [order for level in self.levels for order in ([range(1, LEVELS + 1)] if level else [(), ()])]
        of_parents = [_merged_order(m, order) for m, order in zip(self.parents, parents, strict=True)]
        known = [*of_parents, places, places, *times, *before, *levels]
        if self.beside is not None:
            numbers = {self.beside.namesakes[i]: [code + 1 for code in own[i]] for i in self.beside.numbers}
            known += [numbers.get(column, ()) for column in self.beside.given]
        return [*known, *([()] * (len(self.cardinalities) - len(known))), *own]

    def before(self, own: Sequence[Sequence[int]]) -> dict[int, Before]:
        """Return, by number of a learnt column, where its code in the row before stands, for those that move.

        Args:
            own: of each own column, its codes in their order.
        """
        first, drawn = len(self.parents) + 2 + len(self.times), len(self.cardinalities)
        return {drawn + i: Before(first + i, tuple(own[i])) for i in self.moving}

    def apart(self, own: Sequence[Sequence[int]]) -> dict[int, Before]:
        """Return, by number of a learnt column, where the code of the row beside stands, for numbers that are given of it.

        Args:
            own: of each own column, its codes in their order.
        """
        if self.beside is None:
            return {}
        drawn = len(self.cardinalities)
        first, given = drawn - len(self._of_beside), self.beside.given
        at = {i: first + given.index(self.beside.namesakes[i]) for i in self.beside.numbers}
        return {drawn + i: Before(place, tuple(own[i])) for i, place in at.items() if len(own[i]) > 1}

    def histories(self, parents: int) -> SoFar | None:
        """Return histories that have not begun, of so many parents; None if it is not given what they were like so far."""
        return SoFar(self.levels, self.own, parents) if self.levels else None

    @property
    def standing(self) -> tuple[int, ...]:
        """The own columns of which a code stands for distances, so that shares tell how frequent it ought to be."""
        return () if self.beside is None or self.beside.above else (self.beside.gap,)

    @cached_property
    def _stays(self) -> np.ndarray:
        """The code for "as in the row before" of each column, or the number of its own codes if it has none."""
        return np.array([len(m) for m in self.own])

    @cached_property
    def _copied(self) -> np.ndarray:
        """The code for "as in the row beside" of each column, or one more than its last code if it has none."""
        return self._stays + np.array(self.repeats, dtype=np.int64)

    @cached_property
    def _has_copies(self) -> np.ndarray:
        return np.array([self.beside is not None and self.beside.has_code(c) for c in range(len(self.own))])

    @property
    def _past(self) -> list[int]:
        """The codes of each column that tells what histories were like so far; none if that is not given."""
        return cardinalities(self.levels, self.own) if self.levels else []

    @cached_property
    def _favourite(self) -> np.ndarray:
        """The code for "as most often so far" of each column, or one more than its last code if it has none."""
        return self._copied + self._has_copies

    @cached_property
    def _has_favourite(self) -> np.ndarray:
        categories = [not level for level in self.levels] or [False] * len(self.own)
        return np.array(categories) & np.array(self.repeats)

    @cached_property
    def _follows(self) -> np.ndarray:
        """The code for "goes on forth" of each column, before that for "back"; or one more than its last code."""
        return self._favourite + self._has_favourite

    @cached_property
    def _is_running(self) -> np.ndarray:
        return np.isin(np.arange(len(self.own)), self.running)

    def given(
        self,
        parents: np.ndarray,
        place: np.ndarray,
        left: np.ndarray,
        previous: np.ndarray,
        time: np.ndarray | None = None,
        beside: RowsBeside | None = None,
        so_far: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return what rows are drawn upon, int64 (rows, given columns).

        Args:
            parents: codes of the root's row that each belongs to, int (rows, root columns).
            place: how many rows came before each, int (rows,).
            left: how many come after it, int (rows,).
            previous: codes of the row before it, int (rows, columns); -1 where there is none.
            time: codes of each row's time, int (rows, facts), if rows have a time; further ones are left out.
            beside: the rows beside, if they are drawn upon such.
            so_far: codes of what their histories were like, int64 (rows, columns), if they are given: from `histories`.
        """
        places = np.array(self.places)
        most = len(places) - 1
        found = [
            *_merged(self.parents, parents),
            places[np.minimum(place, most)],
            places[np.minimum(left, most)],
            *([] if time is None else time.T[: len(self.times)]),
            *_merged_if_any(self.own, previous),
            *([] if so_far is None else so_far.T),
        ]
        if self.beside is not None:
            assert beside is not None
            when = [] if self.beside.above else [beside.when, np.minimum(beside.turn, TURNS)]
            found += [*self._told_beside(self.beside, beside), *when]
        return np.stack(found, 1).astype(np.int64)

    @staticmethod
    def _told_beside(how: Beside, rows: RowsBeside) -> Iterator[np.ndarray]:
        """Yield what rows beside tell, int64 (rows,) of each column that is given of them."""
        own = {how.namesakes[number]: at for at, number in enumerate(how.numbers)}
        for column, merged in zip(how.given, how.merged, strict=True):
            if merged:
                yield from _merged_if_any([merged], rows.codes[:, [column]])
            else:
                assert rows.numbers is not None
                yield rows.numbers[:, own[column]] + 1

    def relative(
        self,
        codes: np.ndarray,
        previous: np.ndarray,
        alike: np.ndarray | None = None,
        same: np.ndarray | None = None,
        most: np.ndarray | None = None,
        follows: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the codes that are drawn, int64 (rows, columns): of `codes`, and of what is as in other rows.

        What is as in both is as in the row beside; what is as in either is not as most often so far.

        Args:
            alike: which codes are as in the row beside, or last until the next one, bool (rows, columns).
            same: which values of `numbers` are those of the row before, bool (rows, len(numbers)); needed if there are any.
            most: the codes that were most frequent so far, int64 (rows, columns); -1 where none was.
            follows: how running totals follow, from `running_totals.directions`, int (rows, len(running)), if there are any.
        """
        stays = (codes == previous) & np.array(self.repeats)
        if self.numbers:
            assert same is not None
            stays[:, list(self.numbers)] &= same
        found = codes if most is None else np.where((codes == most) & self._has_favourite, self._favourite, codes)
        found = np.where(stays, self._stays, found)
        for at, column in enumerate(self.running):
            assert follows is not None
            on = follows[:, at] > 0
            found[on, column] = self._follows[column] + follows[on, at] - 1
        return (found if alike is None else np.where(alike & self._has_copies, self._copied, found)).astype(np.int64)

    def absolute(
        self,
        drawn: np.ndarray,
        previous: np.ndarray,
        beside: np.ndarray | None = None,
        most: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the codes that `relative` makes `drawn` of; where there is no other row, nothing is as in it.

        Args:
            drawn: int (rows, columns), or the first columns of them.
            beside: own codes of what is beside, int (rows, columns); -1 where nothing is, and what stays stands for it.
            most: likewise, the codes that were most frequent so far.
        """
        first = slice(drawn.shape[1])
        follows = (drawn >= self._follows[first]) & self._is_running[first]  # its terms tell it, once they have values
        stays = (drawn == self._stays[first]) & np.array(self.repeats)[first]
        copied = (drawn == self._copied[first]) & self._has_copies[first]
        favourite = (drawn == self._favourite[first]) & self._has_favourite[first]
        found = np.where(stays | copied | favourite | follows, np.maximum(previous[:, first], 0), drawn)
        for these, others in ((copied, beside), (favourite, most)):
            if others is not None:
                found = np.where(these & (others[:, first] >= 0), others[:, first], found)
        return found.astype(np.int64)

    def standing_for(
        self, column: int, previous: np.ndarray, beside: np.ndarray, most: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the codes for which those of a column stand that say "as in another row", int64 (rows, such codes)."""
        own, codes = len(self.own[column]), self.own_cardinalities[column]
        drawn = np.zeros((len(previous), column + 1), np.int64)
        found = np.empty((len(previous), codes - own), np.int64)
        for code in range(own, codes):
            drawn[:, column] = code
            found[:, code - own] = self.absolute(drawn, previous, beside, most)[:, column]
        return found

    def possible(
        self, column: int, previous: np.ndarray, beside: np.ndarray, most: np.ndarray | None = None
    ) -> Possible:
        """Say which codes of a column `relative` may give rows.

        None says "as in the row before", or beside, where there is no such row. Where there is one, a category is drawn as
        that if it is its own, and no other code says so.

        Args:
            previous: own codes of the row before, int (rows,); -1 where there is none.
            beside: likewise, of what is beside.
            most: likewise, the code that was most frequent so far; none was, by default.
        """
        never = np.zeros((len(previous), self.own_cardinalities[column]), bool)
        instead = np.zeros((len(previous), len(self.own[column])), bool)
        if self.repeats[column]:
            never[:, self._stays[column]] = previous < 0
            if column not in self.numbers:
                _mark(instead, previous)
        if self._has_copies[column] and self.beside is not None and column != self.beside.gap:
            never[:, self._copied[column]] = beside < 0
            if column not in self.beside.numbers:
                _mark(instead, beside)
            if self.repeats[column] and column not in self.beside.numbers:
                never[:, self._stays[column]] |= (previous == beside) & (beside >= 0)
        if self._has_favourite[column]:
            most = np.full(len(previous), -1) if most is None else most
            taken = (most == beside) & bool(self._has_copies[column])
            never[:, self._favourite[column]] = (most < 0) | (most == previous) | taken
            _mark(instead, most)
        return Possible(~never, instead)

    def directions(self, drawn: np.ndarray) -> np.ndarray:
        """Return how drawn running totals follow, as `running_totals.directions` says it, int64 (rows, len(running))."""
        running = list(self.running)
        return np.maximum(drawn[:, running] - self._follows[running] + 1, 0)

    def stays(self, drawn: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Say which drawn codes stay as in the row before, bool (rows, columns); where there is none, nothing does."""
        return (drawn == self._stays) & np.array(self.repeats) & (previous >= 0)

    def copied(self, drawn: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """Say which drawn codes are as in the row beside, bool (rows, columns); where nothing is, nothing is as in it."""
        return (drawn == self._copied) & self._has_copies & (beside >= 0)

    @cached_property
    def agreeing(self) -> list[int]:
        """The columns of which it is counted how often rows agree with others: those that may be as beside or above.

        How often others are as in the row before is learnt well enough: such counts would make all of them noisier. A gap
        and a running total are told by other facts how they go on.
        """
        gap = -1 if self.beside is None else self.beside.gap
        return [c for c in np.flatnonzero(self._has_copies).tolist() if c != gap and c not in self.running]

    @property
    def agreements(self) -> tuple[int, ...]:
        """Codes that say how a row agrees with others, of each column of `agreeing`; the first one says that it does not."""
        return tuple(1 + self.own_cardinalities[c] - len(self.own[c]) for c in self.agreeing)

    def agreed(self, drawn: np.ndarray) -> np.ndarray:
        """Return how drawn codes agree with other rows, int64 (rows, len(agreeing)).

        Args:
            drawn: int (rows, columns), from `relative`.
        """
        own = np.array([len(self.own[c]) for c in self.agreeing], np.int64)
        return np.maximum(drawn[:, self.agreeing].astype(np.int64) - own + 1, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the context as JSON-ready facts; one fact of times is written as an earlier version wrote it."""
        return {**asdict(self), "times": self.times if len(self.times) > 1 else sum(self.times)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the context that `to_dict` described."""
        parents, own = (_tuples(facts[name]) for name in ("parents", "own"))
        beside = None
        if found := facts.get("beside"):
            merged, copies = (_tuples(found[name]) for name in ("merged", "copies"))
            later = tuple(found.get("names", ())), found.get("above", False)  # an earlier version had neither
            beside = Beside(tuple(found["given"]), merged, tuple(found["namesakes"]), copies, found["gap"], *later)
        numbers, moving = (tuple(facts.get(name, ())) for name in ("numbers", "moving"))  # of an earlier version: none
        times = facts["times"]
        times = [times] * (times > 0) if isinstance(times, int) else times
        repeats, places, levels = tuple(facts["repeats"]), tuple(facts["places"]), _tuples(facts.get("levels", ()))
        running = tuple(facts.get("running", ()))
        return cls(parents, own, repeats, places, tuple(times), beside, numbers, moving, levels, running)


def _with_repeats(share: np.ndarray, repeats: int, likely: float) -> np.ndarray:
    """Return the shares of a column's codes before anything is learnt, with those of so many that repeat another row."""
    return np.append(share * (1 - likely), [likely / repeats] * repeats) if repeats else share


def _mark(found: np.ndarray, codes: np.ndarray) -> None:
    """Set each row's code, if it has one, in place."""
    rows = np.flatnonzero(codes >= 0)
    found[rows, codes[rows]] = True


def merge(share: np.ndarray, most: int, ordered: bool) -> tuple[int, ...]:
    """Return the merged code of each code, of which there are `most` at most.

    Codes in order are merged with their neighbours, so that each merged one has about as large a share. Of others, the
    most frequent stay, and the rest are one.

    Example:
        >>> merge(np.array([0.1, 0.2, 0.3, 0.4]), 2, ordered=True), merge(np.array([0.1, 0.2, 0.3, 0.4]), 3, ordered=False)
        ((0, 0, 0, 1), (2, 2, 1, 0))
    """
    if len(share) <= most:
        return tuple(range(len(share)))
    p = np.maximum(np.asarray(share, dtype=np.float64), 0.0)
    p = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
    if not ordered:
        rank = np.argsort(np.argsort(-p, kind="stable"), kind="stable")
        return tuple(int(r) for r in np.minimum(rank, most - 1))
    found, code, held = [], 0, 0.0
    for one in p:
        if held > 0 and held + one / 2 > 1 / most and code < most - 1:
            code, held = code + 1, 0.0
        found.append(code)
        held += one
    return tuple(found)


def merge_places(rows: int) -> tuple[int, ...]:
    """Return the merged code of each place from 0 to `rows` - 1.

    Example:
        >>> merge_places(20)[9:]
        (9, 10, 11, 11, 11, 12, 12, 12, 12, 13, 13)
    """
    found, code, wide = list(range(min(rows, EXACT))), EXACT, 3.0
    while len(found) < rows:
        found.extend([code] * round(wide))
        code, wide = code + 1, wide * WIDER
    return tuple(found[:rows])


def _merged_order(merged: Sequence[int], order: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(merged[code] for code in order))


def _tuples(lists: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(each) for each in lists)


def _merged_if_any(maps: Sequence[tuple[int, ...]], codes: np.ndarray) -> Iterator[np.ndarray]:
    for m, c in zip(maps, codes.T, strict=True):
        yield np.where(c < 0, NONE, np.array(m)[c] + 1)


def _merged(maps: Sequence[tuple[int, ...]], codes: np.ndarray) -> list[np.ndarray]:
    return [np.array(m)[c] for m, c in zip(maps, codes.T, strict=True)]
