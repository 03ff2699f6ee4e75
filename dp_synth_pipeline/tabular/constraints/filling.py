"""Makes filled cells keep rules: what is known of a row stays, and only what was filled is drawn again or computed.

It sees a caller's own partial rows and what a released generator drew for them, and nothing is learnt from either.

    comparison   the filled cells are drawn again; what still breaks it is moved next to what is known
    sum, product one filled cell is computed from the others, the one on the left if it was filled
    dependency   a filled right side takes what goes with the left one in the rows themselves, else among drawn rows

A rule of which a row knows all columns is not judged there: nothing was filled that could break it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.constraints.hold import (
    Digits,
    Mapped,
    column,
    given,
    holds,
    numbers,
    points,
    solved,
    step,
    usual,
)
from dp_synth_pipeline.tabular.constraints.parse import Comparison, Dependency, Formula, Literal, Rule
from dp_synth_pipeline.tabular.constraints.write import cast, copies, mend, put, stored

ATTEMPTS = 16
"""How often the filled cells of rows that break a rule are drawn again."""

Holes = Mapping[str, np.ndarray]
"""By column: which rows' cells were filled, bool `(rows,)`."""


def filled(
    known: pa.Table,
    holes: Holes,
    draw: Callable[[np.ndarray], pa.Table],
    rules: Sequence[Rule],
    *,
    mapped: Mapping[Dependency, Mapped],
    digits: Digits | None = None,
) -> tuple[pa.Table, np.ndarray]:
    """Return rows with their holes filled, and whether each keeps every rule that its filled cells have a part in.

    Args:
        known: the rows with all columns; what stands in a hole is not looked at.
        draw: returns whole rows for the rows of these numbers, drawn given what is known of them.
        mapped: what goes with each left-hand side of a dependency among drawn rows.
        digits: digits after the point of decimal columns.
    """
    keeper = _Keeper(rules, _learnt(known, holes, rules, mapped), digits or {})
    everybody = np.arange(known.num_rows)
    rows, good = keeper.settle(_merged(known, holes, everybody, draw(everybody)), holes)
    for _ in range(ATTEMPTS):
        broken = np.flatnonzero(~good)
        if not len(broken):
            return rows, good
        some = _of(holes, broken)
        fresh, kept = keeper.settle(_merged(known, holes, broken, draw(broken)), some)
        rows, good = _replaced(rows, good, fresh, broken, kept)
    broken = np.flatnonzero(~good)
    moved, kept = keeper.moved(rows.take(pa.array(broken)), _of(holes, broken))
    return _replaced(rows, good, moved, broken, kept)


