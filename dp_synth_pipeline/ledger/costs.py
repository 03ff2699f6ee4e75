"""What an account holds, what a request asks of it and what ran, in stored integers that only ever over-report.

An account uses one of two units for life. A Rényi filter counts Rényi divergence at the account's order. An account of
declared plans counts shares of epsilon. Delta is counted beside it: under a Rényi filter only what mechanisms spend
themselves, since the conversion's delta is paid once, when the account is opened; under declared plans all of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger.entry import FILTER, PLAN, Account, Entry, Release, Rule
from dp_synth_pipeline.privacy import accountant, calibration, filter
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.filter import ATTO, NANO
from dp_synth_pipeline.privacy.tagged import TaggedEvent

LEAST_EPSILON = 1e-3
"""Under this, an account counts as empty: no release of so small an epsilon says anything."""


def share_units(value: float, scale: int) -> int:
    """Round a number that a person declared up to stored units, reading it as the decimal that was written.

    So ten shares of 0.1 are exactly 1: the binary error of 0.1 is a matter of notation, not of privacy.

    Example:
        >>> 10 * share_units(0.1, NANO) == share_units(1.0, NANO) == NANO
        True
    """
    if not math.isfinite(value) or value < 0:
        raise InvalidInput(f"a share of a privacy budget must be finite and not negative, got {value}.")
    return math.ceil(_written(value) * scale)


def limit_units(value: float, scale: int) -> int:
    """Round a limit that a person declared down to stored units, reading it as the decimal that was written.

    Example:
        >>> limit_units(1e-5, ATTO)
        10000000000000
    """
    if not math.isfinite(value) or value < 0:
        raise InvalidInput(f"a privacy limit must be finite and not negative, got {value}.")
    return math.floor(_written(value) * scale)


def _written(value: float) -> Fraction:
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Terms:
    """The numbers that are fixed when an account is opened."""

    order: float | None
    cost_limit: int
    delta_limit: int


def terms(rule: Rule, epsilon: float, delta: float, own_delta_share: float) -> Terms:
    """Return what an account of (epsilon, delta) holds under `rule`.

    Under a Rényi filter the delta is split here, once: a conversion whose delta moved with later choices would not be
    a sound filter.

    Raises:
        InvalidInput: for a limit, rule or share that cannot be used.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if rule == PLAN:
        return fixed(rule, epsilon, delta, limit_units(delta, ATTO))
    if rule != FILTER:
        raise InvalidInput(f"rule must be {FILTER!r} or {PLAN!r}, got {rule!r}.")
    if not 0 <= own_delta_share < 1:
        raise InvalidInput(f"own_delta_share must lie in [0, 1), got {own_delta_share}. Typical value: 0.05.")
    return fixed(rule, epsilon, delta, math.floor(_written(delta) * ATTO * _written(own_delta_share)))


def fixed(rule: Rule, epsilon: float, delta: float, delta_limit: int, order: float | None = None) -> Terms:
    """Return the terms of an account whose shared delta is known: what opening it gave, and verifying it must give.

    `order` is that of an account which was raised: it stays what it was when the account was opened.
    """
    if rule == PLAN:
        return Terms(None, _storable(limit_units(epsilon, NANO)), limit_units(delta, ATTO))
    converted = conversion_delta(delta, delta_limit)
    order = float(filter.best_order(epsilon, converted)) if order is None else order
    return Terms(order, filter.budget_units(filter.limit(epsilon, converted, order)), delta_limit)


def raised(account: Account, epsilon: float, delta: float) -> Terms:
    """Return the terms of an account at a larger (epsilon, delta), at the order it was opened with.

    What was released so far has a Rényi divergence at that order; a larger limit on the same sum converts to a larger
    epsilon by the same formula. Another order would be a choice made after seeing outputs.
    """
    own = account.delta_limit
    if account.rule == FILTER:
        share = Fraction(own, limit_units(account.delta, ATTO))
        own = max(own, math.floor(limit_units(delta, ATTO) * share))
    return fixed(account.rule, epsilon, delta, own, account.order)


def conversion_delta(delta: float, own_units: int) -> float:
    """Return the delta left to the Rényi filter's conversion after `own_units` are set aside, rounded down."""
    return math.nextafter((limit_units(delta, ATTO) - own_units) / ATTO, 0)


def check_own_delta(own_delta: float, delta: float) -> None:
    """Accept 0 <= own_delta < delta; refuse all else by name."""
    if not (math.isfinite(own_delta) and 0 <= own_delta < delta):
        raise InvalidInput(
            f"own_delta must be at least 0 and below the release's delta ({delta:g}), got {own_delta}. It is the part "
            f"of delta for mechanisms with a delta of their own, such as thresholds; 0 if there are none."
        )


def reservation(account: Account, epsilon: float, delta: float, own_delta: float) -> tuple[int, int]:
    """Return the (cost, delta) units that a release of (epsilon, delta) reserves, in the account's units.

    Under a Rényi filter that is what one Gaussian mechanism of (epsilon, delta - own_delta) costs at the account's order: a
    number that does not depend on the neighbouring relation, since noise is counted here against what one unit moves.
    """
    if account.order is None:
        return _storable(share_units(epsilon, NANO)), share_units(delta, ATTO)
    noise = calibration.gaussian_noise(float(epsilon), float(delta - own_delta))
    return filter.charge_units(account.order / (2 * noise**2)), share_units(own_delta, ATTO)


