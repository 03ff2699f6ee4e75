"""Collects for a governance review, JSON-ready, accounts, released tables, their sources and what depends on what.

It holds declared facts, charges, names of people and runs, and what was released. No row of a source is read for it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.ledger.entry import APPROVED, SETTLED, Request
from dp_synth_pipeline.ledger.journal import AMENDED, BY_HAND, PLANNED, RAISED, REQUESTED
from dp_synth_pipeline.orchestration import accounts, forecasts
from dp_synth_pipeline.orchestration import lineage as lineages
from dp_synth_pipeline.orchestration.lineage import Lineage
from dp_synth_pipeline.reporting import card_verification, statements, wording
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json
from dp_synth_pipeline.reporting.governance_page import concerns
from dp_synth_pipeline.synthesis import no_protection, retention
from dp_synth_pipeline.synthesis.protection import Record, Unprotected
from dp_synth_pipeline.synthesis.settings import SUFFIX
from dp_synth_pipeline.synthesis.store import Store

FORMAT = "dp-synth/governance/1"

MOST_RUNS = 1000
"""How many runs that did not succeed, newest first, are looked through for refusals."""

REFUSALS = {BudgetExceeded.__name__, ApprovalNeeded.__name__}
"""Errors by which a ledger refuses a run, or has it wait."""

ACTS = {
    "opened": "opened", RAISED: "raised", AMENDED: "amended", PLANNED: "plan declared", SETTLED: "charged", BY_HAND: BY_HAND,
    REQUESTED: "asked", APPROVED: "approved", "adopted": "adopted",
}  # fmt: skip
"""The rows of the journal that decide something, and what a page calls them."""

RUN = ("id", "table", "account", "state", "final_epsilon", "final_delta", "run_id", "code_version", "ended_at", "who")
"""What is said of each release of a source."""


def facts(
    ledger: Ledger,
    store: Store,
    definitions: dg.Definitions | None = None,
    instance: dg.DagsterInstance | None = None,
    days: int = 365,
    since: date | None = None,
) -> dict[str, Any]:
    """Return everything that the governance page shows.

    Args:
        definitions: the project, for schedules, names of sources and what depends on what; less is said without it.
        instance: whose event log remembers refusals; a refusal leaves no trace in the ledger.
        days: how far ahead a forecast looks.
        since: a day, from which on all that was decided is told one by one.
    """
    refused = [] if instance is None else list(refusals(instance))
    graph = lineages.read(definitions)
    ahead = {} if definitions is None else forecast(ledger, definitions, days)
    statement = statements.page(ledger, forecasts=ahead)
    tables = [_table(name, ledger, store, graph) for name in sorted({*graph.tables, *_released_tables(ledger, store)})]
    return {
        "format": FORMAT,
        "generated_at": statement["generated_at"],
        "head": statement["head"],
        "verified": _verifies(ledger),
        "lineage": definitions is not None,
        "event_log": instance is not None,
        "accounts": statement["accounts"],
        "tables": tables,
        "sources": sources(tables, ledger, store),
        "raises": raises(ledger),
        "by_hand": by_hand(ledger),
        "refused": refused,
        "requests": requests(ledger),
        "since": None if since is None else since.isoformat(),
        "decided": [] if since is None else decided(ledger, refused, since),
    }


def forecast(ledger: Ledger, definitions: dg.Definitions, days: int) -> dict[str, dict[str, Any]]:
    """Return for each account that is charged by schedules what these are, the dates of refreshes, and how many fit."""
    accounts_by_name, until = {a.name: a for a in ledger.accounts()}, datetime.now(UTC) + timedelta(days=days)
    schedules, by_account = forecasts.scheduled(definitions, ledger=ledger), {}
    umbrellas = {a.under: [] for name in schedules if (a := accounts_by_name.get(name)) is not None and a.under}
    for name in (*schedules, *umbrellas):
        if name in accounts_by_name:
            outcome = forecasts.everything(ledger, name, schedules, until)
            first_refused = outcome.first_refused.at.isoformat() if outcome.first_refused else None
            by_account[name] = {
                "dates": [d.at.isoformat() for d in outcome.dues],
                "fits": sum(outcome.fits),
                "first_refused": first_refused,
                "schedules": [
                    {"table": s.table, "cron": s.cron, "asks": s.asks} for s in schedules.get(name, ()) if s.table
                ],
            }
    return by_account


def of_account(review: dict[str, Any], ledger: Ledger, store: Store, name: str) -> dict[str, Any]:
    """Return what a review says of one account, or of an umbrella and its members, with the newest card of each table.

    Args:
        review: what `facts` returned.

    Raises:
        UnknownAccount: if there is no such account.
    """
    names = [ledger.account(name).name, *(member.name for member in ledger.members(name))]
    releases = [r for r in ledger.releases() if r.account in names]
    read = {r.table.removesuffix(SUFFIX) for r in releases if not r.by_hand}
    tables = [t for t in review["tables"] if t["table"] in read or t["account"] in names]
    sources = [s for s in review["sources"] if set(s["accounts"]) & set(names)]
    given_away = {t["table"] for t in review["tables"] if t["guarantee"] == "none" and _shares(t["table"], sources)}
    known = {*names, *(t["table"] for t in tables), *(s["name"] for s in sources), *given_away}
    told = ("account", "table", "state", "who", "purpose", "reserved_at", "final_epsilon", "final_delta", "by_hand")
    accounts = {a["name"]: a for a in review["accounts"]}
    return {
        **{k: review[k] for k in ("generated_at", "head", "verified", "lineage", "event_log")},
        "account": name,
        "accounts": [accounts[n] for n in names],
        "tables": [{**t, "card": _whole_card(t, names), "kept": _kept(store, t["table"])} for t in tables],
        "sources": sources,
        "without_guarantee": sorted(given_away),
        "releases": [{**{k: getattr(r, k) for k in told}, "released": r.released} for r in releases],
        **{k: [r for r in review[k] if r["account"] in names] for k in ("raises", "by_hand", "requests")},
        "refused": [r for r in review["refused"] if r["table"] in known],
        "concerns": [c for c in concerns(review) if c["where"] in known],
    }


def _shares(table: str, sources: list[dict[str, Any]]) -> bool:
    """Say whether a table was made of one of some sources, or of the very same content."""
    return any(table in s["tables"] or any(table in m["tables"] for m in s["same_content"]) for s in sources)


def _whole_card(table: dict[str, Any], accounts: list[str]) -> dict[str, Any] | None:
    """Return the newest card of a table, as its file has it, if one of these accounts paid for that release."""
    card = None if table["card"] is None else _card(card_verification.read(Path(table["card"]["path"])))
    return None if card is None or card.facts.account not in accounts else card.to_dict()


def _kept(store: Store, table: str) -> list[dict[str, str]] | None:
    """Return which releases' real rows lie in a store, and until when; None if its folder may not be looked into."""
    try:
        return retention.kept(store, table)
    except OSError:
        return None


