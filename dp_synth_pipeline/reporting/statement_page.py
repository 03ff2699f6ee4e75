"""The privacy account statement says what each account promises, what was spent, by whom, and what is left.

It is for a privacy officer. It holds what the ledger holds and no more: declared facts, charges, and the names of people
and runs. No row of a source was looked at to write it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from dp_synth_pipeline.ledger import Share
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.burndown import day, layout, moment, when
from dp_synth_pipeline.reporting.templates import render

OPEN_STATES = ("reserved", "started")

SHOWN = 12
"""How many releases a page shows before the rest is folded away."""

LOW, NONE = 0.1, 0.001
"""Under the first share left, an account is called low; under the second, which would show as 0 %, exhausted."""

RULES = {
    "filter": "Each release is admitted only if its cost, added to everything charged before, stays within the limit, "
    "whatever earlier releases showed (a Rényi filter at {order}).",
    "plan": "Each release takes a share (ε, δ) of the limit, and the shares are summed.",
}

STATES = {"settled": "ok", "voided": "off", "reserved": "warn", "started": "warn"}


def render_statement(statement: Mapping[str, Any]) -> str:
    """Return the statement as one HTML page without scripts that makes no request to any network.

    Args:
        statement: JSON-ready facts of the ledger; `accounts` is required, and every other key may be missing. Epsilon is
            shown rounded up where it was spent and rounded down where it is left, so that what is shown still holds.
    """
    accounts = [account(a, statement.get("generated_at")) for a in statement["accounts"]]
    return render(
        "statement.html.j2",
        generated=moment(statement.get("generated_at")),
        head=statement.get("head") or "",
        verified=statement.get("verified"),
        accounts=accounts,
        shown=SHOWN,
        waiting=sum(len(a["open"]) for a in accounts),
        releases=sum(not r["mirrors"] for a in accounts for r in a["releases"]),
    )


def account(a: Mapping[str, Any], now: Any) -> dict[str, Any]:
    """Return one account as a page shows it: figures in words, shares, a burn-down, releases newest first."""
    epsilon: float | None = a.get("epsilon")
    delta: float | None = a.get("delta")
    unit, max_rows = a.get("unit") or "row", a.get("max_rows") or 1
    releases = sorted((_release(r) for r in a.get("releases") or []), key=lambda r: r["sort"], reverse=True)
    history = list(a.get("history") or [])
    cost = _shares(a)
    order = a.get("order")
    rule = RULES.get(a.get("rule") or "", "").format(order="order " + _as_chosen(order) if order else "one fixed order")
    relation = a.get("relation") or ADD_REMOVE
    view = {
        "name": a.get("name") or "unnamed",
        "unit": unit,
        "max_rows": max_rows,
        "relation": relation,
        "epsilon": _as_chosen(epsilon),
        "delta": _scientific(delta),
        "promise": _promise(epsilon, delta or 0.0, unit, max_rows, relation) if epsilon else "",
        "rule": rule,
        "opened": moment(a.get("opened_at")),
        "who": a.get("who") or "",
        "why": a.get("why") or "",
        **_used(a),
        "footnote": _as_epsilons(a),
        "cost": cost,
        "own_delta": _meter(a.get("delta_limit"), a.get("delta_spent"), 0),
        "chart": layout(history, a.get("forecast"), now),
        "forecast": _forecast(a.get("forecast")),
        "history": [_movement(h) for h in reversed(history)],
        "raises": [_movement(h) for h in history if str(h.get("what")).startswith("raise")],
        "releases": releases,
        "open": _open_reservations(releases, now),
        "under": a.get("under") or "",
        **_bounds(a),
        "members": [(name, _up(part)) for name, part in sorted((a.get("members") or {}).items())],
        "is_umbrella": bool(a.get("umbrella")),
        "counts": {state: sum(r["state"] == state for r in releases) for state in STATES},
    }
    return {**view, "state": _state(a, view)}


def _bounds(a: Mapping[str, Any]) -> dict[str, Any]:
    """Return the share of an account that one person decides alone, unless that is all of it, and each quota in words."""
    share = a.get("approve_above")
    alone = "" if share is None or share >= 1 else f"{100 * share:g} %"
    return {"alone": alone, "quotas": [wording.quota(q) for q in a.get("quotas") or []]}


def _used(a: Mapping[str, Any]) -> dict[str, str]:
    """Return how much of the account is used, and how often its last release fits again, in words."""
    used, more, last = a.get("used"), a.get("fits_more"), a.get("last_epsilon")
    return {
        "used": "—" if used is None else Share(used).percent,
        "aside": share_left(a["set_aside"]) if a.get("set_aside") else "",
        "fits": "—" if more is None else str(more),
        "like": "" if more is None or last is None else f"more like the last (ε {_as_chosen(last)})",
    }


def _as_epsilons(a: Mapping[str, Any]) -> str:
    """Return what the account's units convert to, and why that does not add up; nothing where nothing is spent."""
    if not a.get("epsilon_spent"):
        return ""
    sentence = (
        f"As epsilons: everything so far is at most ε {_at_most(a['epsilon_spent'])} at the account's δ, and one further "
        f"release could have at most ε {at_least(a.get('epsilon_left'))}."
    )
    return f"{sentence} {wording.NO_SUM}" if a.get("order") is not None else sentence


