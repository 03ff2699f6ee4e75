"""Defines the stages of a database's release in their order, each by what it changes.

Every table goes through the stages of a flat release, the root first and each table after its parent. What belongs to all
tables together, such as reading, settling, drawing and publishing, is a stage of the database.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.home import home
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.relations import carrying, periods, relating, ruling, running_totals, static_columns, unique_rows
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.static_columns import Candidates, Found
from dp_synth_pipeline.relations.structure import Related, check_keys
from dp_synth_pipeline.synthesis import generator_files, profile_cache, publication, retention
from dp_synth_pipeline.synthesis.database import histories, learning, public_tables
from dp_synth_pipeline.synthesis.database.beginnings import begun_sentence, empty_sentence
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer, redrawn_sentence
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease, folder_of
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.sharing import named
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.generator import GeneratorStage
from dp_synth_pipeline.synthesis.mechanisms.history_counts import HistoryCounts
from dp_synth_pipeline.synthesis.mechanisms.static_columns import StaticColumns
from dp_synth_pipeline.synthesis.progress import Progress
from dp_synth_pipeline.synthesis.reading import dates_sentence, reading
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema, load_ran
from dp_synth_pipeline.synthesis.sampling import FILE, sealed
from dp_synth_pipeline.synthesis.stages import (
    Completion,
    Measuring,
    Profiling,
    TextMeasuring,
    check_notes,
    reading_failed,
)
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv import declared
from dp_synth_pipeline.targets import sink, together

T = TypeVar("T")


class DatabaseStage(ABC):
    """One stage of a database's release: it reads the state that earlier stages left, and leaves more."""

    name: str
    """What it is called in the asset graph, in logs and in refusals."""

    @abstractmethod
    def done(self, release: DatabaseRelease) -> bool:
        """Say whether the release is past this stage."""

    @abstractmethod
    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Do it, change the release's state, and return public facts of how it went."""


class Ingestion(DatabaseStage):
    """Copies each source into a restricted snapshot, once, and finds the person of each row. All was reserved before.

    What is public is looked at first, and what is refused then gives the reservation back. Once rows were read, it stays.
    """

    name = "ingested"

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether the rows of every table are related."""
        return set(release.state.rows) == set(release.settings.private_tables)

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Read the sources.

        Raises:
            InvalidInput: if a source cannot be used, by public facts alone; the reservation is given back then.
            ReadingFailed: if one cannot be read to its end. The details lie in the release's restricted folder.
        """
        settings, progress = release.settings, release.progress
        retention.forget(release.store, release.protection.ledger, settings.name)
        with retention.private():
            sources, untyped, public = self._sources(release)
            try:
                related = self._related(release, sources, public)
            except Exception as error:  # rows were read, so why it failed is a fact about them
                raise reading_failed(release, error) from None
            tables = {n: _one_row_each(release, n, RunState(release.id), r, untyped[n]) for n, r in related.items()}
        progress.report(f"{settings.name}: reading", 1, 1)
        release.state = replace(release.state, sources=sources, rows=related, tables=tables, public=public)
        return {}

    def _related(
        self, release: DatabaseRelease, sources: Mapping[str, TableSchema], public: Mapping[str, Path]
    ) -> dict[str, RelatedRows]:
        """Read every source once, and find the person of each row."""
        files, digests, tables = {}, [], release.settings.private_tables
        for number, (name, table) in enumerate(tables.items()):
            release.progress.report(f"{release.settings.name}: reading", number, len(tables))
            if table.source:
                with _opened(release, name) as opened:
                    snapshot = opened.copy(release.restricted / f"{name}.source.parquet")
                files[name], _ = snapshot.path, digests.append(snapshot.digest)
        root = release.relations.root.name
        if root not in files:
            files[root] = relating.named_roots(release.relations, files, release.restricted / f"{root}.source.parquet")
        release.protection.note_source(release.id, "".join(digests))
        return relating.relate(release.relations, {**files, **public}, sources, release.restricted)

    def _sources(
        self, release: DatabaseRelease
    ) -> tuple[dict[str, TableSchema], dict[str, tuple[str, ...]], dict[str, Path]]:
        """Return the columns of each source, those of which the types are measured, and where copies of public tables are.

        No row is read but of those.
        """
        try:
            found = _of_each(
                [n for n, t in release.settings.private_tables.items() if t.source], partial(_schema, release)
            )
            root = release.relations.root.name
            if root not in found:
                found[root] = _schema_of_named(release, {name: schema for name, (schema, _) in found.items()}), ()
            sources, untyped = {n: schema for n, (schema, _) in found.items()}, {n: u for n, (_, u) in found.items()}
            _of_each([table.name for table in release.relations], partial(_check_table, release, sources, untyped))
            copied = _of_each(release.settings.public_tables, partial(_copied, release, sources))
            sources |= {n: schema for n, (_, schema) in copied.items()}
            ruling.check(release.settings.parsed_rules, sources, untyped)
        except Exception:
            release.protection.void(release.id, "the sources could not be opened")
            release.drop()
            raise
        return sources, untyped, {n: path for n, (path, _) in copied.items()}


