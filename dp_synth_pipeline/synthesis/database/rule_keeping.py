"""Has the rows of drawn persons keep rules across tables: by drawing persons anew, and by repair. It sees drawn rows alone.

A person with a row that breaks a rule gives way to a fresh one who has about as many rows, since who has many breaks a rule
sooner: without that, histories would become shorter. What a rule computes of a row's own columns is computed, as in
`constraints.enforce`, and what is still broken after some draws is repaired, if the rule is about the row's own columns; or
gives way to a copy of another person. A rule that most rows break is no slip of the model: rows are then left as they were
drawn, and the rules' checks keep the tables from being published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations import aggregates, ruling
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, drawn_columns, of_persons, together
from dp_synth_pipeline.tabular import constraints, offsets
from dp_synth_pipeline.tabular.constraints import Comparison, Rule
from dp_synth_pipeline.tabular.constraints.enforce import ATTEMPTS, Keeper, alike
from dp_synth_pipeline.tabular.constraints.write import copies
from dp_synth_pipeline.tabular.schema import TableSchema

FEWEST = 0.25
"""Part of a table's rows that must keep its rules as they are drawn: with fewer, nothing is enforced."""

MOST_TURNS = 4
"""How often rules write, at most, where some read upwards what others read downwards; they end when nothing changes."""

MOST, LEAST = 1 << 14, 512
"""Persons that are drawn anew at a time, at most and at least."""


@dataclass(frozen=True)
class Judge:
    """The rules that judge the rows of one table.

    Attributes:
        table: the table.
        keeper: the rules, of columns that are named TABLE.COLUMN.
    """

    table: Related
    keeper: Keeper


