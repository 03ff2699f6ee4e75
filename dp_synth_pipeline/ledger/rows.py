"""Reading and writing accounts, releases and entries inside a transaction that someone else opened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted, UnknownAccount
from dp_synth_pipeline.ledger import tables
from dp_synth_pipeline.ledger.entry import USED, VOIDED, Account, Entry, Plan, Release, Request


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

    def plus(self, other: Tally) -> Tally:
        """Return both balances together."""
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def taken(self) -> tuple[int, int]:
        """The (cost, delta) units that are spent or held."""
        return self.cost_spent + self.cost_held, self.delta_spent + self.delta_held

    def left(self, account: Account) -> tuple[int, int]:
        """Return the (cost, delta) units that nothing has taken."""
        return (
            account.cost_limit - self.cost_spent - self.cost_held,
            account.delta_limit - self.delta_spent - self.delta_held,
        )


Charge = tuple[Release, list[Entry]]
"""A release with its entries, as one account is charged for it."""

Taken = Mapping[tuple[str, str, str], Tally]
"""What was taken of an account, held or charged, by requester, purpose and block; the block of its own row is ''."""

Payers = Sequence[tuple[Account, Tally]]
"""What a release is charged to, with what bounds a decision on each: its account, and then its umbrella if it has one."""


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


def put_account(conn: sa.Connection, changed: Account) -> None:
    """Write an account whose limit was raised, or that was opened anew."""
    conn.execute(sa.update(tables.account).where(tables.account.c.name == changed.name).values(changed.to_record()))


def members(conn: sa.Connection, name: str) -> list[tuple[Account, Tally]]:
    """Return the accounts under an umbrella and their balances, by name."""
    return [(a, tally) for a, tally in accounts(conn) if a.under == name]


def untouched(conn: sa.Connection, name: str) -> bool:
    """Say whether nothing was ever charged to an account or is held: no plan, block or member, all its releases voided."""
    charged = (tables.release.c.account == name) & (tables.release.c.state != VOIDED)
    in_use = (
        sa.select(tables.release.c.id).where(charged),
        sa.select(tables.plan.c.id).where(tables.plan.c.account == name),
        sa.select(tables.block.c.name).where(tables.block.c.account == name),
        sa.select(tables.account.c.name).where(tables.account.c.under == name),
    )
    return account(conn, name)[1] == Tally() and all(conn.execute(q.limit(1)).first() is None for q in in_use)


def add_blocks(conn: sa.Connection, account: str, names: Iterable[str]) -> None:
    """Write new blocks of an account with nothing spent."""
    conn.execute(sa.insert(tables.block), [{"account": account, "name": n, **Tally().__dict__} for n in names])


def blocks(conn: sa.Connection, account: str, names: Sequence[str] | None = None) -> dict[str, Tally]:
    """Return what releases over blocks took of each of them: of all blocks of an account, or of those named."""
    query = sa.select(tables.block).where(tables.block.c.account == account).order_by(tables.block.c.name)
    if names is not None:
        query = query.where(tables.block.c.name.in_(names))
    return {r["name"]: _tally(r) for r in conn.execute(query).mappings()}


def all_blocks(conn: sa.Connection) -> dict[tuple[str, str], Tally]:
    """Return what releases over blocks took of each block of every account."""
    return {(r["account"], r["name"]): _tally(r) for r in conn.execute(sa.select(tables.block)).mappings()}


def standing(conn: sa.Connection, name: str, named: Sequence[str] = ()) -> tuple[Account, Tally]:
    """Return an account and what bounds a decision on it: its own row, and the fullest block that is touched.

    A release over blocks touches those `named`; one without blocks touches them all.

    Raises:
        UnknownAccount, InvalidInput: if there is no such account, or no such block of it.
    """
    opened, own = account(conn, name)
    if not opened.unit_in_one_block and not named:
        return opened, own
    touched = blocks(conn, name, named or None)
    missing = sorted(set(named) - touched.keys())
    if missing:
        raise InvalidInput(
            f"account {name!r} has no block {missing[0]!r}. Add it first (Ledger.add_blocks), or name no block: then "
            f"the account's own row is charged."
        )
    worst = Tally()
    if touched:
        costly = max(touched.values(), key=lambda t: t.cost_spent + t.cost_held)
        loose = max(touched.values(), key=lambda t: t.delta_spent + t.delta_held)
        worst = Tally(costly.cost_spent, costly.cost_held, loose.delta_spent, loose.delta_held)
    return opened, own.plus(worst)


def payers(conn: sa.Connection, name: str, named: Sequence[str] = ()) -> Payers:
    """Return all that a release of an account is charged to, with what bounds a decision on it: itself, then its umbrella.

    Blocks are parts of one table, and one person may be in two blocks of two tables. So of an umbrella its own row is
    charged, whatever blocks a member's release names.

    Raises:
        UnknownAccount, InvalidInput: if there is no such account, or no such block of it.
    """
    own = standing(conn, name, named)
    return [own] if own[0].under is None else [own, account(conn, own[0].under)]


def taken(conn: sa.Connection, name: str) -> Taken:
    """Return what releases, plans and charges by hand took of an account, by requester, purpose and block."""
    r = tables.release.c
    units = (sa.func.coalesce(r.charged_cost, r.reserved_cost), sa.func.coalesce(r.charged_delta, r.reserved_delta))
    sums = sa.select(r.who, r.purpose, r.blocks, *map(sa.func.sum, units)).where(r.account == name)
    amounts: dict[tuple[str, str, str], Tally] = {}
    for row in conn.execute(sums.group_by(r.who, r.purpose, r.blocks)):
        who, purpose, blocks, cost, delta = tuple(row)
        for block in json.loads(blocks) or [""]:
            place = who, purpose, block
            amounts[place] = amounts.get(place, Tally()).hold(int(cost), int(delta))
    for p in plans(conn, name):
        place = p.who, p.why, ""
        amounts[place] = amounts.get(place, Tally()).hold(p.cost, p.cost_delta)
    return amounts


def hold(conn: sa.Connection, release: Release) -> None:
    """Add a reservation to what it is charged to: the blocks that it names, or the account's own row."""
    if release.plan is not None:
        return
    for name, tally in blocks(conn, release.account, release.blocks).items() if release.blocks else ():
        _put_block(conn, release.account, name, tally.hold(release.reserved_cost, release.reserved_delta))
    if not release.blocks:
        own = account(conn, release.account)[1]
        put_tally(conn, release.account, own.hold(release.reserved_cost, release.reserved_delta))