def _promise(epsilon: float, delta: float, unit: str, max_rows: int, relation: str) -> str:
    """Say what the limit promises for everything the account ever releases, taken together."""
    sentence = wording.meaning(epsilon, delta, unit, max_rows, "everything this account ever releases")
    if relation == ADD_REMOVE:
        return sentence
    return f"{sentence} (Neighbouring relation {relation}: read “in the source” as “in the source with these values”.)"


def _state(a: Mapping[str, Any], view: dict[str, Any]) -> dict[str, str]:
    """Return one word on the account, and its colour."""
    cost, own_delta = view["cost"], view["own_delta"]
    if a.get("used") is not None:
        if a["used"] >= 1:
            return {"word": "exhausted", "tone": "fail"}
        return {"word": "low", "tone": "warn"} if a["used"] > 1 - LOW else {"word": "open", "tone": "ok"}
    no_epsilon = a.get("epsilon_left") is not None and a["epsilon_left"] <= 0
    full = cost is not None and cost["left"] < NONE
    if no_epsilon or full or (a.get("rule") == "plan" and own_delta is not None and own_delta["left"] < NONE):
        return {"word": "exhausted", "tone": "fail"}
    if cost is not None and cost["left"] < LOW:
        return {"word": "low", "tone": "warn"}
    if cost is None and a.get("epsilon_left") is None:
        return {"word": "balance not given", "tone": "off"}
    return {"word": "open", "tone": "ok"}


