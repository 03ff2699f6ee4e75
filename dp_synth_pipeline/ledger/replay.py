"""Whether every step of the journal was one that a ledger takes: limits only rise, marks only grow, events stay.

The last state of a record is compared with its table in `verify`; here it is the way to that state that is tested.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_synth_pipeline.ledger import approval, journal, quota, request
from dp_synth_pipeline.ledger.entry import (
    APPROVED,
    RESERVED,
    SETTLED,
    STARTED,
    USED,
    VOIDED,
    WAITING,
    Account,
    Entry,
    JournalRow,
    Plan,
    Release,
    Request,
    load_events,
)
from dp_synth_pipeline.ledger.rows import Tally

Bad = Callable[[str, object, object], Any]

NEXT = {RESERVED: {RESERVED, STARTED, VOIDED}, STARTED: {STARTED, SETTLED}, SETTLED: {SETTLED}, VOIDED: {VOIDED}}
RAISED = {"epsilon", "delta", "cost_limit", "delta_limit"}
RELEASE_MAY = {
    "state", "started_at", "ended_at", "charged_cost", "charged_delta", "final_epsilon", "final_delta", "fingerprint",
    "why",
}  # fmt: skip
ENTRY_MAY = {"state", "steps_started", "settled_at"}
AT_MARK, OPENED, ADOPTED = "settled at mark", "opened", "adopted"


@dataclass(frozen=True)
class Terms:
    """The terms of the accounts as the journal tells them.

    Attributes:
        opened: each account as it was opened, the last time.
        under: by release, its account when it was reserved. Those that were voided may have had other terms.
    """

    opened: dict[str, dict[str, Any]] = field(default_factory=dict)
    under: dict[str, dict[str, Any]] = field(default_factory=dict)


def account(record: dict[str, Any]) -> Account:
    """Return an account as a row of the journal tells it, also one that was written before a field existed."""
    return Account.from_record({**Account.defaults(), **record})


def check(chain: Sequence[JournalRow], bad: Bad) -> Terms:
    """Return the terms that the journal tells; call `bad` on the first row that no ledger would write."""
    terms = Terms()
    split: set[str] = set()
    accounts: dict[str, dict[str, Any]] = {}
    releases: dict[str, dict[str, Any]] = {}
    entries: dict[str, dict[str, Any]] = {}
    plans: dict[str, dict[str, Any]] = {}
    for row in chain:
        facts, where = row.facts, f"journal row {row.seq}"
        if new := facts["account"]:
            new = {**Account.defaults(), **new}
            name = new["name"]
            _member(row, account(new), accounts, bad)
            if name in accounts and row.action == OPENED:
                held = any(r["account"] == name and r["state"] != VOIDED for r in releases.values())
                planned = any(p["account"] == name for p in plans.values())
                if held or planned or name in split or any(a["under"] == name for a in accounts.values()):
                    bad(where, "an account that is opened anew while nothing is charged to it or held", "one in use")
            else:
                _account(row, accounts.get(name), new, facts.get("note"), bad)
            terms.opened[name] = new if row.action == OPENED else terms.opened[name]
            accounts[name] = new
        split |= {row.account} if facts.get("blocks") else set()
        if release := facts["release"]:
            release = {**Release.defaults(), **release}
            old: dict[str, Any] = releases.get(release["id"]) or release
            _by_hand(row, release, release["id"] in releases, bad)
            if release["state"] not in NEXT.get(old["state"], ()) or not _same(old, release, RELEASE_MAY):
                bad(where, f"a step that a release takes from {old['state']}", f"another, to {release['state']}")
            terms.under.setdefault(release["id"], accounts[release["account"]])
            releases[release["id"]] = release
        if plan := facts.get("plan"):
            plans[plan["id"]] = _plan(row, plans.get(plan["id"]), {**Plan.defaults(), **plan}, bad)
        if row.action == ADOPTED:
            _signed(row, facts.get("note"), bad)
        for entry in facts["entries"]:
            _entry(row, entries.get(entry["id"]), entry, bad)
            entries[entry["id"]] = entry
    return terms


def _same(old: dict[str, Any], new: dict[str, Any], may_differ: set[str]) -> bool:
    return all(new.get(k) == v for k, v in old.items() if k not in may_differ)


def _plan(row: JournalRow, old: dict[str, Any] | None, new: dict[str, Any], bad: Bad) -> dict[str, Any]:
    """Return a plan as a row tells it; call `bad` if more than its uses changed."""
    if not (_same(old or new, new, {"used"}) and 0 <= new["used"] <= new["times"]):
        bad(f"journal row {row.seq}", "a plan as it was declared", "another")
    return new


def _by_hand(row: JournalRow, release: dict[str, Any], again: bool, bad: Bad) -> None:
    """Call `bad` on a charge by hand that was entered otherwise than once, over at once, with a reason and a name."""
    entered = row.action == journal.BY_HAND
    if entered != release["by_hand"] or (entered and again):
        bad(f"journal row {row.seq}", "a charge by hand that is entered once, and over at once", "another step")
    if entered:
        _signed(row, row.facts.get("note"), bad)


def _member(row: JournalRow, new: Account, known: dict[str, dict[str, Any]], bad: Bad) -> None:
    """Call `bad` on an account that is under what is no umbrella, or promises something else than its umbrella does."""
    above = known.get(new.under or "")
    if new.under is not None and (above is None or request.not_under(new, account(above))):
        bad(f"journal row {row.seq}", "a member of an umbrella that protects the same, and no less", "another")


def _account(row: JournalRow, old: dict[str, Any] | None, new: dict[str, Any], note: Any, bad: Bad) -> None:
    where = f"journal row {row.seq}"
    if old is None:
        if row.action != OPENED:
            bad(where, "an account that was opened before", f"one that was {row.action}")
        return
    may = {journal.RAISED: RAISED, journal.AMENDED: {"approve_above", "quotas"}}.get(row.action)
    if may is None or not _same(old, new, may) or any(new[k] < old[k] for k in RAISED):
        bad(where, "an account whose limits rise or that is amended, and nothing else", "another change")
    _signed(row, note, bad)


def _signed(row: JournalRow, note: Any, bad: Bad) -> None:
    if not (note and note.get("why") and note.get("who")):
        bad(f"journal row {row.seq}", "a reason and a name", "none")


def _entry(row: JournalRow, old: dict[str, Any] | None, new: dict[str, Any], bad: Bad) -> None:
    where = f"journal row {row.seq}"
    if old is None:
        return
    if new["steps_started"] < old["steps_started"]:
        bad(where, f"a mark at {old['steps_started']} or above", new["steps_started"])
    at_mark = row.action == AT_MARK
    if not _same(old, new, ENTRY_MAY | ({"events", "cost", "delta", "planned"} if at_mark else set())):
        bad(where, "an entry as it was started", "another")
    if at_mark and not _cut(old, new):
        bad(where, "events cut to the mark, and nothing else", "others")


def _cut(old: dict[str, Any], new: dict[str, Any]) -> bool:
    before, after = load_events(old["events"]), load_events(new["events"])
    if load_events(new.get("planned", old["events"])) != before:  # older versions did not keep it
        return False
    if not old["steps_started"]:
        return not after and len(before) == 1 and before[0].in_steps  # nothing but steps, of which none ran
    steps = sum(e.size for e in after if e.in_steps)
    return steps == old["steps_started"] and [e.with_steps(1) for e in before] == [e.with_steps(1) for e in after]


def check_approvals(chain: Sequence[JournalRow], bad: Bad) -> None:
    """Call `bad` on the first act that a second person should have approved and none did, or did with other terms."""
    accounts: dict[str, Account] = {}
    requests: dict[str, Request] = {}
    approved_acts: set[str] = set()
    for row in chain:
        facts, where, request = row.facts, f"journal row {row.seq}", None
        if told := facts.get("request"):
            request = Request.from_record({**Request.defaults(), **told})
            _request(row, requests.get(request.id), request, bad)
            requests[request.id] = request
        before = accounts.get(row.account)
        if facts["account"]:
            accounts[row.account] = account(facts["account"])
        record = _act(row)
        if record is None or before is None:
            continue
        named, own = (
            (record.name, True) if isinstance(record, Account) else (record.mirrors or record.id, not record.mirrors)
        )
        entries = [Entry.from_record(e) for e in facts["entries"]]
        if request is not None and own:
            if approval.terms(record, before, entries) != request.terms:
                bad(where, "what a second person approved", "something else")
            approved_acts.add(named)
        if _needs_second(record, before) and named not in approved_acts:
            bad(where, f"the approval of a second person, which account {before.name} wants", "none")
        if isinstance(record, Account):
            approved_acts.discard(named)


def _act(row: JournalRow) -> Release | Plan | Account | None:
    """Return what a row decides that may need a second person: a charge, or new terms of an account."""
    facts = row.facts
    if row.action in (RESERVED, journal.BY_HAND):
        return Release.from_record({**Release.defaults(), **facts["release"]})
    if row.action == journal.PLANNED:
        return Plan.from_record(facts["plan"])
    return account(facts["account"]) if facts["account"] else None


def _needs_second(record: Release | Plan | Account, before: Account) -> bool:
    if isinstance(record, Account):
        return approval.loosens(before, record)
    if isinstance(record, Plan):
        return approval.is_above(before, record.cost, record.cost_delta)
    return approval.is_above(before, record.reserved_cost, record.reserved_delta)


def check_quotas(chain: Sequence[JournalRow], bad: Bad) -> None:
    """Call `bad` on the first charge that was admitted above a quota of its account or umbrella."""
    accounts: dict[str, Account] = {}
    taken: dict[str, dict[tuple[str, str, str], Tally]] = defaultdict(dict)
    counted: dict[str, tuple[int, int]] = {}
    for row in chain:
        if row.facts["account"]:
            accounts[row.account] = account(row.facts["account"])
        record = _charged(row)
        if record is None:
            continue
        now, before = _units(record), counted.get(record.id, (0, 0))
        claim, own = quota.Claim.of(record), taken[record.account]
        if record.id not in counted:
            over = quota.exceeded([quota.bounds(accounts[record.account], own, claim)], [now])
            if over is not None:
                bad(
                    f"journal row {row.seq}",
                    f"a charge within quota {over.quota} of account {record.account}",
                    "a larger one",
                )
        for block in claim.blocks or ("",):
            place = claim.who, claim.purpose, block
            own[place] = own.get(place, Tally()).hold(now[0] - before[0], now[1] - before[1])
        counted[record.id] = now


def _charged(row: JournalRow) -> Release | Plan | None:
    """Return the release or the plan whose charge a row tells, if it tells one."""
    if row.facts["release"]:
        return Release.from_record({**Release.defaults(), **row.facts["release"]})
    return Plan.from_record(row.facts["plan"]) if row.action == journal.PLANNED else None


def _units(record: Release | Plan) -> tuple[int, int]:
    if isinstance(record, Plan):
        return record.cost, record.cost_delta
    if record.charged_cost is None or record.charged_delta is None:
        return record.reserved_cost, record.reserved_delta
    return record.charged_cost, record.charged_delta


def _request(row: JournalRow, old: Request | None, new: Request, bad: Bad) -> None:
    """Call `bad` on a request that was not asked, approved by another person and used, in this order."""
    where, steps = f"journal row {row.seq}", {journal.REQUESTED: (None, WAITING), APPROVED: (WAITING, APPROVED)}
    expected = steps.get(row.action, (APPROVED, USED))
    if (old and old.state, new.state) != expected or (new.state == USED and new.act != row.action):
        bad(where, "a request that is asked, approved and then used by its act, once", f"one that is {new.state}")
    if new.terms_hash != approval.hashed(new.account, new.act, new.terms, new.why) or new.account != row.account:
        bad(where, "a request with the hash of its terms", "another")
    may = {APPROVED: {"state", "approved_by", "approved_why", "approved_at"}, USED: {"state", "used_at"}}
    if old is not None and not _same(old.to_record(), new.to_record(), may[new.state]):
        bad(where, "a request as it was asked", "another")
    if new.state == APPROVED:
        _signed(row, {"why": new.approved_why, "who": new.approved_by}, bad)
        if approval.same_person(new.who, new.approved_by):
            bad(where, "a request that a second person approved", "one that its own person did")