@dataclass(frozen=True)
class RuleKeeping:
    """Rules across tables, and what is to be known of the tables to keep them.

    Attributes:
        relations: how the tables hang together.
        sources: the columns of each source.
        judges: the rules by the table whose rows they judge, each table after its parent.
        also: says of each person whether it is possible besides, bool (persons,), whatever was written.
        public: the rows of public tables.
        digits: digits after the point of columns, by TABLE.COLUMN, where they are released.
    """

    relations: Relations
    sources: Mapping[str, TableSchema]
    judges: Sequence[Judge]
    also: Callable[[pa.Table], np.ndarray] | None = None
    public: Mapping[str, pa.Table] = field(default_factory=dict)
    digits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        relations: Relations,
        sources: Mapping[str, TableSchema],
        rules: Sequence[Rule],
        facts: Mapping[str, tuple[Mapping[str, tuple[float, float]], Mapping[str, int]]],
        rng: np.random.Generator,
        also: Callable[[pa.Table], np.ndarray] | None = None,
        public: Mapping[str, pa.Table] | None = None,
    ) -> RuleKeeping:
        """Return what keeps some rules.

        Args:
            facts: released ends, and digits after the point, of each table's columns. What rules compute is held to no ends:
                a person of many rows would hardly ever be within them, nor would a dear product of a catalogue.
            also: says of the root's drawn rows whether each is possible besides.
            public: the rows of public tables.
        """
        computed = constraints.computed(rules)
        limits = {f"{table}.{name}": ends for table, (found, _) in facts.items() for name, ends in found.items()}
        limits = {name: ends for name, ends in limits.items() if name not in computed}
        digits = {f"{table}.{name}": count for table, (_, found) in facts.items() for name, count in found.items()}
        judges = []
        for table in relations:
            own = tuple(rule for rule in rules if ruling.judged(rule, relations) == table)
            if own:
                may_write = partial(_may_write, _writable(table, sources[table.name]))
                judges.append(Judge(table, Keeper(own, limits, digits, rng, may_write=may_write)))
        return cls(relations, sources, judges, also, public or {}, digits)

    def kept(
        self, first: dict[str, Rows], draw: Callable[[int], dict[str, Rows]], rng: np.random.Generator
    ) -> tuple[dict[str, Rows], int]:
        """Return the rows of as many persons that keep the rules, and how many persons gave way for that.

        Args:
            first: drawn rows.
            draw: draws so many persons more, with all their rows.
        """
        drawn, good, share = self._settled(first)
        broken = ~good
        if not broken.any():
            return drawn, 0
        if share < FEWEST:
            return first, 0
        return self._replaced(drawn, broken, draw, rng), int(broken.sum())

    def _replaced(
        self,
        drawn: dict[str, Rows],
        broken: np.ndarray,
        draw: Callable[[int], dict[str, Rows]],
        rng: np.random.Generator,
    ) -> dict[str, Rows]:
        """Return drawn rows, with others for the persons who broke a rule."""
        parts, left = [self._of(drawn, np.flatnonzero(~broken))], np.flatnonzero(broken)
        shapes, share = self._shapes(drawn), 1 - float(broken.mean())
        for _ in range(ATTEMPTS):
            if not len(left):
                break
            fresh, good, _ = self._settled(draw(int(np.clip(math.ceil(len(left) / max(share, FEWEST)), LEAST, MOST))))
            taken, replaced = alike(self._shapes(fresh)[good], shapes[left])
            parts.append(self._of(fresh, np.flatnonzero(good)[taken]))
            left = left[~replaced]
        if len(left):
            mended, good, _ = self._settled(self._of(drawn, left), repair=True)
            parts.append(self._of(mended, np.flatnonzero(good)))
            left = left[~good]
        whole = together(parts, self._parents)
        if not len(left):
            return whole
        copied, without = _like(self._shapes(whole), shapes[left], rng)
        return together([whole, self._of(whole, copied), self._of(drawn, left[without])], self._parents)

    @property
    def _parents(self) -> dict[str, str | None]:
        return {table.name: table.parent for table in self.relations}

    def _of(self, drawn: Mapping[str, Rows], persons: np.ndarray) -> dict[str, Rows]:
        return of_persons(drawn, self._parents, persons)

    def _shapes(self, drawn: Mapping[str, Rows]) -> np.ndarray:
        """Return one number for about how many rows each person has in the tables that are judged, int64 (persons,).

        Numbers of rows up to 7 are told apart, and larger ones if they differ by a fifth or more.
        """
        persons = len(drawn[self.relations.root.name].codes)
        shapes = np.zeros(persons, np.int64)
        for judge in self.judges[:10]:  # as many as fit 64 bits; of later tables, numbers of rows may differ
            counts = np.bincount(drawn[judge.table.name].root, minlength=persons)
            steps = np.where(counts > 0, 1 + np.floor(4 * np.log2(np.maximum(counts, 1))), 0)  # 54 for 10,000 rows
            shapes = 64 * shapes + steps.astype(np.int64)
        return shapes

    def _settled(self, drawn: Mapping[str, Rows], *, repair: bool = False) -> tuple[dict[str, Rows], np.ndarray, float]:
        """Return rows with what rules compute of them, whether each person keeps all rules, and which part of rows does.

        Returns:
            the rows; bool (persons,); and that part of the table that keeps its rules least.
        """
        found, root = dict(drawn), self.relations.root.name
        good, shares = np.ones(len(found[root].codes), bool), [1.0]
        for _ in range(MOST_TURNS if self._reads_down else 1):
            written, good, shares = dict(found), np.ones(len(good), bool), [1.0]
            for judge in self.judges:
                before, rows = self._judged(judge, written), written[judge.table.name]
                judge.keeper.learn(before)
                after, held = judge.keeper.repair(before) if repair else judge.keeper.settle(before)
                written[judge.table.name] = _written(rows, judge.table, before, after)
                good[rows.root[~held]] = False
                shares += [float(held.mean())] if len(held) else []
            last, found = found, written
            if all(found[judge.table.name] is last[judge.table.name] for judge in self.judges):
                break
        if self.also is not None:
            good &= self.also(found[root].values)
        return found, good, min(shares)

    @property
    def _reads_down(self) -> bool:
        """Whether a rule speaks of what the rows below come to, which other rules may compute."""
        return any(aggregates.of_rule(rule) for judge in self.judges for rule in judge.keeper.rules)

    def _come_to(self, judge: Judge, drawn: Mapping[str, Rows]) -> dict[str, pa.Array]:
        """Return what rows below come to, for each row that a table's rules judge."""
        found, rows = {}, len(drawn[judge.table.name].codes)
        for one in dict.fromkeys(a for rule in judge.keeper.rules for a in aggregates.of_rule(rule)):
            table, owner = self.relations[one.table], np.arange(len(drawn[one.table].codes))
            cells = None if one.column is None else drawn_columns(table, drawn, self.sources[one.table])[one.column]
            while table.name != judge.table.name:
                parent = drawn[table.name].parent
                assert parent is not None
                owner, table = parent[owner], self.relations[str(table.parent)]
            found[one.name] = aggregates.values(one, cells, owner, rows, self.digits.get(f"{one.table}.{one.column}"))
        return found

    def _judged(self, judge: Judge, drawn: Mapping[str, Rows]) -> pa.Table:
        """Return the columns that a table's rules speak of, a row for each of its rows."""
        wanted = dict.fromkeys(pair for rule in judge.keeper.rules for pair in ruling.columns_of(rule))
        of_public = [pair for pair in wanted if pair[0] in self.public]
        refers = {
            pair for public, _ in of_public for pair in ruling.referring(self.relations, judge.table.name, public)
        }
        columns, at = {}, np.arange(len(drawn[judge.table.name].codes))
        for table in (judge.table, *self.relations.ancestors(judge.table.name)):
            names = {name for owner, name in (*wanted, *refers) if owner == table.name}
            values = drawn_columns(table, drawn, self.sources[table.name]) if names else {}
            columns |= {(table.name, name): values[name].take(pa.array(at)) for name in names}
            parent = drawn[table.name].parent
            at = at if parent is None else parent[at]
        columns |= ruling.looked_up(of_public, self.relations, judge.table.name, columns, self.public)
        named = {f"{table}.{name}": columns[table, name] for table, name in wanted}
        return pa.table({**named, **self._come_to(judge, drawn)})


