"""What an auditor gets: accounts, releases, entries and the chain, as plain values that can be verified offline.

Every entry carries its events with all their parameters, so that its cost can be computed again with dp_accounting
alone; `docs/privacy-ledger.md` shows how. Nothing here is private: a ledger holds events, and of its sources
encrypted fingerprints.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from dp_synth_pipeline.ledger import journal, questions, quota, rows, tables
from dp_synth_pipeline.ledger.entry import SETTLED, Account, Entry, JournalRow, Plan, Release
from dp_synth_pipeline.ledger.ledger import Ledger
from dp_synth_pipeline.privacy.filter import ATTO, NANO

COLUMNS: tuple[str, ...] = (
    "started_at", "who", "account", "run_id", "code_version", "table", "release", "release_state", "mechanism",
    "parameters", "steps_paid", "steps_started", "unit_of_cost", "cost", "own_delta", "release_epsilon",
    "release_delta", "left_after",
)  # fmt: skip
"""The columns of `to_csv`, one row for an entry; `left_after` is what its account had left once it was settled."""


def statement(ledger: Ledger, account: str | None = None) -> dict[str, Any]:
    """Return all there is to say about one account, or about all, as JSON-ready values read at one moment.

    Raises:
        UnknownAccount: if there is no such account.
    """
    with ledger._store.read() as conn:
        names = [a.name for a, _ in rows.accounts(conn)] if account is None else [rows.account(conn, account)[0].name]
        chain = journal.rows(conn, account)
        return {
            "generated_at": journal.now(),
            "head": conn.execute(sa.select(tables.store.c.head)).scalar_one(),
            "units": {"cost": 1 / NANO, "delta": 1 / ATTO},
            "accounts": [_account(conn, name) for name in names],
            "releases": [_release(r) for r in rows.releases(conn, account)],
            "entries": _entries(rows.entries(conn, account=account), chain),
            "requests": [r.to_record() for r in rows.requests(conn, account)],
            "journal": [{**r.to_record(), "body": r.facts} for r in chain],
        }


def to_json(ledger: Ledger, account: str | None = None) -> str:
    """Return the statement as JSON text."""
    return json.dumps(statement(ledger, account), indent=2, allow_nan=False)


def to_csv(ledger: Ledger, account: str | None = None) -> str:
    """Return one row for every entry: who, when, which run and code, what ran, what it cost, what was left."""
    facts = statement(ledger, account)
    releases = {r["id"]: r for r in facts["releases"]}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_line(e, releases[e["release_id"]]) for e in facts["entries"])
    return text.getvalue()


def _account(conn: sa.Connection, name: str) -> dict[str, Any]:
    opened = rows.account(conn, name)[0]
    return {
        **opened.to_record(),
        "quotas": [use.facts for use in quota.uses(opened, rows.taken(conn, name))],
        "members": questions.taken(conn, name),
        "balance": _balance(conn, opened),
        "blocks": {block: _balance(conn, opened, block) for block in rows.blocks(conn, name)},
        "plans": [_plan(p) for p in rows.plans(conn, name)],
    }


def _balance(conn: sa.Connection, account: Account, block: str | None = None) -> dict[str, Any]:
    standing, used = questions.standing(conn, account.name, block)
    return {k: v for k, v in asdict(standing).items() if k not in ("account", "rule", "order")} | {
        "cost_left": standing.cost_left,
        "delta_left": account.delta_limit - standing.delta_spent - standing.delta_held,
        "used": used.used,
        "set_aside": used.set_aside,
        "fits_more": used.more,
        "last_epsilon": None if used.last is None else used.last.epsilon,
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        **plan.to_record(),
        "events": [e.to_dict() for e in plan.events],
        "mechanisms": list(plan.mechanisms),
        "left": plan.times - plan.used,
    }


def _release(release: Release) -> dict[str, Any]:
    return {**release.to_record(), "blocks": list(release.blocks)}


def _entries(entries: Sequence[Entry], chain: Sequence[JournalRow]) -> list[dict[str, Any]]:
    remaining = left_after(chain)
    return [
        {
            **e.to_record(),
            "events": [event.to_dict() for event in e.events],
            "planned": [event.to_dict() for event in e.planned],
            "upon": None if e.upon is None else list(e.upon),
            "dp_events": [repr(event.to_dp_event()) for event in e.events],
            "steps_paid": e.steps_paid,
            "left_after": remaining.get(e.id) if e.state == SETTLED else None,
        }
        for e in entries
    ]


def left_after(chain: Sequence[JournalRow]) -> dict[str, float | None]:
    """Return, for every entry, the cost its account had left after the last row that names it.

    None for an account with blocks, which has one balance for each of them.
    """
    limits: dict[str, int] = {}
    split: set[str] = set()
    taken: dict[str, int] = defaultdict(int)
    by_release: dict[str, int] = {}
    remaining: dict[str, float | None] = {}
    for row in chain:
        facts, name = row.facts, row.account
        if facts["account"]:
            limits[name] = facts["account"]["cost_limit"]
            split |= {name} if facts["account"].get("unit_in_one_block") else set()
        if row.action == "planned":
            taken[name] += facts["plan"]["cost"]
        if release := facts["release"]:
            now = release["reserved_cost"] if release["charged_cost"] is None else release["charged_cost"]
            taken[name] += now - by_release.get(release["id"], 0)
            by_release[release["id"]] = now
        for entry in facts["entries"]:
            remaining[entry["id"]] = None if name in split else (limits[name] - taken[name]) / NANO
    return remaining


def _line(entry: dict[str, Any], release: dict[str, Any]) -> dict[str, Any]:
    final = release["final_epsilon"] is not None
    return {
        "started_at": entry["started_at"],
        "who": release["who"],
        "account": entry["account"],
        "run_id": release["run_id"],
        "code_version": release["code_version"],
        "table": release["table"],
        "release": release["id"],
        "release_state": release["state"],
        "mechanism": entry["mechanism"],
        "parameters": json.dumps(entry["events"], sort_keys=True),
        "steps_paid": entry["steps_paid"],
        "steps_started": entry["steps_started"],
        "unit_of_cost": "epsilon" if release["order"] is None else f"Rényi divergence at order {release['order']:g}",
        "cost": entry["cost"] / NANO,
        "own_delta": entry["delta"] / ATTO,
        "release_epsilon": release["final_epsilon"] if final else release["epsilon"],
        "release_delta": release["final_delta"] if final else release["delta"],
        "left_after": entry["left_after"],
    }