def raises(ledger: Ledger) -> list[dict[str, Any]]:
    """Return every raise of a limit, oldest first: when, by whom, why, from what to what."""
    limits: dict[str, tuple[float, float]] = {}
    limit_raises = []
    for row in ledger.history():
        account = row.facts["account"]
        if account is None:
            continue
        limit = (account["epsilon"], account["delta"])
        if row.action == "raised":
            note = row.facts.get("note") or {}
            previous = limits[row.account]
            who = {"account": row.account, "at": row.at, "who": note.get("who", row.who), "why": note.get("why", "")}
            limit_raises.append({**who, "from": list(previous), "to": list(limit)})
        limits[row.account] = limit
    return limit_raises


def requests(ledger: Ledger) -> list[dict[str, Any]]:
    """Return what a second person was asked for, oldest first: in words, who approved it, and whether it was done."""
    return [{**r.to_record(), "terms": r.facts, "in_words": wording.request(r)} for r in ledger.requests(used=True)]


def decided(ledger: Ledger, refused: list[dict[str, Any]], since: date) -> list[dict[str, Any]]:
    """Return what was charged, refused, asked, approved, raised or declared since a day (UTC), oldest first.

    Args:
        refused: as `refusals` yields them; a refusal leaves no trace in the ledger.
    """
    begin, acts, limits = since.isoformat(), [], {}
    for row in ledger.history():
        body = row.facts
        before = limits.get(row.account)
        if body["account"]:
            limits[row.account] = body["account"]
        what = _told(row.action, body, before)
        if what and row.at >= begin:
            who = (body.get("note") or {}).get("who") or row.who
            acts.append({"at": row.at, "act": ACTS[row.action], "account": row.account, "who": who, "what": what})
    acts += [
        {"at": r["at"], "act": "refused", "account": "", "who": r["run_id"], "what": f"{r['table']}: {r['why']}"}
        for r in refused
        if r["at"] >= begin
    ]
    return sorted(acts, key=lambda act: act["at"])


