"""Which acts need a second person, and how an approval is used: once, for the terms that were seen, by the act itself.

An act that waits changes nothing but its request. Whether there is room for it is decided first, and again when it is done.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput
from dp_synth_pipeline.ledger import journal, quota, refusal, rows
from dp_synth_pipeline.ledger.entry import APPROVED, USED, WAITING, Account, Entry, Plan, Release, Request, folded
from dp_synth_pipeline.ledger.rows import Payers

TERMS: dict[type, tuple[str, ...]] = {
    Release: ("table", "epsilon", "delta", "own_delta", "code_version", "blocks"),
    Plan: ("name", "events", "mechanisms", "times", "takes", "epsilon", "delta", "cost", "cost_delta"),
    Account: ("epsilon", "delta", "approve_above"),
}
"""What of a record is approved: for an account, the terms that it would have."""


def terms(record: Release | Plan | Account, account: Account, entries: Sequence[Entry] = ()) -> str:
    """Return what an act would do, as canonical JSON; `entries` are those of a charge by hand."""
    told = {**record.defaults(), **record.to_record()}
    facts: dict[str, Any] = {name: told[name] for name in TERMS[type(record)]}
    facts |= {"unit": account.unit, "max_rows": account.max_rows}
    if isinstance(record, Account) and record.quotas:  # left out where there is none, as before there were any
        facts["quotas"] = [str(q) for q in record.quotas]
    if entries:
        facts["events"] = [e.to_record()["events"] for e in entries]
    return json.dumps(facts, sort_keys=True, allow_nan=False)


def hashed(account: str, act: str, terms: str, why: str) -> str:
    """Return the hash of all that a second person approves."""
    return hashlib.sha256(json.dumps([account, act, terms, why]).encode()).hexdigest()


def request(account: Account, act: str, terms: str, *, who: str, why: str) -> Request:
    """Return a request that waits, for an act of one person on an account."""
    return Request(
        id=uuid.uuid4().hex,
        account=account.name,
        act=act,
        terms=terms,
        terms_hash=hashed(account.name, act, terms, why),
        state=WAITING,
        share=0.0,
        who=who,
        why=why,
        asked_at=journal.now(),
    )


def share(account: Account, cost: int, delta: int) -> Fraction:
    """Return which part of an account a charge takes: of its cost or its delta, whichever is more."""
    parts = [(cost, account.cost_limit), (delta, account.delta_limit)]
    return max((Fraction(taken, limit) for taken, limit in parts if limit), default=Fraction(0))


def is_guarded(account: Account) -> bool:
    """Whether one person alone may not decide all there is to decide on an account."""
    return account.approve_above is not None and account.approve_above < 1


def is_above(account: Account, cost: int, delta: int) -> bool:
    """Whether a charge is above the share of an account that one person decides: exact, in integers."""
    return is_guarded(account) and share(account, cost, delta) > Fraction(account.approve_above or 0)


def loosens(before: Account, after: Account) -> bool:
    """Whether a change of an account's terms lets one person decide more than before: such a one needs a second, too."""
    alone = (1.0 if a.approve_above is None else a.approve_above for a in (before, after))
    raised = after.epsilon > before.epsilon or after.delta > before.delta
    return is_guarded(before) and (raised or next(alone) < next(alone) or quota.loosened(before.quotas, after.quotas))


@dataclass(frozen=True)
class Second:
    """An act that one person may not do alone, as it stands now.

    Attributes:
        request: what a second person is asked, or was.
        guard: the account, or the umbrella above it, whose terms want one.
    """

    request: Request
    guard: Account

    @property
    def waits(self) -> bool:
        """Whether nothing may be done yet."""
        return self.request.state != USED

    def refusal(self) -> ApprovalNeeded:
        """Return what is told of an act that waits."""
        return refusal.needs_approval(self.request, self.guard)


def guarded(payers: Payers, costs: Sequence[tuple[int, int]], draft: Request) -> Second | None:
    """Return a charge as it waits for a second person; None if one person decides it."""
    for (account, _), cost in zip(payers, costs, strict=True):
        if is_above(account, *cost):
            return Second(replace(draft, share=float(share(account, *cost))), account)
    return None


def asked(conn: sa.Connection, second: Second) -> Second:
    """Return what waits as the request that is on record for these terms and was not used, now put there if none was."""
    found = rows.request_open(conn, second.request.terms_hash)
    if found is None:
        rows.put_request(conn, second.request, new=True)
        journal.append(conn, journal.REQUESTED, second.request.account, request=second.request)
    return second if found is None else replace(second, request=found)


def taken(conn: sa.Connection, second: Second | None) -> Second | None:
    """Return an act with its request used now, if a second person approved it; else as it waits, on record once.

    The caller holds the write lock, and does in the same transaction what was approved, or nothing.
    """
    found = second and asked(conn, second)
    if found is None or found.request.state == WAITING:
        return found
    used = replace(found.request, state=USED, used_at=journal.now())
    rows.put_request(conn, used)
    return replace(found, request=used)


def approved(asked: Request, *, why: str, who: str) -> Request:
    """Return a request as a second person approves it.

    Raises:
        InvalidInput: if they are the one who asks, or it does not wait.
    """
    if asked.state != WAITING:
        by = f", by {asked.approved_by} on {(asked.approved_at or '')[:10]}"
        raise InvalidInput(f"request {asked.id[:12]} was {APPROVED} before{by}; an approval is for one act, once.")
    if same_person(asked.who, who):
        raise InvalidInput(
            f"request {asked.id[:12]} is {asked.who}'s own, and needs a second person. Have somebody else approve it, who "
            f"gives their name: --by NAME."
        )
    return replace(asked, state=APPROVED, approved_by=who, approved_why=why, approved_at=journal.now())


def same_person(one: str, other: str) -> bool:
    """Whether two names are one, however they are written."""
    return folded(one) == folded(other)
