"""The admission rule: a Rényi filter at one fixed order, kept in integers that only ever over-report.

Fix an order when the account is opened. Admit a run with Rényi cost r iff spent + r <= limit, where
`limit = epsilon - (log(1/delta) + (a-1) log(1-1/a) - log a) / (a-1)`. Admitting while `get_epsilon(delta)` at the best
order of the moment stays under epsilon is *not* sound when runs are chosen after seeing earlier outputs.

References:
    Feldman & Zrnic 2021, "Individual Privacy Accounting via a Rényi Filter", Theorem 4.3 (the filter).
    Canonne, Kamath & Steinke 2020, Proposition 12 (the conversion).
"""

from __future__ import annotations

import math

from dp_synth_pipeline.errors import InvalidInput

ORDERS = (
    1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512,
)  # fmt: skip
"""The orders an account may be opened at; pinned here, not taken from a library's defaults."""

NANO = 10**9
"""Costs (Rényi divergence, or epsilon) are stored as integers of one billionth."""

ATTO = 10**18
"""Deltas are stored as integers of 1e-18."""

MOST_UNITS = 2**63 - 1
"""The largest integer that every store can hold."""


def limit(epsilon: float, delta: float, order: float) -> float:
    """Return the Rényi divergence at `order` whose conversion to (epsilon, delta)-DP is exact; may be negative.

    Example:
        >>> [round(limit(e, 1e-5, a), 3) for e, a in ((3, 10), (6, 5), (10, 3.5))]
        [2.082, 3.747, 6.232]
    """
    lost = math.log(1 / delta) + (order - 1) * math.log1p(-1 / order) - math.log(order)
    return epsilon - lost / (order - 1)


def best_order(epsilon: float, delta: float) -> float:
    """Return the pinned order nearest to the optimum for many small Gaussian-like runs.

    Example:
        >>> [best_order(e, 1e-5) for e in (3, 6, 10)]
        [10, 5, 3.5]
    """
    log_delta = math.log(1 / delta)
    root = math.sqrt(log_delta + epsilon) - math.sqrt(log_delta)
    wanted = 1 + math.sqrt(log_delta) / root
    order = min(ORDERS, key=lambda a: abs(a - wanted))
    if limit(epsilon, delta, order) <= 0:
        raise InvalidInput(f"no pinned Rényi order leaves a budget at epsilon={epsilon}, delta={delta}; raise epsilon.")
    return order


def charge_units(cost: float, scale: int = NANO) -> int:
    """Round a cost up to stored units; refuse what is not a finite cost of at least 0.

    Example:
        >>> charge_units(1e-12), charge_units(0.0)
        (1, 0)
    """
    if not math.isfinite(cost) or cost < 0:
        raise InvalidInput(f"a privacy cost must be finite and not negative, got {cost}.")
    if cost * scale >= MOST_UNITS:
        raise InvalidInput(f"a privacy cost of {cost:g} is too large to store, and protects nobody; use more noise.")
    return math.ceil(math.nextafter(cost * scale, math.inf)) if cost else 0


def budget_units(value: float, scale: int = NANO) -> int:
    """Round a budget down to stored units; refuse what is not finite and above 0.

    Example:
        >>> budget_units(2.0819999999)
        2081999999
    """
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(f"a privacy budget must be finite and above 0, got {value}.")
    if value * scale >= MOST_UNITS:
        raise InvalidInput(f"a privacy budget of {value:g} is too large to store, and protects nobody; lower epsilon.")
    return math.floor(math.nextafter(value * scale, 0))
