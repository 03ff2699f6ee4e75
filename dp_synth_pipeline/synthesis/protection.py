"""Says who keeps a table's releases and pays for what they learn: an account of the ledger, or nobody.

A release meets one of two protections, chosen once by `protection_of`. Under `LedgerProtection` everything that is learnt
was reserved and is charged before it is. Under `no_protection.NoProtection` a person declared the source public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Entry, Ledger, Lineage
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model.autoregressive.spec import Start
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis import blocks, profile_cache
from dp_synth_pipeline.synthesis.allocation import Allocation, BudgetRequest, Calibrated, Declared, check_study
from dp_synth_pipeline.synthesis.release_plan import ReleasePlan
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings

OPEN = ("reserved", "started")
"""States of a release of which more may be learnt."""

AHEAD = "ahead of a run"
"""What names a request that no run makes."""


@dataclass(frozen=True)
class Unprotected:
    """The record of one release without a privacy guarantee.

    Attributes:
        id: names it, and its restricted folder; no ledger knows it.
        by, why: who declared the source public, and the reason.
        source: where the rows came from, without credentials.
        who: the operating system's name for whoever ran it.
        state: 'started', 'settled' (released) or 'voided' (nothing was learnt).
        ledger_head: head of the chain of the ledger that was asked whether it protects the source.
        fingerprint: the source's keyed fingerprint, encrypted: a random token to whoever lacks the ledger's key.
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
    def notice(self) -> str:
        """What every page, tag and summary says about it."""
        return no_guarantee(self.by, self.why)


Record = LedgerRelease | Unprotected
"""How a release stands, in whatever keeps it."""


def no_guarantee(by: str, why: str) -> str:
    """Say that a release promises nothing, and on whose word.

    Example:
        >>> no_guarantee("Ana", "open data")
        'no privacy guarantee: declared public by Ana: open data'
    """
    return f"no privacy guarantee: declared public by {by}: {why}"


class Protection(ABC):
    """Who keeps the releases of one table, and what each of its mechanisms may spend."""

    guaranteed: bool
    """Whether what is learnt is noised and charged."""

    def __init__(self, settings: ReleaseSettings, ledger: Ledger) -> None:
        self.settings, self.ledger = settings, ledger

    @abstractmethod
    def reserve(self, key: str, run_id: str, part: blocks.Part, *, goes_on: bool = False) -> Record:
        """Put a release on record before its source is opened, or refuse and leave no trace.

        Args:
            goes_on: it is expected to go on from an earlier release, so that it may ask for less.
        """

    @abstractmethod
    def record(self, release_id: str) -> Record:
        """Return a release as it stands."""

    @abstractmethod
    def note_source(self, release_id: str, digest: str) -> None:
        """Put the source's keyed fingerprint on record, encrypted; nobody is told whether another release has the same."""

    @abstractmethod
    def allocation(self, release_id: str) -> Allocation:
        """Return how the release divides what it may spend."""

    @abstractmethod
    def charge(
        self,
        release_id: str,
        mechanism: str,
        events: Sequence[Event],
        key: str | None = None,
        upon: Sequence[str] = (),
    ) -> Entry | None:
        """Make it durable that a mechanism runs, before it touches rows; return its entry, if anybody pays.

        Args:
            key: names the attempt, so that a second delivery of it is told apart from a retry.
            upon: the entries of earlier releases whose outcome it reads.
        """

    def odometer(self, events: Sequence[Event]) -> Odometer:
        """Return the odometer of an entry that was charged `events`."""
        return Odometer(events)

    @abstractmethod
    def settle(self, release_id: str, *, delta: float, ran: Sequence[TaggedEvent] | None = None) -> Record:
        """Put on record that what was learnt is released: charge what ran, and give back the rest.

        Args:
            delta: the delta that the release ends with.
            ran: what the mechanisms say that ran; None if an older version kept what was learnt.
        """

    @abstractmethod
    def void(self, release_id: str, why: str) -> None:
        """Put on record that nothing was learnt."""

    @abstractmethod
    def paid_releases(self) -> set[str]:
        """Return the releases of this table from which a later one may start."""

    def entries(self, release_id: str) -> Sequence[Entry]:
        """Return what was charged for a release, mechanism by mechanism."""
        return ()

    def seal(self, text: str) -> str:
        """Return the ledger's keyed hash of something that may leave."""
        return self.ledger.seal(text)

    def upon(self, state: RunState) -> list[str]:
        """Return the ids of the entries of earlier releases that a release reads, as far as its state tells."""
        return []

    def lineage(self, state: RunState) -> Lineage | None:
        """Return all that a release is a function of, with what it promises together; None if it promises nothing."""
        return None

    def head(self) -> str:
        """Return the head of the ledger's chain."""
        return self.ledger.head()


