"""Gaussian and geometric releases of counts, each presented to its entry's odometer before any noise is drawn.

Counts are noised on the whole numbers, from the operating system's entropy: there is no seed and no floating-point
rounding to attack. Histograms get an exact normal variate, rounded (`noise`), which costs what the Gaussian mechanism
costs. Single counts get OpenDP's geometric noise.

A declared plan of an earlier version was priced for discrete Gaussian noise (Canonne, Kamath & Steinke 2020). What is
charged to such a plan draws that noise, so that it costs what was declared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, Threshold
from dp_synth_pipeline.privacy.noise import rounded_gaussian
from dp_synth_pipeline.privacy.odometer import ROUNDING, Odometer


@cache
def _count_release(scale: float):  # OpenDP is imported when used: it loads a shared library
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    return measurements.make_laplace(domains.atom_domain(T="i64"), metrics.absolute_distance(T="i64"), scale=scale)


@cache
def _discrete_release(scale: float):
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    cells = domains.vector_domain(domains.atom_domain(T="i64"))
    return measurements.make_gaussian(cells, metrics.l2_distance(T="f64"), scale=scale)


def noisy_count(count: int, *, epsilon: float, sensitivity: int = 1, odometer: Odometer) -> tuple[int, DiscreteLaplace]:
    """Release one integer with two-sided geometric noise; the event's pure epsilon is at most `epsilon`.

    Raises:
        NotCharged: if the odometer's entry did not pay for it; nothing is drawn then.
    """
    event = DiscreteLaplace(scale=sensitivity / epsilon, sensitivity=sensitivity)
    odometer.spend(event)
    return int(_count_release(event.scale)(int(count))), event


def noisy_histograms(
    histograms: Sequence[np.ndarray], *, scale: float, sensitivity: float, odometer: Odometer
) -> tuple[list[np.ndarray], Gaussian | DiscreteGaussian]:
    """Release arrays of whole numbers with Gaussian noise of standard deviation `scale`, rounded, on every cell.

    Args:
        histograms: arrays of int64, each moved by at most `sensitivity` in L2 by one privacy unit.
        scale: standard deviation of the noise before it is rounded, in what is counted; the same for every array.
        odometer: of the entry that pays.

    Returns:
        The noisy arrays (int64, may be negative), in order, and the one event that all of them cost.

    Raises:
        NotCharged: if the odometer's entry did not pay for it; nothing is drawn then.
    """
    event = _event(scale, sensitivity, len(histograms), odometer)
    odometer.spend(event)
    flat = np.concatenate([np.asarray(h, dtype=np.int64) for h in histograms])
    if isinstance(event, DiscreteGaussian):
        noisy = np.asarray(_discrete_release(event.scale)(flat.tolist()), dtype=np.int64)
    else:
        noisy = flat + rounded_gaussian(scale, len(flat))
    cuts = np.cumsum([len(h) for h in histograms])[:-1]
    return np.split(noisy, cuts), event


def _event(scale: float, sensitivity: float, count: int, odometer: Odometer) -> Gaussian | DiscreteGaussian:
    """Return what histograms cost: the noise that is drawn is the one that was charged."""
    if odometer.pays_in(DiscreteGaussian):
        return DiscreteGaussian(scale, math.ceil(sensitivity), count)
    return Gaussian(scale / sensitivity, count)


def threshold(scale: float, delta: float, *, keys: int, sensitivity: int, odometer: Odometer) -> float:
    """Return the noisy count from which a key may be named: a unit's own keys all stay hidden with probability 1 - delta.

    A key that one unit alone holds has a count of at most `sensitivity`, so it is named only if its noise reaches what the
    threshold lies above that. Of a normal variate N, P[round(N) >= m] = P[N >= m - 1/2] for whole m, so half a row more
    than the normal quantile is enough, and no less is in general. A discrete Gaussian's tail at m is at most that of N at
    m - 1 (Canonne, Kamath & Steinke 2020), which takes a whole row.

    Args:
        scale: standard deviation of the counts' noise, in rows.
        delta: chance, in all, that any key held by one unit alone is shown.
        keys: the largest number of thresholded cells that one unit can bring into being.
        sensitivity: the largest count of such a cell.
        odometer: of the entry that pays delta.

    Raises:
        NotCharged: if the odometer's entry did not pay for it.
    """
    from scipy.special import ndtri

    odometer.spend(Threshold(delta))
    rounding = 1.0 if odometer.pays_in(DiscreteGaussian) else 0.5
    return (sensitivity + rounding + scale * float(-ndtri(delta / keys))) * (1 + ROUNDING)


def threshold_of_divided(scale: float, delta: float, *, keys: int, step: float, odometer: Odometer) -> float:
    """Return the noisy weight from which a key may be named, where a unit with t keys adds at most 1 / sqrt(t) to each.

    So one unit adds a vector of length 1 (L2), however many keys it has (Gopi et al. 2020, "Differentially Private Set
    Union"). What a unit with t keys of its own shows is named only if the noise of one of them reaches what the threshold
    lies above 1 / sqrt(t), which has a probability of at most delta for each t.

    Args:
        scale: standard deviation of the weights' noise.
        delta: chance, in all, that any key held by one unit alone is shown.
        keys: how many keys one unit has, at most.
        step: the distance between weights that can be drawn.
        odometer: of the entry that pays delta.

    Raises:
        NotCharged: if the odometer's entry did not pay for it.
    """
    from scipy.special import ndtri

    odometer.spend(Threshold(delta))
    shared = np.arange(1, keys + 1)
    return float(np.max(1 / np.sqrt(shared) + step / 2 + scale * -ndtri(delta / shared))) * (1 + ROUNDING)
