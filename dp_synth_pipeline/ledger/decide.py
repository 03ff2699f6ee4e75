"""What is admitted, what is refused and what is charged: pure decisions on records, without a store."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import costs, declared, journal, refusal
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.balance import Balance
from dp_synth_pipeline.ledger.entry import (
    RESERVED,
    SETTLED,
    STARTED,
    VOIDED,
    Account,
    Entry,
    Plan,
    Release,
)
from dp_synth_pipeline.ledger.rows import Payers, Tally
from dp_synth_pipeline.privacy.budget import check_delta
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from dp_synth_pipeline.privacy.odometer import covers
from dp_synth_pipeline.privacy.tagged import tagged


def admits(account: Account, tally: Tally, cost: int, delta: int) -> bool:
    """Say whether an account has at least `cost` and `delta` left: in integers, so the answer is exact."""
    cost_left, delta_left = tally.left(account)
    return cost <= cost_left and delta <= delta_left


def refusing(payers: Payers, asks: Sequence[tuple[int, int]]) -> int | None:
    """Return the place of the first of several accounts that has less left than is asked of it; None if all admit."""
    each = enumerate(zip(payers, asks, strict=True))
    return next((place for place, ((a, tally), ask) in each if not admits(a, tally, *ask)), None)


def balance(account: Account, tally: Tally, umbrella: tuple[Account, Tally] | None = None) -> Balance:
    """Return what an account has spent, holds and has left, of which a release gets no more than its umbrella has left."""
    cost, delta = tally.left(account)
    usable = _usable_delta(account, delta)
    epsilon = costs.epsilon_left(account, cost, delta, usable)
    if umbrella is not None:
        above_cost, above_delta = umbrella[1].left(umbrella[0])
        most = costs.epsilon_left(umbrella[0], above_cost, above_delta, usable)
        # Every table has thresholds, so without delta for them nothing fits.
        epsilon = min(epsilon, most if above_delta > 0 or not umbrella[0].delta_limit else 0.0)
    return Balance(
        account=account.name,
        rule=account.rule,
        order=account.order,
        cost_limit=account.cost_limit,
        cost_spent=tally.cost_spent,
        cost_held=tally.cost_held,
        delta_limit=account.delta_limit,
        delta_spent=tally.delta_spent,
        delta_held=tally.delta_held,
        epsilon_left=epsilon,
        # What is held may have run already, so an upper bound counts it.
        epsilon_spent=costs.epsilon_spent(account, tally.cost_spent + tally.cost_held),
    )


def _usable_delta(account: Account, delta_units: int) -> float:
    return account.delta if account.order is not None else max(delta_units, 1) / ATTO


def same_attempt(earlier: Sequence[Entry], mechanism: str, events: tuple[Event, ...], key: str | None) -> Entry | None:
    """Return the entry that this very attempt already wrote, if its reply was lost."""
    if key is None:
        return None
    return next((e for e in earlier if (e.key, e.mechanism, e.events) == (key, mechanism, events)), None)


def entry(
    release: Release,
    earlier: Sequence[Entry],
    mechanism: str,
    events: tuple[Event, ...],
    key: str | None,
    upon: tuple[str, ...] = (),
    plan: Plan | None = None,
) -> Entry:
    """Return the entry of a mechanism that fits what its release reserved, or raise why it may not start."""
    if release.state not in (RESERVED, STARTED):
        raise refusal.wrong_state(release, f"start {mechanism!r}")
    if any(e.mechanism == mechanism for e in earlier):
        raise refusal.ran_twice(release, mechanism)
    cost, delta = costs.price(release, events)
    new = Entry(
        id=uuid.uuid4().hex,
        release_id=release.id,
        account=release.account,
        position=len(earlier),
        mechanism=mechanism,
        events=events,
        cost=cost,
        delta=delta,
        state=STARTED,
        steps_started=0,
        key=key,
        started_at=journal.now(),
        settled_at=None,
        upon=upon,
    )
    _check_reservation(release, [*earlier, new])
    if plan is not None:
        declared.check_noise(plan)
        if not covers(plan.tagged, costs.tagged_events([*earlier, new])):
            raise refusal.not_declared(plan, mechanism)
    return new


def mirrored(mirror: Release, earlier: Sequence[Entry], entry: Entry) -> Entry:
    """Return the entry that charges an umbrella for one of a member's, or raise if it is over what was reserved of it."""
    cost, delta = costs.price(mirror, entry.events)
    new = replace(
        entry, id=uuid.uuid4().hex, release_id=mirror.id, account=mirror.account, cost=cost, delta=delta, key=None
    )
    _check_units(mirror, [*earlier, new])
    return new


