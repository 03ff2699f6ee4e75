"""The cost of events: their Renyi curve at an order, and their tightest epsilon by privacy loss distributions.

All numbers are dp_accounting's. What is added here: the discrete Gaussian as a PLD, the exact Renyi curve of the
geometric mechanism, and one rule for a release whose later parameters depend on its first, noisy row count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.rdp import rdp_privacy_accountant as rdp_lib

from dp_synth_pipeline.privacy import replacement
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, check_relation
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
)
from dp_synth_pipeline.privacy.filter import ORDERS, limit

DISCRETISATION = 1e-4
"""Width of the privacy-loss grid; pinned, so that a cost computed today is the cost computed at an audit."""

LEAST_NOISE = 0.05
"""Under this noise multiplier a mechanism costs an epsilon above 100, and its grid would fill the memory."""


def rdp(events: Event | Iterable[Event], order: float, relation: str = ADD_REMOVE) -> float:
    """Return an upper bound of the Renyi divergence of `events`, composed, at `order` > 1.

    Sound for adaptively chosen events, since Renyi divergences add up at a fixed order (Feldman & Zrnic 2021).

    Example:
        >>> rdp(Gaussian(2.0), 10), rdp(Gaussian(2.0), 10, "replace-one")
        (1.25, 5.0)
    """
    check_relation(relation)
    if relation == ADD_REMOVE:
        return math.fsum(_rdp_one(e, order) for e in _listed(events))
    return math.fsum(replacement.rdp(e, order, _rdp_one) for e in _listed(events))


def _rdp_one(event: Event, order: float) -> float:
    if isinstance(event, DiscreteLaplace):
        return pure_rdp(event.epsilon, order)
    accountant = rdp_lib.RdpAccountant([order], NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(event.to_dp_event())
    return float(accountant.rdp[0])


def pure_rdp(epsilon: float, order: float) -> float:
    """Renyi divergence of randomized response, which dominates every pure epsilon-DP mechanism (Mironov 2017, Prop. 5)."""
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -np.log1p(np.exp(epsilon))
    return float(np.logaddexp(order * log_p + (1 - order) * log_q, order * log_q + (1 - order) * log_p)) / (order - 1)


def epsilon(events: Event | Iterable[Event], delta: float, relation: str = ADD_REMOVE, *, fixed: bool = False) -> float:
    """Return an epsilon, never too small, such that `events` together are (epsilon, delta)-DP.

    The row count (a `DiscreteLaplace` event) is added as a pure epsilon: all later parameters may depend on it, and
    basic composition allows that. The rest is one plan, fixed once the count is known, and is composed by PLD.
    Infinite if the thresholds alone need `delta`, or if a mechanism has next to no noise.

    Args:
        relation: the neighbouring relation; under 'replace-one', DP-SGD is converted from its Renyi curve, since no
            dominating pair of it is known.
        fixed: every parameter was bounded before the first event ran, as in a declared plan, so that the row counts
            are composed by PLD as well.

    Example:
        >>> round(epsilon(SubsampledGaussian(1.0, 0.01, 1000), 1e-5), 2)
        1.83
    """
    check_relation(relation)
    listed = _listed(events)
    if relation != ADD_REMOVE:
        return _replaced(listed, delta, relation, fixed)
    left = delta - math.fsum(e.own_delta for e in listed)
    if left <= 0 or any(_noise(e) < LEAST_NOISE for e in listed):
        return math.inf
    counts = [e for e in listed if isinstance(e, DiscreteLaplace)]
    pld = pld_lib.identity(value_discretization_interval=DISCRETISATION)
    for event in listed:
        part = _pld(event)
        if part is not None:
            pld = pld.compose(part)
    if not fixed:
        return math.fsum(e.epsilon for e in counts) + float(pld.get_epsilon_for_delta(left))
    for event, times in Counter(counts).items():
        pld = pld.compose(_count_pld(event).self_compose(times))
    return float(pld.get_epsilon_for_delta(left))


def _replaced(listed: Sequence[Event], delta: float, relation: str, fixed: bool) -> float:
    left = delta - own_delta(listed, relation)
    if left <= 0 or any(_noise(e) < 2 * LEAST_NOISE for e in listed):
        return math.inf
    if not any(isinstance(e, SubsampledGaussian) for e in listed):
        return epsilon(replacement.as_add_remove(listed), left, fixed=fixed)
    counts = [] if fixed else [e for e in listed if isinstance(e, DiscreteLaplace)]
    rest = [e for e in listed if e not in counts]
    pure = math.fsum(2 * e.epsilon for e in counts)
    best = min(rdp(rest, a, relation) - limit(0.0, left, a) for a in ORDERS)
    return pure + max(0.0, best)


def own_delta(events: Event | Iterable[Event], relation: str = ADD_REMOVE) -> float:
    """Return the delta that mechanisms spend themselves, to be taken from an account's delta as a sum.

    Example:
        >>> from dp_synth_pipeline.privacy.events import Threshold
        >>> own_delta(Threshold(1e-7)), own_delta(Threshold(1e-7), "replace-one")
        (1e-07, 2e-07)
    """
    own = replacement.own_delta if relation != ADD_REMOVE else lambda e: e.own_delta
    return math.fsum(own(e) for e in _listed(events))


def _noise(event: Event) -> float:
    if isinstance(event, DiscreteGaussian):
        return event.scale / event.sensitivity / math.sqrt(event.count)
    if isinstance(event, Gaussian):
        return event.noise_multiplier / math.sqrt(event.count)
    return event.noise_multiplier if isinstance(event, SubsampledGaussian) else math.inf


@lru_cache(maxsize=128)
def _pld(event: Event) -> pld_lib.PrivacyLossDistribution | None:
    if isinstance(event, DiscreteGaussian):
        one = pld_lib.from_discrete_gaussian_mechanism(
            event.scale, event.sensitivity, value_discretization_interval=DISCRETISATION, use_connect_dots=True
        )
        return one.self_compose(event.count)
    if isinstance(event, Gaussian):
        return pld_lib.from_gaussian_mechanism(
            event.noise_multiplier / math.sqrt(event.count), value_discretization_interval=DISCRETISATION
        )
    if isinstance(event, SubsampledGaussian):
        one = pld_lib.from_gaussian_mechanism(
            event.noise_multiplier, sampling_prob=event.sample_rate, value_discretization_interval=DISCRETISATION
        )
        return one.self_compose(event.steps)
    return None


def _count_pld(event: DiscreteLaplace) -> pld_lib.PrivacyLossDistribution:
    return pld_lib.from_discrete_laplace_mechanism(
        1 / event.scale, event.sensitivity, value_discretization_interval=DISCRETISATION
    )


def _listed(events: Event | Iterable[Event]) -> Sequence[Event]:
    return [events] if isinstance(events, Event) else list(events)
