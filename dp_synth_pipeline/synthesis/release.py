"""A `Release` holds the terms and the state of one release, who pays for it, and where its files lie.

    reserved ──► ingested ──► profile ──► completed ──► marginals ──► generator ──► synthetic ──► published
                 snapshot     charged     nulls         charged       charged,      free          warehouse
                                          handled                     settled

`Release.reserve` begins one, `Release.open` goes on with one, and `run` takes it through one stage. Whoever calls them, an
asset graph, the command line or a notebook, calls nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.ledger import Ledger, Lineage
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis import blocks, idempotency, memory, retention, terms
from dp_synth_pipeline.synthesis.allocation import Allocation
from dp_synth_pipeline.synthesis.no_protection import protection_of
from dp_synth_pipeline.synthesis.progress import Progress, Silent
from dp_synth_pipeline.synthesis.protection import Protection, Record
from dp_synth_pipeline.synthesis.reading import may_hang, reading
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import constraints, offsets
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import formulas, ordered_dates
from dp_synth_pipeline.tabular.profiling.counting import HistoryValues
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources.csv.values import CellType


class Stage(ABC):
    """One stage of a release: it reads the state that earlier stages left, and leaves more."""

    name: str
    """What it is called in the asset graph, in logs and in refusals."""

    makes: str
    """The file that it leaves in the release's state."""

    def done(self, release: Release) -> bool:
        """Say whether the release is past this stage."""
        return getattr(release.state.files, self.makes) is not None

    @abstractmethod
    def run(self, release: Release) -> dict[str, Any]:
        """Do it, change the release's state, and return public facts of how it went."""


class TextRows(NamedTuple):
    """The rows whose texts are learnt, and what they may hang on; restricted.

    Attributes:
        cells: the text columns.
        codes: int (rows, columns), as the release's `text_codecs` have them.
        units: number of the unit of each row, ascending, int64 (rows,); None if each row is one.
    """

    cells: pa.Table
    codes: np.ndarray
    units: np.ndarray | None = None


class Columns(NamedTuple):
    """The columns that a release learns together, as released facts have them.

    Attributes:
        cardinalities: codes of each.
        shares: probability of each code of each.
        given: how many of the first are given with each row, and not learnt.
        orders: of each, its codes that have an order, in that order.
    """

    cardinalities: Sequence[int]
    shares: Sequence[np.ndarray]
    given: int = 0
    orders: Sequence[Sequence[int]] = ()