def _shares(a: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is used, held and left as shares; of the cost alone where nobody computed the share of the account."""
    if a.get("used") is None:
        return _meter(a.get("cost_limit"), a.get("cost_spent"), a.get("cost_held"))
    held = min(a["used"], (a.get("cost_held") or 0) / a["cost_limit"])
    return _meter(1.0, a["used"] - held, held)


def _meter(limit: Any, spent: Any, held: Any) -> dict[str, Any] | None:
    """Return what is spent, held and left as shares of the limit, whatever unit the three are in."""
    if not limit or spent is None:
        return None
    spent_share, held_share = min(1.0, max(0.0, spent / limit)), max(0.0, (held or 0) / limit)
    held_share = min(held_share, 1 - spent_share)
    left_share = max(0.0, (limit - spent - (held or 0)) / limit)
    return {
        "spent": spent_share,
        "held": held_share,
        "left": left_share,
        "words": {k: _up(v) for k, v in (("spent", spent_share), ("held", held_share))},
    }


def _release(r: Mapping[str, Any]) -> dict[str, Any]:
    state = str(r.get("state") or "unknown")
    final, reserved_epsilon, still_open = r.get("final_epsilon"), r.get("epsilon"), state in OPEN_STATES
    at = when(r.get("reserved_at"))
    share = r.get("charged_share")
    return {
        "id": r.get("mirrors") or r.get("id") or "",
        "mirrors": r.get("mirrors") or "",
        "by_hand": (r.get("why") or "") if r.get("by_hand") else "",
        "table": r.get("table") or "unnamed",
        "state": state,
        "tone": STATES.get(state, "off"),
        "open": still_open,
        "voided": state == "voided",
        "epsilon": _at_most(reserved_epsilon if final is None else final),
        "delta": _scientific(r.get("delta") if r.get("final_delta") is None else r.get("final_delta")),
        "asked": f"ε {_as_chosen(reserved_epsilon)}, δ {_scientific(r.get('delta'))}"
        if reserved_epsilon is not None
        else "",
        "share": _up(share) if isinstance(share, (int, float)) else "",
        "who": r.get("who") or "",
        "reserved": moment(r.get("reserved_at")),
        "day": day(at) if at else "",
        "ended": moment(r.get("ended_at")),
        "run": r.get("run_id") or "",
        "code": r.get("code_version") or "",
        "entries": [_entry(e) for e in r.get("entries") or []],
        "at": at,
        "sort": at.timestamp() if at else -math.inf,
    }


def _entry(e: Mapping[str, Any]) -> dict[str, Any]:
    events = list(e.get("events") or [])
    paid_steps = sum(ev.get("steps") or 0 for ev in events if ev.get("kind") == "subsampled_gaussian")
    started_steps, share = e.get("steps_started"), e.get("cost_share")
    return {
        "id": e.get("id") or "",
        "mechanism": e.get("mechanism") or "",
        "state": e.get("state") or "",
        "share": _up(share) if isinstance(share, (int, float)) else "",
        "steps": f"{started_steps or 0:,} of {paid_steps:,} steps started" if paid_steps else "",
        "events": [
            {"words": _words(ev), "kind": ev.get("kind") or "event", "parameters": _parameters(ev)} for ev in events
        ],
    }


def _words(event: Mapping[str, Any]) -> str:
    try:
        return wording.mechanism(dict(event))
    except (TypeError, ValueError):  # a parameter of the mechanism is missing: its name is all there is to say
        return f"{event.get('kind') or 'An unnamed mechanism'}."


def _parameters(event: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in event.items() if k != "kind")


def _open_reservations(releases: list[dict[str, Any]], now: Any) -> list[dict[str, Any]]:
    """Return the open reservations, oldest first, each with how long it stands and the command that ends it."""
    reservations = []
    for i, r in reversed(list(enumerate(releases))):
        if r["open"] and not r["mirrors"]:
            entries = [e for e in r["entries"] if e["state"] not in ("settled", "voided")]
            commands = [f"dp-synth ledger settle {shlex.quote(e['id'])} --at-mark --why …" for e in entries]
            later = sum(1 for newer in releases[:i] if newer["sort"] > r["sort"])
            reservations.append({**r, "later": later, "age": _age(r["at"], when(now)), "commands": commands})
    return reservations


def _forecast(forecast: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not forecast or not forecast.get("dates"):
        return None
    refusal_date = when(forecast.get("first_refused"))
    return {
        "fits": forecast.get("fits") or 0,
        "planned": len(forecast["dates"]),
        "refused": day(refusal_date) if refusal_date else "",
    }


def _movement(h: Mapping[str, Any]) -> dict[str, str]:
    left_share = h.get("left_share")
    return {
        "at": moment(h.get("at")),
        "what": h.get("what") or "",
        "left": share_left(left_share) if isinstance(left_share, (int, float)) else "",
        "who": h.get("who") or "",
        "why": h.get("why") or "",
    }


def at_least(x: float | None, digits: int = 4) -> str:
    """Write what is left with few digits, rounded down, so that what is shown still fits.

    Example:
        >>> at_least(2.49999), at_least(0.0), at_least(None)
        ('2.499', '0', '—')
    """
    if x is None:
        return "—"
    if x <= 0 or not math.isfinite(x):
        return f"{max(x, 0.0):g}"
    digits = digits if x >= 0.001 else 3  # what a very small number is written with
    step = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    return _as_chosen(float(f"{math.floor(x / step + 1e-9) * step:.{digits}g}"))


def share_left(share: float) -> str:
    """Write a share that is left, rounded down to a tenth of a percent.

    Example:
        >>> share_left(0.99999), share_left(0.0)
        ('99.9 %', '0 %')
    """
    return f"{math.floor(1000 * max(share, 0.0) + 1e-9) / 10:g} %"


def _up(share: float) -> str:
    return f"{math.ceil(1000 * max(share, 0.0) - 1e-9) / 10:g} %"


def _at_most(x: float | None) -> str:
    return "—" if x is None else wording.at_most(x)


def _scientific(x: float | None) -> str:
    return "—" if x is None else wording.scientific(x)


def _as_chosen(x: Any) -> str:
    """Write a number a person chose as they chose it."""
    if x is None:
        return "—"
    if not isinstance(x, float):
        return str(x)
    return wording.scientific(x) if x and not 0.001 <= abs(x) < 1e6 else f"{x:.10g}"


def _age(at: Any, now: Any) -> str:
    if at is None or now is None or now < at:
        return ""
    hours = (now - at).total_seconds() / 3600
    if hours < 1:
        return "less than an hour"
    number, noun = (int(hours), "hour") if hours < 48 else (int(hours / 24), "day")
    return f"{number} {noun}{'' if number == 1 else 's'}"