def _copied(release: DatabaseRelease, sources: Mapping[str, TableSchema], name: str) -> tuple[Path, TableSchema]:
    """Copy a public table beside the restricted rows, and return where it is and its columns."""
    referring = {
        f"{t.name}.{column}": sources[t.name][column].arrow_type
        for t in release.relations
        for column, other in t.refers
        if other == name
    }
    if len(set(referring.values())) > 1:
        listed = ", ".join(f"{column} {kind}" for column, kind in referring.items())
        raise InvalidInput(f"key: the columns that refer to it hold {listed}; store them alike.")
    path = release.restricted / f"{name}.{public_tables.FILE}"
    table = release.settings.tables[name]
    return path, public_tables.copy(table, next(iter(referring.values()), None), path)


def _one_row_each(
    release: DatabaseRelease, name: str, state: RunState, rows: RelatedRows, untyped: tuple[str, ...]
) -> RunState:
    """Write one row of each person who has any in a table, and return the table's state with them."""
    folder = release.restricted / name
    folder.mkdir(exist_ok=True)
    snapshot = relating.one_row_each(rows, folder / "snapshot.parquet")
    return state.reading(dump_schema(rows.schema), "", rows.units, untyped=untyped).with_(snapshot=snapshot)


def _opened(release: DatabaseRelease, name: str) -> AbstractContextManager[ingestion.Opened]:
    member, table = release.settings.member(name), release.relations[name]
    early = [*([] if table.order is None else [table.order]), *_tied(member.columns), *dict(table.until)]
    how: ingestion.Reading = {**reading(member, list(member.columns)), "keys": table.keys}
    how["types"] = {n: cells for n in early if (cells := declared.as_iso(n, member.columns.get(n))) is not None}
    return ingestion.opened(source.parse(member.source, where=member.filter), release.restricted, **how)


