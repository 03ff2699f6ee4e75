"""What a person enters by hand for another tool: a release that is over at once, priced by the same accountant."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import costs, journal, refusal, rows
from dp_synth_pipeline.ledger.entry import SETTLED, Account, Entry, Release, Request
from dp_synth_pipeline.ledger.rows import Payers, Tally
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import check_delta
from dp_synth_pipeline.privacy.events import Event

MECHANISM = "by hand"
"""The mechanism of such a charge; its table is this in brackets, as no table's name is."""


def charges(
    payers: Payers, events: tuple[Event, ...], delta: float | None, note: Mapping[str, str]
) -> list[tuple[Release, Entry]]:
    """Return a charge as its account is charged for it, and then as its umbrella is.

    Raises:
        InvalidInput: if it has no finite price, or no delta that can be used.
    """
    account = payers[0][0]
    draft = _draft(account, events, _delta(account, delta), note)
    own = _charged(draft, events)
    if len(payers) == 1:
        return [own]
    umbrella = payers[1][0]
    names = {"id": uuid.uuid4().hex, "key": f"mirror of {draft.id}", "mirrors": draft.id}
    mirror = _charged(replace(draft, **names, account=umbrella.name, order=umbrella.order), events)
    marked = replace(own[0], umbrella_order=umbrella.order, umbrella_cost=mirror[0].reserved_cost)
    return [(marked, own[1]), mirror]


def put(
    conn: sa.Connection, charge: Release, entry: Entry, note: Mapping[str, str], approved: Request | None = None
) -> None:
    """Write a charge, what its account has left after it, and its row of the journal."""
    own = rows.account(conn, charge.account)[1]
    spent = Tally(cost_spent=charge.charged_cost or 0, delta_spent=charge.charged_delta or 0)
    rows.put_release(conn, charge, new=True)
    rows.put_entry(conn, entry, new=True)
    rows.put_tally(conn, charge.account, own.plus(spent))
    journal.append(
        conn, journal.BY_HAND, charge.account, release=charge, entries=[entry], note=dict(note), request=approved
    )


def _delta(account: Account, delta: float | None) -> float:
    if delta is None and account.order is None:
        raise InvalidInput(
            f"account {account.name!r} is under declared plans, where delta adds up as epsilon does: say which part of "
            f"{account.delta:g} this charge takes (--delta). {refusal.UNTOUCHED}"
        )
    delta = account.delta if delta is None else float(delta)
    check_delta(delta)
    if wrong := refusal.mismatch(account, account.unit, account.max_rows, delta):
        raise wrong
    return delta


def _draft(account: Account, events: tuple[Event, ...], delta: float, note: Mapping[str, str]) -> Release:
    epsilon, at = accountant.epsilon(events, delta, account.relation), journal.now()
    if not math.isfinite(epsilon):
        raise InvalidInput(
            f"these events have no finite epsilon at delta={delta:g}: their noise protects nobody, or their own deltas need "
            f"more than that. Look at the numbers again; noise is counted against what one {account.unit} moves. "
            f"{refusal.UNTOUCHED}"
        )
    return Release(
        id=uuid.uuid4().hex,
        account=account.name,
        key=uuid.uuid4().hex,
        table=f"({MECHANISM})",
        run_id="",
        code_version="",
        epsilon=epsilon,
        delta=delta,
        own_delta=accountant.own_delta(events, account.relation),
        order=account.order,
        reserved_cost=0,
        reserved_delta=0,
        state=SETTLED,
        who=note["who"],
        reserved_at=at,
        started_at=at,
        ended_at=at,
        final_epsilon=epsilon,
        final_delta=delta,
        why=note["why"],
        relation=account.relation,
        by_hand=True,
        purpose=note["why"],
    )


def _charged(draft: Release, events: tuple[Event, ...]) -> tuple[Release, Entry]:
    """Return a charge by hand with its one entry, priced in the units of its account."""
    cost, delta = costs.price(draft, events)
    entry = Entry(
        id=uuid.uuid4().hex,
        release_id=draft.id,
        account=draft.account,
        position=0,
        mechanism=MECHANISM,
        events=events,
        cost=cost,
        delta=delta,
        state=SETTLED,
        steps_started=sum(e.size for e in events if e.in_steps),
        key=None,
        started_at=draft.reserved_at,
        settled_at=draft.ended_at,
        upon=(),
    )
    cost, delta = costs.charge(draft, [entry], draft.epsilon, draft.delta)
    return replace(draft, reserved_cost=cost, reserved_delta=delta, charged_cost=cost, charged_delta=delta), entry
