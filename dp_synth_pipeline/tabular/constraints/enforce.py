"""Makes drawn rows keep rules: by drawing again, by computing one column from others, and by repair of what remains.

It sees rows that a released generator drew and nothing else, so it is post-processing: free, whatever it does.

    comparison   rows that break it give way to fresh ones with nulls in the same places, if a bounded number of draws
                 brings some; what still breaks it has its two values swapped, or is moved to the literal
    sum, product the column on the left is computed anew
    dependency   the column on the right takes the value that goes with the left most often among drawn rows

A row whose computed value lies beyond the column's released ends is drawn again too. What nothing helps gives way to a copy
of a row that keeps every rule. Only if there is no such row, as when rules contradict each other, are broken rows passed on,
and the rules' checks keep the table from being published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    usual,
)
from dp_synth_pipeline.tabular.constraints.parse import Comparison, Dependency, Formula, Rule
from dp_synth_pipeline.tabular.constraints.write import cast, copies, mend, put, stored

BATCH = 1 << 15
"""Rows passed on at a time."""

PILOT = 1 << 15
"""Rows drawn to learn what goes with what, before the first row is passed on."""

ATTEMPTS = 8
"""How often rows that break a rule are drawn again."""

Draw = Callable[[int], pa.Table]


def enforced(
    draw: Draw,
    rows: int,
    rules: Sequence[Rule],
    *,
    limits: Mapping[str, tuple[float, float]] | None = None,
    digits: Digits | None = None,
    also: Callable[[pa.Table], np.ndarray] | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[pa.Table]:
    """Yield tables of up to 32,768 synthetic rows that keep every rule, until there are `rows`.

    Args:
        draw: returns as many fresh synthetic rows as it is asked for.
        limits: ends that computed values must not leave, by column, as `hold.points` places values.
        digits: digits after the point that computed values are written with, by column.
        also: says of each row whether it is possible besides, bool (rows,), however a rule was kept.
        rng: decides which row is copied where nothing else helps; a fresh one by default.
    """
    keeper = Keeper(tuple(rules), limits or {}, digits or {}, rng or np.random.default_rng(), also)
    if keeper.mapped:
        keeper.learn(draw(PILOT))
    spare: pa.Table | None = None
    while rows > 0:
        size = min(rows, BATCH)
        part, spare = _part(draw, size, keeper, spare)
        yield part
        rows -= size


def _part(draw: Draw, size: int, keeper: Keeper, spare: pa.Table | None) -> tuple[pa.Table, pa.Table | None]:
    """Return `size` rows, and rows that keep every rule, which may stand in for others, if any are known."""
    first = draw(size)
    settled, good = keeper.settle(first)
    parts, broken, share = [settled.filter(pa.array(good))], first.filter(pa.array(~good)), float(good.mean())
    for _ in range(ATTEMPTS):
        if not broken.num_rows:
            break
        settled, good = keeper.settle(draw(min(math.ceil(broken.num_rows / max(share, 0.25)), 2 * BATCH)))
        fresh = settled.filter(pa.array(good))
        taken, replaced = alike(keeper.pattern(fresh), keeper.pattern(broken))
        parts.append(fresh.take(pa.array(taken)))
        broken = broken.filter(pa.array(~replaced))
    if broken.num_rows:
        mended, good = keeper.repair(broken)
        parts.append(mended.filter(pa.array(good)))
        broken = mended.filter(pa.array(~good))
    whole = pa.concat_tables([*parts, *([spare] if spare is not None else [])])
    if broken.num_rows and whole.num_rows:
        parts.append(whole.take(pa.array(keeper.rng.integers(0, whole.num_rows, broken.num_rows))))
    elif broken.num_rows:
        parts.append(broken)
    return pa.concat_tables(parts), whole.slice(0, BATCH) if whole.num_rows else None


def alike(fresh: np.ndarray, broken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair rows by a number that says what a fresh one must share with the broken one whose place it takes.

    Of the rows of a table it says where their nulls are: what breaks a rule has none there, so else every rejection would
    add nulls.

    Returns:
        which of the fresh rows are taken, int64; and for each broken row whether it is replaced, bool.
    """
    taken, replaced = [np.zeros(0, dtype=np.int64)], np.zeros(len(broken), dtype=bool)
    for pattern in np.unique(broken):
        here, there = np.flatnonzero(fresh == pattern), np.flatnonzero(broken == pattern)
        pairs = min(len(here), len(there))
        taken.append(here[:pairs])
        replaced[there[:pairs]] = True
    return np.concatenate(taken), replaced


