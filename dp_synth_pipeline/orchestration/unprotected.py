"""`privacy: none`: releases without a guarantee, of a source that a person declared public; their record and their plans.

`Book` stands where the ledger stands in a protected table's graph. It charges nothing and writes nothing into the ledger;
it asks the ledger whether the source is protected, and refuses it then. Every plan without noise is made here, and asks
for an `Unprotected` release, which only a `Book` hands out, and which no table under `privacy: dp` can get.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Entry, Ledger, journal
from dp_synth_pipeline.model.marginals import Marginals
from dp_synth_pipeline.model.pairs import paired
from dp_synth_pipeline.model.plan import MOST_MEASURED, MarginalsPlan, TrainingPlan, plan_training
from dp_synth_pipeline.model.spec import GeneratorSpec
from dp_synth_pipeline.orchestration.config import SUFFIX, TableSettings
from dp_synth_pipeline.orchestration.resources import Store
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation import wording

FOLDER = "unprotected"
"""Where a table's records lie, one JSON file a release, beside what was released."""

NO_NOISE = 1e-3
"""Parameter of noise that is 0: another integer is drawn with probability under exp(-1000)."""


@dataclass(frozen=True)
class Unprotected:
    """The record of one refresh without a privacy guarantee.

    Attributes:
        id: names it, and its restricted folder; no ledger knows it.
        by, why: who declared the source public, and the reason.
        source: where the rows came from, without credentials.
        who: the operating system's name for whoever ran it.
        state: 'started', 'settled' (released) or 'voided' (nothing was learnt).
        ledger_head: head of the chain of the ledger that was asked whether it protects the source.
        fingerprint: keyed fingerprint of the source, comparable within that ledger.
    """

    id: str
    table: str
    by: str
    why: str
    source: str
    run_id: str
    code_version: str
    who: str
    started_at: str
    ledger_head: str
    state: str = "started"
    fingerprint: str | None = None
    ended_at: str | None = None
    note: str = ""

    @property
    def told(self) -> str:
        """What every page, tag and summary says about it."""
        return wording.unprotected(self.by, self.why)


class Book:
    """What the links of one table under `privacy: none` ask instead of the ledger, which it never changes."""

    def __init__(self, settings: TableSettings, ledger: Ledger, store: Store) -> None:
        if settings.privacy != "none" or settings.public is None:
            raise InvalidInput("this table is under privacy: dp, so only the ledger keeps its releases.")
        self._settings, self._public, self._ledger, self._store = settings, settings.public, ledger, store

    def begin(self, run_id: str) -> Unprotected:
        """Put a refresh on record before its source is opened.

        Raises:
            InvalidInput: if the ledger knows the table as protected; nothing was read then.
        """
        name = self._settings.name
        known = {r.account for r in self._ledger.releases() if r.table in (name, name + SUFFIX) and r.state != "voided"}
        if known:
            _protected(
                f"table {name!r} was released under", sorted(known), "or, if these are other data, name it otherwise"
            )
        return self._keep(
            Unprotected(
                id=f"unprotected-{uuid.uuid4().hex}",
                table=name,
                by=self._public.by,
                why=self._public.why,
                source=shown(self._settings.source),
                run_id=run_id,
                code_version=self._settings.code_version(),
                who=journal.who(),
                started_at=journal.now(),
                ledger_head=self._ledger.head(),
            )
        )

    def note_source(self, release_id: str, digest: str) -> Unprotected:
        """Put the source's keyed fingerprint on record.

        Raises:
            InvalidInput: if any account of the ledger ever read this very content.
        """
        known = self._ledger.same_source(digest)
        if known:
            _protected("this very content was read under", known, "nothing of it was kept")
        return self._keep(replace(self.release(release_id), fingerprint=self._ledger.fingerprint(digest)))

    def settle(self, release_id: str) -> Unprotected:
        """Put on record that the generator is released."""
        return self._keep(replace(self.release(release_id), state="settled", ended_at=journal.now()))

    def void(self, release_id: str, why: str) -> Unprotected:
        """Put on record that nothing was learnt."""
        return self._keep(replace(self.release(release_id), state="voided", ended_at=journal.now(), note=why))

    def release(self, release_id: str) -> Unprotected:
        """Return a refresh of this table as it stands.

        Raises:
            ReleaseStateError: if it is none of this table's, such as one that an account paid for.
        """
        try:
            return _read(self._file(release_id))
        except FileNotFoundError:
            raise ReleaseStateError(
                f"these rows were not read under privacy: none, so nothing may be made of them without a guarantee. "
                f"Materialize {self._settings.name} again from `ingested`."
            ) from None

    def settled(self) -> set[str]:
        """Return the ids of this table's releases without a guarantee."""
        return {r.id for r in releases(self._store) if r.table == self._settings.name and r.state == "settled"}

    def entries(self, release_id: str) -> tuple[Entry, ...]:
        """Return nothing: nothing was charged."""
        return ()

    def fingerprint(self, digest: str) -> str:
        """Return the keyed fingerprint of a content digest, as the ledger does."""
        return self._ledger.fingerprint(digest)

    def same_source(self, digest: str) -> list[str]:
        """Return the accounts of the ledger that ever read this very content."""
        return self._ledger.same_source(digest)

    def head(self) -> str:
        """Return the head of the ledger's chain, which this release does not move."""
        return self._ledger.head()

    def _file(self, release_id: str) -> Path:
        return self._store.releasable(self._settings.name) / FOLDER / f"{release_id}.json"

    def _keep(self, release: Unprotected) -> Unprotected:
        sink.write_text(json.dumps(asdict(release), indent=1), self._file(release.id))
        return release


