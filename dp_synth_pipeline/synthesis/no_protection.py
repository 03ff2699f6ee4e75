"""Records and plans the releases under `privacy: none`, without a guarantee, of a source that a person declared public.

`NoProtection` charges nothing and writes nothing into the ledger. It asks the ledger whether a table of this name is
protected, and refuses it then. It never asks whether the content is: the answer would confirm a guess of another account's
table, so only `dp-synth governance sources` gives it. Every plan without noise is made here, and only for a release that
`NoProtection` has on record.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Entry, Ledger, journal
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan, plan_training
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.marginals.measuring import Marginals
from dp_synth_pipeline.model.marginals.pairs import number_of_pairs, paired
from dp_synth_pipeline.model.marginals.plan import MOST_MEASURED, MarginalsPlan
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis.allocation import Allocation
from dp_synth_pipeline.synthesis.blocks import Part
from dp_synth_pipeline.synthesis.protection import LedgerProtection, Protection, Record, Unprotected
from dp_synth_pipeline.synthesis.settings import SUFFIX, ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.profiling.formulas import FormulasPlan
from dp_synth_pipeline.tabular.profiling.ordered_dates import DatesPlan, Pairs
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.profiling.types import TypesPlan
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.texts.plan import ROUNDS, TextPlan, VotesPlan
from dp_synth_pipeline.validation.dp_metrics import ChargedPlan

FOLDER = "unprotected"
"""Where a table's records lie, one JSON file a release, beside what was released."""

NO_NOISE = 1e-3
"""Parameter of noise that is 0: another integer is drawn with probability under exp(-1000)."""


class NoProtection(Protection):
    """Nobody pays, since a person declared the source public. Every release of it is on record in the store."""

    guaranteed = False

    def __init__(self, settings: ReleaseSettings, ledger: Ledger, store: Store) -> None:
        if settings.privacy != "none" or settings.public is None:
            raise InvalidInput("this table is under privacy: dp, so only the ledger keeps its releases.")
        super().__init__(settings, ledger)
        self._public, self._store = settings.public, store

    def reserve(self, key: str, run_id: str, part: Part, *, goes_on: bool = False) -> Unprotected:
        """Put a release on record before its source is opened.

        Raises:
            InvalidInput: if the ledger knows the table as protected; nothing was read then.
        """
        name = self.settings.name
        accounts = {
            r.account for r in self.ledger.releases() if r.table in (name, name + SUFFIX) and r.state != "voided"
        }
        if accounts:
            raise InvalidInput(
                f"table {name!r} was released under account {', '.join(sorted(accounts))}: it is protected, and a release "
                f"without a guarantee would undo that for everybody in it. Refresh it under privacy: dp; or, if these are "
                f"other data, name it otherwise."
            )
        return self._keep(
            Unprotected(
                id=f"unprotected-{uuid.uuid4().hex}",
                table=name,
                by=self._public.by,
                why=self._public.why,
                source=shown(self.settings.source),
                run_id=run_id,
                code_version=self.settings.code_version(),
                who=journal.who(),
                started_at=journal.now(),
                ledger_head=self.ledger.head(),
            )
        )

    def record(self, release_id: str) -> Unprotected:
        """Return a release of this table as it stands.

        Raises:
            ReleaseStateError: if it is none of this table's, such as one that an account paid for.
        """
        try:
            return _read(self._file(release_id))
        except FileNotFoundError:
            raise ReleaseStateError(
                f"these rows were not read under privacy: none, so nothing may be made of them without a guarantee. "
                f"Materialize {self.settings.name} again from `ingested`."
            ) from None

    def note_source(self, release_id: str, digest: str) -> None:
        self._keep(replace(self.record(release_id), fingerprint=self.ledger.encrypted_fingerprint(digest)))

    def allocation(self, release_id: str) -> Allocation:
        return Exact(self.settings, self.record(release_id))

    def charge(
        self,
        release_id: str,
        mechanism: str,
        events: Sequence[Event],
        key: str | None = None,
        upon: Sequence[str] = (),
    ) -> Entry | None:
        """Charge nothing, for a release that is on record."""
        self.record(release_id)

    def odometer(self, events: Sequence[Event]) -> Odometer:
        """Return an odometer that pays for everything."""
        return Unmetered()

    def settle(self, release_id: str, *, delta: float, ran: Sequence[TaggedEvent] | None = None) -> Unprotected:
        return self._keep(replace(self.record(release_id), state="settled", ended_at=journal.now()))

    def void(self, release_id: str, why: str) -> None:
        self._keep(replace(self.record(release_id), state="voided", ended_at=journal.now(), note=why))

    def paid_releases(self) -> set[str]:
        return {r.id for r in releases(self._store) if r.table == self.settings.name and r.state == "settled"}

    def _file(self, release_id: str) -> Path:
        return self._store.releasable(self.settings.name) / FOLDER / f"{release_id}.json"

    def _keep(self, release: Unprotected) -> Unprotected:
        sink.write_text(json.dumps(asdict(release), indent=1), self._file(release.id))
        return release


