"""Gaussian and geometric releases of counts through OpenDP, each returning the value *and* the event that it cost.

Noise is sampled exactly on the integers from the operating system's entropy (Canonne, Kamath & Steinke 2020): there is
no seed and no floating-point rounding to attack.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.special import ndtri

from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace


@cache
def _count_release(scale: float):  # OpenDP is imported when used: it loads a shared library
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    return measurements.make_laplace(domains.atom_domain(T="i64"), metrics.absolute_distance(T="i64"), scale=scale)


@cache
def _histogram_release(scale: float):
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    cells = domains.vector_domain(domains.atom_domain(T="i64"))
    return measurements.make_gaussian(cells, metrics.l2_distance(T="f64"), scale=scale)


def noisy_count(count: int, *, epsilon: float, sensitivity: int = 1) -> tuple[int, DiscreteLaplace]:
    """Release one integer with two-sided geometric noise; the event's pure epsilon is at most `epsilon`."""
    event = DiscreteLaplace(scale=sensitivity / epsilon, sensitivity=sensitivity)
    return int(_count_release(event.scale)(int(count))), event


def noisy_histograms(
    histograms: Sequence[np.ndarray], *, scale: float, sensitivity: int = 1
) -> tuple[list[np.ndarray], DiscreteGaussian]:
    """Release integer histograms with discrete Gaussian noise of parameter `scale` on every cell.

    Args:
        histograms: arrays of int64 counts, each moved by at most `sensitivity` in L2 by one privacy unit.
        scale: noise parameter in rows, the same for every histogram.

    Returns:
        The noisy arrays (int64, may be negative), in order, and the one event that covers all of them.
    """
    flat = np.concatenate([np.asarray(h, dtype=np.int64) for h in histograms])
    noisy = np.asarray(_histogram_release(float(scale))(flat.tolist()), dtype=np.int64)
    cuts = np.cumsum([len(h) for h in histograms])[:-1]
    return np.split(noisy, cuts), DiscreteGaussian(scale, sensitivity, count=len(histograms))


def threshold(scale: float, delta: float, *, keys: int, sensitivity: int = 1) -> float:
    """Return the noisy count from which a key may be named: a unit's own keys all stay hidden with probability 1 - delta.

    Args:
        scale: discrete Gaussian noise parameter in rows.
        delta: chance, in all, that any key held by one unit alone is shown.
        keys: the largest number of thresholded cells that one unit can bring into being.
        sensitivity: the largest count of such a cell.

    The discrete tail at m is at most the continuous tail at m - 1 (Canonne, Kamath & Steinke 2020), hence the extra row.
    """
    return sensitivity + 1 + scale * float(-ndtri(delta / keys))