def book_of(settings: TableSettings, ledger: Ledger, store: Store) -> Ledger | Book:
    """Return who keeps a table's releases: the ledger, or, for a source that was declared public, a `Book`."""
    return ledger if settings.privacy == "dp" else Book(settings, ledger, store)


def releases(store: Store) -> Iterator[Unprotected]:
    """Yield the record of every unprotected release in a store, by table and id."""
    return (_read(path) for path in sorted((store.root / "releasable").glob(f"*/{FOLDER}/*.json")))


def same_source(store: Store, fingerprint: str | None) -> list[str]:
    """Return the tables of a store that released this very content without a guarantee, by name."""
    return sorted({r.table for r in releases(store) if fingerprint is not None and r.fingerprint == fingerprint})


def profile_plan(release: Unprotected, unit: PrivacyUnit, population: int | None) -> ProfilePlan:
    """Return a profile that counts exactly; values of very few rows still have no name, as under `privacy: dp`."""
    _require(release)
    return ProfilePlan(1 / NO_NOISE if population is None else None, NO_NOISE, 1e-9, unit, population)


def marginals_plan(release: Unprotected, cardinalities: Sequence[int]) -> MarginalsPlan:
    """Return marginals that count every pair of columns exactly; of very many, those that depend most."""
    _require(release)
    pairs = math.comb(len(paired(cardinalities)), 2)
    if pairs <= MOST_MEASURED:
        return MarginalsPlan(NO_NOISE, NO_NOISE, pairs, pairs)
    return MarginalsPlan(NO_NOISE, NO_NOISE, MOST_MEASURED, pairs, score_scale=NO_NOISE, scored=pairs)


def sampled(counted: Marginals) -> Marginals:
    """Return exact marginals whose `scale` is the sampling noise of their mean cell, beyond which raking trusts none.

    With no noise at all, raking would follow the chance of its own draws (RAND HIE: accuracy of pairs 0.972, against
    0.984 without raking and 0.986 like this).
    """
    return replace(counted, scale=math.sqrt(counted.rows * len(counted.layout.cliques) / counted.layout.cells))


def training_plan(release: Unprotected, population: int, spec: GeneratorSpec) -> TrainingPlan:
    """Return the batches and epochs of `privacy: dp`, without noise."""
    _require(release)
    return plan_training(population, spec)


def _require(release: object) -> None:
    if not isinstance(release, Unprotected):
        raise ReleaseStateError(
            "an account protects this release, so nothing of it is counted or trained without noise."
        )


def _protected(what: str, accounts: list[str], otherwise: str) -> NoReturn:
    raise InvalidInput(
        f"{what} account {', '.join(accounts)}: it is protected, and a release without a guarantee would undo that for "
        f"everybody in it. Refresh it under privacy: dp; {otherwise}."
    )


def _read(path: Path) -> Unprotected:
    return Unprotected(**json.loads(path.read_text(encoding="utf-8")))
