"""The cost of events: their Rényi curve at an order, and their tightest epsilon by privacy loss distributions.

All numbers are dp_accounting's. What is added here: the discrete Gaussian as a PLD, the exact Rényi curve of the
geometric mechanism, and one rule for a release whose later parameters depend on its first, noisy row count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dp_synth_pipeline.privacy.budget import ADD_REMOVE, check_relation
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.filter import ORDERS, limit

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

DISCRETISATION = 1e-4
"""Width of the privacy-loss grid; pinned, so that a cost computed today is the cost computed at an audit."""

LEAST_NOISE = 0.05
"""Under this noise multiplier a mechanism costs an epsilon above 100, and its grid would fill the memory."""


def rdp(events: Event | Iterable[Event], order: float, relation: str = ADD_REMOVE) -> float:
    """Return an upper bound of the Rényi divergence of `events`, composed, at `order` > 1.

    Sound for adaptively chosen events, since Rényi divergences add up at a fixed order (Feldman & Zrnic 2021).

    Example:
        >>> from dp_synth_pipeline.privacy.events import Gaussian
        >>> rdp(Gaussian(2.0), 10), rdp(Gaussian(2.0), 10, "replace-one")
        (1.25, 5.0)
    """
    check_relation(relation)
    if relation == ADD_REMOVE:
        return math.fsum(_rdp_one(e, order) for e in _listed(events))
    return math.fsum(e.rdp_when_replaced(order, _rdp_one) for e in _listed(events))


def _rdp_one(event: Event, order: float) -> float:
    if event.pure_epsilon:
        return pure_rdp(event.pure_epsilon, order)
    # A divergence grows with its order (van Erven & Harremoes 2014, Theorem 3), so that of a higher order bounds it too.
    # The library sums a series at fractional orders whose rounding, below 2, would hide all but large costs. What a
    # selection costs at one order depends on what its runs cost at all others, of which whole ones are enough.
    orders = {order} if event.has_pld else {a for a in ORDERS if a == int(a)}
    curve = _curve(event, tuple(sorted(orders | {math.ceil(order)})))
    return min(cost for at, cost in curve if at >= order)


@lru_cache(maxsize=1024)
def _curve(event: Event, orders: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """Return the Rényi divergence at each order, as dp_accounting has it."""
    from dp_accounting import NeighboringRelation, rdp

    accountant = rdp.RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(event.to_dp_event())
    return tuple(zip(orders, (float(cost) for cost in accountant.rdp), strict=True))


def pure_rdp(epsilon: float, order: float) -> float:
    """Rényi divergence of randomized response, which dominates every pure epsilon-DP mechanism (Mironov 2017, Prop. 5)."""
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -np.log1p(np.exp(epsilon))
    return float(np.logaddexp(order * log_p + (1 - order) * log_q, order * log_q + (1 - order) * log_p)) / (order - 1)


def epsilon(
    events: Event | Iterable[Event],
    delta: float,
    relation: str = ADD_REMOVE,
    *,
    fixed: bool = False,
    interval: float | None = None,
) -> float:
    """Return an epsilon, never too small, such that `events` together are (epsilon, delta)-DP.

    The row count (a `DiscreteLaplace` event) is added as a pure epsilon: all later parameters may depend on it, and
    basic composition allows that. The rest is one plan, fixed once the count is known, and is composed by PLD.
    Infinite if the thresholds alone need `delta`, or if a mechanism has next to no noise.

    Args:
        relation: the neighbouring relation; under 'replace-one', DP-SGD is converted from its Rényi curve, since no
            dominating pair of it is known. A selected training always is, and all that it is composed with.
        fixed: every parameter was bounded before the first event ran, as in a declared plan, so that the row counts
            are composed by PLD as well.
        interval: the width of the privacy-loss grid, by default `DISCRETISATION`. A coarser one is computed faster, and its
            epsilon is a little larger.

    Example:
        >>> from dp_synth_pipeline.privacy.events import SubsampledGaussian
        >>> round(epsilon(SubsampledGaussian(1.0, 0.01, 1000), 1e-5), 2)
        1.83
    """
    check_relation(relation)
    listed = _listed(events)
    if from_curves(listed, relation):
        return _from_curves(listed, delta, relation, fixed)
    if relation != ADD_REMOVE:
        return _replaced(listed, delta, relation, fixed, interval)
    shared_delta = delta - own_delta(listed)
    if shared_delta <= 0 or any(e.combined_noise_multiplier < LEAST_NOISE for e in listed):
        return math.inf
    return _converted(tuple(listed), shared_delta, fixed, interval or DISCRETISATION)


@lru_cache(maxsize=512)
def _converted(events: tuple[Event, ...], delta: float, fixed: bool, interval: float) -> float:
    """Return the epsilon at `delta`, once: a release asks for the same one when it plans, charges, settles and reports."""
    pure, whole = _composed(events, fixed, interval)
    return pure + float(whole.get_epsilon_for_delta(delta))


def _composed(listed: Sequence[Event], fixed: bool, interval: float) -> tuple[float, PrivacyLossDistribution]:
    """Return what is added by basic composition, a pure epsilon, and the privacy loss distribution of all the rest."""
    counts = [e for e in listed if e.pure_epsilon]
    rest = tuple(e for e in listed if not e.pure_epsilon)
    whole = _with(_in_turn(rest[:-1], interval), rest[-1:], interval)
    if not fixed:
        return math.fsum(e.pure_epsilon for e in counts), whole
    for event, times in Counter(counts).items():
        if (loss := _pld(event, interval)) is not None:
            whole = whole.compose(loss.self_compose(times))
    return 0.0, whole


@lru_cache(maxsize=4)
def _in_turn(events: tuple[Event, ...], interval: float) -> PrivacyLossDistribution:
    """Return the loss of all these: what a calibration composes with each noise that it tries, and is the same each time."""
    from dp_accounting.pld import privacy_loss_distribution as pld_lib

    return _with(pld_lib.identity(value_discretization_interval=interval), events, interval)


def _with(whole: PrivacyLossDistribution, events: Iterable[Event], interval: float) -> PrivacyLossDistribution:
    for event in events:
        if (loss := _pld(event, interval)) is not None:
            whole = whole.compose(loss)
    return whole


def deltas(
    events: Event | Iterable[Event], epsilons: Sequence[float], relation: str = ADD_REMOVE, *, fixed: bool = False
) -> np.ndarray:
    """Return for each epsilon of at least 0 a delta, never too small, such that `events` are (epsilon, delta)-DP together.

    It is `epsilon` read the other way round: the same composition, on the same grid.

    Args:
        relation, fixed: as in `epsilon`.

    Returns:
        Deltas from 0 to 1, shape (len(epsilons),).

    Example:
        >>> from dp_synth_pipeline.privacy.events import Gaussian
        >>> at = epsilon(Gaussian(2.0), 1e-5)
        >>> [round(float(d), 7) for d in deltas(Gaussian(2.0), [0.0, at])]
        [0.1974127, 1e-05]
    """
    check_relation(relation)
    listed, asked = _listed(events), np.asarray(epsilons, float)
    own = own_delta(listed, relation)
    if from_curves(listed, relation):
        return np.minimum(own + _rdp_deltas(listed, asked, relation, fixed), 1.0)
    if relation != ADD_REMOVE:
        listed = [e.as_add_remove() for e in listed]
    if any(e.combined_noise_multiplier < LEAST_NOISE for e in listed):
        return np.ones(len(asked))
    pure, whole = _composed(listed, fixed, DISCRETISATION)
    return np.minimum(own + np.asarray(whole.get_delta_for_epsilon([float(e) for e in asked - pure])), 1.0)


def from_curves(events: Event | Iterable[Event], relation: str = ADD_REMOVE) -> bool:
    """Say whether events are converted together from their Rényi curves, as no loss distribution of one of them is known.

    That costs more epsilon than loss distributions do, so whoever divides a budget must know it before the first event.

    Example:
        >>> from dp_synth_pipeline.privacy.events import SubsampledGaussian
        >>> training = SubsampledGaussian(1.0, 0.01, 1000)
        >>> from_curves(training), from_curves(training, "replace-one")
        (False, True)
    """
    return any(not e.has_pld or (e.in_steps and relation != ADD_REMOVE) for e in _listed(events))


def _rdp_deltas(listed: Sequence[Event], epsilons: np.ndarray, relation: str, fixed: bool) -> np.ndarray:
    """Return what the conversion of Canonne, Kamath & Steinke 2020, Proposition 12, gives at the best order."""
    if _too_quiet(listed, relation):
        return np.ones(len(epsilons))
    pure, curve = _curves(listed, relation, fixed)
    orders, spent = np.array(list(curve)), np.array(list(curve.values()))
    shifted = epsilons[:, None] - pure
    logs = (orders - 1) * (spent - shifted + np.log1p(-1 / orders)) - np.log(orders)
    return np.exp(np.minimum(logs.min(axis=1), 0.0))


def _replaced(listed: Sequence[Event], delta: float, relation: str, fixed: bool, interval: float | None) -> float:
    if delta - own_delta(listed, relation) <= 0 or _too_quiet(listed, relation):
        return math.inf
    return epsilon([e.as_add_remove() for e in listed], delta, fixed=fixed, interval=interval)


def _from_curves(listed: Sequence[Event], delta: float, relation: str, fixed: bool) -> float:
    """Return the epsilon that Rényi curves amount to at the best order, beside the row counts' own."""
    shared_delta = delta - own_delta(listed, relation)
    if shared_delta <= 0 or _too_quiet(listed, relation):
        return math.inf
    pure, curve = _curves(listed, relation, fixed)
    return pure + max(0.0, min(cost - limit(0.0, shared_delta, a) for a, cost in curve.items()))


