"""Defines what one release of a database asks for: its tables, how they hang together, and what it may cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import check_delta, check_release
from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.monotone_columns import DECREASING, DIRECTIONS, INCREASING, MONOTONE
from dp_synth_pipeline.relations.periods import BEFORE, UNTIL, WAYS, dates_of
from dp_synth_pipeline.relations.running_totals import RUNNING, terms_of
from dp_synth_pipeline.relations.static_columns import STATIC
from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.synthesis.section import Section
from dp_synth_pipeline.synthesis.settings import (
    Charge,
    PublicSettings,
    RefreshSettings,
    ReleaseSettings,
    ValidationSettings,
    check_columns,
    check_filter,
    terms_version,
)
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.declarable import COLUMN, FILTER, FROM
from dp_synth_pipeline.tabular.offsets import AFTER
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.sources import public_list
from dp_synth_pipeline.tabular.sources.place import same_place
from dp_synth_pipeline.tabular.sources.warehouse.address import shown

MOST_ROWS = 10
"""Rows of one parent row that are kept, unless a person says how many."""

MOST_PERSONS = 10**8
"""Synthetic rows of the root, at most."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class DatabaseTable(Section):
    """One table of a database."""

    source: str = Field(
        default="",
        repr=False,
        description="Where its rows are: as `source` of a single table. A root without one has a row for each of its key's "
        "values that the tables below it name.",
    )
    key: str | None = Field(default=None, description="Column that names its rows; made anew in the synthetic table.")
    parent: dict[str, str] | None = Field(
        default=None, description="{COLUMN: TABLE}: the column that holds the key of the row that each row belongs to."
    )
    order: str | None = Field(
        default=None, description="Column that orders the rows of one parent: a date or a number."
    )
    max_rows: int = Field(default=MOST_ROWS, ge=1, description="Rows kept of each parent row; more cost more noise.")
    keep: Literal["random", "first"] = Field(
        default="random", description="Which rows of a parent with more stay: random ones, or the first in the order."
    )
    unique: list[str] = Field(
        default_factory=list,
        description="Columns in all of which no two rows of one parent are the same: a key within the parent.",
    )
    nulls: Literal["keep", "mean", "median", "mode"] = Field(
        default="keep", description="For columns that declare no policy."
    )
    filter: str | None = Field(default=None, description="SQL predicate of one row's columns; only such rows are read.")
    columns: dict[str, Any] = Field(default_factory=dict, description="Declared facts per column: public, and free.")
    refers: dict[str, str] | None = Field(
        default=None,
        description="{COLUMN: TABLE}: the columns that hold keys of public tables; such keys alone are drawn.",
    )
    public: PublicSettings | None = Field(
        default=None,
        description="Of a table that everybody may see, such as a catalogue: {why, by}. It is copied as it is, for nothing.",
    )

    @property
    def facts(self) -> dict[str, Any]:
        """What was declared of each column for itself, as of a single table's."""
        return {
            n: {k: v for k, v in facts.items() if k not in CARRIED} if isinstance(facts, Mapping) else facts
            for n, facts in self.columns.items()
        }

    @property
    def _facts(self) -> dict[str, Mapping[str, Any]]:
        """What was declared of columns; what is no mapping is refused where all facts are judged."""
        return {name: facts for name, facts in self.columns.items() if isinstance(facts, Mapping)}

    @property
    def static(self) -> dict[str, bool]:
        """What was declared of columns that may be the same in all rows of one parent row."""
        return {n: facts[STATIC] for n, facts in self._facts.items() if STATIC in facts}

    @property
    def monotone(self) -> dict[str, str | bool]:
        """What was declared of numbers that may never fall, or never rise, from one row of a parent to the next."""
        return {n: facts[MONOTONE] for n, facts in self._facts.items() if MONOTONE in facts}

    @property
    def until(self) -> dict[str, str | bool]:
        """What was declared of columns that may hold when the parent's next row begins."""
        return {n: facts[UNTIL] for n, facts in self._facts.items() if UNTIL in facts}

    @property
    def running(self) -> dict[str, tuple[str, ...]]:
        """What was declared of numbers that may go on from the row before: by which columns, by none if they do not."""
        return {n: terms_of(facts[RUNNING]) or () for n, facts in self._facts.items() if RUNNING in facts}

    @property
    def timed(self) -> set[str]:
        """The order, if a person said after or before which dates of their parents rows lie."""
        facts = self._facts.get(str(self.order), {})
        return {str(self.order)} if facts.keys() & {AFTER, BEFORE} else set()

    @field_validator("columns")
    @classmethod
    def _columns(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, facts in value.items():
            if not isinstance(facts, Mapping):
                continue
            if not isinstance(facts.get(STATIC, True), bool):
                raise InvalidInput(f"columns.{name}: {STATIC}: expected true or false, got {facts[STATIC]!r}.")
            if (direction := facts.get(MONOTONE, False)) is not False and direction not in DIRECTIONS:
                raise InvalidInput(
                    f"columns.{name}: {MONOTONE}: expected {', '.join(DIRECTIONS)} or false, got {direction!r}."
                )
            if (way := facts.get(UNTIL, False)) is not False and way not in WAYS:
                raise InvalidInput(f"columns.{name}: {UNTIL}: expected {', '.join(WAYS)} or false, got {way!r}.")
            if dates_of(bounds := facts.get(BEFORE)) is None:
                raise InvalidInput(
                    f"columns.{name}: {BEFORE}: expected a date of its parent, such as discharged, or false, got {bounds!r}."
                )
            if terms_of(terms := facts.get(RUNNING)) is None:
                raise InvalidInput(
                    f"columns.{name}: {RUNNING}: expected the column that holds by how much it goes on, two of them such as "
                    f"[deposit, withdrawal], or false, got {terms!r}."
                )
            several = [fact for fact in CARRIED if facts.get(fact)]
            if len(several) > 1:
                raise InvalidInput(f"columns.{name}: it is declared {' and '.join(several)}; keep one of the two.")
        return value

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Refuse dates after which no row lies, of what rows are not ordered by."""
        for name, facts in self._facts.items():
            if facts.get(BEFORE) and name != self.order:
                raise InvalidInput(
                    f"columns.{name}: {BEFORE}: rows are not ordered by it; declare order: {name}, or a rule across tables."
                )
        return self

    @model_validator(mode="after")
    def _copied(self) -> Self:
        """Refuse what only a table that is learnt can have."""
        if self.public is None:
            return self
        if not self.source or self.key is None:
            raise InvalidInput("public: such a table has a source and a key, by which rows of others refer to it.")
        fields = type(self).model_fields.items()
        extra = [
            n for n, f in fields if n not in OF_PUBLIC and getattr(self, n) != f.get_default(call_default_factory=True)
        ]
        if extra:
            raise InvalidInput(
                f"{extra[0]}: the table is declared public and copied as it is, so it has {', '.join(sorted(OF_PUBLIC))} "
                f"alone. Leave {extra[0]} out; or leave public out, and the table is learnt and protected."
            )
        return self

    @field_validator("filter")
    @classmethod
    def _filter(cls, value: str | None, info: ValidationInfo) -> str | None:
        return check_filter(value, info.data.get("source", ""))

    @field_validator("parent")
    @classmethod
    def _one_parent(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        if value is not None and len(value) != 1:
            raise InvalidInput(
                f"parent: a row belongs to one row of one table, {{COLUMN: TABLE}}; got {len(value)}. Name the parent that "
                f"leads to the person; a column that refers to another table is learnt as a category, or left out by "
                f"kind: identifier."
            )
        return value


OF_PUBLIC = frozenset({"source", "key", "filter", "public"})
"""What is said of a table that everybody may see."""

CARRIED = (STATIC, MONOTONE, UNTIL, BEFORE, RUNNING)
"""Facts of columns that a row's parent carries, or that hang on other rows; a single table has none."""

FREE = frozenset({"rules", "description", "contact", "intended_use", "retention_days", "locale", "rows", "target"})
"""Fields that change nothing of what a release does to private data."""


class DatabaseSettings(Section):
    """What one release of a database asks for."""

    database: str | None = Field(
        default=None, description="Name of the synthetic database; by default the folder's name."
    )
    account: str = Field(description="The privacy account to charge; open it first: dp-synth ledger open.")
    epsilon: float = Field(description="The most that one refresh of all tables together may cost.")
    delta: float | Literal["auto"] = Field(default="auto", description="auto = 1 / N^1.2, capped at the account's.")
    unit: str | None = Field(
        default=None, description="The root table: all that belongs to one row of it is protected together."
    )
    tables: dict[str, DatabaseTable] = Field(description="The tables by name, each with its source and its parent.")
    shares: dict[str, float] | None = Field(
        default=None, description="Part of the signal that each table's learning takes; by default by its columns."
    )
    rules: list[str] = Field(
        default_factory=list,
        description="Rules across tables that drawn rows keep, and that are checked: visits.visited >= patients.born.",
    )
    find_formulas: bool = Field(
        default=True,
        description="Find by noisy counts which numbers others of their row give, and make drawn rows keep to that.",
    )
    population: int | None = Field(default=None, ge=2, description="Public number of root rows; else it is counted.")
    locale: str | None = Field(default=None, description="Language and country of made-up names, such as de_DE.")
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    refresh: RefreshSettings = Field(
        default_factory=RefreshSettings, description="What a refresh takes over from the last: {remember, epsilon}."
    )
    rows: int | None = Field(
        default=None, ge=1, le=MOST_PERSONS, description="Root rows to draw; by default their noisy number."
    )
    target: str | None = Field(
        default=None,
        repr=False,
        description="A folder, or an address with {table} in it, such as duckdb:///f.duckdb?table=clinic.{table}.",
    )
    retention_days: int | None = Field(default=None, ge=0, description="Days to keep snapshots.")
    description: str | None = Field(default=None, description="What the database is, for its card.")
    contact: str | None = Field(default=None, description="Whom the card names for questions.")
    intended_use: str | None = Field(default=None, description="What the synthetic rows are for, for the card.")

    @field_validator("tables")
    @classmethod
    def _tables(cls, value: dict[str, DatabaseTable]) -> dict[str, DatabaseTable]:
        for name, table in value.items():
            check_columns(table.facts, f"tables.{name}.columns")
        return value

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float) -> float:
        check_release(value)
        return value

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: float | str) -> float | str:
        if not isinstance(value, str):
            check_delta(value)
        return value

    @model_validator(mode="after")
    def _sound(self) -> DatabaseSettings:
        if self.training.tune is not None:
            raise InvalidInput(
                "training: tune: a study is of a single table; leave it out, and tune on a released one."
            )
        for name in (*filter(None, [self.database]), *self.tables):
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"tables: a name has letters, digits and _ alone, and begins with a letter: {name!r}."
                )
        for name, total in ((name, total) for name, table in self.tables.items() for total in table.running):
            if self.refresh.remember and self.tables[name].running[total]:
                raise InvalidInput(
                    f"tables.{name}.columns.{total}: {RUNNING}: a refresh that remembers counts codes, and a total that is "
                    f"computed has none. Leave it out; or leave refresh: remember out."
                )
        relations = self.relations
        if self.unit is not None and self.unit != relations.root.name:
            raise InvalidInput(
                f"unit: it is the root of the tables, here {relations.root.name!r}; got {self.unit!r}. Name that one, or "
                f"give {relations.root.name!r} a parent."
            )
        for name, table in self.private_tables.items():
            derived = name == relations.root.name and relations.children(name) and not (table.columns or table.filter)
            if not table.source and not derived:
                raise InvalidInput(
                    f"tables.{name}: source: say where its rows are, such as data/{name}.parquet. The root alone may lack "
                    f"one, without columns and filter: its rows are then whom the tables below it name."
                )
        learnt = self.private_tables
        if self.shares is not None and (set(self.shares) != set(learnt) or min(self.shares.values()) <= 0):
            raise InvalidInput(f"shares: expected a part above 0 for each of {', '.join(learnt)}.")
        for table in relations:
            facts = self.member(table.name).columns
            _check_references(table, self.tables[table.name].columns, facts)
            public_list.check_public(facts, [other.source for other in learnt.values()])
        for name, table in self.public_tables.items():
            _check_source(name, table.source, [other.source for other in learnt.values() if other.source])
        _ = self.parsed_rules  # refuses those that judge no table
        return self

    @property
    def parsed_rules(self) -> list[Rule]:
        """The rules across tables, read."""
        return [ruling.read(text, self.relations) for text in self.rules]

    @property
    def private_tables(self) -> dict[str, DatabaseTable]:
        """The tables whose rows are learnt and protected."""
        return {name: table for name, table in self.tables.items() if table.public is None}

    @property
    def public_tables(self) -> dict[str, DatabaseTable]:
        """The tables that everybody may see."""
        return {name: table for name, table in self.tables.items() if table.public is not None}

    @property
    def relations(self) -> Relations:
        """How the tables hang together."""
        public = [PublicTable(name, str(table.key)) for name, table in self.public_tables.items()]
        return Relations([_related(name, table) for name, table in self.private_tables.items()], public)

    def member(self, name: str, population: int | None = None) -> ReleaseSettings:
        """Return the settings under which one table is learnt: a table of which one row of each person is read.

        Args:
            population: how many persons have rows in it, once that is released.
        """
        table, relations = self.tables[name], self.relations
        keys = {key: {"kind": "identifier"} for key in relations[name].keys}
        referring = {column: self._keys_of(other) for column, other in relations[name].refers}
        return ReleaseSettings(
            table=name,
            source=table.source,
            filter=table.filter,
            account=self.account,
            epsilon=self.epsilon,
            delta=self.delta,
            nulls=table.nulls,
            columns={
                **table.facts,
                **{key: table.facts.get(key) or facts for key, facts in keys.items()},
                **{column: {**facts, **(table.facts.get(column) or {})} for column, facts in referring.items()},
            },
            population=population if relations[name].parent is not None else self.population,
            locale=self.locale,
            validation=ValidationSettings(find_formulas=self.find_formulas),
            reuse_profile=self.refresh.remember,
            refresh=self.refresh,
            retention_days=self.retention_days,
            training=self.training,
            description=self.description,
            contact=self.contact,
            intended_use=self.intended_use,
        ).judged([column for owner, column in ruling.named(self.parsed_rules) if owner == name and column])

    def _keys_of(self, public: str) -> dict[str, Any]:
        """Return what is declared of a column that refers to a public table: the keys of its rows are its categories."""
        table = self.tables[public]
        kept = {} if table.filter is None else {FILTER: table.filter}
        return {"kind": "category", "categories": {FROM: table.source, COLUMN: table.key, **kept}}

    def learnt(self, name: str, population: int | None = None) -> ReleaseSettings:
        """Return the settings under which one table is learnt, with the columns that its rows carry for others."""
        own, carried = self.member(name, population), {}
        for child in self.relations.children(name):
            facts = self.member(child.name).columns
            carried |= {child.carried(column): facts[column] for column in child.carries if column in facts}
        return own.model_copy(update={"columns": {**own.columns, **carried}}) if carried else own

    def with_found(self, found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Self:
        """Return the settings with facts of columns that were found, as if they had been declared.

        Args:
            found: by table and column.
        """
        tables = {}
        for name, table in self.tables.items():
            columns = {c: {**(table.columns.get(c) or {}), **facts} for c, facts in found.get(name, {}).items()}
            tables[name] = table.model_copy(update={"columns": {**table.columns, **columns}}) if columns else table
        return self.model_copy(update={"tables": tables})

    @property
    def whole(self) -> ReleaseSettings:
        """What the ledger is asked for: the settings of a table that costs as much as all tables together."""
        return self.member(self.relations.root.name)

    @property
    def remembering_conflict(self) -> str:
        """What of the other settings a refresh that remembers does not go with; empty if it goes with all of them."""
        members = [self.member(name).model_copy(update={"reuse_profile": True}) for name in self.private_tables]
        return next(filter(None, (member.remembering_conflict for member in members)), "")

    @property
    def name(self) -> str:
        """The database's name, in the ledger and in the store."""
        if self.database is None:
            raise InvalidInput("the database has no name; write `database: NAME`.")
        return self.database

    @property
    def charge(self) -> Charge:
        """Who pays, and how much at most."""
        return Charge(self.account, self.epsilon)

    @property
    def read(self) -> dict[str, str]:
        """What a refresh reads, by its role: no target may be any of it."""
        read = {f"source of {name}": table.source for name, table in self.tables.items() if table.source}
        for table in self.tables.values():
            read |= {f"categories of {name}": uri for name, uri in public_list.addresses(table.columns).items()}
        return read

    def terms(self) -> dict[str, Any]:
        """Return all that changes what a refresh does to private data, JSON-ready."""
        charged_fields = DatabaseSettings.model_fields.keys() - FREE
        facts = {"version": __version__, **self.model_dump(include=charged_fields, mode="json")}
        facts["training"] = self.training.terms()
        facts["source"] = {name: shown(table.pop("source")) for name, table in facts["tables"].items()}
        return json.loads(json.dumps(facts, default=str))

    def with_terms(self, terms: Mapping[str, Any]) -> DatabaseSettings:
        """Return the settings with some terms in place of their own; sources stay, since they are read already."""
        fields = self.model_dump(include=set(DatabaseSettings.model_fields)) | dict(terms)
        sources = {name: table.source for name, table in self.tables.items()}
        fields["tables"] = {
            name: {**table, "source": sources.get(name, "")} for name, table in fields["tables"].items()
        }
        return DatabaseSettings(**fields)

    def code_version(self) -> str:
        """Hash of everything that changes what a refresh does to private data."""
        return terms_version(self.terms())


def _check_source(name: str, source: str, private: Sequence[str]) -> None:
    """Refuse a public table that lies where private rows do, and one whose address has a secret, which cards would show."""
    if any(same_place(source, other) for other in private):
        raise InvalidInput(
            f"tables.{name}: source: it holds rows that are to be protected, and a public table is copied as it is. Name "
            f"the table that everybody may see."
        )
    if shown(source) != source:
        raise InvalidInput(
            f"tables.{name}: source: its address names a user or a password, and cards show what is public. Copy the table "
            f"into a CSV or Parquet file."
        )


def _check_references(table: Related, declared: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse declared facts under which a column does not hold the keys of the public table that it refers to."""
    for column, other in table.refers:
        said = declared.get(column) or {}
        fact = "categories" if "categories" in said else "nulls" if said.get("nulls") == NullPolicy.CONSTANT else None
        if fact is not None:
            raise InvalidInput(
                f"tables.{table.name}.columns.{column}: {fact}: what is not null here is a key of {other}, which is "
                f"declared public. Leave {fact} out."
            )
        if facts[column].get("kind") != "category":
            raise InvalidInput(
                f"tables.{table.name}.columns.{column}: kind: it holds keys of {other}, which is declared public, so it is "
                f"a category of these. Leave kind out; or call the column otherwise if it does not."
            )


def _related(name: str, table: DatabaseTable) -> Related:
    ((reference, parent),) = table.parent.items() if table.parent else ((None, None),)
    return Related(
        name,
        key=table.key,
        parent=parent,
        reference=reference,
        order=table.order,
        max_rows=1 if parent is None else table.max_rows,
        keep_first=table.keep == "first",
        static=tuple(column for column, static in table.static.items() if static),
        increasing=tuple(column for column, direction in table.monotone.items() if direction == INCREASING),
        decreasing=tuple(column for column, direction in table.monotone.items() if direction == DECREASING),
        until=tuple((column, str(way)) for column, way in table.until.items() if way),
        before=dates_of((table.columns.get(str(table.order)) or {}).get(BEFORE)) or (),
        running=tuple((column, terms) for column, terms in table.running.items() if terms),
        unique=tuple(dict.fromkeys(table.unique)),
        refers=tuple((table.refers or {}).items()),
    )
