"""Whether a ledger can be believed: its chain, its records against the chain, its costs against its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import sqlalchemy as sa

from dp_synth_pipeline.errors import DpSynthError, LedgerCorrupted
from dp_synth_pipeline.ledger import costs, declared, journal, replay, rows, tables
from dp_synth_pipeline.ledger.balance import Verification
from dp_synth_pipeline.ledger.entry import (
    FILTER,
    RESERVED,
    SETTLED,
    STARTED,
    VOIDED,
    Account,
    Entry,
    JournalRow,
    Plan,
    Release,
)
from dp_synth_pipeline.ledger.rows import Tally
from dp_synth_pipeline.privacy.events import DiscreteGaussian
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from dp_synth_pipeline.privacy.odometer import covers
from dp_synth_pipeline.privacy.tagged import TaggedEvent

UNITS, RELATIVE = 2, 1e-9
"""How far a recomputed cost may lie from the stored one: the last digits of a float differ between machines."""


def verify(conn: sa.Connection, since: str | None = None) -> Verification:
    """Recompute everything that can be recomputed, or raise LedgerCorrupted naming the first bad record."""
    state = conn.execute(sa.select(tables.store.c.length, tables.store.c.head)).mappings().one()
    chain = journal.rows(conn)
    accounts = rows.accounts(conn)
    blocks = {a.name: rows.blocks(conn, a.name) for a, _ in accounts}
    releases = {r.id: r for r in rows.releases(conn)}
    entries, plans = _readable(lambda: rows.entries(conn)), _readable(lambda: rows.plans(conn))
    _check_chain(chain, state["length"], state["head"])
    if since is not None and since != journal.GENESIS and all(row.hash != since for row in chain):
        _bad("the chain", "the head that was seen earlier", "a chain without it: rolled back, or another ledger")
    written = journal.latest(chain)
    terms = replay.check(chain, _bad)
    replay.check_approvals(chain, _bad)
    replay.check_quotas(chain, _bad)
    everything = {"account": [a for a, _ in accounts], "release": list(releases.values()), "entry": entries}
    _check_records(written, {**everything, "plan": plans, "request": rows.requests(conn)})
    if written.blocks != {(account, block) for account, names in blocks.items() for block in names}:
        _bad("the blocks", "those that the journal names", "others")
    started: dict[str, list[Entry]] = {}
    for entry in entries:
        _check_entry(entry, releases[entry.release_id])
        started.setdefault(entry.release_id, []).append(entry)
    by_plan = {p.id: p for p in plans}
    _check_mirrors(list(releases.values()), started, plans, terms)
    for release in releases.values():
        plan = by_plan[release.plan] if release.plan else None
        _check_release(release, replay.account(terms.under[release.id]), started.get(release.id, []), plan)
    for account, tally in accounts:
        _check_account(account, terms.opened[account.name])
        own = [r for r in releases.values() if r.account == account.name]
        declared_here = [p for p in plans if p.account == account.name]
        for plan in declared_here:
            _check_plan(plan, account, own)
        _check_balances(account, tally, blocks[account.name], own, declared_here)
    return Verification(len(accounts), len(releases), len(entries), state["head"])


def _bad(record: str, expected: object, got: object) -> NoReturn:
    raise LedgerCorrupted(
        f"the ledger does not add up at {record}: expected {expected}, got {got}. Stop all runs on it, and restore the "
        f"last backup that verifies; what was spent after that backup must be charged again."
    )


def _readable(read: Callable[[], list[Any]]) -> list[Any]:
    try:
        return read()
    except (ValueError, TypeError, KeyError):  # an event that nobody can have written
        _bad("an entry", "events that can be read", "something else")


def _check_chain(chain: Sequence[JournalRow], length: int, head: str) -> None:
    previous = journal.GENESIS
    for seq, row in enumerate(chain, start=1):
        where = f"journal row {seq}"
        if row.seq != seq:
            _bad(where, "that row", f"row {row.seq}: a row is missing")
        if row.previous != previous:
            _bad(where, f"the hash before it {previous[:12]}…", f"{row.previous[:12]}…")
        if journal.link(row) != row.hash:
            _bad(where, "the hash of its content", "another: it was edited")
        previous = row.hash
    if (len(chain), previous) != (length, head):
        _bad("the chain's head", f"{length} rows ending in {head[:12]}…", f"{len(chain)} ending in {previous[:12]}…")


def _check_records(written: journal.Told, kept: dict[str, Sequence[Any]]) -> None:
    for kind, name in (("account", "name"), ("release", "id"), ("entry", "id"), ("plan", "id"), ("request", "id")):
        records = {
            "account": written.accounts,
            "release": written.releases,
            "entry": written.entries,
            "plan": written.plans,
            "request": written.requests,
        }[kind]
        stored = {r.to_record()[name]: r for r in kept[kind]}
        for identity in records.keys() | stored.keys():
            if identity not in stored or identity not in records:
                _bad(f"{kind} {identity}", "one record in its table and in the journal", "only one of the two")
            # What a row leaves out, or an older version did not write yet, must be what it meant: the default.
            defaults = stored[identity].defaults()
            record, meant = {**defaults, **stored[identity].to_record()}, {**defaults, **records[identity]}
            differing = [f for f, value in meant.items() if record.get(f) != value]
            if differing:
                _bad(f"{kind} {identity}", "what the journal says", f"another {', '.join(differing)}")


def _check_account(account: Account, opened: dict[str, Any]) -> None:
    where = f"account {account.name}"
    if account.rule == FILTER and not 0 <= account.delta_limit < costs.limit_units(account.delta, ATTO):
        _bad(where, "a part of its delta set aside", account.delta_limit)
    first = costs.fixed(account.rule, opened["epsilon"], opened["delta"], opened["delta_limit"])
    expected = costs.fixed(account.rule, account.epsilon, account.delta, account.delta_limit, first.order)
    kept = costs.Terms(account.order, account.cost_limit, account.delta_limit)
    if (
        expected.order != kept.order
        or expected.delta_limit != kept.delta_limit
        or not _close(expected.cost_limit, kept.cost_limit)
    ):
        _bad(where, expected, kept)


def _check_plan(plan: Plan, account: Account, releases: Sequence[Release]) -> None:
    where = f"plan {plan.name} of account {account.name}"
    if plan.mechanisms and len(plan.mechanisms) != len(plan.events):
        _bad(where, "a mechanism beside every event, or none at all", f"{len(plan.mechanisms)} of them")
    epsilon = declared.whole_epsilon(plan)
    if abs(epsilon - plan.epsilon) > RELATIVE * (1 + epsilon):
        _bad(where, f"epsilon={epsilon}, from its events", plan.epsilon)
    if plan.takes == declared.RENYI:
        cost, delta = declared.charged(account, plan, (0.0, 0.0))
        if not _priced(cost, plan.cost, account.order) or delta != plan.cost_delta:
            _bad(where, f"a charge of {cost}, {delta}", f"{plan.cost}, {plan.cost_delta}")
    elif costs.share_units(plan.epsilon, NANO) > plan.cost or costs.share_units(plan.delta, ATTO) > plan.cost_delta:
        _bad(where, "a share that holds what it costs", f"{plan.cost}, {plan.cost_delta}")
    used = sum(r.plan == plan.id and r.state != VOIDED for r in releases)
    if used != plan.used or used > plan.times:
        _bad(where, f"{used} uses of at most {plan.times}", plan.used)


def _check_entry(entry: Entry, release: Release) -> None:
    try:
        cost, delta = costs.price(release, entry.events)
    except DpSynthError:
        _bad(f"entry {entry.id}", "events that can be priced", "events that cannot")
    if not _priced(cost, entry.cost, release.order):
        _bad(f"entry {entry.id}", f"a cost of {cost}, from its events", entry.cost)
    if delta != entry.delta:
        _bad(f"entry {entry.id}", f"a delta of {delta}, from its events", entry.delta)


def _check_release(release: Release, account: Account, entries: Sequence[Entry], plan: Plan | None) -> None:
    where = f"release {release.id}"
    if release.relation != account.relation or release.order != (None if plan else account.order):
        _bad(where, "its account's relation and order", f"{release.relation}, {release.order}")
    cost, delta = _reservation(release, account, entries, plan)
    if not _close(cost, release.reserved_cost) or delta != release.reserved_delta:
        _bad(where, f"a reservation of {cost}, {delta}", f"{release.reserved_cost}, {release.reserved_delta}")
    if plan is not None and not covers(_as_admitted(plan.tagged), _as_admitted(costs.tagged_events(entries))):
        _bad(where, f"events that plan {plan.name} declared", "others")
    if release.state in (RESERVED, VOIDED):
        if entries or release.charged_cost not in (None, 0):
            _bad(where, f"no entry and no charge, being {release.state}", "some")
        return
    if release.state not in (STARTED, SETTLED) or not entries:
        _bad(where, "a known state, and entries if it started", f"{release.state}, {len(entries)} entries")
    if release.order is not None and sum(e.cost for e in entries) > release.reserved_cost:
        _bad(where, f"entries within the {release.reserved_cost} reserved", "more")
    if release.state == SETTLED:
        _check_charge(release, entries)


def _reservation(release: Release, account: Account, entries: Sequence[Entry], plan: Plan | None) -> tuple[int, int]:
    """Return what a release must have reserved: nothing as a use of a plan, and by hand no more than it was charged."""
    if plan is not None:
        return 0, 0
    if release.by_hand:
        return costs.charge(release, entries, release.epsilon, release.delta)
    return costs.reservation(account, release.epsilon, release.delta, release.own_delta)


MIRRORED = {
    Release: (
        "table", "run_id", "code_version", "epsilon", "delta", "own_delta", "state", "who", "reserved_at",
        "final_epsilon", "final_delta", "why", "relation", "by_hand", "purpose",
    ),
    Entry: ("position", "mechanism", "events", "planned", "state", "steps_started", "upon"),
    Plan: ("events", "mechanisms", "times", "used", "epsilon", "delta", "relation", "declared_at", "who", "why"),
}  # fmt: skip
"""In what a mirror is what it mirrors."""


def _check_mirrors(
    releases: Sequence[Release], entries: dict[str, list[Entry]], plans: Sequence[Plan], terms: replay.Terms
) -> None:
    """Raise LedgerCorrupted if an umbrella was not charged for just what its members released and declared."""
    under = {release: replay.account(account).under for release, account in terms.under.items()}
    planned = {p.id: replay.account(terms.opened[p.account]).under for p in plans}
    for kind, records, above in (("release", releases, under), ("plan", list(plans), planned)):
        mirrors = {r.mirrors: r for r in records if r.mirrors is not None}
        if len(mirrors) != sum(r.mirrors is not None for r in records):
            _bad(f"the {kind}s", "one mirror of each", "several of one")
        own = {r.id: r for r in records if r.mirrors is None}
        for identity in own.keys() | mirrors.keys():
            mirror, umbrella = mirrors.get(identity), above.get(identity)
            if identity not in own or (mirror and mirror.account) != umbrella:
                _bad(
                    f"{kind} {identity}",
                    f"charged to its umbrella: {umbrella or 'it has none'}",
                    mirror and mirror.account,
                )
            if mirror is not None:
                _check_same(f"{kind} {identity} in umbrella {umbrella}", own[identity], mirror)
    by_id = {r.id: r for r in releases}
    for mirror in by_id.values():
        if mirror.mirrors is not None:
            _check_charged_alike(by_id[mirror.mirrors], mirror, entries)
        elif replay.account(terms.under[mirror.id]).umbrella and not mirror.by_hand:
            _bad(f"release {mirror.id}", "a release of a member", f"one of umbrella {mirror.account} itself")


def _check_charged_alike(release: Release, mirror: Release, entries: dict[str, list[Entry]]) -> None:
    where = f"release {release.id} in umbrella {mirror.account}"
    expected = (None, None) if mirror.plan else (mirror.order, mirror.reserved_cost)
    if (release.umbrella_order, release.umbrella_cost) != expected:
        _bad(where, "the order and units of its mirror", f"{release.umbrella_order}, {release.umbrella_cost}")
    own, mirrored = (entries.get(r.id, []) for r in (release, mirror))
    if len(own) != len(mirrored):
        _bad(where, f"{len(own)} entries", len(mirrored))
    for entry, copy in zip(own, mirrored, strict=True):
        _check_same(f"{where}, mechanism {entry.mechanism}", entry, copy)


def _check_same(where: str, own: Release | Entry | Plan, mirror: Release | Entry | Plan) -> None:
    differing = [name for name in MIRRORED[type(own)] if getattr(own, name) != getattr(mirror, name)]
    if differing:
        _bad(where, "what the member's record says", f"another {', '.join(differing)}")


def _as_admitted(events: Iterable[TaggedEvent]) -> list[TaggedEvent]:
    """Return events as earlier versions compared them, which admitted more discrete noise where less was declared."""
    return [
        TaggedEvent(mechanism, e.as_gaussian() if isinstance(e, DiscreteGaussian) else e) for mechanism, e in events
    ]


def _check_charge(release: Release, entries: Sequence[Entry]) -> None:
    where = f"release {release.id}"
    final_delta, final = release.final_delta or 0.0, release.final_epsilon
    if final is None:
        _bad(where, "a final epsilon", final)
    if release.mirrors is None:  # that of a mirror is compared with what it mirrors
        _check_guarantee(release, entries, final, final_delta)
    cost, delta = costs.charge(release, entries, final, final_delta)
    if (cost, delta) != (release.charged_cost, release.charged_delta):
        _bad(where, f"a charge of {cost}, {delta}", f"{release.charged_cost}, {release.charged_delta}")
    if cost > release.reserved_cost or delta > release.reserved_delta:
        _bad(where, f"at most the {release.reserved_cost}, {release.reserved_delta} reserved", f"{cost}, {delta}")


def _check_guarantee(release: Release, entries: Sequence[Entry], final: float, final_delta: float) -> None:
    epsilon, delta = costs.guarantee(release, entries, final_delta, stopped=bool(release.why))
    if any(e.upon is None for e in entries) and release.why:  # an older version charged what ran, also of a share
        epsilon, delta = costs.together(release, costs.all_events(entries), final_delta), final_delta
    if abs(epsilon - final) > RELATIVE * (1 + epsilon) or delta != final_delta:
        _bad(f"release {release.id}", f"a final epsilon of {epsilon}, from its events", final)


def _check_balances(
    account: Account, own: Tally, blocks: dict[str, Tally], releases: Sequence[Release], plans: Sequence[Plan]
) -> None:
    declared_cost = Tally(cost_spent=sum(p.cost for p in plans), delta_spent=sum(p.cost_delta for p in plans))
    expected = {None: _sum([r for r in releases if not r.blocks]).plus(declared_cost)}
    expected |= {name: _sum([r for r in releases if name in r.blocks]) for name in blocks}
    for name, kept in {None: own, **blocks}.items():
        where = f"the balance of account {account.name}" + (f", block {name}" if name else "")
        if expected[name] != kept:
            _bad(where, expected[name], kept)
        if min((kept if name is None else kept.plus(own)).left(account)) < 0:
            _bad(where, "at most its limit", "more")


def _sum(releases: Sequence[Release]) -> Tally:
    over = [r for r in releases if r.state in (SETTLED, VOIDED)]
    held = [r for r in releases if r.state in (RESERVED, STARTED)]
    return Tally(
        cost_spent=sum(r.charged_cost or 0 for r in over),
        cost_held=sum(r.reserved_cost for r in held),
        delta_spent=sum(r.charged_delta or 0 for r in over),
        delta_held=sum(r.reserved_delta for r in held),
    )


def _close(recomputed: int, stored: int) -> bool:
    return abs(recomputed - stored) <= UNITS + RELATIVE * stored


def _priced(recomputed: int, stored: int, order: float | None) -> bool:
    """Whether a stored Rényi cost is what its events cost, or more, as versions before this one charged below order 2."""
    return _close(recomputed, stored) or (order is not None and order < 2 and recomputed < stored)