def _curves(listed: Sequence[Event], relation: str, fixed: bool) -> tuple[float, dict[float, float]]:
    """Return what basic composition adds, a pure epsilon, and the Rényi divergence of all the rest by order."""
    counts = [] if fixed else [e for e in listed if e.pure_epsilon]
    rest = [e for e in listed if e not in counts]
    pure = math.fsum(_moves(relation) * e.pure_epsilon for e in counts)
    return pure, {a: rdp(rest, a, relation) for a in ORDERS}


def _too_quiet(listed: Sequence[Event], relation: str) -> bool:
    return any(e.combined_noise_multiplier < _moves(relation) * LEAST_NOISE for e in listed)


def _moves(relation: str) -> int:
    """Return how many units one step between neighbours adds or removes."""
    return 1 if relation == ADD_REMOVE else 2


def own_delta(events: Event | Iterable[Event], relation: str = ADD_REMOVE) -> float:
    """Return the delta that mechanisms spend themselves, to be taken from an account's delta as a sum.

    Example:
        >>> from dp_synth_pipeline.privacy.events import Threshold
        >>> own_delta(Threshold(1e-7)), own_delta(Threshold(1e-7), "replace-one")
        (1e-07, 2e-07)
    """
    # Under 'replace-one' the unit that leaves and the one that comes may both show.
    return math.fsum(_moves(relation) * e.own_delta for e in _listed(events))


@lru_cache(maxsize=128)
def _pld(event: Event, interval: float) -> PrivacyLossDistribution | None:
    return event.pld(interval)


def _listed(events: Event | Iterable[Event]) -> Sequence[Event]:
    return [events] if isinstance(events, Event) else list(events)
