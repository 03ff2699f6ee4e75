"""The least noise whose epsilon does not exceed the target: never above it, not even by the search's tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget
from dp_synth_pipeline.privacy.events import Event, Gaussian

LEAST, MOST = 0.2, 1e5
"""Noise multipliers searched; under 0.2 a Gaussian mechanism protects nobody."""

RELATIVE_TOLERANCE = 1e-3
"""The noise returned exceeds the least sufficient noise by at most this part of it."""

COARSER = 10
"""How much coarser the grid is on which the search begins: it is never too optimistic there, and nearly right."""


def least_noise(
    plan: Callable[[float], Sequence[Event]],
    budget: Budget,
    *,
    rdp_limits: Mapping[float, float] | None = None,
    relation: str = ADD_REMOVE,
) -> float:
    """Return the least noise multiplier at which `plan(noise)` costs at most `budget`, as was computed for that value.

    Args:
        plan: the events performed at a given noise multiplier; their cost must fall as the noise grows.
        budget: the (epsilon, delta) that PLD accounting must not exceed.
        rdp_limits: by order, the Rényi divergences that the plan must not exceed either.
        relation: the neighbouring relation under which both are computed.

    Raises:
        InvalidInput: if even the largest noise does not fit, since the plan's fixed parts cost too much.
    """

    def excess(log_noise: float, interval: float) -> float:
        return _excess(plan(math.exp(log_noise)), budget, rdp_limits, relation, interval)

    fine = accountant.DISCRETISATION
    start, step = 0.0, math.log(2)
    with suppress(_NothingFits):
        start = _least(cache(partial(excess, interval=COARSER * fine)), start, step)
        step = math.log1p(0.99 * RELATIVE_TOLERANCE)  # usually the least is within one, and the search at its end
    try:
        return math.exp(_least(cache(partial(excess, interval=fine)), start, step))
    except _NothingFits:
        raise InvalidInput(
            f"no noise makes this plan fit epsilon={budget.epsilon:g} at delta={budget.delta:g}: what it must measure first "
            f"costs too much. Raise epsilon (--epsilon), or leave less to measure: declare columns (--schema)."
        ) from None


class _NothingFits(Exception):
    """Even the largest noise is too little."""


def _least(excess: Callable[[float], float], start: float, step: float) -> float:
    """Return the least logarithm of a noise of which the excess was computed, and is not above 0."""
    from scipy.optimize import brentq

    least, most, tolerance = math.log(LEAST), math.log(MOST), RELATIVE_TOLERANCE / 4
    low = high = start
    while excess(high) > 0:
        if high >= most:
            raise _NothingFits
        low, high, step = high, min(high + step, most), 2 * step
    while excess(low) <= 0:
        if low <= least:
            return low
        low, high, step = max(low - step, least), low, 2 * step
    if high - low <= math.log1p(RELATIVE_TOLERANCE):
        return high
    root = float(brentq(excess, low, high, xtol=tolerance))  # type: ignore[arg-type]
    while excess(root) > 0:  # never inferred from a neighbour
        root += tolerance
    return root


def most_steps(
    plan: Callable[[int], Sequence[Event]],
    most: int,
    budget: Budget,
    *,
    rdp_limits: Mapping[float, float] | None = None,
    relation: str = ADD_REMOVE,
) -> int:
    """Return the most steps, from 1 to `most`, at which `plan(steps)` costs at most `budget`.

    Args:
        plan: the events performed in that many steps; their cost must grow with the steps.

    Raises:
        InvalidInput: if not even one step fits.
    """

    def has_room(steps: int) -> bool:
        return fits(plan(steps), budget, rdp_limits, relation)

    if not has_room(1):
        raise InvalidInput(
            f"not one step fits epsilon={budget.epsilon:g} at delta={budget.delta:g} with this noise_multiplier; raise "
            f"the noise, or leave it out to have it calibrated."
        )
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if has_room(middle) else (low, middle)
    return low


def fits(
    events: Sequence[Event], budget: Budget, rdp_limits: Mapping[float, float] | None = None, relation: str = ADD_REMOVE
) -> bool:
    """Say whether `events` together cost at most `budget`, and at most the Rényi divergences in `rdp_limits`, by order."""
    return _excess(events, budget, rdp_limits, relation) <= 0


def _excess(
    events: Sequence[Event],
    budget: Budget,
    rdp_limits: Mapping[float, float] | None,
    relation: str,
    interval: float | None = None,
) -> float:
    """Return the logarithm of cost over limit: above 0 does not fit."""
    ratio = 0.0
    for order, limit in (rdp_limits or {}).items():
        ratio = max(ratio, accountant.rdp(events, order, relation) / limit if limit > 0 else math.inf)
    if ratio <= 1:
        ratio = max(ratio, accountant.epsilon(events, budget.delta, relation, interval=interval) / budget.epsilon)
    return min(math.log(ratio), 50.0) if ratio > 0 else -50.0


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
    from scipy.special import log_ndtr

    above = float(log_ndtr(0.5 / noise - epsilon * noise))
    below = epsilon + float(log_ndtr(-0.5 / noise - epsilon * noise))
    return -math.exp(above) * math.expm1(min(below - above, 0.0))