def _tied(columns: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that a person says to hang on others, and those others."""
    for column, facts in columns.items():
        for base in ((facts or {}).get(fact) for fact in offsets.HANGS):
            yield from (column, base) if base else ()


def _of_each(tables: Iterable[str], do: Callable[[str], T]) -> dict[str, T]:
    """Return what is done with each table.

    Raises:
        InvalidInput: for all tables that it is refused of, each mistake once, with the name of the table that it lies in:
            what is wrong with a table below another one is met at both.
    """
    found, mistakes = {}, []
    for name in tables:
        try:
            found[name] = do(name)
        except InvalidInput as error:
            said = str(error).splitlines()
            mistakes += [line if line.startswith("tables.") else f"tables.{name}: {line}" for line in said]
    if mistakes:
        raise InvalidInput("\n".join(dict.fromkeys(mistakes)))
    return found


def _check_table(
    release: DatabaseRelease,
    sources: Mapping[str, TableSchema],
    untyped: Mapping[str, Collection[str]],
    name: str,
) -> None:
    """Refuse what the columns of a table and of those that it hangs on show to be impossible."""
    table = release.relations[name]
    above = [] if table.parent is None else histories.hung_on(release.relations, name)
    check_notes(release.settings.member(name), sources[name], [sources[n] for n in above])
    relating.modelled(release.relations, name, sources)
    parent = None if table.parent is None else sources[table.parent]
    static_columns.check(table, sources[name], parent, untyped[name])
    unique_rows.check(table, sources[name])
    running_totals.check(table, sources[name], untyped[name])


def _schema(release: DatabaseRelease, name: str) -> tuple[TableSchema, tuple[str, ...]]:
    table = release.relations[name]
    names = ingestion.column_types(source.parse(release.settings.member(name).source))
    check_keys(table, list(names))
    _check_unsaid(release, table, list(names))
    with _opened(release, name) as opened:
        untyped = tuple(column for column in opened.untyped if column != table.order)
        columns = release.settings.tables[name].columns
        mistakes = [*_drops(untyped, columns), *_hanging(opened.untyped, columns)]
        if mistakes:
            raise InvalidInput("\n".join(f"tables.{name}: {mistake}" for mistake in mistakes))
        return opened.schema, untyped


def _check_unsaid(release: DatabaseRelease, table: Related, names: Sequence[str]) -> None:
    """Refuse columns that are called as keys of public tables are, while nobody said whether they hold these."""
    if release.settings.tables[table.name].refers is not None:
        return
    for other in release.relations.public:
        if other.key in names and other.key not in table.keys:
            raise InvalidInput(
                f"refers: {other.key!r} is called as the key of {other.name} is, which is declared public. Say that it "
                f"holds these keys: refers: {{{other.key}: {other.name}}}; or refers: {{}} if it does not."
            )


def _drops(untyped: Sequence[str], columns: Mapping[str, Any]) -> Iterator[str]:
    """Yield why no row is left out by cells whose types are not known yet: rows below them hang on those that stay."""
    for column in untyped:
        if (columns.get(column) or {}).get("nulls") == NullPolicy.DROP:
            yield (
                f"columns: {column!r} has nulls: drop, and rows are related before the types of a CSV are measured. Declare "
                f"its kind as well: columns: {{{column}: {{kind: category, nulls: drop}}}}."
            )


def _hanging(untyped: Sequence[str], columns: Mapping[str, Any]) -> Iterator[str]:
    """Yield why no column hangs on another while a type is not known: offsets are computed before types are measured."""
    for column, facts in columns.items():
        for fact in offsets.HANGS:
            base = (facts or {}).get(fact) or None
            unknown = next((c for c in (column, base) if c in untyped), None)
            if base is not None and unknown is not None:
                number = unknown == column and (facts or {}).get("part") is not None
                kind = "kind: integer" if number else "kind: date"
                yield (
                    f"columns: {column!r} is {fact} {base!r}, and rows are related before the types of a CSV are measured. "
                    f"Declare what {unknown!r} is as well: columns: {{{unknown}: {{{kind}}}}}."
                )


def _schema_of_named(release: DatabaseRelease, sources: Mapping[str, TableSchema]) -> TableSchema:
    """Return the columns of a root whose rows are those that its children name: its key, stored as theirs."""
    root = release.relations.root
    child = release.relations.children(root.name)[0]
    return TableSchema((replace(sources[child.name][str(child.reference)], name=str(root.key)),))


class OfTable(DatabaseStage):
    """Takes one table through a stage of a flat release.

    Attributes:
        table: the table's name.
        stage: the stage.
    """

    def __init__(self, table: str, stage: Stage) -> None:
        self.table, self.stage = table, stage

    @property
    def name(self) -> str:  # type: ignore[override]
        """The stage's own name; whoever needs the table's asks for it as well."""
        return self.stage.name

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether the table is past the stage."""
        return self.stage.done(release.table(self.table))

    def prepare(self, release: DatabaseRelease, table: TableRelease) -> None:
        """Give the table what its stage needs of others; by default nothing."""

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Do it, and put on record what it changed of the table."""
        table = release.table(self.table)
        self.prepare(release, table)
        facts = self.stage.run(table)
        release.keep(table)
        return facts


class ProfilingTable(OfTable):
    """Profiles one table, once its rows carry what is the same in all rows that hang on them."""

    def __init__(self, table: str) -> None:
        super().__init__(table, Profiling())

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Find what is the same in all rows below, or never falls, charged unless declared; then measure the profile."""
        children = release.relations.children(self.table)
        if not self._reuse(release, children):
            self._find(release, children)
        children = release.relations.children(self.table)
        for child in children:
            if child.carries or child.until:
                self._carry(release, child)
        name = release.settings.name
        if carried := [f"{child.name}.{column}" for child in children for column in child.static]:
            release.progress.log(f"{name}: a row of {self.table} carries {', '.join(carried)}.")
        if totals := [f"{c.name}.{total} by {' and '.join(terms)}" for c in children for total, terms in c.running]:
            release.progress.log(f"{name}: rows go on from the row before: {', '.join(totals)}.")
        if carried := [f"{child.name}.{column}" for child in children for column in child.monotone]:
            release.progress.log(f"{name}: a row of {self.table} carries where {', '.join(carried)} begins.")
        if ends := [f"{child.name}.{column}" for child in children for column, _ in child.until]:
            release.progress.log(f"{name}: the next row tells {', '.join(ends)}, and the last row has its own.")
        for child in (child for child in children if child.before):
            release.progress.log(f"{name}: no row of {child.name} lies after {self.table}.{' or '.join(child.before)}.")
        facts = super().run(release)
        table = release.table(self.table)
        begun = begun_sentence(release.relations, self.table, table.schema.names)
        for said in filter(None, (dates_sentence(table.settings, table.source), begun)):
            release.progress.log(f"{name}: {self.table}: {said}")
        if said := empty_sentence(release.relations, self.table, table.schema.names, table.profile):
            release.progress.warn(f"{name}: {said}")
        return facts

    def _reuse(self, release: DatabaseRelease, children: Sequence[Related]) -> bool:
        """Put on record the columns that a profile carries which this release reuses; say whether it reuses one."""
        table, state = release.table(self.table), release.state
        if not table.settings.reuse_profile:
            return False
        known, facts = profile_cache.columns(table.folder), {}
        for child, found in zip(children, self._candidates(release, children).values(), strict=True):
            below = profile_cache.columns(folder_of(release.store, release.settings, child.name))
            carried = [column for column in found.columns if child.carried(column) in known]
            if carried and not below:  # which tells how they are carried
                return False
            rising = tuple(column for column in carried if child.step(column) in below)
            static = tuple(column for column in carried if child.step(column) not in below)
            until = tuple((column, way) for column, way in found.ends if periods.endings(child, below, [(column, way)]))
            facts[child.name] = Found(static, rising, until, _before(release, child) if known else ())
        release.state = _with_found(state, facts)
        supposed = release.table(self.table)
        for child in release.relations.children(self.table):
            above, _ = carrying.carrying(supposed.schema, state.table(child.name).table_schema(), child)
            open_columns = (child.carried(c) for c in state.table(child.name).untyped if c in child.carries)
            untyped = (*supposed.state.untyped, *open_columns)
            supposed.state = replace(supposed.state, schema=dump_schema(above), untyped=untyped)
        found, _ = Profiling().reusable_profile(supposed)
        if found is None:
            release.state = state
        return found is not None

    def _find(self, release: DatabaseRelease, children: Sequence[Related]) -> None:
        """Put on record which columns of the tables below are static or increasing, of those of which nobody said so."""
        sources, table = release.state.sources, release.table(self.table)
        candidates = self._candidates(release, children)
        found = StaticColumns(candidates, release.state.rows, table.rows).perform(table) or {}
        release.keep(table)
        for name in (name for name, of_table in found.items() if of_table.hidden and candidates[name].columns):
            said = _hidden_sentence(name, self.table, candidates[name])
            release.progress.warn(f"{release.settings.name}: {said}")
        for child in (child for child in children if child.name in found):
            whole = {*child.static, *found[child.name].static}
            if not static_columns.modelled_below(child, sources[child.name], whole):
                found[child.name] = found[child.name]._replace(static=())
        release.state = _with_found(release.state, found)

    def _candidates(self, release: DatabaseRelease, children: Sequence[Related]) -> dict[str, Candidates]:
        """Return by table the columns that may be static or increasing, of those of which nobody said so."""
        found, state = {}, release.state
        for child in children:
            declared = release.settings.tables[child.name]
            telling = (declared.monotone, declared.until, declared.running)
            told = {*declared.static, *declared.timed, *(n for each in telling for n, said in each.items() if said)}
            source, above = state.sources[child.name], state.sources[self.table]
            of_table = static_columns.candidates(child, source, above, told, state.table(child.name).untyped)
            numbers = tuple(name for name in of_table.numbers if name not in declared.monotone)
            ends = tuple(end for end in of_table.ends if end[0] not in declared.until)
            held = state.rows[self.table].schema.names  # not what rows of the parent are ordered by, or hangs on it
            bounds = tuple(name for name in of_table.bounds if name in held)
            remembers = release.settings.refresh.remember  # by counts of codes, which no total that is computed has
            totals = () if remembers else tuple(t for t in of_table.totals if t[0] not in declared.running)
            found[child.name] = of_table._replace(numbers=numbers, ends=ends, bounds=bounds, totals=totals)
        return found

    def _carry(self, release: DatabaseRelease, child: Related) -> None:
        """Move what a child's rows share from them to those that they hang on."""
        state, rows = release.state, release.state.rows
        with retention.private():
            above, below = carrying.carry(rows[self.table], rows[child.name], child)
            open_columns = state.table(child.name).untyped
            carried = tuple(child.carried(c) for c in open_columns if c in child.carries)
            remaining = tuple(c for c in open_columns if c not in child.carries)
            moved = {
                self.table: (above, (*state.table(self.table).untyped, *carried)),
                child.name: (below, remaining),
            }
            tables = {n: _one_row_each(release, n, state.table(n), r, untyped) for n, (r, untyped) in moved.items()}
        release.state = replace(
            state, rows={**rows, **{n: r for n, (r, _) in moved.items()}}, tables={**state.tables, **tables}
        )


def _hidden_sentence(name: str, parent: str, looked_at: Candidates) -> str:
    """Say that noise hides what the rows of one parent share, and what to declare.

    Example:
        >>> _hidden_sentence("visits", "patients", Candidates(("sex",)))  # doctest: +ELLIPSIS
        'few rows of patients have several visits, so noise hides which columns are the same in all of them. Declare ...'
    """
    number, date = next(iter(looked_at.numbers), None), next(iter(dict(looked_at.ends)), None)
    rising = "" if number is None else f", or {{{number}: {{monotone: increasing}}}} of a number that never falls"
    rising += "" if date is None else f", or {{{date}: {{until: next}}}} of a date on which the next row begins"
    return (
        f"few rows of {parent} have several {name}, so noise hides which columns are the same in all of them. Declare those "
        f"that are, as in tables.{name}.columns: {{{looked_at.columns[0]}: {{static: true}}}}{rising}."
    )


def _before(release: DatabaseRelease, child: Related) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return after which dates of their parents no rows of a table lay in the last release, since no profile tells it.

    It was counted with the profile of the parent. Of another profile than the one that is reused, another release paid.
    """
    last = release.folder / generator_files.DATABASE
    told = json.loads(last.read_text(encoding="utf-8")) if last.exists() else {}
    reused = profile_cache.read(release.folder / str(child.parent)).origin.release
    tables = told["tables"] if told.get("profiles", {}).get(child.parent) == reused else []
    known = [Related.of(facts) for facts in tables if facts["name"] == child.name and facts["order"] == child.order]
    said = release.settings.tables[child.name].timed
    return tuple((str(child.order), table.before) for table in known if table.before and not said)


def _with_found(state: DatabaseState, found: Mapping[str, Found]) -> DatabaseState:
    """Return the state with what was found of columns of some tables besides those of others."""
    return replace(state, found={**state.found, **{name: of_table.facts for name, of_table in found.items()}})


class TextsOfTable(OfTable):
    """Counts the texts of one row of each person, by its own columns and those of the rows above it."""

    def __init__(self, table: str) -> None:
        super().__init__(table, TextMeasuring())

    def prepare(self, release: DatabaseRelease, table: TableRelease) -> None:
        """Find the rows above."""
        if release.relations[self.table].parent is not None:
            table.above = histories.above_rows(table, release.relations, release.known_tables)


class CountingHistories(Stage):
    """Counts the codes of all rows of a table below others, charged."""

    name, makes = Measuring.name, Measuring.makes

    def run(self, release: Release) -> dict[str, Any]:
        """Return how many columns and pairs of them were counted, and at which noise."""
        from dp_synth_pipeline.model.marginals import storage

        if not isinstance(release, TableRelease) or release.history is None:
            raise ReleaseStateError("only rows of a table below others are counted together.")
        report = release.reporter(self.name)
        report(0, 1)
        measured = HistoryCounts(*release.history).perform(release)
        assert measured is not None  # there is always something to count
        path = release.restricted / "marginals.safetensors"
        with retention.private():
            storage.save(path, measured)
        release.state = release.state.with_(marginals=path)
        report(1, 1)
        pairs = sum(len(clique) == 2 for clique in measured.layout.cliques)
        return {"columns": len(release.codec.columns), "pairs": pairs, "noise_per_cell": measured.scale}


class MeasuringTable(OfTable):
    """Counts pairs of a table's columns, and of those with what its rows hang on; all rows of a person count as one."""

    def __init__(self, table: str) -> None:
        super().__init__(table, Measuring())

    def prepare(self, release: DatabaseRelease, table: TableRelease) -> None:
        """Find what its rows hang on."""
        if release.relations[self.table].parent is not None:
            learning.prepare(table, release)


class CountingTable(OfTable):
    """Counts the codes of all rows of a table below others; the counts of a person are clipped together."""

    def __init__(self, table: str) -> None:
        super().__init__(table, CountingHistories())

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether they were counted; or whether the table is learnt already, by a version that did not count them."""
        return super().done(release) or learning.found(release.table(self.table)) is not None

    def prepare(self, release: DatabaseRelease, table: TableRelease) -> None:
        """Find its rows."""
        context = learning.context_of(table, release)
        table.history = histories.history_rows(table, release.relations, release.known_tables, context)


class Learning(OfTable):
    """Learns one table, each row given what it hangs on; nothing is released before all tables are learnt and paid for.

    Attributes:
        audit: what training was seen to do; None if it took no noisy step.
    """

    def __init__(self, table: str) -> None:
        super().__init__(table, GeneratorStage())
        self.audit: Audit | None = None

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether what was learnt of the table is kept durably, or released."""
        return learning.found(release.table(self.table)) is not None

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Return public facts of how training went.

        Raises:
            AuditFailed: if training was not seen to keep what it promises; nothing of the database is released then.
        """
        table = release.table(self.table)
        if learning.found(table) is None:
            if release.relations[self.table].parent is None:
                GeneratorStage().learn(table)
            else:
                learning.learn(table, release)
        release.keep(table)
        folder = learning.found(table)
        self.audit = None if folder is None else generator_files.audit(folder)
        return {}


class Settlement(DatabaseStage):
    """Settles the release for what ran in all tables, and only then releases their weights."""

    name = "settled"

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether the weights of every table are released."""
        return all(table.files.generator is not None for table in release.state.tables.values())

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Return how many numbers were learnt.

        Raises:
            ReleaseStateError: if a table is not learnt yet.
        """
        from dp_synth_pipeline.model import artifact

        tables = {table.name: release.table(table.name) for table in release.relations}
        ran, weights = [], 0
        for name, table in tables.items():
            found = learning.found(table)
            if found is None:
                raise ReleaseStateError(
                    f"table {name} of this release is not learnt yet, so nothing of it is released; materialize its "
                    f"generator first."
                )
            model, facts = artifact.load(found)
            ran += [(named(event.mechanism, name), event.event) for event in load_ran(facts["ran"])]
            weights += model.weights
        release.protection.settle(release.id, delta=release.delta, ran=ran)
        modelled = {n: _as_modelled(release.state.sources[n], tables, release.relations[n]) for n in tables}
        sources = {**release.state.sources, **modelled}
        for table in tables.values():
            learnt_folder, folder = table.restricted / retention.LEARNT, table.folder / generator_files.FOLDER
            if generator_files.found(learnt_folder, release.id):  # else a run before this one had got so far
                generator_files.release_to(learnt_folder, folder)
            rows = table.profile.rows
            table.state = table.state.with_(generator=folder, profile=folder / "profile.json", rows=rows)
            release.keep(table)
        copies = {n: public_tables.release_to(path, release.folder / n) for n, path in release.state.public.items()}
        release.state = replace(release.state, sources=sources, public=copies)
        sink.write_text(json.dumps(described(release), indent=1), release.folder / generator_files.DATABASE)
        return {"weights": weights}


def _as_modelled(source_schema: TableSchema, tables: Mapping[str, TableRelease], table: Related) -> TableSchema:
    """Return a source's columns with the types that were measured, and those made anew that identify somebody."""
    kinds = {c.name: c for c in tables[table.name].schema.columns}
    if table.parent is not None:
        above = {c.name: c for c in tables[table.parent].schema}
        carried = {name: above.get(table.carried(name)) for name in table.carries}
        nulls = {c.name: c.nulls for c in source_schema}
        kinds |= {n: replace(c, name=n, nulls=nulls[n]) for n, c in carried.items() if c is not None}
    return TableSchema(tuple(kinds.get(c.name, c) for c in source_schema.columns))


def described(release: DatabaseRelease) -> dict[str, Any]:
    """Return how released tables hang together and what they promise, JSON-ready: what drawing from them needs besides."""
    lineage = release.lineage
    return {
        "release": release.id,
        "epsilon": lineage.epsilon,
        "delta": lineage.delta,
        "tables": [asdict(table) for table in release.relations],
        "public": [asdict(table) for table in release.relations.public],
        "sources": {name: dump_schema(schema) for name, schema in release.state.sources.items()},
        "rules": release.rules,
        "profiles": {name: table.facts.profile_release for name, table in release.state.tables.items()},
    }


class Sampling(DatabaseStage):
    """Draws the synthetic tables from what a release learnt. As post-processing, this is free."""

    name = "synthetic"

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether every table was drawn."""
        return all(table.files.synthetic is not None for table in release.state.tables.values())

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Return how many rows of each table were drawn."""
        report = partial(release.progress.report, f"{release.settings.name}: generation")
        folders = {name: state.path("generator") for name, state in release.state.tables.items()}
        rules = [ruling.read(text, release.relations) for text in release.rules]
        drawer = DatabaseDrawer(release.relations, release.state.sources, folders, rules, release.state.public)
        drawn, _, redrawn = drawer.draw(release.settings.rows or drawer.persons, report=report)
        if redrawn:
            release.progress.log(f"{release.settings.name}: {redrawn_sentence(redrawn)}")
        learnt = {name: rows for name, rows in drawn.items() if name not in release.state.public}
        for name, rows in learnt.items():
            table = release.table(name)
            path = table.folder / FILE
            sink.write_parquet(rows.to_batches(), rows.schema, path)
            seal = release.protection.seal(sealed(release.id, path))
            counts = {"synthetic_rows": rows.num_rows, "asked_rows": rows.num_rows}
            table.state = table.state.with_(synthetic=path, seal=seal, **counts)
            release.keep(table)
        release.state = replace(release.state, rules=tuple(release.rules))
        return {name: rows.num_rows for name, rows in learnt.items()}


class Publication(DatabaseStage):
    """Writes all drawn tables where analysts read them, together: no reader sees a row without its parent."""

    name = "published"

    def done(self, release: DatabaseRelease) -> bool:
        """Say whether the tables were published."""
        return release.state.published is not None

    def run(self, release: DatabaseRelease) -> dict[str, Any]:
        """Return where the tables were written.

        Raises:
            ReleaseStateError: if nobody paid for them, or a file is not the one that was drawn under this release.
        """
        publication.require_settled(release.record)
        for table in release.state.tables.values():
            seal = release.protection.seal
            publication.require_drawn([(table.path("synthetic"), table.facts.seal)], release.id, seal)
        check_target(release.settings, release.progress)
        drawn = {name: table.path("synthetic") for name, table in release.state.tables.items()}
        files = {**release.state.public, **drawn}
        on_wait = partial(release.progress.wait, f"{release.settings.name}: publishing")
        places = together.publish(release.relations, files, target_of(release.settings), on_wait)
        release.state = replace(release.state, published=tuple(places.values()))
        return {"places": places}


def target_of(settings: DatabaseSettings) -> str:
    """Return where a database is written: where a person said, else a schema of the warehouse at home."""
    return settings.target or f"duckdb:///{home() / 'warehouse.duckdb'}?table={settings.name}.{together.TABLE}"


def check_target(settings: DatabaseSettings, progress: Progress) -> None:
    """Refuse a target that cannot be written, or that the release reads from, before anything is spent on it.

    Raises:
        InvalidInput: naming the target.
    """
    on_wait = partial(progress.wait, f"{settings.name}: publishing")
    together.check(list(settings.tables), target_of(settings), settings.read, on_wait)


def of_database(settings: DatabaseSettings) -> list[DatabaseStage]:
    """Return the stages that take a release from its reservation to its published tables, in their order."""
    stages: list[DatabaseStage] = [Ingestion()]
    measures = Method(settings.training.spec().method).measures
    for table in settings.relations:
        stages += [ProfilingTable(table.name), OfTable(table.name, Completion())]
        if settings.member(table.name).text_columns:
            stages.append(TextsOfTable(table.name))
        if measures:
            pairs = table.parent is None or settings.refresh.remember
            stages.append(MeasuringTable(table.name) if pairs else CountingTable(table.name))
        stages.append(Learning(table.name))
    return [*stages, Settlement(), Sampling(), Publication()]
