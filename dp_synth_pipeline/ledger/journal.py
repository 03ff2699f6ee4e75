"""The append-only chain: every transition is a row that holds the hash of the row before it.

High-water marks are chained too: an operator will settle a crashed release down to its mark, so one that could be
edited unnoticed would be a way to overspend.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from dp_synth_pipeline.ledger import tables
from dp_synth_pipeline.ledger.entry import Account, Entry, JournalRow, Plan, Release, Request

GENESIS = "0" * 64
"""What the first row names as the row before it."""


BY_HAND = "charged by hand"
"""The action of a charge that a person entered for what another tool releases."""

PLANNED, RAISED, AMENDED, REQUESTED = "planned", "raised", "amended", "requested"
"""What else a person does to an account; 'requested' is what waits for a second person."""


def now() -> str:
    """Return the time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def who() -> str:
    """Return the operating system's name for whoever runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user need not have a name
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def link(row: JournalRow) -> str:
    """Return the hash that `row` must carry, over everything else in it."""
    record = {**row.to_record(), "hash": None}
    return hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()


class Changed(TypedDict, total=False):
    """What a decision changed, beside its account; and `note`, what a person gave for it: a reason and a name."""

    release: Release
    entries: Sequence[Entry]
    plan: Plan | None
    blocks: Sequence[str]
    note: dict[str, Any] | None
    request: Request | None


def append(
    conn: sa.Connection,
    action: str,
    account: Account | str,
    **changed: Unpack[Changed],
) -> None:
    """Add one row to the chain, holding the new state of all that the action changed.

    The caller's write transaction already holds the lock on the head, so two rows never claim one place.
    """
    head = conn.execute(sa.select(tables.store.c.length, tables.store.c.head)).one()
    entries, release, plan = changed.get("entries", ()), changed.get("release"), changed.get("plan")
    blocks, note, request = list(changed.get("blocks", ())), changed.get("note"), changed.get("request")
    body: dict[str, Any] = {"entries": [e.to_record() for e in entries]}
    body["release"] = release.to_record() if release else None
    body["account"] = account.to_record() if isinstance(account, Account) else None
    more = {
        "plan": plan and plan.to_record(),
        "blocks": blocks,
        "note": note,
        "request": request and request.to_record(),
    }
    body |= {k: v for k, v in more.items() if v}
    draft = JournalRow(
        seq=head.length + 1,
        at=now(),
        who=who(),
        action=action,
        account=account.name if isinstance(account, Account) else account,
        release_id=release.id if release else entries[0].release_id if entries else None,
        entry_id=entries[0].id if len(entries) == 1 else None,
        body=json.dumps(body, sort_keys=True, allow_nan=False),
        previous=head.head,
        hash="",
    )
    row = {**draft.to_record(), "hash": link(draft)}
    conn.execute(sa.insert(tables.journal).values(row))
    conn.execute(sa.update(tables.store).values(length=row["seq"], head=row["hash"]))


def rows(
    conn: sa.Connection, account: str | None = None, *, after: int | None = None, most: int | None = None
) -> list[JournalRow]:
    """Return the chain, oldest first: all of it, or one account's rows, or those after a row, or at most so many."""
    query = sa.select(tables.journal).order_by(tables.journal.c.seq).limit(most)
    if account is not None:
        query = query.where(tables.journal.c.account == account)
    if after is not None:
        query = query.where(tables.journal.c.seq > after)
    return [JournalRow.from_record(dict(r)) for r in conn.execute(query).mappings()]


@dataclass
class Told:
    """What the journal says there is: the last recorded accounts, releases, entries, plans and requests, and all blocks."""

    accounts: dict[str, Any] = field(default_factory=dict)
    releases: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, Any] = field(default_factory=dict)
    plans: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, Any] = field(default_factory=dict)
    blocks: set[tuple[str, str]] = field(default_factory=set)


def latest(chain: Iterable[JournalRow]) -> Told:
    """Replay the chain: return the last recorded state of everything, by name or id."""
    records = Told()
    for row in chain:
        facts = row.facts
        if facts["account"]:
            records.accounts[facts["account"]["name"]] = facts["account"]
        if facts["release"]:
            records.releases[facts["release"]["id"]] = facts["release"]
        if facts.get("plan"):
            records.plans[facts["plan"]["id"]] = facts["plan"]
        if facts.get("request"):
            records.requests[facts["request"]["id"]] = facts["request"]
        records.entries.update({e["id"]: e for e in facts["entries"]})
        records.blocks.update((row.account, name) for name in facts.get("blocks", ()))
    return records
