"""What would fit instead: the most steps at this noise, the least noise at these steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget
from dp_synth_pipeline.privacy.events import Event


def lines(
    rdp_left: Mapping[float, float], relation: str, epsilon: float, delta: float, events: Sequence[Event]
) -> list[str]:
    """Return one line on what these mechanisms could be to fit `epsilon` and `rdp_left`; none without DP-SGD in them.

    Args:
        rdp_left: by order, the Rényi divergences that are left: of the account, and of its umbrella.
    """
    steps = max((e.size for e in events if e.in_steps), default=0)
    if not steps or epsilon <= 0:
        return []

    def fits(plan: Sequence[Event]) -> bool:
        if any(accountant.rdp(plan, order, relation) > left for order, left in rdp_left.items()):
            return False
        return accountant.epsilon(plan, delta, relation) <= epsilon

    others = [e for e in events if not e.in_steps]
    if others and not fits(others):
        return ["Of these mechanisms would fit: none; what runs beside the training costs too much already."]
    most = most_steps(events, steps, fits)
    noise = _least_noise(rdp_left, relation, events, Budget(epsilon, delta))
    offers = [f"at this noise at most {most} of {steps} steps" if most else "at this noise not one step"]
    offers += [f"at these steps a noise multiplier of at least {noise:.4g}"] if noise else []
    return [f"Of these mechanisms would fit: {'; '.join(offers)}."]


def most_steps(events: Sequence[Event], steps: int, fits: Callable[[Sequence[Event]], bool]) -> int:
    """Return the largest number of steps, at most `steps`, at which the events fit; 0 for none."""
    if fits(events):
        return steps
    low, high = 0, steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_with_steps(events, middle, steps)) else (low, middle)
    return low


def _with_steps(events: Sequence[Event], steps: int, of: int) -> list[Event]:
    return [e.with_steps(max(1, e.size * steps // of)) for e in events]


def _least_noise(
    rdp_left: Mapping[float, float], relation: str, events: Sequence[Event], budget: Budget
) -> float | None:
    def plan(noise: float) -> list[Event]:
        return [e.with_noise(noise) if e.in_steps else e for e in events]

    try:
        noise_multiplier = calibration.least_noise(plan, budget, rdp_limits=rdp_left, relation=relation)
    except InvalidInput:  # what runs beside training costs too much already
        return None
    digits = 10 ** (3 - math.floor(math.log10(noise_multiplier)))
    return math.ceil(noise_multiplier * digits) / digits


def noise_factor(
    events: Sequence[Event], times: int, order: float, rdp_left: float, relation: str = ADD_REMOVE
) -> float | None:
    """Return by how much all noise of `events` must grow for `times` repetitions to cost at most `rdp_left` at `order`.

    At least 1, accurate to a part in a thousand and never too small; None if a thousand times the noise is not enough.
    """

    def fits(factor: float) -> bool:
        return times * accountant.rdp([e.with_noise(e.noise * factor) for e in events], order, relation) <= rdp_left

    if fits(1.0):
        return 1.0
    low, high = 1.0, 1000.0
    if not fits(high):
        return None
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