def put_tally(conn: sa.Connection, name: str, tally: Tally) -> None:
    """Write the balance of an account; refuse one that no sequence of decisions could have led to."""
    _check_tally(name, tally)
    conn.execute(sa.update(tables.account).where(tables.account.c.name == name).values(tally.__dict__))


def _put_block(conn: sa.Connection, account: str, name: str, tally: Tally) -> None:
    _check_tally(account, tally)
    where = (tables.block.c.account == account) & (tables.block.c.name == name)
    conn.execute(sa.update(tables.block).where(where).values(tally.__dict__))


def _check_tally(account: str, tally: Tally) -> None:
    if min(tally.__dict__.values()) < 0:
        raise LedgerCorrupted(
            f"the balance of account {account!r} would fall below zero, so it was edited. Stop all runs and restore "
            f"the ledger from a backup; `dp-synth ledger verify` names the first bad record."
        )


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


def mirror(conn: sa.Connection, release_id: str) -> Release | None:
    """Return the record that charges an umbrella for a release, if the release's account is under one."""
    query = sa.select(tables.release).where(tables.release.c.mirrors == release_id)
    row = conn.execute(query).mappings().one_or_none()
    return Release.from_record(dict(row)) if row else None


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
    """Write a release that ended, and the balance that held it with the charge in place of the reservation."""
    put_release(conn, closed)
    if release.plan is not None:
        return
    for name, tally in blocks(conn, release.account, release.blocks).items() if release.blocks else ():
        _put_block(conn, release.account, name, tally.free(release, closed))
    if not release.blocks:
        put_tally(conn, release.account, account(conn, release.account)[1].free(release, closed))


def plan(conn: sa.Connection, plan_id: str) -> Plan:
    """Return a declared plan that a release names."""
    row = conn.execute(sa.select(tables.plan).where(tables.plan.c.id == plan_id)).mappings().one()
    return Plan.from_record(dict(row))


def plan_named(conn: sa.Connection, account: str, name: str) -> Plan | None:
    """Return the plan of an account that was declared under `name`, if any."""
    return next((p for p in plans(conn, account) if p.name == name), None)


def plans(conn: sa.Connection, account: str | None = None) -> list[Plan]:
    """Return the declared plans, oldest first."""
    query = sa.select(tables.plan).order_by(tables.plan.c.declared_at, tables.plan.c.id)
    if account is not None:
        query = query.where(tables.plan.c.account == account)
    return [Plan.from_record(dict(r)) for r in conn.execute(query).mappings()]


def mirror_plan(conn: sa.Connection, plan_id: str) -> Plan:
    """Return the plan that charges an umbrella for a member's plan."""
    row = conn.execute(sa.select(tables.plan).where(tables.plan.c.mirrors == plan_id)).mappings().one()
    return Plan.from_record(dict(row))