class Exact(Allocation):
    """Counts exactly and trains without noise."""

    def __init__(self, settings: ReleaseSettings, release: Record) -> None:
        super().__init__(settings)
        if not isinstance(release, Unprotected):
            raise ReleaseStateError(
                "an account protects this release, so nothing of it is counted or trained without noise."
            )

    def delta(self, population: int) -> float:
        return 0.0

    def noise(self, population: int) -> float:
        return 0.0

    def profile(self, schema: TableSchema, population: int | None = None, typed: int = 0) -> ProfilePlan:
        """Return a profile that counts exactly; values of very few rows still have no name, as under `privacy: dp`."""
        public, unit = self.settings.population, self.settings.privacy_unit
        return ProfilePlan(1 / NO_NOISE if public is None else None, NO_NOISE, 1e-9, unit, public)

    def types(self, columns: int, population: int | None = None) -> TypesPlan:
        return TypesPlan(NO_NOISE, columns, self.settings.privacy_unit)

    def ordered_dates(self, pairs: Pairs, population: int) -> DatesPlan:
        return DatesPlan(pairs, NO_NOISE, self.settings.privacy_unit)

    def formulas(self, columns: Sequence[str], population: int) -> FormulasPlan:
        return FormulasPlan(tuple(columns), NO_NOISE, unit=self.settings.privacy_unit)

    def accuracy(self, columns: int) -> ChargedPlan | None:
        """Return the figures that decide whether the table is published, without noise; None unless they decide that."""
        if self.settings.validation.at_least is None or columns < 1:
            return None
        return ChargedPlan(columns, self.settings.privacy_unit.max_rows, 1 / NO_NOISE)

    def texts(self, columns: int, population: int, spent: Sequence[Event]) -> TextPlan:
        return TextPlan(NO_NOISE, 1e-9, columns, self.settings.privacy_unit.max_rows)

    def note_words(self, population: int, spent: Sequence[Event]) -> TextPlan:
        return TextPlan(NO_NOISE, 0.0, 1, self.settings.privacy_unit.max_rows)

    def notes(self, spec: TrainingSpec, population: int, spent: Sequence[Event]) -> TrainingPlan:
        return plan_training(population, spec)

    def votes(self, population: int, spent: Sequence[Event]) -> VotesPlan:
        return VotesPlan(NO_NOISE, ROUNDS, population)

    def marginals(
        self, cardinalities: Sequence[int], population: int, rows: int, spent: Sequence[Event], given: int = 0
    ) -> MarginalsPlan:
        """Return marginals that count every pair of columns exactly; of very many, those that depend most."""
        pairs = number_of_pairs(paired(cardinalities), given)
        if pairs <= MOST_MEASURED:
            return MarginalsPlan(NO_NOISE, NO_NOISE, pairs, pairs, given=given)
        return MarginalsPlan(NO_NOISE, NO_NOISE, MOST_MEASURED, pairs, score_scale=NO_NOISE, scored=pairs, given=given)

    def training(
        self, spec: GeneratorSpec, population: int, spent: Sequence[Event]
    ) -> tuple[TrainingPlan, LossQueriesPlan | None]:
        """Return the batches and epochs of `privacy: dp`, without noise."""
        return plan_training(population, spec), None


def protection_of(settings: ReleaseSettings, ledger: Ledger, store: Store) -> Protection:
    """Return who keeps a table's releases: the ledger, or, for a source that was declared public, the store."""
    if settings.privacy == "dp":
        return LedgerProtection(settings, ledger)
    return NoProtection(settings, ledger, store)


def releases(store: Store) -> Iterator[Unprotected]:
    """Yield the record of every release without a guarantee in a store, by table and id."""
    return (_read(path) for path in sorted((store.root / "releasable").glob(f"*/{FOLDER}/*.json")))


def sampled(marginals: Marginals) -> Marginals:
    """Return exact marginals whose `scale` is the sampling noise of their mean cell, beyond which raking trusts none.

    With no noise at all, raking would follow the chance of its own draws (RAND HIE: accuracy of pairs 0.972, against
    0.984 without raking and 0.986 like this).
    """
    return replace(marginals, scale=math.sqrt(marginals.rows * len(marginals.layout.cliques) / marginals.layout.cells))


def _read(path: Path) -> Unprotected:
    return Unprotected(**json.loads(path.read_text(encoding="utf-8")))