class LedgerProtection(Protection):
    """An account of the ledger pays, and refuses what it cannot pay for."""

    guaranteed = True

    @property
    def released_as(self) -> str:
        """The name under which the ledger has the releases of the table."""
        return self.settings.name

    def reserve(self, key: str, run_id: str, part: blocks.Part, *, goes_on: bool = False) -> LedgerRelease:
        """Hold all that the release may cost; the same key holds it once.

        Raises:
            BudgetExceeded: if it does not fit what is left of the account, or waits for a second person; nothing was read.
            InvalidInput: if it asks for a study that what it reserves cannot pay for; it was given back.
        """
        asked = self.asked(part, goes_on=goes_on)
        self._open_blocks(part, run_id, goes_on=goes_on)
        release = self.ledger.reserve(self.settings.charge.account, key=key, run_id=run_id, **asked)
        try:
            check_study(self.settings, release)
        except InvalidInput:  # no row was read
            self.void(release.id, "what it asks for cannot be paid for")
            raise
        return release

    def ask(self, part: blocks.Part, *, goes_on: bool = False) -> None:
        """Ask a second person for a release that needs one, ahead of any run of it; hold and read nothing.

        Raises:
            ApprovalNeeded: if it waits for one.
            BudgetExceeded: if it does not fit what is left of the account.
        """
        if self.ledger.is_guarded(self.settings.charge.account):
            asked = self.asked(part, goes_on=goes_on)
            self._open_blocks(part, AHEAD, goes_on=goes_on)
            self.ledger.ask(self.settings.charge.account, key=AHEAD, run_id=AHEAD, **asked)

    def asked(self, part: blocks.Part, *, goes_on: bool = False) -> dict[str, Any]:
        """Return what a release asks of its account, whichever run makes it."""
        settings = self.settings
        self._check_inferred()
        # A use of a declared plan costs what the plan declared, whatever the settings ask for.
        costs: dict[str, Any] = {"plan": settings.plan} if settings.plan else self._costs(goes_on)
        return {
            **costs,
            "unit": str(settings.privacy_unit),
            "max_rows": settings.privacy_unit.max_rows,
            "table": settings.name,
            "code_version": settings.code_version(),
            "blocks": part.blocks,
            "nominal": self._last_events(),
            "purpose": settings.intended_use or "",
        }

    def _costs(self, goes_on: bool) -> dict[str, Any]:
        account = self.ledger.account(self.settings.charge.account)
        return BudgetRequest.of(self.settings, account.delta, goes_on=goes_on).costs()

    def _open_blocks(self, part: blocks.Part, run_id: str, *, goes_on: bool) -> None:
        blocks.open_blocks(self.ledger, self.settings, part, run_id, **self._costs(goes_on))

    def record(self, release_id: str) -> LedgerRelease:
        return self.ledger.release(release_id)

    def note_source(self, release_id: str, digest: str) -> None:
        self.ledger.note_source(release_id, digest)

    def allocation(self, release_id: str) -> Allocation:
        release = self.record(release_id)
        plan = self.plan_of(release)
        if plan is None:
            return Calibrated(self.settings, release)
        return Declared(self.settings, plan, release.epsilon, release.delta)

    def plan_of(self, release: LedgerRelease) -> ReleasePlan | None:
        """Return the declared plan of which a release is a use; None if it is none."""
        if release.plan is None:
            return None
        return next(
            ReleasePlan.of(p.events, p.mechanisms) for p in self.ledger.plans(release.account) if p.id == release.plan
        )

    def charge(
        self,
        release_id: str,
        mechanism: str,
        events: Sequence[Event],
        key: str | None = None,
        upon: Sequence[str] = (),
    ) -> Entry | None:
        return self.ledger.start(release_id, mechanism, events, key=key, upon=upon) if events else None

    def settle(self, release_id: str, *, delta: float, ran: Sequence[TaggedEvent] | None = None) -> LedgerRelease:
        return self.ledger.settle(release_id, delta=delta, ran=ran)

    def void(self, release_id: str, why: str) -> None:
        self.ledger.void(release_id, why)

    def entries(self, release_id: str) -> Sequence[Entry]:
        return self.ledger.entries(release_id=release_id)

    def upon(self, state: RunState) -> list[str]:
        facts, inferred_by, entries = state.facts, self.settings.inferred_by, []
        if facts.profile_release not in (None, state.release):
            entries += profile_cache.paid_by(self.entries(facts.profile_release))
        for release_id in filter(None, (facts.start_release, inferred_by)):
            entries += self.ledger.entries(release_id=release_id)
        return [entry.id for entry in (*entries, *self._may_have_begun_at(state))]

    def _may_have_begun_at(self, state: RunState) -> list[Entry]:
        """Return the table's earlier entries, if this release began at weights of which an older version kept no record."""
        own = self.ledger.entries(release_id=state.release)
        if self.settings.training.spec().start != Start.WARM_START or all(e.upon is not None for e in own):
            return []
        table = {r.id for r in self.ledger.releases(own[0].account) if r.table == self.released_as}
        earlier = [e for e in self.ledger.entries(own[0].account) if e.started_at < own[0].started_at]
        return [e for e in earlier if e.release_id in table]

    def lineage(self, state: RunState) -> Lineage:
        return self.ledger.lineage(state.release, self.upon(state))

    def paid_releases(self) -> set[str]:
        """Return the settled releases of this table of which it is on record what they build upon."""
        own = self.ledger.releases(self.settings.charge.account)
        settled = {r.id for r in own if r.released and r.table == self.released_as}
        return settled - {e.release_id for e in self.ledger.entries(self.settings.charge.account) if e.upon is None}

    def _check_inferred(self) -> None:
        """Refuse a schema's release that this ledger lacks, or that was charged for another privacy unit."""
        inferred_by = self.settings.inferred_by
        if inferred_by is None:
            return
        unit = self.ledger.account(self.settings.charge.account)
        paying = next((r for r in self.ledger.releases() if r.id == inferred_by), None)
        if paying is None:
            raise InvalidInput(
                f"inferred_by: this ledger has no release {inferred_by!r}. Use the ledger that the schema was inferred "
                f"under; or take that line out, if you declare its columns public on your own word."
            )
        other = self.ledger.account(paying.account)
        if (unit.unit, unit.max_rows, unit.relation) != (other.unit, other.max_rows, other.relation):
            raise InvalidInput(
                f"inferred_by: release {inferred_by} measured the columns for account {other.name!r}, which protects "
                f"another privacy unit than {unit.name!r}, so what both promise together cannot be computed. Infer the "
                f"schema anew for this account: dp-synth schema infer."
            )

    def _last_events(self) -> list[Event]:
        """Return what this table's last settled release ran, so that a refusal can say which steps and noise would fit."""
        settled_releases = [
            r
            for r in self.ledger.releases(self.settings.account)
            if r.table == self.released_as and r.state == "settled"
        ]
        return events_of(self.entries(settled_releases[-1].id)) if settled_releases else []


def events_of(entries: Iterable[Entry]) -> list[Event]:
    """Return the events of some entries, in their order."""
    return [event for entry in entries for event in entry.events]