def put_plan(conn: sa.Connection, changed: Plan, *, new: bool = False) -> None:
    """Write a plan, new or with another number of uses."""
    if new:
        conn.execute(sa.insert(tables.plan).values(changed.to_record()))
    else:
        conn.execute(sa.update(tables.plan).where(tables.plan.c.id == changed.id).values(used=changed.used))


def requests(conn: sa.Connection, account: str | None = None) -> list[Request]:
    """Return what a second person was asked for, oldest first."""
    query = sa.select(tables.request).order_by(tables.request.c.asked_at, tables.request.c.id)
    if account is not None:
        query = query.where(tables.request.c.account == account)
    return [Request.from_record(dict(r)) for r in conn.execute(query).mappings()]


def request(conn: sa.Connection, request_id: str) -> Request:
    """Return a request.

    Raises:
        InvalidInput: if there is none of that id.
    """
    row = conn.execute(sa.select(tables.request).where(tables.request.c.id == request_id)).mappings().one_or_none()
    if row is None:
        raise InvalidInput(f"this ledger has no request {request_id!r}; dp-synth ledger requests lists them.")
    return Request.from_record(dict(row))


def request_open(conn: sa.Connection, terms_hash: str) -> Request | None:
    """Return the request with these terms that was not used yet, waiting or approved, if there is one."""
    query = sa.select(tables.request).where(
        (tables.request.c.terms_hash == terms_hash) & (tables.request.c.state != USED)
    )
    row = conn.execute(query).mappings().one_or_none()
    return Request.from_record(dict(row)) if row else None


def put_request(conn: sa.Connection, changed: Request, *, new: bool = False) -> None:
    """Write a request: new, approved, or used by an act, which changes nothing of its approval."""
    record = changed.to_record()
    if new:
        conn.execute(sa.insert(tables.request).values(record))
        return
    fields = ("state", "used_at") if changed.state == USED else ("state", "approved_by", "approved_why", "approved_at")
    row = sa.update(tables.request).where(tables.request.c.id == changed.id)
    conn.execute(row.values({name: record[name] for name in fields}))


def release_and_entries(conn: sa.Connection, release_id: str) -> tuple[Release, list[Entry]]:
    """Return a release with all that was started in it."""
    return release(conn, release_id), entries(conn, release_id=release_id)


def charges(conn: sa.Connection, release_id: str) -> list[Charge]:
    """Return a release with all that was started in it, and then the same of its mirror, if it has one.

    Raises:
        InvalidInput: if there is no release of that id, or it is itself a mirror, which nobody decides on by itself.
    """
    own = release_and_entries(conn, release_id)
    if own[0].mirrors is not None:
        raise InvalidInput(
            f"{release_id!r} is what umbrella {own[0].account!r} is charged for release {own[0].mirrors}, and ends with it. "
            f"Name that release."
        )
    mirrored = mirror(conn, release_id)
    return [own] if mirrored is None else [own, (mirrored, entries(conn, release_id=mirrored.id))]


def entry(conn: sa.Connection, entry_id: str) -> Entry:
    """Return an entry.

    Raises:
        InvalidInput: if there is none of that id.
    """
    row = conn.execute(sa.select(tables.entry).where(tables.entry.c.id == entry_id)).mappings().one_or_none()
    if row is None:
        raise InvalidInput(f"this ledger has no entry {entry_id!r}; start the mechanism first.")
    return Entry.from_record(dict(row))


def entry_charges(conn: sa.Connection, entry_id: str) -> list[Entry]:
    """Return an entry, and then the one of its release's mirror that charges an umbrella for it, if there is one.

    Raises:
        InvalidInput: if there is no entry of that id, or it is itself a mirror's.
    """
    own = entry(conn, entry_id)
    mirrored = (entries for _, entries in charges(conn, own.release_id)[1:])
    return [own, *(e for entries in mirrored for e in entries if e.mechanism == own.mechanism)]


def entries(
    conn: sa.Connection,
    *,
    account: str | None = None,
    release_id: str | None = None,
    ids: Iterable[str] | None = None,
) -> list[Entry]:
    """Return the entries in the order in which they were started."""
    query = sa.select(tables.entry).order_by(tables.entry.c.started_at, tables.entry.c.position)
    if account is not None:
        query = query.where(tables.entry.c.account == account)
    if release_id is not None:
        query = query.where(tables.entry.c.release_id == release_id)
    if ids is not None:
        query = query.where(tables.entry.c.id.in_(ids))
    return [Entry.from_record(dict(r)) for r in conn.execute(query).mappings()]


def put_entry(conn: sa.Connection, changed: Entry, *, new: bool = False) -> None:
    """Write an entry, new or changed."""
    record = changed.to_record()
    if new:
        conn.execute(sa.insert(tables.entry).values(record))
    else:
        conn.execute(sa.update(tables.entry).where(tables.entry.c.id == changed.id).values(record))
