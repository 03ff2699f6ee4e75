"""Reading and writing accounts, releases and entries inside a transaction that someone else opened."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted, UnknownAccount
from dp_synth_pipeline.ledger import tables
from dp_synth_pipeline.ledger.entry import Account, Entry, Release


@dataclass(frozen=True)
class Tally:
    """The balance of an account as stored: units spent, and units held by releases that are not settled."""

    cost_spent: int = 0
    cost_held: int = 0
    delta_spent: int = 0
    delta_held: int = 0

    def hold(self, cost: int, delta: int) -> Tally:
        """Return the balance with a reservation added."""
        return Tally(self.cost_spent, self.cost_held + cost, self.delta_spent, self.delta_held + delta)

    def free(self, release: Release, closed: Release) -> Tally:
        """Return the balance with a reservation given back and a charge put in its place."""
        return Tally(
            self.cost_spent + (closed.charged_cost or 0),
            self.cost_held - release.reserved_cost,
            self.delta_spent + (closed.charged_delta or 0),
            self.delta_held - release.reserved_delta,
        )

    def left(self, account: Account) -> tuple[int, int]:
        """Return the (cost, delta) units that nothing has taken."""
        return (
            account.cost_limit - self.cost_spent - self.cost_held,
            account.delta_limit - self.delta_spent - self.delta_held,
        )


def account(conn: sa.Connection, name: str) -> tuple[Account, Tally]:
    """Return an account and its balance.

    Raises:
        UnknownAccount: if it was never opened.
    """
    query = sa.select(tables.account).where(tables.account.c.name == name)
    row = conn.execute(query).mappings().one_or_none()
    if row is None:
        raise UnknownAccount(name, tuple(a.name for a, _ in accounts(conn)))
    return Account.from_record(dict(row)), _tally(row)


def accounts(conn: sa.Connection) -> list[tuple[Account, Tally]]:
    """Return all accounts and their balances, by name."""
    query = sa.select(tables.account).order_by(tables.account.c.name)
    return [(Account.from_record(dict(r)), _tally(r)) for r in conn.execute(query).mappings()]


def _tally(row: sa.RowMapping) -> Tally:
    return Tally(row["cost_spent"], row["cost_held"], row["delta_spent"], row["delta_held"])


def add_account(conn: sa.Connection, opened: Account) -> None:
    """Write a new account with nothing spent."""
    conn.execute(sa.insert(tables.account).values({**opened.to_record(), **Tally().__dict__}))


def put_tally(conn: sa.Connection, name: str, tally: Tally) -> None:
    """Write the balance of an account; refuse one that no sequence of decisions could have led to."""
    if min(tally.__dict__.values()) < 0:
        raise LedgerCorrupted(
            f"the balance of account {name!r} would fall below zero, so it was edited. Stop all runs and restore the "
            f"ledger from a backup; `dp-synth ledger verify` names the first bad record."
        )
    conn.execute(sa.update(tables.account).where(tables.account.c.name == name).values(tally.__dict__))


def release(conn: sa.Connection, release_id: str) -> Release:
    """Return a release.

    Raises:
        InvalidInput: if there is none of that id.
    """
    query = sa.select(tables.release).where(tables.release.c.id == release_id)
    row = conn.execute(query).mappings().one_or_none()
    if row is None:
        raise InvalidInput(f"this ledger has no release {release_id!r}; reserve one first, or open the right ledger.")
    return Release.from_record(dict(row))


def release_by_key(conn: sa.Connection, key: str) -> Release | None:
    """Return the release that was reserved under `key`, if any."""
    query = sa.select(tables.release).where(tables.release.c.key == key)
    row = conn.execute(query).mappings().one_or_none()
    return Release.from_record(dict(row)) if row else None


def releases(conn: sa.Connection, account: str | None = None) -> list[Release]:
    """Return the releases, oldest first."""
    query = sa.select(tables.release).order_by(tables.release.c.reserved_at, tables.release.c.id)
    if account is not None:
        query = query.where(tables.release.c.account == account)
    return [Release.from_record(dict(r)) for r in conn.execute(query).mappings()]


def put_release(conn: sa.Connection, changed: Release, *, new: bool = False) -> None:
    """Write a release, new or changed."""
    record = changed.to_record()
    if new:
        conn.execute(sa.insert(tables.release).values(record))
    else:
        conn.execute(sa.update(tables.release).where(tables.release.c.id == changed.id).values(record))


def close_release(conn: sa.Connection, release: Release, closed: Release) -> None:
    """Write a release that ended, and the balance of its account with the charge in place of the reservation."""
    _, tally = account(conn, release.account)
    put_release(conn, closed)
    put_tally(conn, release.account, tally.free(release, closed))


def release_and_entries(conn: sa.Connection, release_id: str) -> tuple[Release, list[Entry]]:
    """Return a release with all that was started in it."""
    return release(conn, release_id), entries(conn, release_id=release_id)


def entry(conn: sa.Connection, entry_id: str) -> Entry:
    """Return an entry.

    Raises:
        InvalidInput: if there is none of that id.
    """
    row = conn.execute(sa.select(tables.entry).where(tables.entry.c.id == entry_id)).mappings().one_or_none()
    if row is None:
        raise InvalidInput(f"this ledger has no entry {entry_id!r}; start the mechanism first.")
    return Entry.from_record(dict(row))


def entries(conn: sa.Connection, *, account: str | None = None, release_id: str | None = None) -> list[Entry]:
    """Return the entries in the order in which they were started."""
    query = sa.select(tables.entry).order_by(tables.entry.c.started_at, tables.entry.c.position)
    if account is not None:
        query = query.where(tables.entry.c.account == account)
    if release_id is not None:
        query = query.where(tables.entry.c.release_id == release_id)
    return [Entry.from_record(dict(r)) for r in conn.execute(query).mappings()]


def put_entry(conn: sa.Connection, changed: Entry, *, new: bool = False) -> None:
    """Write an entry, new or changed."""
    record = changed.to_record()
    if new:
        conn.execute(sa.insert(tables.entry).values(record))
    else:
        conn.execute(sa.update(tables.entry).where(tables.entry.c.id == changed.id).values(record))
