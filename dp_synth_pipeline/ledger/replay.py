"""Whether every step of the journal was one that a ledger takes: limits only rise, marks only grow, events stay.

The last state of a record is compared with its table in `verify`; here it is the way to that state that is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from dp_synth_pipeline.ledger.entry import (
    RESERVED,
    SETTLED,
    STARTED,
    VOIDED,
    Account,
    Entry,
    JournalRow,
    Plan,
    Release,
    load_events,
)
from dp_synth_pipeline.privacy.events import SubsampledGaussian

Bad = Callable[[str, object, object], Any]

NEXT = {RESERVED: {RESERVED, STARTED, VOIDED}, STARTED: {STARTED, SETTLED}, SETTLED: {SETTLED}, VOIDED: {VOIDED}}
RAISED = {"epsilon", "delta", "cost_limit", "delta_limit"}
RELEASE_MAY = {
    "state", "started_at", "ended_at", "charged_cost", "charged_delta", "final_epsilon", "final_delta", "fingerprint",
    "why",
}  # fmt: skip
ENTRY_MAY = {"state", "steps_started", "settled_at"}
AT_MARK = "settled at mark"


def defaults(record: Account | Release | Entry | Plan) -> dict[str, Any]:
    """Return what the fields of a record are in rows of the journal that were written before the fields existed."""
    bare = {f.name: f.default for f in fields(record) if f.default is not MISSING}
    return {**bare, "blocks": "[]"} if isinstance(record, Release) else bare


def check(chain: Sequence[JournalRow], bad: Bad) -> dict[str, dict[str, Any]]:
    """Return the accounts as they were opened; call `bad` on the first row that no ledger would write."""
    opened: dict[str, dict[str, Any]] = {}
    accounts: dict[str, dict[str, Any]] = {}
    releases: dict[str, dict[str, Any]] = {}
    entries: dict[str, dict[str, Any]] = {}
    plans: dict[str, dict[str, Any]] = {}
    for row in chain:
        facts, where = row.facts, f"journal row {row.seq}"
        if new := facts["account"]:
            opened.setdefault(new["name"], new)
            _account(row, accounts.get(new["name"]), new, facts.get("note"), bad)
            accounts[new["name"]] = new
        if release := facts["release"]:
            old: dict[str, Any] = releases.get(release["id"]) or release
            if release["state"] not in NEXT.get(old["state"], ()) or not _same(old, release, RELEASE_MAY):
                bad(where, f"a step that a release takes from {old['state']}", f"another, to {release['state']}")
            releases[release["id"]] = release
        if plan := facts.get("plan"):
            if not (_same(plans.get(plan["id"]) or plan, plan, {"used"}) and 0 <= plan["used"] <= plan["times"]):
                bad(where, "a plan as it was declared", "another")
            plans[plan["id"]] = plan
        for entry in facts["entries"]:
            _entry(row, entries.get(entry["id"]), entry, bad)
            entries[entry["id"]] = entry
    return opened


def _same(old: dict[str, Any], new: dict[str, Any], may_differ: set[str]) -> bool:
    return all(new.get(k) == v for k, v in old.items() if k not in may_differ)


def _account(row: JournalRow, old: dict[str, Any] | None, new: dict[str, Any], note: Any, bad: Bad) -> None:
    where = f"journal row {row.seq}"
    if old is None:
        if row.action != "opened":
            bad(where, "an account that was opened before", f"one that was {row.action}")
        return
    if row.action != "raised" or not _same(old, new, RAISED) or any(new[k] < old[k] for k in RAISED):
        bad(where, "an account whose limits rise, and nothing else", "another change")
    if not (note and note.get("why") and note.get("who")):
        bad(where, "a reason and a name", "none")


def _entry(row: JournalRow, old: dict[str, Any] | None, new: dict[str, Any], bad: Bad) -> None:
    where = f"journal row {row.seq}"
    if old is None:
        return
    if new["steps_started"] < old["steps_started"]:
        bad(where, f"a mark at {old['steps_started']} or above", new["steps_started"])
    at_mark = row.action == AT_MARK
    if not _same(old, new, ENTRY_MAY | ({"events", "cost", "delta"} if at_mark else set())):
        bad(where, "an entry as it was started", "another")
    if at_mark and not _cut(old, new):
        bad(where, "events cut to the mark, and nothing else", "others")


def _cut(old: dict[str, Any], new: dict[str, Any]) -> bool:
    before, after = load_events(old["events"]), load_events(new["events"])
    steps = sum(e.steps for e in after if isinstance(e, SubsampledGaussian))
    rest = [e for e in before if not isinstance(e, SubsampledGaussian)]
    kept = [e for e in after if not isinstance(e, SubsampledGaussian)]
    shapes = [
        [(e.noise_multiplier, e.sample_rate) for e in events if isinstance(e, SubsampledGaussian)]
        for events in (before, after)
    ]
    return steps == old["steps_started"] > 0 and rest == kept and shapes[0] == shapes[1]
