"""How the tables of a database hang together: a tree whose root has one row for each privacy unit. Declared, so public."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.offsets import before_base

MOST_ROWS = 10_000
"""Rows of one privacy unit in one table, at most: what a person contributes is computed in one piece."""


@dataclass(frozen=True)
class PublicTable:
    """A table that everybody may see, such as a catalogue: it is copied as it is, and rows of others refer to its own.

    Attributes:
        name: the table.
        key: column whose values name its rows.
    """

    name: str
    key: str


@dataclass(frozen=True)
class Related:
    """One table of a database.

    Attributes:
        name: the table.
        key: column whose values name its rows; None if nothing refers to them.
        parent: the table that its rows belong to; None for the root.
        reference: column that holds the parent's key; None for the root.
        order: column that a parent's rows are ordered by, such as a date; None if they have no order.
        max_rows: most rows that are kept of one parent row.
        keep_first: keep the first rows in the order, and not random ones.
        static: columns that are the same in all rows of one parent row; the parent's row carries them.
        increasing: numbers that never fall from one row of a parent to the next; the parent's row carries the first.
        decreasing: likewise, numbers that never rise.
        until: columns that hold when the parent's next row begins, each with the way in which; see `periods`.
        before: dates of its parent after which none of its rows lies.
        running: numbers that go on from the row before, each with the columns by which; see `running_totals`.
        unique: columns in all of which no two rows of one parent are the same; none if rows may be.
        refers: its columns that hold keys of public tables, each with the table.
    """

    name: str
    key: str | None = None
    parent: str | None = None
    reference: str | None = None
    order: str | None = None
    max_rows: int = 1
    keep_first: bool = False
    static: tuple[str, ...] = ()
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()
    until: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    refers: tuple[tuple[str, str], ...] = ()
    running: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Return the table that `dataclasses.asdict` described, here or in an earlier version."""
        columns = {
            name: tuple(facts.get(name, ())) for name in ("static", "increasing", "decreasing", "before", "unique")
        }
        pairs = {name: tuple((column, other) for column, other in facts.get(name, ())) for name in ("until", "refers")}
        running = tuple((column, tuple(terms)) for column, terms in facts.get("running", ()))
        return cls(**{**facts, **columns, **pairs, "running": running})

    @property
    def monotone(self) -> tuple[str, ...]:
        """The columns of which rows hold the distance to the next row, and their parent the first value."""
        return (*self.increasing, *self.decreasing)

    @property
    def carries(self) -> tuple[str, ...]:
        """The columns that its parent carries: the static and the monotone ones."""
        return (*self.static, *self.monotone)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which its rows belong to others."""
        return tuple(dict.fromkeys(name for name in (self.key, self.reference) if name is not None))

    @property
    def gap(self) -> str | None:
        """The column that is modelled in place of the order: the distance to the parent's next row."""
        return None if self.order is None else self.step(self.order)

    def step(self, column: str) -> str:
        """Return the column that is modelled in place of a monotone one: the distance to the parent's next row."""
        return f"{column}: to the next"

    def ending(self, column: str, way: str) -> str:
        """Return the column that is modelled in place of one that holds when the next row begins: what the last row has."""
        return f"{column}: until {way}"

    @property
    def count(self) -> str:
        """The column of its parent that says how many rows it has here."""
        return f"{self.name}: rows"

    def first(self, others: Sequence[Related] = ()) -> str:
        """Return the column of its parent that says where its rows begin in their order.

        Args:
            others: tables whose rows it speaks of where this one has none: the first of them that has any.
        """
        return f"{', else '.join(table.name for table in (self, *others))}: first {self.order}"

    def to_first(self, other: Related | None = None) -> str:
        """Return the column of its parent that says so by a distance from the parent's own time.

        Args:
            other: the table from whose first row the distance is taken instead.
        """
        return f"{self.name}: to the first {self.order}{'' if other is None else f' from {other.name}'}"

    def carried(self, column: str) -> str:
        """Return the name of the column of its parent that carries a static one, or where a monotone one begins."""
        return f"{self.name}.{column}"


class Beginning(NamedTuple):
    """How a parent's row says when its rows in one table begin: at a time, or at a distance from one.

    Attributes:
        time: the parent's column that holds a time; None if it is the parent's own time.
        distance: the parent's column that holds the distance from that time; None if they begin at the time itself.
        leader: the table whose rows begin at that time; None if it is the parent's own time.
        since: the parent's column that holds in its place how long that time is after another column's; None if none does.
    """

    time: str | None
    distance: str | None = None
    leader: Related | None = None
    since: str | None = None

    @property
    def base(self) -> str:
        """The column after which that time is."""
        assert self.since is not None
        return self.since.removeprefix(before_base(str(self.time)))


