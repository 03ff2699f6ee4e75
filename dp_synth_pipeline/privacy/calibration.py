"""The least noise whose epsilon does not exceed the target: never above it, not even by the search's tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from scipy.special import log_ndtr

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget
from dp_synth_pipeline.privacy.events import Event, Gaussian

LEAST, MOST = 0.2, 1e5
"""Noise multipliers searched; under 0.2 a Gaussian mechanism protects nobody."""

RELATIVE_TOLERANCE = 1e-3
"""The noise returned exceeds the least sufficient noise by at most this part of it."""


def least_noise(
    plan: Callable[[float], Sequence[Event]],
    budget: Budget,
    *,
    order: float | None = None,
    rdp_limit: float | None = None,
    relation: str = ADD_REMOVE,
) -> float:
    """Return the least noise multiplier at which `plan(noise)` costs at most `budget`.

    The cost at the value returned was computed and found to fit; it was not inferred from a neighbour.

    Args:
        plan: the events performed at a given noise multiplier; their cost must fall as the noise grows.
        budget: the (epsilon, delta) that PLD accounting must not exceed.
        order, rdp_limit: if given, the plan's Renyi divergence at `order` must not exceed `rdp_limit` either.
        relation: the neighbouring relation under which both are computed.

    Raises:
        InvalidInput: if even the largest noise does not fit, since the plan's fixed parts cost too much.
    """

    def fits(noise: float) -> bool:
        events = plan(noise)
        if order is not None and rdp_limit is not None and accountant.rdp(events, order, relation) > rdp_limit:
            return False
        return accountant.epsilon(events, budget.delta, relation) <= budget.epsilon

    low, high = LEAST, 1.0
    while not fits(high):
        low, high = high, high * 2
        if high > MOST:
            raise InvalidInput(
                f"no noise makes this plan fit epsilon={budget.epsilon:g} at delta={budget.delta:g}: its profile alone "
                f"costs too much. Lower profile_share, or raise epsilon."
            )
    if high == 1.0 and fits(low):
        return low
    while high > low * (1 + RELATIVE_TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@cache
def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of one Gaussian mechanism that costs at most (epsilon, delta).

    The exact formula (Balle & Wang 2018, Theorem 8) gives the start, so that one PLD is computed instead of a dozen;
    the value returned is the one whose PLD was found to fit.

    Example:
        >>> round(gaussian_noise(1.0, 1e-5), 1)
        3.7
    """
    budget = Budget(epsilon, delta)
    low, high = LEAST, MOST
    while high > low * (1 + RELATIVE_TOLERANCE / 100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _gaussian_delta(epsilon, middle) <= delta else (middle, high)
    start = LEAST if _gaussian_delta(epsilon, LEAST) <= delta else high
    if accountant.epsilon([Gaussian(start)], delta) <= epsilon:
        return start
    return least_noise(lambda noise: [Gaussian(noise)], budget)


def _gaussian_delta(epsilon: float, noise: float) -> float:
    above = float(log_ndtr(0.5 / noise - epsilon * noise))
    below = epsilon + float(log_ndtr(-0.5 / noise - epsilon * noise))
    return -math.exp(above) * math.expm1(min(below - above, 0.0))
