"""What events cost when neighbours differ by replacing one privacy unit, from what they cost by adding or removing one.

To replace a unit is to remove one and to add another, so what one unit can move is at most doubled: a sensitivity, a
threshold's delta, a pure epsilon. Counts do better: what is taken from some cells and what is added to others have no
negative inner product, so a histogram moves by at most sqrt(2) times its sensitivity.

References:
    Mironov 2017, "Renyi Differential Privacy", Corollary 4 (the weak triangle inequality).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
)


def own_delta(event: Event) -> float:
    """Return the delta that a mechanism spends itself: the unit that leaves and the one that comes may both show."""
    return 2 * event.own_delta


def as_add_remove(events: Iterable[Event]) -> list[Event]:
    """Return events that cost by adding or removing at least what `events` cost by replacing.

    Example:
        >>> as_add_remove([Gaussian(2.0), DiscreteGaussian(30.0, 1, 4)])[0]
        Gaussian(noise_multiplier=1.0, count=1)
    """
    return [_as_add_remove(e) for e in events if not e.own_delta]


def _as_add_remove(event: Event) -> Event:
    if isinstance(event, DiscreteGaussian):
        return replace(event, count=2 * event.count)  # cells that lose and cells that gain, as two releases
    if isinstance(event, DiscreteLaplace):
        return replace(event, sensitivity=2 * event.sensitivity)
    if isinstance(event, (Gaussian, SubsampledGaussian)):
        return replace(event, noise_multiplier=event.noise_multiplier / 2)
    raise TypeError(event.kind)


def rdp(event: Event, order: float, add_remove: Callable[[Event, float], float]) -> float:
    """Return an upper bound of the Renyi divergence of `event` at `order` > 1 when one unit is replaced.

    Args:
        add_remove: gives the Renyi divergence of an event at an order when a unit is added or removed.
    """
    if event.own_delta:
        return 0.0
    if not isinstance(event, SubsampledGaussian):
        return add_remove(_as_add_remove(event), order)
    # With both units in every sample the clipped sum moves by twice the clip; sampling only mixes that with nothing.
    full = add_remove(Gaussian(event.noise_multiplier / 2, event.steps), order)
    if event.sample_rate == 1:
        return full
    there, back = add_remove(event, 2 * order), add_remove(event, 2 * order - 1)
    return min(full, (order - 0.5) / (order - 1) * there + back)