def _check_reservation(release: Release, entries: Sequence[Entry]) -> None:
    _check_units(release, entries)
    epsilon = costs.together(release, costs.planned_events(entries))
    if not epsilon <= release.epsilon:
        held = f"epsilon={release.epsilon:g} at delta={release.delta:g}"
        raise refusal.over_reservation(release, entries[-1].mechanism, f"epsilon={epsilon:.6g}", held)


def _check_units(release: Release, entries: Sequence[Entry]) -> None:
    mechanism = entries[-1].mechanism
    own = sum(e.delta for e in entries)
    if own > costs.share_units(release.own_delta, ATTO):
        raise refusal.over_reservation(
            release, mechanism, f"{own / ATTO:.6g} of threshold delta", f"{release.own_delta:.6g}"
        )
    cost = sum(e.cost for e in entries)
    if release.order is not None and cost > release.reserved_cost:
        held = f"{release.reserved_cost / NANO:.6g} at order {release.order:g}"
        raise refusal.over_reservation(release, mechanism, f"{cost / NANO:.6g} Rényi units", held)


def check_mark(entry: Entry, steps: int) -> None:
    """Accept a high-water mark at or above the last one and within what the entry pays for; refuse all else."""
    if entry.state != STARTED:
        raise ReleaseStateError(
            f"cannot mark steps: mechanism {entry.mechanism!r} of release {entry.release_id} is {entry.state}. "
            f"Materialize again from `ingested`: a new release is a new charge."
        )
    if not isinstance(steps, int) or steps > entry.steps_paid:
        raise ReleaseStateError(
            f"mechanism {entry.mechanism!r} pays for {entry.steps_paid} steps, got a mark at {steps}. Stop before it: "
            f"steps that were not reserved are not private."
        )
    if steps < entry.steps_started:
        raise ReleaseStateError(
            f"steps up to {entry.steps_started} of mechanism {entry.mechanism!r} were started, got a mark at {steps}. "
            f"Replayed steps look at the data again: reserve a new release for them."
        )


def settled_at_mark(release: Release, entry: Entry) -> Entry:
    """Return the entry charged for its steps up to the high-water mark only; unchanged if it was settled so before.

    A high-water mark is durable before its steps run: at 0 none did, so what consists of steps alone has no event left.
    """
    if release.state not in (STARTED, SETTLED):
        raise refusal.wrong_state(release, "settle an entry of it")
    if entry.state == SETTLED and entry.steps_started == entry.steps_paid and (entry.steps_paid or not entry.events):
        return entry
    stepped = [e for e in entry.events if e.in_steps]
    rest = [e for e in entry.events if not e.in_steps]
    if entry.state != STARTED or len(stepped) != 1 or (rest and not entry.steps_started):
        raise ReleaseStateError(
            f"mechanism {entry.mechanism!r} of release {entry.release_id} cannot be settled at a mark: expected a "
            f"started mechanism with steps, and with a durable mark if it runs anything else, got one that is "
            f"{entry.state} with its mark at {entry.steps_started}. Settle the release: what cannot be told apart is "
            f"charged in full."
        )
    ran = [stepped[0].with_steps(entry.steps_started)] if entry.steps_started else []
    events = tuple(kept for e in entry.events for kept in (ran if e is stepped[0] else [e]))
    cost, delta = costs.price(release, events)
    cut = {"events": events, "cost": cost, "delta": delta, "planned": entry.events}
    return replace(entry, **cut, state=SETTLED, settled_at=journal.now())