class Relations:
    """A tree of tables, the root first and each table after its parent.

    Attributes:
        tables: the tables in that order.
        public: tables that everybody may see, to which rows of these refer.

    Raises:
        InvalidInput: if they are no such tree; it names the table and what to change.
    """

    def __init__(self, tables: Sequence[Related], public: Sequence[PublicTable] = ()) -> None:
        self.public = tuple(public)
        names = [table.name for table in tables]
        roots = [table for table in tables if table.parent is None]
        if len(roots) != 1:
            listed = ", ".join(table.name for table in roots) or "none"
            raise InvalidInput(
                f"tables: one table has no parent, the one whose rows are the privacy units; here it is: {listed}. Name "
                f"the parent of each other table: parent: {{COLUMN: TABLE}}."
            )
        for table in tables:
            _check(table, names)
            _check_references(table, [other.name for other in public])
        self.tables = tuple(_parents_first(roots[0], tables))
        if missing := sorted(set(names) - {table.name for table in self.tables}):
            raise InvalidInput(
                f"tables.{missing[0]}: its parents lead in a circle, and not to the root {roots[0].name!r}; a row belongs "
                f"to one person in one way."
            )
        for table in self.tables:
            users = [child.name for child in self.children(table.name)] or ["the privacy unit"] * (table.parent is None)
            if table.key is None and users:
                raise InvalidInput(
                    f"tables.{table.name}: key: {users[0]} refers to its rows; name the column of its keys."
                )
            if self.most_rows(table.name) > MOST_ROWS:
                raise InvalidInput(
                    f"tables.{table.name}: max_rows: one person may have {self.most_rows(table.name):,} rows here, which "
                    f"is more than {MOST_ROWS:,}; lower it, or a parent's."
                )

    def __iter__(self) -> Iterator[Related]:
        return iter(self.tables)

    def __getitem__(self, name: str) -> Related:
        return next(table for table in self.tables if table.name == name)

    @property
    def root(self) -> Related:
        """The table of which each row is a privacy unit."""
        return self.tables[0]

    @property
    def everything(self) -> tuple[PublicTable | Related, ...]:
        """All tables, each after those that its rows refer to."""
        return (*self.public, *self.tables)

    def public_key(self, name: str) -> str | None:
        """Return the column that names the rows of a public table; None if there is no such table."""
        return next((table.key for table in self.public if table.name == name), None)

    def children(self, name: str) -> list[Related]:
        """Return the tables whose rows belong to rows of a table."""
        return [table for table in self.tables if table.parent == name]

    def ancestors(self, name: str) -> list[Related]:
        """Return the tables above a table, the nearest first."""
        found, parent = [], self[name].parent
        while parent is not None:
            found.append(self[parent])
            parent = self[parent].parent
        return found

    def beginning(self, name: str, columns: Collection[str]) -> Beginning:
        """Return how the columns of its parent, as they were released, say when a table's rows begin.

        Args:
            columns: their names, by which releases of earlier versions say it as they did.
        """
        table = self[name]
        siblings = self.children(str(table.parent))
        for leader in siblings:
            others = [other for other in siblings if other.to_first(leader) in columns]
            if others and table in (leader, *others):
                return _begun(leader, others, columns, None if table == leader else table.to_first(leader))
        return Beginning(None, table.to_first()) if table.to_first() in columns else _begun(table, (), columns)

    def beside(self, name: str, columns: Collection[str]) -> Related | None:
        """Return the table beside which a table's rows lie: the one from whose first row they begin at a distance.

        Args:
            columns: the names of its parent's columns.
        """
        table = self[name]
        return next((t for t in self.children(str(table.parent)) if table.to_first(t) in columns), None)

    def most_rows(self, name: str) -> int:
        """Return how many rows of one privacy unit a table has at most."""
        most = self[name].max_rows
        for table in self.ancestors(name):
            most *= table.max_rows
        return most


def _begun(
    leader: Related, others: Sequence[Related], columns: Collection[str], distance: str | None = None
) -> Beginning:
    time = leader.first(others)
    since = next((name for name in columns if name.startswith(before_base(time))), None)
    return Beginning(time, distance, leader, since)


def _check(table: Related, names: Sequence[str]) -> None:
    """Refuse a table that refers to itself or to none, or has no sound bound."""
    if names.count(table.name) > 1:
        raise InvalidInput(f"tables: {table.name!r} is named twice.")
    if table.parent == table.name:
        raise InvalidInput(
            f"tables.{table.name}: parent: its rows refer to rows of the same table, so one person's rows may lead to "
            f"another's without end. Leave that column out, or declare it as kind: identifier."
        )
    if table.parent is not None and table.parent not in names:
        raise InvalidInput(
            f"tables.{table.name}: parent: there is no table {table.parent!r}; there are: {', '.join(names)}."
        )
    if table.max_rows < 1:
        raise InvalidInput(f"tables.{table.name}: max_rows: at least 1 row is kept, got {table.max_rows}.")
    if table.parent is None and table.order is not None:
        raise InvalidInput(f"tables.{table.name}: order: the root has one row for each person, and needs no order.")
    if table.keep_first and table.order is None:
        raise InvalidInput(f"tables.{table.name}: keep: first needs an order; name its column: order: COLUMN.")
    if table.order is not None and table.order in table.keys:
        raise InvalidInput(f"tables.{table.name}: order: {table.order!r} is a key, which is made anew; name another.")


def _check_references(table: Related, public: Sequence[str]) -> None:
    """Refuse references to what is no public table, and by columns whose values are made anew or mean a time."""
    for column, other in table.refers:
        said = f"tables.{table.name}: refers: {column}:"
        if other not in public:
            known = (
                f"those that are: {', '.join(public)}" if public else "none is: write public: {why: REASON, by: NAME}"
            )
            raise InvalidInput(f"{said} {other!r} is no table that is declared public; {known}.")
        if column in (*table.keys, table.order, *table.monotone):
            raise InvalidInput(f"{said} the column is a key of this table, or its order; name another one.")


def _parents_first(root: Related, tables: Sequence[Related]) -> Iterator[Related]:
    yield root
    for table in tables:
        if table.parent == root.name:
            yield from _parents_first(table, tables)


def check_keys(table: Related, names: Sequence[str]) -> None:
    """Refuse a table whose rows are to be related, or ordered, by columns that its source does not have."""
    for column in (*table.keys, *dict(table.refers), *([] if table.order is None else [table.order])):
        if column not in names:
            raise InvalidInput(
                f"tables.{table.name}: there is no column {column!r}; it has: {', '.join(names)}.{nearest(column, names)}"
            )
