"""The governance page shows every account, every released table, where each came from, and what to look into.

It is for whoever answers for a privacy budget. It holds declared facts, charges, and the names of people and runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.burndown import day, moment, when
from dp_synth_pipeline.reporting.statement_page import account
from dp_synth_pipeline.reporting.templates import render

SHOWN = 20
"""How many refusals and releases of a source a page shows before the rest is folded away."""


def render_governance(facts: Mapping[str, Any]) -> str:
    """Return the governance facts as one HTML page without scripts that makes no request to any network.

    Args:
        facts: what `orchestration.governance.facts` returns; `accounts` and `tables` are required.
    """
    accounts = [account(a, facts.get("generated_at")) for a in facts["accounts"]]
    tables = [_table(t) for t in facts["tables"]]
    return render(
        "governance.html.j2",
        generated=moment(facts.get("generated_at")),
        head=facts.get("head") or "",
        verified=facts.get("verified"),
        lineage=facts.get("lineage", False),
        event_log=facts.get("event_log", False),
        accounts=accounts,
        tables=tables,
        sources=[_source(s) for s in facts.get("sources") or []],
        refused=[{**r, "at": moment(r.get("at"))} for r in facts.get("refused") or []],
        raises=[_raise(r) for r in reversed(facts.get("raises") or [])],
        requests=[_request(r) for r in reversed(facts.get("requests") or [])],
        since=facts.get("since"),
        decided=[{**act, "at": moment(act["at"])} for act in facts.get("decided") or []],
        by_hand=[_by_hand(r) for r in reversed(facts.get("by_hand") or [])],
        concerns=concerns(facts),
        shown=SHOWN,
    )


def concerns(facts: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a reviewer should look into, errors first: `where` (an account, a table or a source) and `what`."""
    accounts = [account(a, facts.get("generated_at")) for a in facts["accounts"]]
    return sorted(_concerns(facts, accounts), key=lambda c: c["tone"] != "fail")


def _table(t: Mapping[str, Any]) -> dict[str, Any]:
    card = t.get("card")
    view = {**t, "card": card, "level": "", "tone": "off", "cost": "", "made": ""}
    if t["guarantee"] == "none":
        return view | {"level": "no guarantee", "tone": "fail", "cost": "no guarantee", "made": _creation_date(card)}
    if card is None or card.get("epsilon") is None:
        return view | {"level": "no card"}
    cost = f"ε {wording.at_most(card['epsilon'])}, δ {wording.scientific(card['delta'])}"
    return view | {"level": f"ε {wording.at_most(card['epsilon'])}", "cost": cost, "made": _creation_date(card)}


def _creation_date(card: Mapping[str, Any] | None) -> str:
    return "" if card is None else moment(card.get("created"))


def _source(s: Mapping[str, Any]) -> dict[str, Any]:
    return {**s, "releases": [_release(r) for r in reversed(s["releases"])]}


def _release(r: Mapping[str, Any]) -> dict[str, Any]:
    end = when(r.get("ended_at"))
    epsilon = r.get("final_epsilon")
    cost = "—" if epsilon is None else f"ε {wording.at_most(epsilon)} added"
    return {**r, "day": day(end) if end else "—", "cost": cost, "account": r.get("account") or "—"}


def _raise(r: Mapping[str, Any]) -> dict[str, Any]:
    (old_limit, _), (new_limit, delta) = r["from"], r["to"]
    return {
        **r,
        "at": moment(r.get("at")),
        "limits": f"ε {old_limit:g} to {new_limit:g}, δ {wording.scientific(delta)}",
    }


def _request(r: Mapping[str, Any]) -> dict[str, Any]:
    approved = (
        f"{r['approved_by']} on {moment(r['approved_at'])}: {r['approved_why']}" if r["approved_by"] else "nobody yet"
    )
    return {**r, "at": moment(r["asked_at"]), "approved": approved}


def _by_hand(r: Mapping[str, Any]) -> dict[str, Any]:
    cost = f"ε {wording.at_most(r['final_epsilon'])}, δ {wording.scientific(r['final_delta'])}"
    return {**r, "at": moment(r.get("at")), "cost": cost}


def _concerns(facts: Mapping[str, Any], accounts: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield what a reviewer should look into."""
    if facts.get("verified") is False:
        yield _concern("fail", "The ledger does not verify", "stop all runs on it: dp-synth ledger verify")
    for t in facts["tables"]:
        for problem in t.get("card_problems") or []:
            yield _concern("fail", t["table"], f"its card does not agree with the ledger: {problem}")
        if t.get("reads_rows"):
            yield _concern("fail", t["table"], f"real rows are read outside its chain, by {', '.join(t['reads_rows'])}")
        if t["guarantee"] == "none":
            yield _concern("warn", t["table"], "released without a privacy guarantee, on a person's word")
        if (t.get("card") or {}).get("checks_failed"):
            yield _concern(
                "warn", t["table"], f"{wording.counted(t['card']['checks_failed'], 'check')} failed or warned"
            )
        if t.get("releases") and t.get("card") is None:
            yield _concern("warn", t["table"], "was released, and its card is not in this store")
    under = {a["name"]: a.get("under") or None for a in accounts}
    for s in facts.get("sources") or []:
        umbrellas = {under.get(name) for name in s["accounts"]}
        if len(s["accounts"]) > 1 and (len(umbrellas) > 1 or None in umbrellas):
            message = f"is charged to {', '.join(s['accounts'])}: whoever is in it is protected by their sum only"
            yield _concern("warn", s["name"], message)
        for match in s["same_content"]:
            if match["accounts"] and match["without_guarantee"]:
                message = f"the content of account {', '.join(match['accounts'])} was released without a guarantee, as "
                yield _concern("fail", s["name"], message + ", ".join(match["without_guarantee"]))
    for a in accounts:
        if a["state"]["tone"] in ("fail", "warn"):
            yield _concern(a["state"]["tone"], a["name"], f"account {a['state']['word']}: {a['used']} used")
        if a["forecast"] and a["forecast"]["refused"]:
            yield _concern("warn", a["name"], f"a scheduled refresh will be refused on {a['forecast']['refused']}")
        if waiting := [r for r in facts.get("requests") or [] if r["account"] == a["name"] and r["state"] == "waiting"]:
            yield _concern("warn", a["name"], f"{wording.counted(len(waiting), 'request')} waiting for a second person")
        if a["open"]:
            yield _concern(
                "warn", a["name"], f"{wording.counted(len(a['open']), 'open reservation')}, counted as spent"
            )


def _concern(tone: str, where: str, message: str) -> dict[str, str]:
    return {"tone": tone, "where": where, "what": message}
