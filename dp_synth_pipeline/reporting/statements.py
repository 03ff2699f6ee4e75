"""Turns the ledger's export into what the statement page shows: balances as shares, a burn-down, releases with entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dp_synth_pipeline.ledger.export import statement

DRAWN = {"opened": "opened", "raised": "raise", "planned": "plan declared", "settled": "release", "voided": "voided"}
"""Journal actions that appear in the burn-down."""


def page(
    ledger: Any, account: str | None = None, forecasts: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the input of `validation.statement.render_statement` for one account or all.

    Args:
        forecasts: for each account `dates` (ISO), `fits` and `first_refused`, if its schedules are known.
    """
    told = statement(ledger, account)
    entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in told["entries"]:
        entries[entry["release_id"]].append(entry)
    histories = _histories(told["journal"])
    return {
        "generated_at": told["generated_at"],
        "head": told["head"],
        "verified": None,
        "accounts": [
            _account(a, histories[a["name"]], told["releases"], entries, (forecasts or {}).get(a["name"]))
            for a in told["accounts"]
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
    taken: dict[str, int] = defaultdict(int)
    held: dict[str, int] = {}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in journal:
        body, name = row["body"], row["account"]
        if body.get("account"):
            limits[name] = body["account"]["cost_limit"]
        if row["action"] == "planned":
            taken[name] += body["plan"]["cost"]
        release = body.get("release")
        if release:
            now = release["reserved_cost"] if release["charged_cost"] is None else release["charged_cost"]
            taken[name] += now - held.get(release["id"], 0)
            held[release["id"]] = now
        if row["action"] in DRAWN and limits.get(name):
            what = DRAWN[row["action"]] + (f" of {release['table']}" if release else "")
            why = (body.get("note") or {}).get("why") or (body.get("account") or {}).get("why") or ""
            left = max(0.0, 1 - taken[name] / limits[name])
            found[name].append({"at": row["at"], "left_share": left, "what": what, "who": row["who"], "why": why})
    return found