def price(release: Release, events: Sequence[Event]) -> tuple[int, int]:
    """Return the (cost, delta) units of one mechanism: its Rényi divergence, or under declared plans its own epsilon."""
    if not events:  # settled at a high-water mark of 0
        return 0, 0
    own = share_units(accountant.own_delta(events, release.relation), ATTO)
    if release.order is None:
        alone = together(release, events)
        # An infinite epsilon is refused by start, so what is stored for it here is never charged.
        return (share_units(alone, NANO) if math.isfinite(alone) else filter.MOST_UNITS), own
    return filter.charge_units(accountant.rdp(events, release.order, release.relation)), own


def together(release: Release, events: Sequence[Event], delta: float | None = None) -> float:
    """Return the epsilon of events of one release at its delta, or at another."""
    at = release.delta if delta is None else delta
    if not events:
        return 0.0
    return accountant.epsilon(events, at, release.relation, fixed=release.plan is not None)


def all_events(entries: Iterable[Entry]) -> tuple[Event, ...]:
    """Return the events of entries, in the order in which they were started."""
    return tuple(event for entry in entries for event in entry.events)


def planned_events(entries: Sequence[Entry]) -> tuple[Event, ...]:
    """Return the events of one release's entries as they were planned: those that ran, then steps that never did.

    Whoever stops a mechanism may have seen what it let out, so its (epsilon, delta) is that of the plan, which was fixed
    before. Steps that one attempt left are those that a later one of the same kind runs, and count once.
    """
    left: Counter[Event] = Counter()
    for entry in entries:
        for event in entry.planned or entry.events:
            if event.in_steps:
                left[event.with_steps(1)] = max(0, left[event.with_steps(1)] - event.size) + event.size
        for event in entry.events:
            if event.in_steps:
                left[event.with_steps(1)] -= event.size
    return all_events(entries) + tuple(kind.with_steps(steps) for kind, steps in left.items() if steps)


def guarantee(release: Release, entries: Sequence[Entry], delta: float, stopped: bool) -> tuple[float, float]:
    """Return the (epsilon, delta) of a release that ends: of what was planned, whatever of it ran.

    Args:
        delta: the delta that it ends with.
        stopped: it ends before its time. Shares of a budget add up as they were fixed beforehand, so under declared plans
            that is all it reserved; a Rényi filter needs no such rule, since it charges divergence as it is spent.
    """
    if not all_events(entries):
        return 0.0, delta
    if stopped and release.order is None:
        return release.epsilon, release.delta
    return together(release, planned_events(entries), delta), delta


def tagged_events(entries: Iterable[Entry]) -> tuple[TaggedEvent, ...]:
    """Return the events of entries in the same order, each beside the tag of its mechanism."""
    return tuple(event for entry in entries for event in entry.tagged)


def charge(release: Release, entries: Sequence[Entry], final_epsilon: float, final_delta: float) -> tuple[int, int]:
    """Return the (cost, delta) units that a release is charged for what ran; nothing if its plan was, or nothing ran."""
    if release.plan is not None or not all_events(entries):
        return 0, 0
    if release.order is None:
        return share_units(final_epsilon, NANO), share_units(final_delta, ATTO)
    return sum(e.cost for e in entries), sum(e.delta for e in entries)


def epsilon_spent(account: Account, cost: int) -> float:
    """Return an epsilon, never too small, that `cost` units amount to at the account's delta; 0 for nothing."""
    if cost == 0 or account.order is None:
        return cost / NANO
    converted = conversion_delta(account.delta, account.delta_limit)
    return max(0.0, cost / NANO - filter.limit(0.0, converted, account.order))


def epsilon_left(account: Account, cost: int, delta_units: int, delta: float, own_delta: float = 0.0) -> float:
    """Return the largest epsilon, to four digits, that `cost` and `delta_units` admit at `delta`; 0.0 for none."""
    if account.order is None:
        return cost / NANO if cost > 0 and share_units(delta, ATTO) <= delta_units else 0.0
    if cost <= 0 or share_units(own_delta, ATTO) > delta_units:
        return 0.0
    return _largest(account.order, cost, delta - own_delta)


def equal_delta(account: Account, delta_units: int, times: int) -> float:
    """Return the delta that each of `times` releases may have: the account's, or under declared plans an equal part."""
    return account.delta if account.order is not None else (delta_units // times) / ATTO


def affordable(account: Account, cost: int, delta_units: int, times: int, delta: float, own_delta: float) -> float:
    """Return the largest epsilon, to four digits, that `times` equal releases may have within what is left."""
    each = cost // times, delta_units // times
    check_delta(delta)
    check_own_delta(own_delta, delta)
    if delta > account.delta:
        raise InvalidInput(f"a release's delta is at most the account's {account.delta:g}, got {delta:g}.")
    return epsilon_left(account, *each, delta, own_delta)


@lru_cache(maxsize=512)
def _largest(order: float, cost: int, delta: float) -> float:
    noise = max(math.sqrt(order * NANO / (2 * cost)), calibration.LEAST)
    epsilon = _four_digits(accountant.epsilon(Gaussian(noise), delta))
    # The value returned was itself priced and found to fit; it was not inferred from its neighbour.
    while epsilon >= LEAST_EPSILON:
        if filter.charge_units(order / (2 * calibration.gaussian_noise(epsilon, delta) ** 2)) <= cost:
            return epsilon
        epsilon = _four_digits(epsilon * 0.9995)
    return 0.0


def _four_digits(value: float) -> float:
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(Decimal(value)))


def _storable(units: int) -> int:
    if units > filter.MOST_UNITS:
        raise InvalidInput("this privacy cost is too large to store, and protects nobody; lower epsilon.")
    return units