def check_ran(release: Release, entries: Sequence[Entry], ran: Sequence[Event | tuple[str, Event]]) -> None:
    """Raise ReleaseStateError if anything ran that was not started, or more often or with less noise than was charged.

    What names its mechanism is compared with what that mechanism was charged, and with nothing else.
    """
    charged, reported = costs.tagged_events(entries), tagged(ran)
    if covers(charged, reported):
        return
    unpaid = [one for one in reported if not any(one.agrees(paid) and one.event == paid.event for paid in charged)]
    more = ", ".join(str(one) for one in unpaid) or "something ran more often"
    raise ReleaseStateError(
        f"what ran in release {release.id} is not what was charged for it: {more}. Nothing of it may be released: end it "
        f"with dp-synth ledger settle {release.id[:12]} --why REASON, and find the cause before another run."
    )


def noted(release: Release, fingerprint: str, key: bytes) -> Release:
    """Return the release with its source on record, encrypted; refuse to swap one source for another."""
    if release.state == VOIDED:
        raise refusal.wrong_state(release, "note its source")
    if release.fingerprint is None:
        return replace(release, fingerprint=keys.encrypted(key, fingerprint))
    if keys.decrypted(key, release.fingerprint) != fingerprint:
        raise refusal.other_source(release)
    return release


def started(release: Release) -> Release:
    """Return the release with its first mechanism under way."""
    return release if release.state == STARTED else replace(release, state=STARTED, started_at=journal.now())


def voided(release: Release, why: str) -> Release:
    """Return the release as given back, or raise since something of it has started."""
    if release.state != RESERVED:
        raise refusal.wrong_state(release, "void it")
    return replace(release, state=VOIDED, charged_cost=0, charged_delta=0, why=why, ended_at=journal.now())


def settled(
    release: Release, entries: Sequence[Entry], delta: float | None, why: str = ""
) -> tuple[Release, list[Entry]]:
    """Return the release and its entries as they end, charged for what ran; unchanged if they ended so before."""
    if release.state == SETTLED:
        return _same_settlement(release, delta), list(entries)
    if release.state != STARTED:
        raise refusal.wrong_state(release, "settle it")
    final_delta = _final_delta(release, delta)
    final_epsilon, final_delta = costs.guarantee(release, entries, final_delta, stopped=bool(why))
    if not final_epsilon <= release.epsilon:
        raise InvalidInput(
            f"at delta={final_delta:g} epsilon is {final_epsilon:.6g}, above the {release.epsilon:g} reserved. Settle "
            f"at a larger delta, up to {release.delta:g}."
        )
    cost, delta_units = costs.charge(release, entries, final_epsilon, final_delta)
    ended = replace(
        release,
        state=SETTLED,
        charged_cost=cost,
        charged_delta=delta_units,
        final_epsilon=final_epsilon,
        final_delta=final_delta,
        why=why,
        ended_at=journal.now(),
    )
    return ended, [replace(e, state=SETTLED, settled_at=e.settled_at or ended.ended_at) for e in entries]


def followed(mirror: Release, entries: Sequence[Entry], ended: Release) -> tuple[Release, list[Entry]]:
    """Return a mirror and its entries as they end with the release that they mirror."""
    if ended.state == VOIDED:
        return voided(mirror, ended.why), list(entries)
    assert ended.final_epsilon is not None
    assert ended.final_delta is not None
    cost, delta = costs.charge(mirror, entries, ended.final_epsilon, ended.final_delta)
    end = {name: getattr(ended, name) for name in ("state", "final_epsilon", "final_delta", "why", "ended_at")}
    over = replace(mirror, **end, charged_cost=cost, charged_delta=delta)
    return over, [replace(e, state=SETTLED, settled_at=e.settled_at or over.ended_at) for e in entries]


def ended(release: Release, entries: Sequence[Entry]) -> Release:
    """Return the release as it would end now, released or not: settled for what started in it, voided if nothing did."""
    if not entries:
        return voided(release, "")
    return settled(release, entries, None, why="it is over")[0]


def _final_delta(release: Release, delta: float | None) -> float:
    final = release.delta if delta is None else float(delta)
    check_delta(final)
    if final > release.delta:
        raise InvalidInput(f"the final delta is at most the {release.delta:g} reserved, got {final:g}.")
    return final


def _same_settlement(release: Release, delta: float | None) -> Release:
    if delta not in (None, release.final_delta):
        raise ReleaseStateError(
            f"release {release.id} is settled with another delta, and a charge is final. "
            f"Materialize again from `ingested`: a new release is a new charge."
        )
    return release