def _writable(table: Related, schema: TableSchema) -> frozenset[str]:
    """Return the columns of a table's own rows on which nothing hangs, as rules name them."""
    referring = [column for column, _ in table.refers]
    fixed = {*table.keys, *referring, *table.carries, *table.unique, table.order, *offsets.tied(schema)}
    return frozenset(f"{table.name}.{c.name}" for c in schema.learned if c.name not in fixed)


def _may_write(writable: frozenset[str], rule: Rule) -> bool:
    """Say whether all columns may be written that keeping a rule may change: of an equality, that on the left."""
    if isinstance(rule, Comparison):
        return {rule.left} <= writable if copies(rule) else set(rule.columns) <= writable
    return rule.target in writable


def _written(rows: Rows, table: Related, before: pa.Table, after: pa.Table) -> Rows:
    """Return rows with the values that were changed to keep a rule."""
    if after.equals(before):
        return rows
    values = rows.values
    for name in after.column_names:
        if not after[name].equals(before[name]):
            own = name.removeprefix(f"{table.name}.")
            values = values.set_column(values.column_names.index(own), own, after[name])
    return replace(rows, values=values)


def _like(shapes: np.ndarray, wanted: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return persons by chance who have the wanted shapes, int64, and for which none has, bool (wanted,)."""
    copied, without = [np.zeros(0, np.int64)], np.zeros(len(wanted), bool)
    for shape in np.unique(wanted):
        there = np.flatnonzero(shapes == shape)
        if len(there):
            copied.append(rng.choice(there, int((wanted == shape).sum())))
        else:
            without[wanted == shape] = True
    return np.concatenate(copied), without
