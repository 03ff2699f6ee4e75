"""The questions a ledger answers without changing: what there is, what is left, what would fit, what can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import costs, decide, journal, preflight, refusal, request, rows, tables
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.balance import Balance, Verification
from dp_synth_pipeline.ledger.entry import Account, Entry, JournalRow, Plan, Release
from dp_synth_pipeline.ledger.open_ledger import OpenLedger
from dp_synth_pipeline.ledger.preflight import Ask
from dp_synth_pipeline.privacy.events import Event


class Questions(OpenLedger):
    """The half of a ledger that reads."""

    def account(self, name: str) -> Account:
        """Return an account as it stands; raise UnknownAccount if it was never opened."""
        with self._store.read() as conn:
            return rows.account(conn, name)[0]

    def accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        with self._store.read() as conn:
            return [a for a, _ in rows.accounts(conn)]

    def untouched(self, name: str) -> bool:
        """Say whether nothing was ever charged to an account or is held, so that it may be opened anew."""
        with self._store.read() as conn:
            return rows.untouched(conn, name)

    def balance(self, name: str, block: str | None = None) -> Balance:
        """Return what an account has spent, holds and has left: for a release over one block, or over all rows.

        The balance of an account with blocks counts its own row and the fullest of the blocks that are touched.
        """
        with self._store.read() as conn:
            account, tally = rows.standing(conn, name, () if block is None else (block,))
        return decide.balance(account, tally)

    def fresh_balance(self, name: str) -> Balance:
        """Return what a block that is still to be added has left: what all rows were charged counts in it, and no more."""
        with self._store.read() as conn:
            return decide.balance(*rows.account(conn, name))

    def blocks(self, name: str) -> list[str]:
        """Return the blocks of an account, by name."""
        with self._store.read() as conn:
            return list(rows.blocks(conn, rows.account(conn, name)[0].name))

    def plans(self, account: str | None = None) -> list[Plan]:
        """Return the declared plans, of one account or of all, oldest first."""
        with self._store.read() as conn:
            return rows.plans(conn, account)

    def preview(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
        nominal: Sequence[Event] | None = None,
    ) -> None:
        """Raise what `reserve` would raise now, and change nothing."""
        named = request.check_blocks(blocks)
        with self._store.read() as conn:
            opened, tally = rows.standing(conn, account, named)
        cost, delta_units = request.priced(opened, epsilon, delta, own_delta, opened.unit, opened.max_rows)
        if not decide.admits(opened, tally, cost, delta_units):
            asked = {"epsilon": epsilon, "delta": delta, "own_delta": own_delta}
            raise refusal.over_budget(opened, tally, **asked, blocks=named, nominal=nominal or ())

    def capacity(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float | None = None,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
    ) -> int:
        """Return how many more such releases would be admitted now, one after the other; change nothing.

        Args:
            delta: the delta of each; the account's if it is not given.
        """
        with self._store.read() as conn:
            opened, tally = rows.standing(conn, account, request.check_blocks(blocks))
        each = opened.delta if delta is None else delta
        cost, delta_units = request.priced(opened, epsilon, each, own_delta, opened.unit, opened.max_rows)
        cost_left, delta_left = tally.left(opened)
        return min(cost_left // cost, delta_left // delta_units if delta_units else cost_left)

    def admitted(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float,
        own_delta: float = 0.0,
        each: Sequence[Sequence[str]],
    ) -> list[bool]:
        """Return, for each of several such releases, whether it would be admitted after those before it; change nothing.

        Args:
            each: the blocks that each of them reads. A block that is still to be added has spent nothing; a release
                that names no block is charged to the account's own row.
        """
        return self.foretold(account, [Ask(epsilon, delta, own_delta, tuple(blocks)) for blocks in each])

    def foretold(self, account: str, asks: Sequence[Ask]) -> list[bool]:
        """Return, for each of several releases, whether it would be admitted after those before it; change nothing."""
        with self._store.read() as conn:
            opened, own = rows.account(conn, account)
            blocks = rows.blocks(conn, account)

        @cache
        def priced(epsilon: float, delta: float, own_delta: float) -> tuple[int, int]:
            return request.priced(opened, epsilon, delta, own_delta, opened.unit, opened.max_rows)

        requests = [(*priced(a.epsilon, a.delta, a.own_delta), request.check_blocks(a.blocks)) for a in asks]
        return preflight.admitted(opened, own, blocks, requests)

    def affordable(
        self,
        account: str,
        *,
        times: int,
        delta: float | None = None,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
    ) -> float:
        """Return the largest epsilon, to four digits, such that `times` more releases of it fit now; 0.0 for none.

        Args:
            delta: the delta of each; by default the account's under a Rényi filter, and an equal part of what is left
                under declared plans.
        """
        if not isinstance(times, int) or times < 1:
            raise InvalidInput(f"times must be a whole number of at least 1, got {times}.")
        with self._store.read() as conn:
            opened, tally = rows.standing(conn, account, request.check_blocks(blocks))
        return costs.affordable(opened, *tally.left(opened), times, delta, own_delta)

    def left_after(self, release_id: str, at_mark: str | None = None) -> float:
        """Return the largest epsilon of one more release with the delta of this open one, once it is ended; 0.0 for none.

        Args:
            at_mark: an entry of it that would be settled at its high-water mark first.
        """
        with self._store.read() as conn:
            release, entries = rows.release_and_entries(conn, release_id)
            account, tally = rows.standing(conn, release.account, release.blocks)
        ended = [decide.settled_at_mark(release, e) if e.id == at_mark else e for e in entries]
        closed = decide.ended(release, ended)
        if release.plan is None:
            tally = tally.free(release, closed)
        return costs.epsilon_left(account, *tally.left(account), release.delta, release.own_delta)

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

        The ledger must also be the one, grown, that its last checkpoint tells of.

        Args:
            since: a head that was seen earlier; a ledger that does not hold it was rolled back or replaced.
        """
        return self._store.verify(since)

    def fingerprint(self, digest: str | bytes) -> str:
        """Return the keyed fingerprint of a content digest: comparable within this ledger, meaningless outside."""
        return keys.fingerprint(self._key, digest)

    def same_source(self, digest: str | bytes, *, not_account: str | None = None) -> list[str]:
        """Return the names of accounts, other than `not_account`, that released from a source with this digest.

        The same content under two names is one data set with two budgets, so its privacy loss is the sum of both.
        """
        where = tables.release.c.fingerprint == self.fingerprint(digest)
        query = sa.select(tables.release.c.account).where(where).distinct().order_by(tables.release.c.account)
        with self._store.read() as conn:
            return [name for name in conn.execute(query).scalars() if name != not_account]
