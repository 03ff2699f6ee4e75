"""A `DatabaseRelease` holds the terms and the state of one release of related tables, and who pays for it.

    reserved ──► ingested ──► each table: profile, completed, marginals, generator ──► settled ──► synthetic ──► published
                 related      charged     nulls      charged    charged                            free          together

A table is learnt from codes of its rows, and given with each of them what it hangs on: the codes of the rows above, its
place, how many rows follow, when it was, and the row before it. The count of a row's children, and when they begin, are
columns of that row. So a person's history is drawn row by row from released weights alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dp_synth_pipeline.ledger import Ledger, Lineage
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis import idempotency, memory, retention, terms
from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.sharing import DatabaseProtection, Part, TableProtection, shares_of
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.progress import Progress, Silent
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import constraints, offsets


class DatabaseRelease:
    """One release of a database, under the terms that it was reserved for and no others.

    Attributes:
        settings: the database's settings, with the release's own terms in place of changed ones.
        protection: the account that pays for all tables together.
        state: what the stages so far left; JSON-ready, so that another process can go on.
        attempt: names this execution of a stage, so that a second delivery of it is told apart from a retry.
        workers: processes that train together.
    """

    def __init__(
        self,
        settings: DatabaseSettings,
        ledger: Ledger,
        store: Store,
        state: DatabaseState,
        *,
        attempt: str = "",
        progress: Progress | None = None,
    ) -> None:
        self.settings, self.store, self.state = settings, store, state
        self.protection, self.progress = DatabaseProtection(settings, ledger), progress or Silent()
        self.attempt, self.workers = attempt, 1

    @classmethod
    def reserve(
        cls,
        settings: DatabaseSettings,
        ledger: Ledger,
        store: Store,
        *,
        key: str,
        run_id: str,
        progress: Progress | None = None,
    ) -> DatabaseRelease:
        """Begin a release: hold all that every table together may cost, before anything is read.

        Raises:
            BudgetExceeded: if the account cannot pay; nothing was read or changed.
            InvalidInput: if the account protects another privacy unit than one row of the root.
            ReleaseStateError: if this very request began before; the first one goes on.
        """
        shares = shares_of(settings.shares, settings.relations, {})
        goes_on = all(
            memory.expected(TableProtection(settings, ledger, Part.of(shares, name)), folder_of(store, settings, name))
            for name in settings.private_tables
        )
        record = DatabaseProtection(settings, ledger).reserve_database(key, run_id, goes_on=goes_on)
        folder = idempotency.claim(store, settings.name, record)
        retention.keep_for(folder, settings.retention_days)
        state = DatabaseState(record.id, settings.terms())
        return cls(settings, ledger, store, state, attempt=key, progress=progress)

    @classmethod
    def open(
        cls,
        settings: DatabaseSettings,
        state: DatabaseState,
        ledger: Ledger,
        store: Store,
        *,
        attempt: str = "",
        progress: Progress | None = None,
    ) -> DatabaseRelease:
        """Go on with a release from the state that an earlier stage left.

        Raises:
            ReleaseStateError: if more of it may be learnt and the settings' terms are others now.
        """
        record = DatabaseProtection(settings, ledger).record(state.release)
        own_settings = terms.of_database(settings, state.terms, record)
        return cls(own_settings, ledger, store, state, attempt=attempt, progress=progress)

    def run(self, stage: Any) -> dict[str, Any]:
        """Take the release through one of `database.stages`, and return public facts of how it went."""
        return stage.run(self)

    @property
    def id(self) -> str:
        """The release's id in the ledger."""
        return self.state.release

    @property
    def relations(self) -> Relations:
        """How the tables hang together, with what was found of their columns."""
        return self._found.relations

    @property
    def _found(self) -> DatabaseSettings:
        """The settings, with what was found in place of what nobody declared."""
        return self.settings.with_found(self.state.found)

    @property
    def rules(self) -> list[str]:
        """The rules that drawn rows keep: those across tables that a person declared, and formulas that were found."""
        tables = [self.table(name) for name in self.state.tables]
        found = (constraints.qualified(text, table.name) for table in tables for text in table.found_formulas)
        return [*self.settings.rules, *found]

    @property
    def record(self) -> LedgerRelease:
        """The release as it stands now."""
        return self.protection.record(self.id)

    @property
    def lineage(self) -> Lineage:
        """All that the tables are a function of, with what that promises together."""
        return self.protection.ledger.lineage(self.id)

    @property
    def folder(self) -> Path:
        """The folder for what may leave; each table has one in it."""
        return self.store.releasable(self.settings.name)

    @property
    def restricted(self) -> Path:
        """The folder for real rows; each table has one in it."""
        return self.store.restricted(self.settings.name, self.id)

    @property
    def delta(self) -> float:
        """The delta that the release ends with."""
        return self.table(self.relations.root.name).delta

    def table(self, name: str) -> TableRelease:
        """Return the release of one table as it stands; `keep` puts on record what a stage changed of it.

        Raises:
            ReleaseStateError: if its rows were not read yet, or its parent has no profile.
        """
        state = self.state.table(name)
        protection = TableProtection(self._found, self.protection.ledger, self._part(name, state))
        release = TableRelease(
            protection.settings, protection, self.store, state, attempt=self.attempt, progress=self.progress
        )
        release.database, release.name, release.rows = self.settings.name, name, self.state.rows[name]
        release.source, release.order = self.state.sources[name], self.relations[name].order
        release.workers, release.ruled = self.workers, ruling.computed(self.settings.parsed_rules, name)
        release.most = None if self.relations[name].parent is None else self.relations.most_rows(name)
        below = self.relations.children(name)
        release.carried = {child.carried(column): column for child in below for column in child.carries}
        ends = (self.relations[name].ending(column, way) for column, way in self.relations[name].until)
        release.begins = (*self._begins(release.rows.schema.names, below), *ends)
        return release

    def _begins(self, columns: Collection[str], below: Sequence[Related]) -> tuple[str, ...]:
        """Return the columns of a table that say when rows below begin, and of which nobody said after what."""
        found = []
        for child in (child for child in below if child.order is not None):
            begun = self.relations.beginning(child.name, columns)
            said = self.settings.tables[child.name].columns.get(str(child.order)) or {}
            if begun.leader == child and begun.time in columns and offsets.AFTER not in said:
                found.append(begun.time)
        return tuple(found)

    def _part(self, name: str, state: RunState) -> Part:
        """Return what a table takes of the release, as far as is released by now how many persons there are."""
        root, shares = self.relations.root.name, shares_of(self.settings.shares, self.relations, self.state.sources)
        if name == root:
            population = None if state.files.profile is None else state.table_profile().population
            return Part.of(shares, name, population)
        above = {t: self.table(t) for t in dict.fromkeys([str(self.relations[name].parent), root])}
        persons = histories.persons(self.relations, name, above)
        return Part.of(shares, name, above[root].profile.population, persons)

    def keep(self, release: TableRelease) -> None:
        """Put on record how far a table is."""
        rows = {**self.state.rows, release.name: release.rows}
        sources = {**self.state.sources, release.name: release.source}
        self.state = replace(self.state.with_table(release.name, release.state), rows=rows, sources=sources)

    @property
    def known_tables(self) -> Mapping[str, TableRelease]:
        """The releases of the tables that are profiled, in their order: a table needs those above it."""
        tables = self.state.tables
        return {t.name: self.table(t.name) for t in self.relations if t.name in tables and tables[t.name].files.profile}

    def drop(self) -> None:
        """Delete all real rows of the release, and what was made of them on the way."""
        retention.drop(self.store, self.settings.name, self.id)


def folder_of(store: Store, settings: DatabaseSettings, table: str) -> Path:
    """Return the folder for what may leave of one table."""
    return store.releasable(settings.name) / table