def _told(action: str, body: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Return in words what a row of the journal decided; nothing for what only notes how a release goes on."""
    why = (body.get("note") or {}).get("why", "")
    record = body["release"] or body.get("plan") or body["account"] or {}
    if action not in ACTS or record.get("mirrors"):
        return ""
    if action in (SETTLED, BY_HAND):
        ended = f", {record['why']}" if record["why"] else ""
        return f"{record['table']}: ε {record['final_epsilon']:.4g}, δ {record['final_delta']:.3g}{ended}"
    if action in (REQUESTED, APPROVED):
        asked = Request.from_record(body["request"])
        return wording.request(asked) + (f" Because: {asked.approved_why}" if asked.approved_by else "")
    if action == PLANNED:
        return f"plan {record['name']}, {record['times']} times, ε {record['epsilon']:.4g}: {why}"
    if action == RAISED and before:
        return f"ε {before['epsilon']:g} to {record['epsilon']:g}, δ {before['delta']:g} to {record['delta']:g}: {why}"
    alone = record.get("approve_above")
    terms = f"ε {record['epsilon']:g}, δ {record['delta']:g}" if record else ""
    share = "" if alone is None else f", one person decides {100 * alone:g} %"
    quotas = "".join(f", quota {text}" for text in json.loads(record.get("quotas", "[]")))
    return f"{terms}{share}{quotas}: {why or record.get('why') or 'no reason given'}"


def by_hand(ledger: Ledger) -> list[dict[str, Any]]:
    """Return every charge that a person entered for another tool, oldest first: when, by whom, why, of which account."""
    told = ("account", "who", "why", "final_epsilon", "final_delta")
    return [{"at": r.reserved_at, **{n: getattr(r, n) for n in told}} for r in ledger.releases() if r.by_hand]


def refusals(instance: dg.DagsterInstance) -> Iterator[dict[str, Any]]:
    """Yield what a ledger refused, from Dagster's event log: at ticks before any run, then runs, each newest first.

    Their texts are our own, and hold budgets and declared names only. A failure of any other kind is left aside. A run
    that was refused ends as canceled; under earlier versions it ended as failed.
    """
    for refusal in accounts.refusals(instance):
        if not refusal.run_id:
            yield {"run_id": "", "at": refusal.at, "table": refusal.table, "why": refusal.why}
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    for run in instance.get_run_records(ended, limit=MOST_RUNS):
        for event in instance.all_logs(run.dagster_run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
            failure = event.get_dagster_event().step_failure_data.user_failure_data
            error = ((failure.metadata if failure else None) or {}).get("error")
            if failure is not None and error is not None and error.value in REFUSALS:
                yield {
                    "run_id": run.dagster_run.run_id,
                    "at": datetime.fromtimestamp(event.timestamp, UTC).isoformat(timespec="seconds"),
                    "table": (event.step_key or "").partition("__")[0],
                    "why": failure.description or "",
                }


def sources(tables: list[dict[str, Any]], ledger: Ledger, store: Store) -> list[dict[str, Any]]:
    """Return each person-level source with every release that depends on it, and whose contents were the same.

    Only here is it said that two contents are the same, since it is said exactly: to whoever may read ledger, key and
    store, and never to a run.
    """
    records = [r for r in (*ledger.releases(), *no_protection.releases(store)) if r.state != "voided"]
    by_id = {r.id: r for r in records}
    contents = [[by_id[i] for i in ids] for ids in ledger.same_content({r.id: r.fingerprint for r in records})]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for table in tables:
        groups[table["source"] or _nameless(table["table"], contents)].append(table)
    return [_source(name, groups[name], contents) for name in sorted(groups)]


def dependent(review: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the releases that depend on a source, named by a part of its name or the start of a release that read it.

    Raises:
        InvalidInput: if no source has that name or was read by such a release.
    """
    releases = {
        r["id"]: r
        for facts in review["sources"]
        if source in facts["name"] or (len(source) >= 8 and any(r["id"].startswith(source) for r in facts["releases"]))
        for r in facts["releases"]
    }
    if not releases:
        names = ", ".join(s["name"] for s in review["sources"]) or "none"
        raise InvalidInput(f"nothing was released from a source {source!r}; known sources: {names}.")
    return list(releases.values())


def _nameless(table: str, contents: list[list[Record]]) -> str:
    """Return what to call the source of a table that no project names: by the first table with the same content."""
    return f"source of {min((t for names in map(_tables, contents) if table in names for t in names), default=table)}"


def _tables(records: Iterable[Record]) -> set[str]:
    return {r.table.removesuffix(SUFFIX) for r in records}


def _source(name: str, tables: list[dict[str, Any]], contents: list[list[Record]]) -> dict[str, Any]:
    # The same content under another name is the same data set, whatever it is called.
    names = {t["table"] for t in tables}
    own_contents = [content for content in contents if _tables(content) & names]
    records = [r for content in own_contents for r in content]
    return {
        "name": name,
        "tables": sorted(names),
        "accounts": sorted(_accounts(records) | {t["account"] for t in tables if t["account"]}),
        "releases": [_release(r) for r in sorted(records, key=lambda r: r.ended_at or "9")],
        "same_content": [told for content in own_contents if (told := _matches(content)) is not None],
    }


def _matches(content: list[Record]) -> dict[str, list[str]] | None:
    """Return who released one content; None if it was one account, or one table without a guarantee, alone."""
    accounts = sorted(_accounts(content))
    given_away = sorted(_tables(r for r in content if isinstance(r, Unprotected)))
    if len(accounts) + len(given_away) < 2:
        return None
    tables = sorted(_tables(content))
    return {
        "accounts": accounts,
        "without_guarantee": given_away,
        "tables": tables,
        "releases": [r.id for r in content],
    }


def _accounts(records: Iterable[Record]) -> set[str]:
    return {r.account for r in records if isinstance(r, Release)}


def _release(record: Record) -> dict[str, Any]:
    told = {name: getattr(record, name, None) for name in RUN}
    return told | ({"state": "without a guarantee"} if isinstance(record, Unprotected) else {})


def _table(name: str, ledger: Ledger, store: Store, graph: Lineage) -> dict[str, Any]:
    """Return one table: its newest card, where it came from, and what is made of it."""
    source, texts = graph.source(name), _cards(store, name)
    cards = sorted(((c, p) for p, t in texts.items() if (c := _card(t)) is not None), key=lambda c: c[0].facts.created)
    card = cards[-1][0] if cards else None
    paid_releases = [r for r in ledger.releases() if r.table == name and r.released]
    public = any(r.table == name for r in no_protection.releases(store))
    return {
        "table": name,
        "guarantee": "none" if public and not paid_releases else "dp",
        "source": source.get("source", ""),
        "account": source.get("account") or (paid_releases[-1].account if paid_releases else ""),
        "unit": source.get("unit") or (card.facts.unit if card else ""),
        "releases": [r.id for r in paid_releases],
        "card": _card_facts(*cards[-1]) if cards else None,
        "cards": [_card_facts(*card_and_path) for card_and_path in cards],
        "card_problems": [p for text in texts.values() for p in _problems(text, ledger)],
        "downstream": graph.downstream(name),
        "reads_rows": graph.reads_rows(name),
    }


def _cards(store: Store, name: str) -> dict[Path, str]:
    """Return the newest cards of a table by path: its one, or one for each partition that was refreshed."""
    folder = store.root / "releasable" / name
    places = [*folder.glob("release_card.json"), *sorted(folder.glob("partition=*/release_card.json"))]
    return {path: card_verification.read(path) for path in places}


def _card_facts(card: ReleaseCard, path: Path) -> dict[str, Any]:
    f = card.facts
    field_names = ("release", "created", "rows", "columns", "epsilon", "delta", "run_id", "code_version", "software")
    derived = card.to_dict()["derived"]
    return {
        **{k: getattr(f, k) for k in (*field_names, "ledger_head", "table_sha256", "description")},
        "entries": sorted({m["entry"] for m in f.mechanisms}),
        "checks_passed": derived["checks_passed"],
        "checks_failed": derived["checks_failed"],
        "path": str(path),
    }


def _card(text: str) -> ReleaseCard | None:
    try:
        return from_json(text)
    except InvalidInput:
        return None


def _problems(text: str, ledger: Ledger) -> list[str]:
    """Return the claims of a card that the ledger does not bear out; the chain itself is verified once, elsewhere."""
    try:
        return [f"{c.what}: {c.note}".removesuffix(": ") for c in card_verification.claims(text, ledger) if not c.holds]
    except InvalidInput as error:
        return [str(error)]


def _released_tables(ledger: Ledger, store: Store) -> set[str]:
    """Return the tables that were released, with a guarantee or without."""
    public = {r.table for r in no_protection.releases(store) if r.state == "settled"}
    return public | {r.table for r in ledger.releases() if r.released and not r.table.endswith(SUFFIX)}


def _verifies(ledger: Ledger) -> bool:
    try:
        ledger.verify()
    except LedgerCorrupted:
        return False
    return True