@dataclass
class Keeper:
    """The rules, and what has been learnt so far about what goes with what.

    Attributes:
        rules: what holds in a row.
        limits: ends that computed values must not leave, by column.
        digits: digits after the point that computed values are written with, by column.
        rng: decides what is left to chance.
        also: says of each row whether it is possible besides, bool (rows,).
        may_write: says of a rule whether its columns may be written to keep it; of others, rows are judged alone.
        mapped: what goes with each left-hand side of a dependency.
    """

    rules: tuple[Rule, ...]
    limits: Mapping[str, tuple[float, float]]
    digits: Digits
    rng: np.random.Generator
    also: Callable[[pa.Table], np.ndarray] | None = None
    may_write: Callable[[Rule], bool] = lambda rule: True
    mapped: dict[Dependency, Mapped] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mapped = {rule: {} for rule in self.rules if isinstance(rule, Dependency)}

    def learn(self, drawn: pa.Table) -> None:
        """Note what goes most often with each left-hand side."""
        for rule, mapping in self.mapped.items():
            self.mapped[rule] = usual(rule, drawn, mapping)

    def settle(self, drawn: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """Return rows with computed columns computed, and whether each keeps every rule within its limits."""
        settled = self._compute(drawn)
        return settled, self._good(settled, drawn)

    def pattern(self, table: pa.Table) -> np.ndarray:
        """Return one number for each set of nulls in the columns of the rules, int64 `(rows,)`."""
        codes = np.zeros(table.num_rows, dtype=np.int64)
        for name in sorted({n for rule in self.rules for n in rule.columns})[:62]:
            codes = 2 * codes + np.asarray(column(table, name).is_valid())
        return codes

    def repair(self, drawn: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """Return rows with values swapped or moved until comparisons hold, as far as they can."""
        mended, good = drawn, np.zeros(drawn.num_rows, dtype=bool)
        for _ in range(len(self.rules) + 1):  # swaps bring a chain of k columns into order within k rounds
            for rule in self.rules:
                if isinstance(rule, Comparison) and self.may_write(rule):
                    mended = mend(rule, mended)
            mended = self._compute(mended)
            good = self._good(mended, drawn)
            if good.all():
                break
        return mended, good

    def _compute(self, table: pa.Table) -> pa.Table:
        """Compute formulas, equalities and dependencies; more than once, since one may read what another writes."""
        written = [r for r in self.rules if (not isinstance(r, Comparison) or copies(r)) and self.may_write(r)]
        for _ in written:
            before = table
            for rule in written:
                table = self._write(rule, table)
            if table.equals(before):
                break
        return table

    def _write(self, rule: Rule, table: pa.Table) -> pa.Table:
        if isinstance(rule, Dependency):
            self.mapped[rule] = usual(rule, table, self.mapped[rule])
            return put(table, rule.target, given(rule, table, self.mapped[rule]))
        if isinstance(rule, Formula):
            kind = table.schema.field(rule.target).type
            values = solved(rule, rule.target, table)
            return put(table, rule.target, stored(values, kind, self.digits.get(rule.target)))
        return put(table, rule.left, cast(column(table, str(rule.right)), table.schema.field(rule.left).type))

    def _good(self, table: pa.Table, drawn: pa.Table) -> np.ndarray:
        good = np.ones(table.num_rows, dtype=bool) if self.also is None else self.also(table)
        for rule in self.rules:
            if isinstance(rule, Dependency):
                mapped, actual = given(rule, table, self.mapped[rule]), column(table, rule.target)
                good &= np.asarray(pc.fill_null(pc.equal(points(actual), points(mapped)), True))  # type: ignore[attr-defined]
            else:
                good &= holds(rule, table, self.digits)
        for name, (low, high) in self.limits.items():
            if any(name in rule.columns for rule in self.rules):
                new, old = numbers(table, name), numbers(drawn, name)
                good &= (new == old) | ~((new < low) | (new > high))
        return good