class _Keeper:
    def __init__(self, rules: Sequence[Rule], mapped: Mapping[Dependency, Mapped], digits: Digits) -> None:
        self._rules, self._mapped, self._digits = rules, mapped, digits

    def settle(self, table: pa.Table, holes: Holes) -> tuple[pa.Table, np.ndarray]:
        """Return rows with the cells computed that rules give, and whether each keeps every rule."""
        for _ in self._rules:  # more than once, since one rule may read what another writes
            before = table
            for rule in self._rules:
                table = self._computed(rule, table, holes)
            if table.equals(before):
                break
        return table, self._good(table, holes)

    def moved(self, table: pa.Table, holes: Holes) -> tuple[pa.Table, np.ndarray]:
        """Return rows with filled cells moved until comparisons hold, as far as they can."""
        for _ in self._rules:
            for rule in self._rules:
                if isinstance(rule, Comparison) and not copies(rule):
                    table = self._moved(rule, table, holes)
            table, good = self.settle(table, holes)
            if good.all():
                break
        return table, self._good(table, holes)

    def _moved(self, rule: Comparison, table: pa.Table, holes: Holes) -> pa.Table:
        mended = mend(rule, table)
        if isinstance(rule.right, Literal):
            return put(table, rule.left, column(mended, rule.left), pa.array(holes[rule.left]))
        left, right = rule.left, str(rule.right)
        both = holes[left] & holes[right]
        for name in (left, right):  # swapped
            table = put(table, name, column(mended, name), pa.array(both))
        sign = 1 if rule.operator in (">", ">=") else -1
        for name, other, way in ((left, right, sign), (right, left, -sign)):
            kind = table.schema.field(name).type
            ends = numbers(table, other)
            away = way * step(kind, self._digits.get(name), ends) if rule.operator in ("<", ">") else 0.0
            broken = ~holds(rule, table, self._digits) & holes[name] & ~both
            table = put(table, name, stored(ends + away, kind, self._digits.get(name)), pa.array(broken))
        return table

    def _good(self, table: pa.Table, holes: Holes) -> np.ndarray:
        good = np.ones(table.num_rows, dtype=bool)
        for rule in self._rules:
            if isinstance(rule, Dependency):
                expected = points(given(rule, table, self._mapped[rule]))
                same = pc.equal(points(column(table, rule.target)), expected)  # type: ignore[attr-defined]
                kept = np.asarray(pc.fill_null(same, True))
            else:
                kept = holds(rule, table, self._digits)
            good &= kept | ~np.any([holes[name] for name in rule.columns], axis=0)
        return good

    def _computed(self, rule: Rule, table: pa.Table, holes: Holes) -> pa.Table:
        if isinstance(rule, Dependency):
            return put(table, rule.target, given(rule, table, self._mapped[rule]), pa.array(holes[rule.target]))
        if isinstance(rule, Formula):
            return self._solved(rule, table, holes)
        if not copies(rule):
            return table
        left, right = rule.left, str(rule.right)
        for name, other, where in ((left, right, holes[left]), (right, left, holes[right] & ~holes[left])):
            copied = cast(column(table, other), table.schema.field(name).type)
            table = put(table, name, copied, pa.array(where))
        return table

    def _solved(self, rule: Formula, table: pa.Table, holes: Holes) -> pa.Table:
        """Compute one hole of each row: the target's, else the last column's on the right that has one."""
        target, *others = rule.columns
        free = np.ones(table.num_rows, dtype=bool)
        for name in (target, *reversed(others)):
            values = stored(solved(rule, name, table), table.schema.field(name).type, self._digits.get(name))
            table = put(table, name, values, pa.array(free & holes[name]))
            free = free & ~holes[name]
        return table


def _learnt(
    known: pa.Table, holes: Holes, rules: Sequence[Rule], mapped: Mapping[Dependency, Mapped]
) -> dict[Dependency, Mapped]:
    """Return what goes with what: in rows that know it first, among drawn rows otherwise."""
    found = {}
    for rule in rules:
        if isinstance(rule, Dependency):
            whole = ~np.any([holes[name] for name in rule.columns], axis=0)
            found[rule] = {**mapped[rule], **usual(rule, known.filter(pa.array(whole)))}
    return found


def _merged(known: pa.Table, holes: Holes, rows: np.ndarray, drawn: pa.Table) -> pa.Table:
    """Return what is known of some rows, and what was drawn in their holes."""
    taken = known.take(pa.array(rows))
    for i, name in enumerate(taken.column_names):
        cells = pc.if_else(pa.array(holes[name][rows]), column(drawn, name), column(taken, name))  # type: ignore[attr-defined]
        taken = taken.set_column(i, name, cells)
    return taken


def _of(holes: Holes, rows: np.ndarray) -> Holes:
    return {name: cells[rows] for name, cells in holes.items()}


def _replaced(
    rows: pa.Table, good: np.ndarray, fresh: pa.Table, places: np.ndarray, kept: np.ndarray
) -> tuple[pa.Table, np.ndarray]:
    """Put those of the fresh rows that are kept in their places."""
    index, good = np.arange(rows.num_rows), good.copy()
    index[places[kept]] = rows.num_rows + np.flatnonzero(kept)
    good[places[kept]] = True
    return pa.concat_tables([rows, fresh]).take(pa.array(index)), good