class Release:
    """One release of one table, under the terms that it was reserved for and no others.

    Attributes:
        settings: the table's settings, with the release's own terms in place of changed ones.
        protection: who keeps the release and pays for it.
        state: what the stages so far left; JSON-ready, so that another process can go on.
        attempt: names this execution of a stage, so that a second delivery of it is told apart from a retry.
        workers: processes that train together.
        renew_profile: measure the profile anew, although an earlier one may be reused.
        carried: by column that rows carry for those that hang on them, the name that it has there.
        begins: columns of its rows that may come after its dates, such as when rows below begin, and on which none hangs.
    """

    begins: Sequence[str] = ()

    def __init__(
        self,
        settings: ReleaseSettings,
        protection: Protection,
        store: Store,
        state: RunState,
        *,
        attempt: str = "",
        progress: Progress | None = None,
    ) -> None:
        self.settings, self.protection, self.store, self.state = settings, protection, store, state
        self.attempt, self.progress = attempt, progress or Silent()
        self.workers, self.renew_profile = 1, False
        self.carried: dict[str, str] = {}
        self._coded: tuple[tuple[TableSchema, TableProfile], TableCodec] | None = None

    @classmethod
    def reserve(
        cls,
        settings: ReleaseSettings,
        ledger: Ledger,
        store: Store,
        *,
        key: str,
        run_id: str,
        partitions: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Release:
        """Begin a release: hold all that it may cost, before anything is read.

        Args:
            key: names the request: asking twice with one key reserves once.
            run_id: names the run, on record with the release.
            partitions: the partitions to refresh; none for a table without.

        Raises:
            BudgetExceeded: if the account cannot pay; nothing was read or changed.
            ReleaseStateError: if this very request began before; the first one goes on.
        """
        part, protection = blocks.part(settings, partitions), protection_of(settings, ledger, store)
        goes_on = memory.expected(protection, store.releasable(part.folder))
        record = protection.reserve(key, run_id, part, goes_on=goes_on)
        folder = idempotency.claim(store, settings.name, record)
        retention.keep_for(folder, settings.retention_days, part.label)
        state = RunState(record.id, partitions=part.keys, terms=settings.terms())
        return cls(settings, protection, store, state, attempt=key, progress=progress)

    @classmethod
    def open(
        cls,
        settings: ReleaseSettings,
        state: RunState,
        ledger: Ledger,
        store: Store,
        *,
        attempt: str = "",
        progress: Progress | None = None,
    ) -> Release:
        """Go on with a release, under its own terms.

        Raises:
            ReleaseStateError: if more of it may be learnt and the settings' terms are others now, or if the state's terms
                are not those that the release was reserved under.
        """
        record = protection_of(settings, ledger, store).record(state.release)
        own_settings = terms.of_release(settings, state, record)
        return cls(
            own_settings, protection_of(own_settings, ledger, store), store, state, attempt=attempt, progress=progress
        )

    def run(self, stage: Stage) -> dict[str, Any]:
        """Take the release through one stage, and return public facts of how it went."""
        return stage.run(self)

    @property
    def id(self) -> str:
        """The release's id, in the ledger or in the record of releases without a guarantee."""
        return self.state.release

    @property
    def record(self) -> Record:
        """The release as it stands now."""
        return self.protection.record(self.id)

    @property
    def part(self) -> blocks.Part:
        """What of the table it covers."""
        return blocks.part(self.settings, self.state.partitions)

    @property
    def allocation(self) -> Allocation:
        """How it divides what it may spend."""
        return self.protection.allocation(self.id)

    @property
    def folder(self) -> Path:
        """The folder for what may leave."""
        return self.store.releasable(self.part.folder)

    @property
    def restricted(self) -> Path:
        """The folder for real rows."""
        return self.store.restricted(self.settings.name, self.id)

    @property
    def schema(self) -> TableSchema:
        """The table's columns."""
        return self.state.table_schema()

    @property
    def modelled(self) -> TableSchema:
        """The columns that the generator models."""
        return offsets.modelled(self.schema)

    @property
    def profiled(self) -> TableSchema:
        """The columns that the profile measures, and what rows of a history are ordered by."""
        return self.modelled

    def measured_rows(self) -> Path:
        """Return where the rows are that the profile measures; restricted."""
        return self.state.path("snapshot")

    @property
    def history_values(self) -> HistoryValues | None:
        """What persons have in all of their rows, if the profile measures one row of each; None if it measures all rows."""
        return None

    @property
    def profile(self) -> TableProfile:
        """The released profile."""
        return self.state.table_profile()

    @property
    def codec(self) -> TableCodec:
        """How the table's cells become codes, and back."""
        known = (self.schema, self.profile)
        if self._coded is None or self._coded[0] != known:
            self._coded = known, TableCodec(*known)
        return self._coded[1]

    @property
    def delta(self) -> float:
        """The delta that the release ends with."""
        return self.allocation.delta(self.profile.population)

    @property
    def spent(self) -> list[Event]:
        """The events of every mechanism that has started."""
        return [event for entry in self.protection.entries(self.id) for event in entry.events]

    @property
    def upon(self) -> list[str]:
        """The ids of the ledger's entries for what earlier releases let out and this one reads."""
        return self.protection.upon(self.state)

    @property
    def lineage(self) -> Lineage | None:
        """All that its table is a function of, with what that promises together; None without a guarantee."""
        return self.protection.lineage(self.state)

    def charge(self, mechanism: str, events: Sequence[Event]) -> Odometer:
        """Make it durable that a mechanism runs, before it touches rows; return the odometer of what was charged."""
        self.protection.charge(self.id, mechanism, events, upon=self.upon)
        if self.protection.guaranteed:
            self.state = self.state.having_run(mechanism, events)
        return self.protection.odometer(events)

    def codes(self, codec: TableCodec) -> tuple[np.ndarray, np.ndarray | None]:
        """Return memory-mapped codes (rows, columns) int64 and, unless each row is a unit, unit numbers (rows,).

        They are written once, beside the completed snapshot, and are as restricted.
        """
        completed = self.state.path("completed")
        codes_file, units_file = completed.with_name("codes.npy"), completed.with_name("units.npy")
        marker = completed.with_name("encoded")
        if not marker.exists():
            with retention.private():
                _, units = codec.encode_file(completed, codes_file)
                if units is not None:
                    np.save(units_file, units)
                marker.touch()
        units = np.load(units_file, mmap_mode="r") if units_file.exists() else None
        return np.load(codes_file, mmap_mode="r"), units

    @property
    def columns(self) -> Columns:
        """The columns that it learns together."""
        codec = self.codec
        return Columns(codec.cardinalities, codec.marginals(), orders=codec.orders())

    @property
    def given_by(self) -> str:
        """What says, beside its own schema and profile, what the codes of its columns mean; of a single table, nothing."""
        return ""

    def counted(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the codes of the rows that are counted, and what each counts (see `measuring.parts_of`); restricted."""
        return self.codes(self.codec)[0], None

    @property
    def text_codecs(self) -> list[TableCodec]:
        """How the columns are coded that texts may hang on: the table's own, and then those of rows above its rows."""
        return [self.codec]

    def text_rows(self, columns: Sequence[str]) -> TextRows:
        """Return the rows whose texts are learnt."""
        return TextRows(pq.read_table(self.state.path("completed"), columns=list(columns)), *self.codes(self.codec))

    def typed_schema(self, types: Mapping[str, CellType]) -> TableSchema:
        """Return the table's columns, those with text of which the types were measured as what they are."""
        terms: ingestion.Reading = {**reading(self.settings, [c.name for c in self.schema.learned]), "types": types}
        typed = ingestion.typed_schema(ingestion.cells_of(self.schema.names, terms), terms)
        return blocks.narrowed(typed, self.settings, self.state.partitions)

    def type_rows(self, schema: TableSchema, types: Mapping[str, CellType]) -> None:
        """Write the snapshot with the types that were measured; what does not fit one becomes a null, row by row."""
        taken = self.state.path("snapshot")
        path = taken.with_name("typed.parquet")
        ingestion.typed(taken, schema, types, path)
        self.state = self.state.typed(dump_schema(schema), path)

    @property
    def dated(self) -> TableSchema:
        """The columns among which dates are looked for that hang on others."""
        return self.schema

    @property
    def may_hang(self) -> frozenset[str]:
        """The dates of which a person left open whether they hang on others."""
        return may_hang(self.settings, self.dated)

    def hung(self, schema: TableSchema, dates: Mapping[str, Mapping[str, str]]) -> TableSchema:
        """Return one of its schemas with what was found of its dates, of which a person said nothing else since."""
        free = may_hang(self.settings, schema)
        return ordered_dates.hung(schema, {name: facts for name, facts in dates.items() if name in free})

    @property
    def read(self) -> frozenset[str]:
        """The modelled columns whose values are cells of a source, and not derived of other rows."""
        return frozenset(self.schema.names)

    @property
    def may_be_computed(self) -> tuple[str, ...]:
        """The numbers of which a person left open whether others give them."""
        validation = self.settings.validation
        if not (validation.find_formulas and validation.enforce_rules):
            return ()
        return formulas.columns(self.schema)

    @property
    def computed(self) -> Mapping[str, tuple[str, ...]]:
        """What declared rules compute, by column, with what they compute it from."""
        return constraints.computed(self.settings.validation.parsed_rules)

    @property
    def found_formulas(self) -> list[str]:
        """Formulas that were found, of columns of which a person says nothing else and that are still modelled."""
        free, taken = set(self.may_be_computed), self.computed
        found = [constraints.parse(text) for text in self.state.facts.formulas or ()]
        fitting = [rule for rule in found if isinstance(rule, constraints.Formula) and free.issuperset(rule.columns)]
        return [
            rule.text
            for rule in fitting
            if rule.target not in taken
            and rule.target not in formulas.reached(set(rule.columns) - {rule.target}, taken)
        ]

    @property
    def rules(self) -> list[str]:
        """The rules that generation keeps to: those that a person declared, and the formulas that were found."""
        return [*self.settings.validation.enforced_rules, *self.found_formulas]

    def dated_rows(self) -> Path:
        """Return where the rows lie by which that is told; restricted."""
        return self.state.path("snapshot")

    def hang(self, found: Mapping[str, Mapping[str, str]]) -> None:
        """Go on with columns that hang on others: their offsets are written beside them, each row's by itself."""
        snapshot, schema = self.state.path("snapshot"), ordered_dates.hung(self.schema, found)
        with retention.private():
            offsets.write_offsets(snapshot, schema)
        self.state = self.state.typed(dump_schema(schema), snapshot)

    def drop(self) -> None:
        """Delete the real rows of the release, and what was made of them on the way."""
        retention.drop(self.store, self.settings.name, self.id)

    def reporter(self, stage_name: str) -> Callable[..., None]:
        """Return a callback `(done, total, note="")` for one long stage."""

        def report(done: int, total: int, note: str = "") -> None:
            self.progress.report(f"{self.settings.name}: {stage_name}", done, total, note)

        return report
