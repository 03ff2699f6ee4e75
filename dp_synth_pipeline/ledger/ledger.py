"""The front door: open accounts, reserve releases, start mechanisms, settle what ran, refuse what does not fit.

What is slow (calibration, privacy loss distributions) is computed before the write lock is taken; what was read for it
is compared again under the lock, so a decision is never made on a state that has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Unpack

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import approval, decide, journal, quota, refusal, request, rows
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.entry import RESERVED, WAITING, Account, Claim, Entry, Plan, Release
from dp_synth_pipeline.ledger.oversight import Oversight
from dp_synth_pipeline.ledger.questions import Questions
from dp_synth_pipeline.ledger.quota import Bound
from dp_synth_pipeline.ledger.refusal import Asked
from dp_synth_pipeline.ledger.rows import Payers
from dp_synth_pipeline.ledger.store import Store
from dp_synth_pipeline.ledger.terms import BudgetKeywords, BudgetRequest
from dp_synth_pipeline.privacy.events import Event


class Ledger(Questions, Oversight):
    """A durable privacy ledger, safe to use from any number of threads and processes; never overspent by any of them.

    Example:
        >>> import tempfile
        >>> ledger = Ledger.open(f"sqlite:///{tempfile.mkdtemp()}/ledger.db")
        >>> ledger.open_account("adult", epsilon=3.0, delta=1e-5).order
        10.0
        >>> ledger.accounts()[0].name
        'adult'
    """

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Ledger:
        """Open the ledger at `url`: sqlite:///PATH, a bare path, or postgresql+psycopg://….

        Args:
            create: create it if it is missing. A question about the past should not make an empty ledger.

        Raises:
            InvalidInput: if `url` names no store that can be used, or there is no ledger and none is to be created.
            LedgerCorrupted: if the ledger was deleted or emptied and its key was not, or the key is gone or another one.
            LedgerUnavailable: if the store cannot be reached or read.
        """
        store = Store.open(url, create=create)
        return cls(store, store.key(create=create))

    def reserve(self, account: str, **asked: Unpack[BudgetKeywords]) -> Release:
        """Hold all that one refresh of one table may cost, or refuse and leave no trace.

        The same `key` with the same request gives the same release and holds nothing more.

        Args:
            asked: `key`, `table`, `run_id` and `code_version`, and `epsilon` and `delta` or a `plan`: the fields of
                `BudgetRequest`.

        Raises:
            BudgetExceeded: if it does not fit what is left of the account, or of a quota of whoever asks or of its purpose.
            ApprovalNeeded: if it fits, and waits for a second person; its request is on record, once.
            AccountMismatch: if the account protects another unit, or promises a smaller delta.
            UnknownAccount, InvalidInput: if there is no such account, or a number cannot be used.
        """
        wanted, payers, asks, earlier = self._wanted(account, asked)
        if earlier is not None:
            return request.same(earlier, asks[0])
        if decide.refusing(payers, _costs(asks)) is not None:
            # Refused on one consistent state, so without the write lock: a refusal never holds up an admission.
            raise self._refusal(payers, asks, wanted.nominal, [])
        return self._admit(payers[0][0], asks, wanted)

    def ask(self, account: str, **asked: Unpack[BudgetKeywords]) -> None:
        """Ask a second person for a release that needs one, before any run of it; raise what `reserve` would, hold nothing.

        Raises:
            ApprovalNeeded: if it waits for one; its request is on record, once.
            BudgetExceeded, AccountMismatch, UnknownAccount, InvalidInput: as `reserve`.
        """
        wanted, payers, asks, _ = self._wanted(account, asked)
        with self._store.read() as conn:
            bounds = quota.bounding(conn, payers, Claim.of(asks[0]))
        if decide.refusing(payers, _costs(asks)) is not None or quota.exceeded(bounds, _costs(asks)):
            raise self._refusal(payers, asks, wanted.nominal, bounds)
        second = _second(payers, asks, wanted)
        if second is None:
            return
        with self._store.write() as conn:
            second = approval.asked(conn, second)
        if second.request.state == WAITING:
            raise second.refusal()

    def start(
        self,
        release_id: str,
        mechanism: str,
        events: Iterable[Event],
        *,
        key: str | None = None,
        upon: Iterable[str] = (),
    ) -> Entry:
        """Make it durable that `mechanism` runs, before it touches data; refuse what was not reserved.

        Args:
            mechanism: a name, used once in a release.
            events: what will run at most, with its public parameters.
            key: names this attempt, so that it can be asked for again when the reply was lost. Draw it at random for
                every attempt: a key that a second attempt shares would let it look at the data twice for one charge.
            upon: ids of the entries of earlier releases whose outcome it reads, such as a reused profile's.

        Raises:
            BudgetExceeded: if all that was started in the release would cost more than it reserved.
            ReleaseStateError: if the release is over, or the mechanism was started before.
            InvalidInput: if there is no entry that it is said to build upon, or its account protects another unit.
        """
        facts, ids = request.check_events(mechanism, events), tuple(sorted(set(upon)))
        while True:
            (release, earlier), *mirrors = before = self._charges(release_id)
            repeated = decide.same_attempt(earlier, mechanism, facts, key)
            if repeated is not None:
                return repeated
            plan = None if release.plan is None else self._plan_of(release)
            self._check_upon(release, ids)
            entry = decide.entry(release, earlier, mechanism, facts, key, ids, plan)
            entries = [entry, *(decide.mirrored(mirror, own, entry) for mirror, own in mirrors)]
            with self._store.write() as conn:
                if rows.charges(conn, release_id) != before:
                    continue  # another process moved first: price again what is there now
                for (charged, _), new in zip(before, entries, strict=True):
                    _put_start(conn, decide.started(charged), new)
            return entry

    def mark(self, entry_id: str, steps: int) -> None:
        """Make it durable that steps up to `steps` may run, before they do; this high-water mark never goes back.

        Raises:
            ReleaseStateError: if the entry is settled, the high-water mark would fall, or exceeds what the entry pays for.
        """
        with self._store.write() as conn:
            for entry in rows.entry_charges(conn, entry_id):
                decide.check_mark(entry, steps)
                if steps > entry.steps_started:
                    marked = replace(entry, steps_started=steps)
                    rows.put_entry(conn, marked)
                    journal.append(conn, "marked", entry.account, entries=[marked])

    def note_source(self, release_id: str, digest: str | bytes) -> Release:
        """Put the keyed fingerprint of what a release reads on record, encrypted, as soon as it is known.

        A crashed release then still tells `same_content` what it read, and tells nobody else.

        Raises:
            ReleaseStateError: if the release is voided, or has another source on record.
        """
        with self._store.write() as conn:
            release = rows.charges(conn, release_id)[0][0]
            noted = decide.noted(release, keys.fingerprint(self._key, digest), self._key)
            if noted != release:
                rows.put_release(conn, noted)
                journal.append(conn, "source", release.account, release=noted)
        return noted

    def settle(
        self,
        release_id: str,
        *,
        delta: float | None = None,
        ran: Sequence[Event | tuple[str, Event]] | None = None,
        why: str = "",
        who: str = "",
    ) -> Release:
        """Charge what ran and give back the rest; a second call changes nothing.

        Args:
            delta: the release's final delta, at most the one reserved; fixed before the mechanisms other than the row
                count ran, since one that is picked afterwards would void the guarantee.
            ran: the events that ran, as whoever ran them reports; each must have been started, as often and as noisy,
                and a (mechanism, event) pair under that mechanism.
            why, who: for one that ends with nothing released: the reason and who says so, for the record.

        Raises:
            ReleaseStateError: if nothing was started, it was voided or settled otherwise, or something else ran.
            InvalidInput: if `delta` exceeds what was reserved, or is so small that epsilon would.
        """
        while True:
            (release, entries), *mirrors = before = self._charges(release_id)
            if ran is not None:
                decide.check_ran(release, entries, ran)
            settled, done = decide.settled(release, entries, delta, why)
            if settled == release:
                return release
            ends = [(settled, done), *(decide.followed(mirror, own, settled) for mirror, own in mirrors)]
            with self._store.write() as conn:
                if rows.charges(conn, release_id) != before:
                    continue  # another process moved first: price again what is there now
                note = {"why": why, "who": who} if why else None
                for (charged, _), (over, paid) in zip(before, ends, strict=True):
                    rows.close_release(conn, charged, over)
                    for entry in paid:
                        rows.put_entry(conn, entry)
                    journal.append(conn, over.state, over.account, release=over, entries=paid, note=note)
            return settled

    def void(self, release_id: str, why: str) -> Release:
        """Give back a reservation of which nothing has started; charge nothing.

        Raises:
            ReleaseStateError: if a mechanism was started, or the release is over.
        """
        with self._store.write() as conn:
            charges = rows.charges(conn, release_id)
            over = [decide.voided(release, why) for release, _ in charges]
            for (release, _), voided in zip(charges, over, strict=True):
                rows.close_release(conn, release, voided)
                journal.append(conn, voided.state, release.account, release=voided, plan=_take(conn, release, -1))
        return over[0]

    def _wanted(
        self, account: str, asked: BudgetKeywords
    ) -> tuple[BudgetRequest, Payers, Sequence[Release], Release | None]:
        """Return a request, what it would be charged to, the releases it would become, and the one its key names already."""
        wanted = BudgetRequest(**asked)
        wanted = replace(wanted, blocks=request.check_blocks(wanted.blocks))
        with self._store.read() as conn:
            payers = rows.payers(conn, account, tuple(wanted.blocks))
            plan = self._plan(conn, payers[0][0], wanted.plan) if wanted.plan is not None else None
            plans = [] if plan is None else [plan, *(rows.mirror_plan(conn, plan.id) for _ in payers[1:])]
            earlier = rows.release_by_key(conn, wanted.key)
        ask = request.release(payers[0][0], wanted, plan)
        if len(payers) == 1 or earlier is not None:
            return wanted, payers, [ask], earlier
        return wanted, payers, request.mirrored(ask, payers[1][0], plans[1] if plans else None), None

    def _admit(self, priced: Account, asks: Sequence[Release], wanted: BudgetRequest) -> Release:
        ask = asks[0]
        with self._store.write() as conn:
            earlier = rows.release_by_key(conn, ask.key)
            if earlier is not None:
                return request.same(earlier, ask)
            payers = rows.payers(conn, priced.name, ask.blocks)
            if payers[0][0].opened_at != priced.opened_at:
                raise refusal.opened_anew(payers[0][0])
            bounds = quota.bounding(conn, payers, Claim.of(ask))
            admitted = decide.refusing(payers, _costs(asks)) is None and quota.exceeded(bounds, _costs(asks)) is None
            second = approval.taken(conn, _second(payers, asks, wanted)) if admitted else None
            for one in asks if admitted and not (second and second.waits) else ():
                used = _take(conn, one, 1)
                rows.put_release(conn, one, new=True)
                rows.hold(conn, one)
                approved = second.request if second and one is ask else None
                journal.append(conn, one.state, one.account, release=one, plan=used, request=approved)
        if not admitted:  # explained outside the lock, since what would fit takes a while to find
            raise self._refusal(payers, asks, wanted.nominal, bounds)
        if second and second.waits:
            raise second.refusal()
        return ask

    def _refusal(
        self,
        payers: Payers,
        asks: Sequence[Release],
        nominal: Sequence[Event] | None,
        bounds: Sequence[Sequence[Bound]],
    ) -> Exception:
        ask = asks[0]
        asked = Asked(ask.epsilon, ask.delta, ask.own_delta, ask.blocks, nominal=nominal or ())
        return self._refused(payers, _costs(asks), asked, bounds, Claim.of(ask))

    @staticmethod
    def _plan(conn: sa.Connection, account: Account, name: str) -> Plan:
        plan = rows.plan_named(conn, account.name, name)
        if plan is None:
            names = ", ".join(p.name for p in rows.plans(conn, account.name)) or "none"
            raise InvalidInput(
                f"account {account.name!r} has no plan {name!r}; declared: {names}. Have a person declare it first."
            )
        return plan

    def _check_upon(self, release: Release, ids: Sequence[str]) -> None:
        with self._store.read() as conn:
            found = rows.entries(conn, ids=ids) if ids else []
            accounts = [rows.account(conn, name)[0] for name in {release.account, *(e.account for e in found)}]
        if len(found) < len(ids) or len({(a.unit, a.max_rows, a.relation) for a in accounts}) > 1:
            raise refusal.unknown_lineage(release)

    def _plan_of(self, release: Release) -> Plan:
        with self._store.read() as conn:
            return rows.plan(conn, str(release.plan))


def _costs(asks: Sequence[Release]) -> list[tuple[int, int]]:
    return [(a.reserved_cost, a.reserved_delta) for a in asks]


def _second(payers: Payers, asks: Sequence[Release], wanted: BudgetRequest) -> approval.Second | None:
    """Return a release as it waits for a second person; None if one person decides it."""
    account, ask = payers[0][0], asks[0]
    terms = approval.terms(ask, account)
    draft = approval.request(account, RESERVED, terms, who=ask.who, why=wanted.purpose)
    return approval.guarded(payers, _costs(asks), draft)


def _put_start(conn: sa.Connection, started: Release, entry: Entry) -> None:
    rows.put_entry(conn, entry, new=True)
    rows.put_release(conn, started)
    journal.append(conn, started.state, started.account, release=started, entries=[entry])


def _take(conn: sa.Connection, release: Release, uses: int) -> Plan | None:
    """Take uses of the declared plan of which a release is one, or give them back; return the plan as it is then."""
    if release.plan is None:
        return None
    plan = rows.plan(conn, release.plan)
    if plan.used + uses > plan.times:
        raise refusal.no_use_left(plan)
    taken = replace(plan, used=plan.used + uses)
    rows.put_plan(conn, taken)
    return taken
