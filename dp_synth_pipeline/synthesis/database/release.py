"""One release of a database: one reservation, and a flat release of each table that is learnt under it.

    reserved ──► read and related ──► each table: profile, nulls handled, marginals, learnt ──► settled ──► drawn

A table is learnt from codes of its rows, and given with each of them what it hangs on: the codes of the rows above, its
place, how many rows follow, when it was, and the row before it. The count of a row's children, and when they begin, are
columns of that row. So a person's history is drawn row by row from released weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.synthesis import generator_files, idempotency, retention
from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.sharing import DatabaseProtection, Part, TableProtection, named
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.generator import FOLDER, GeneratorStage
from dp_synth_pipeline.synthesis.progress import Progress, Silent
from dp_synth_pipeline.synthesis.reading import reading
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema, load_ran
from dp_synth_pipeline.synthesis.stages import Completion, Measuring, Profiling
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.relations import relating
from dp_synth_pipeline.tabular.relations.relating import RelatedRows
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source


class DatabaseRelease:
    """One release of a database.

    Attributes:
        settings: the database's settings.
        record: the release as it was reserved.
        tables: the release of each table, the root first.
    """

    def __init__(
        self,
        settings: DatabaseSettings,
        ledger: Ledger,
        store: Store,
        record: LedgerRelease,
        progress: Progress | None = None,
        attempt: str = "",
    ) -> None:
        self.settings, self.relations, self.store = settings, settings.relations, store
        self.protection, self._progress = DatabaseProtection(settings, ledger), progress or Silent()
        self.id, self._attempt = record.id, attempt
        self.tables: dict[str, TableRelease] = {}
        self.sources: dict[str, TableSchema] = {}

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
        """
        record = DatabaseProtection(settings, ledger).reserve_database(key, run_id)
        folder = idempotency.claim(store, settings.database, record)
        retention.keep_for(folder, settings.retention_days)
        return cls(settings, ledger, store, record, progress, key)

    @property
    def record(self) -> LedgerRelease:
        """The release as it stands now."""
        return self.protection.record(self.id)

    @property
    def folder(self) -> Path:
        """The folder for real rows of all tables."""
        return self.store.restricted(self.settings.database, self.id)

    def run(self) -> None:
        """Read, relate and learn every table, settle the release, and only then release what was learnt.

        Raises:
            InvalidInput: if a source cannot be used, by public facts alone; the reservation is given back then.
            AuditFailed: if a training was not seen to keep what it promises; nothing is released then.
        """
        related = self._related()
        population = None
        for table in self.relations:
            release = self._table(table.name, related[table.name], population)
            self.tables[table.name] = release
            Profiling().run(release)
            Completion().run(release)
            if table.parent is None:
                population = release.profile.population
                release.protection.part = Part.of(self.settings, table.name, population)  # type: ignore[attr-defined]
                Measuring().run(release)
                GeneratorStage().learn(release)
            else:
                histories.learn(release, self.relations, self.tables)
        self._settle()

    def _related(self) -> Mapping[str, RelatedRows]:
        """Read each source once, and find the person of each row.

        Raises:
            InvalidInput: if a source cannot be opened, or its columns are not those that are named.
        """
        files, digests = {}, []
        with retention.private():
            try:
                self.sources = {table.name: self._schema(table.name) for table in self.relations}
                for table in self.relations:
                    relating.modelled(self.relations, table.name, self.sources)
            except Exception:  # no row was read
                self.protection.void(self.id, "the sources could not be opened")
                retention.drop(self.store, self.settings.database, self.id)
                raise
            for number, table in enumerate(self.relations):
                self._progress.report(f"{self.settings.database}: reading", number, len(self.relations.tables))
                with self._opened(table.name) as opened:
                    snapshot = opened.copy(self.folder / f"{table.name}.source.parquet")
                files[table.name], _ = snapshot.path, digests.append(snapshot.digest)
            self.protection.note_source(self.id, "".join(digests))
            related = relating.relate(self.relations, files, self.sources, self.folder)
        self._progress.report(f"{self.settings.database}: reading", 1, 1)
        return related

    def _opened(self, name: str) -> AbstractContextManager[ingestion.Opened]:
        member = self.settings.member(name)
        keys = self.relations[name].keys
        how: ingestion.Reading = {**reading(member, list(member.columns)), "keys": keys}
        return ingestion.opened(source.parse(member.source, where=member.filter), self.folder, **how)

    def _schema(self, name: str) -> TableSchema:
        table = self.relations[name]
        names = ingestion.column_types(source.parse(self.settings.member(name).source))
        for column in (*table.keys, *([] if table.order is None else [table.order])):
            if column not in names:
                raise InvalidInput(f"tables.{name}: there is no column {column!r}; it has: {', '.join(names)}.")
        with self._opened(name) as opened:
            schema, untyped = opened.schema, opened.untyped
        if open_columns := [c for c in untyped if c != table.order]:
            raise InvalidInput(
                f"tables.{name}: a CSV says no types, and those of a database's tables are not measured yet. Declare what "
                f"these columns hold, and the format of dates, as in columns: {{{open_columns[0]}: {{kind: category}}}}: "
                f"{', '.join(open_columns)}. Or use Parquet, a warehouse or a data frame, whose types are public."
            )
        return schema

    def _table(self, name: str, rows: RelatedRows, population: int | None) -> TableRelease:
        """Return the release of one table, past its ingestion."""
        root = name == self.relations.root.name
        persons = None if root else histories.persons(self.relations, name, self.tables)
        part = Part.of(self.settings, name, population, persons)
        protection = TableProtection(self.settings, self.protection.ledger, part)
        release = TableRelease(
            protection.settings,
            protection,
            self.store,
            RunState(self.id),
            attempt=self._attempt,
            progress=self._progress,
        )
        release.name, release.rows = name, rows
        folder = self.store.restricted(release.settings.name, self.id)
        with retention.private():
            snapshot = relating.one_row_each(rows, folder / "snapshot.parquet")
        release.state = release.state.reading(dump_schema(rows.schema), "", rows.units).with_(snapshot=snapshot)
        return release

    def _settle(self) -> None:
        """Settle the release for what ran in all tables, and release their weights."""
        from dp_synth_pipeline.model import artifact

        ran = []
        for name, release in self.tables.items():
            learnt = release.restricted / retention.LEARNT
            if not generator_files.found(learnt, self.id):
                raise ReleaseStateError(
                    f"table {name} of this release is not learnt yet, so nothing of it is released."
                )
            _, facts = artifact.load(learnt)
            ran += [(named(event.mechanism, name), event.event) for event in load_ran(facts["ran"])]
        root = self.tables[self.relations.root.name]
        self.protection.settle(self.id, delta=root.delta, ran=ran)
        for release in self.tables.values():
            generator_files.release_to(release.restricted / retention.LEARNT, release.folder / FOLDER)

    def drop(self) -> None:
        """Delete every restricted file of the release."""
        for release in self.tables.values():
            retention.drop(self.store, release.settings.name, self.id)
        retention.drop(self.store, self.settings.database, self.id)
