"""The front door: open accounts, reserve releases, start mechanisms, settle what ran, refuse what does not fit.

What is slow (calibration, privacy loss distributions) is computed before the write lock is taken; what was read for it
is compared again under the lock, so a decision is never made on a state that has moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import decide, journal, refusal, request, rows, tables
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.entry import FILTER, Account, Balance, Entry, JournalRow, Release, Rule, Verification
from dp_synth_pipeline.ledger.store import Store
from dp_synth_pipeline.ledger.verify import verify
from dp_synth_pipeline.privacy.events import Event


class Ledger:
    """A durable privacy ledger, safe to use from any number of threads and processes; never overspent by any of them.

    Example:
        >>> import tempfile
        >>> ledger = Ledger.open(f"sqlite:///{tempfile.mkdtemp()}/ledger.db")
        >>> ledger.open_account("adult", epsilon=3.0, delta=1e-5).order
        10.0
        >>> ledger.accounts()[0].name
        'adult'
    """

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key

    @classmethod
    def open(cls, url: str) -> Ledger:
        """Open the ledger at `url`, creating it if it is missing: sqlite:///PATH, a bare path, or postgresql+psycopg://….

        Raises:
            InvalidInput: if `url` names no store that can be used.
            LedgerCorrupted: if the ledger was deleted and its key was not, or the key is gone or another one.
        """
        store = Store.open(url)
        return cls(store, store.key())

    def __repr__(self) -> str:
        return f"Ledger({self._store.engine.url.render_as_string(hide_password=True)!r})"

    def open_account(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float,
        unit: str = "row",
        max_rows: int = 1,
        rule: Rule = FILTER,
        own_delta_share: float = 0.05,
        why: str = "",
    ) -> Account:
        """Open an account whose limit never changes; a person does this, a pipeline does not.

        Args:
            name: names one protected data set.
            epsilon, delta: the limit on everything that will ever be released from it.
            unit, max_rows: whose presence is hidden: 'row', or a column, with at most `max_rows` rows to a value.
            rule: 'filter' for any number of releases chosen as one goes, 'plan' for shares of (epsilon, delta).
            own_delta_share: under 'filter', the part of delta set aside for mechanisms with a delta of their own.

        Raises:
            InvalidInput: if the account exists, or a number cannot be used.
        """
        opened = request.opened(name, epsilon, delta, unit, max_rows, rule, own_delta_share, why)
        with self._store.write() as conn:
            if any(a.name == name for a, _ in rows.accounts(conn)):
                raise InvalidInput(
                    f"account {name!r} exists and its limit is fixed. Use it as it is (dp-synth ledger show {name}), "
                    f"or open one under another name for other data."
                )
            rows.add_account(conn, opened)
            journal.append(conn, "opened", opened)
        return opened

    def account(self, name: str) -> Account:
        """Return an account as it was opened; raise UnknownAccount if it was not."""
        with self._store.read() as conn:
            return rows.account(conn, name)[0]

    def accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        with self._store.read() as conn:
            return [a for a, _ in rows.accounts(conn)]

    def balance(self, name: str) -> Balance:
        """Return what an account has spent, holds and has left."""
        with self._store.read() as conn:
            account, tally = rows.account(conn, name)
        return decide.balance(account, tally)

    def reserve(
        self,
        account: str,
        *,
        key: str,
        epsilon: float,
        delta: float,
        own_delta: float = 0.0,
        unit: str = "row",
        max_rows: int = 1,
        table: str,
        run_id: str,
        code_version: str,
    ) -> Release:
        """Hold all that one refresh of one table may cost, or refuse and leave no trace.

        The same `key` with the same request gives the same release and holds nothing more.

        Args:
            key: names this request; a retry of the run needs a new key, and is a new charge.
            epsilon, delta: what the release as a whole may cost; `delta` at most the account's.
            own_delta: the part of `delta` for mechanisms with a delta of their own.
            unit, max_rows: what the pipeline protects; must be what the account protects.

        Raises:
            BudgetExceeded: if it does not fit what is left of the account.
            AccountMismatch: if the account protects another unit, or promises a smaller delta.
            UnknownAccount, InvalidInput: if there is no such account, or a number cannot be used.
        """
        opened = self.account(account)
        names = {"table": table, "run_id": run_id, "code_version": code_version}
        return self._admit(opened, request.release(opened, key, epsilon, delta, own_delta, unit, max_rows, **names))

    def preview(self, account: str, *, epsilon: float, delta: float, own_delta: float = 0.0) -> None:
        """Raise what `reserve` would raise now, and change nothing."""
        with self._store.read() as conn:
            opened, tally = rows.account(conn, account)
        cost, delta_units = request.priced(opened, epsilon, delta, own_delta, opened.unit, opened.max_rows)
        if not decide.admits(opened, tally, cost, delta_units):
            raise refusal.over_budget(opened, tally, epsilon=epsilon, delta=delta, own_delta=own_delta)

    def start(self, release_id: str, mechanism: str, events: Iterable[Event], *, key: str | None = None) -> Entry:
        """Make it durable that `mechanism` runs, before it touches data; refuse what was not reserved.

        Args:
            mechanism: a name, used once in a release.
            events: what will run at most, with its public parameters.
            key: names this attempt, so that it can be asked for again when the reply was lost. Draw it at random for
                every attempt: a key that a second attempt shares would let it look at the data twice for one charge.

        Raises:
            BudgetExceeded: if all that was started in the release would cost more than it reserved.
            ReleaseStateError: if the release is over, or the mechanism was started before.
        """
        facts = request.check_events(mechanism, events)
        while True:
            before = self._snapshot(release_id)
            release, earlier = before
            repeated = decide.same_attempt(earlier, mechanism, facts, key)
            if repeated is not None:
                return repeated
            entry = decide.entry(release, earlier, mechanism, facts, key)
            started = decide.started(release)
            with self._store.write() as conn:
                if rows.release_and_entries(conn, release_id) != before:
                    continue  # another process moved first: price again what is there now
                rows.put_entry(conn, entry, new=True)
                rows.put_release(conn, started)
                journal.append(conn, started.state, release.account, release=started, entries=[entry])
            return entry

    def mark(self, entry_id: str, steps: int) -> None:
        """Make it durable that steps up to `steps` may run, before they do; the mark never goes back.

        Raises:
            ReleaseStateError: if the entry is settled, the mark would fall, or exceeds what the entry pays for.
        """
        with self._store.write() as conn:
            entry = rows.entry(conn, entry_id)
            decide.check_mark(entry, steps)
            if steps > entry.steps_started:
                marked = replace(entry, steps_started=steps)
                rows.put_entry(conn, marked)
                journal.append(conn, "marked", entry.account, entries=[marked])

    def settle(self, release_id: str, *, delta: float | None = None, fingerprint: str | None = None) -> Release:
        """Charge what ran and give back the rest; a second call changes nothing.

        Args:
            delta: the release's final delta, at most the one reserved. It must have been fixed before the mechanisms
                other than the row count ran; one that is picked afterwards would void the guarantee.
            fingerprint: keyed fingerprint of the source, from `Ledger.fingerprint`.

        Raises:
            ReleaseStateError: if nothing was started, or it was voided or settled otherwise.
            InvalidInput: if `delta` exceeds what was reserved, or is so small that epsilon would.
        """
        while True:
            before = self._snapshot(release_id)
            release, entries = before
            settled, done = decide.settled(release, entries, delta, fingerprint)
            if settled == release:
                return release
            with self._store.write() as conn:
                if rows.release_and_entries(conn, release_id) != before:
                    continue  # another process moved first: price again what is there now
                rows.close_release(conn, release, settled)
                for entry in done:
                    rows.put_entry(conn, entry)
                journal.append(conn, settled.state, release.account, release=settled, entries=done)
            return settled

    def void(self, release_id: str, why: str) -> Release:
        """Give back a reservation of which nothing has started; charge nothing.

        Raises:
            ReleaseStateError: if a mechanism was started, or the release is over.
        """
        with self._store.write() as conn:
            release = rows.release(conn, release_id)
            voided = decide.voided(release, why)
            rows.close_release(conn, release, voided)
            journal.append(conn, voided.state, release.account, release=voided)
        return voided

    def release(self, release_id: str) -> Release:
        """Return a release as it stands."""
        with self._store.read() as conn:
            return rows.release(conn, release_id)

    def releases(self, account: str | None = None) -> list[Release]:
        """Return the releases, of one account or of all, oldest first."""
        with self._store.read() as conn:
            return rows.releases(conn, account)

    def entries(self, account: str | None = None, release_id: str | None = None) -> list[Entry]:
        """Return the entries, of one account or release or of all, oldest first."""
        with self._store.read() as conn:
            return rows.entries(conn, account=account, release_id=release_id)

    def history(self, account: str | None = None) -> list[JournalRow]:
        """Return the journal, of one account or of all, oldest first."""
        with self._store.read() as conn:
            return journal.rows(conn, account)

    def head(self) -> str:
        """Return the hash of the last journal row, which stands for everything before it."""
        with self._store.read() as conn:
            return conn.execute(sa.select(tables.store.c.head)).scalar_one()

    def verify(self, *, since: str | None = None) -> Verification:
        """Recompute the chain, every cost and every balance, or raise LedgerCorrupted naming the first bad record.

        Args:
            since: a head that was seen earlier; a ledger that does not hold it was rolled back or replaced.
        """
        return verify(self._store, since)

    def fingerprint(self, digest: str | bytes) -> str:
        """Return the keyed fingerprint of a content digest: comparable within this ledger, meaningless outside."""
        return keys.fingerprint(self._key, digest)

    def _admit(self, account: Account, ask: Release) -> Release:
        with self._store.write() as conn:
            known = rows.release_by_key(conn, ask.key)
            if known is not None:
                return request.same(known, ask)
            _, tally = rows.account(conn, account.name)
            admitted = decide.admits(account, tally, ask.reserved_cost, ask.reserved_delta)
            if admitted:
                rows.put_release(conn, ask, new=True)
                rows.put_tally(conn, account.name, tally.hold(ask.reserved_cost, ask.reserved_delta))
                journal.append(conn, ask.state, account.name, release=ask)
        if not admitted:  # explained outside the lock, since what would fit takes a while to find
            raise refusal.over_budget(account, tally, epsilon=ask.epsilon, delta=ask.delta, own_delta=ask.own_delta)
        return ask

    def _snapshot(self, release_id: str) -> tuple[Release, list[Entry]]:
        with self._store.read() as conn:
            return rows.release_and_entries(conn, release_id)
