"""Turns the ledger's export into the statement page's balances as shares, burn-downs, and releases with entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dp_synth_pipeline.ledger.export import statement
from dp_synth_pipeline.ledger.journal import BY_HAND

DRAWN = {"opened": "opened", "raised": "raise", "planned": "plan declared", "settled": "release", "voided": "voided"}
DRAWN |= {BY_HAND: BY_HAND}
"""Journal actions that appear in the burn-down."""


def page(
    ledger: Any, account: str | None = None, forecasts: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the input of `statement_page.render_statement` for one account or all.

    Args:
        forecasts: for each account `dates` (ISO), `fits` and `first_refused`, if its schedules are known.
    """
    facts = statement(ledger, account)
    entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in facts["entries"]:
        entries[entry["release_id"]].append(entry)
    histories = _histories(facts["journal"])
    return {
        "generated_at": facts["generated_at"],
        "head": facts["head"],
        "verified": None,
        "accounts": [
            _account(a, histories[a["name"]], facts["releases"], entries, (forecasts or {}).get(a["name"]))
            for a in facts["accounts"]
        ],
    }


def _account(
    facts: dict[str, Any],
    history: list[dict[str, Any]],
    releases: list[dict[str, Any]],
    entries: dict[str, list[dict[str, Any]]],
    forecast: dict[str, Any] | None,
) -> dict[str, Any]:
    limit = facts["cost_limit"]
    return {
        **{k: v for k, v in facts.items() if k not in ("balance", "blocks", "plans")},
        **facts["balance"],
        "history": history,
        "forecast": forecast,
        "releases": [
            {
                **release,
                "charged_share": None if release["charged_cost"] is None else release["charged_cost"] / limit,
                "entries": [{**e, "cost_share": e["cost"] / limit} for e in entries[release["id"]]],
            }
            for release in releases
            if release["account"] == facts["name"]
        ],
    }


def _histories(journal: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Follow each account's balance through the journal, as shares of its limit at the time."""
    limits: dict[str, int] = {}
    spent_cost: dict[str, int] = defaultdict(int)
    release_costs: dict[str, int] = {}
    histories: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in journal:
        body, name = row["body"], row["account"]
        if body.get("account"):
            limits[name] = body["account"]["cost_limit"]
        if row["action"] == "planned":
            spent_cost[name] += body["plan"]["cost"]
        release = body.get("release")
        if release:
            cost = release["reserved_cost"] if release["charged_cost"] is None else release["charged_cost"]
            spent_cost[name] += cost - release_costs.get(release["id"], 0)
            release_costs[release["id"]] = cost
        if row["action"] in DRAWN and limits.get(name):
            event = DRAWN[row["action"]] + (f" of {release['table']}" if release and not release.get("by_hand") else "")
            why = (body.get("note") or {}).get("why") or (body.get("account") or {}).get("why") or ""
            left_share = max(0.0, 1 - spent_cost[name] / limits[name])
            histories[name].append(
                {"at": row["at"], "left_share": left_share, "what": event, "who": row["who"], "why": why}
            )
    return histories
