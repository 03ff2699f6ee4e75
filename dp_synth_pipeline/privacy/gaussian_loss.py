"""The privacy loss distribution of a subsampled Gaussian, as dp_accounting discretises it, all grid points at once.

dp_accounting asks for the divergence at one grid point after the other, in Python; a calibration asks for a million of them.
Here the points are an array. The bounds of the grid, the distributions and the connected dots are the library's.

References:
    Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, "Connect the Dots: Tighter Discrete Approximations of Privacy Loss
    Distributions".
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss


@lru_cache(maxsize=8)
def gaussian_loss(noise_multiplier: float, sample_rate: float, interval: float) -> PrivacyLossDistribution:
    """Return the loss of one Gaussian sum of sensitivity 1 over a Poisson sample, never too small, on a grid of `interval`.

    Args:
        noise_multiplier: the standard deviation, above 0.
        sample_rate: the probability that a unit is in the sample, in (0, 1].

    Example:
        >>> round(gaussian_loss(2.0, 1.0, 1e-4).get_epsilon_for_delta(1e-5), 2)
        1.99
    """
    removed = _one_way(noise_multiplier, sample_rate, interval, AdjacencyType.REMOVE)
    if sample_rate == 1:
        return PrivacyLossDistribution(removed)
    return PrivacyLossDistribution(removed, _one_way(noise_multiplier, sample_rate, interval, AdjacencyType.ADD))


def _one_way(noise: float, rate: float, interval: float, way: AdjacencyType) -> pld_pmf.PLDPmf:
    loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=way)
    tail = loss.privacy_loss_tail()
    low = math.floor(loss.privacy_loss(tail.upper_x_truncation) / interval)
    high = math.ceil(loss.privacy_loss(tail.lower_x_truncation) / interval)
    epsilons = np.arange(low, high + 1) * interval
    outcomes = _least_outcomes(epsilons, noise, rate, way)
    deltas = loss.mu_upper_cdf(outcomes) - np.exp(epsilons + loss.mu_lower_log_cdf(outcomes))
    deltas = np.where(outcomes == np.inf, -np.expm1(epsilons), deltas)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, np.clip(deltas, 0, 1))


def _least_outcomes(epsilons: np.ndarray, noise: float, rate: float, way: AdjacencyType) -> np.ndarray:
    """Return the largest outcome whose privacy loss is at least each epsilon: infinite where all, or none, have it."""
    if way is AdjacencyType.REMOVE:
        return -0.5 - _before_sampling(epsilons, rate) * noise**2
    return 1 + (-0.5 + _before_sampling(-epsilons, rate) * noise**2)


def _before_sampling(losses: np.ndarray, rate: float) -> np.ndarray:
    """Return log(1 + (exp(loss) - 1) / rate), in the library's order of operations, so that its digits come out."""
    if rate == 1:
        return losses
    whole, without = losses + np.log(1 / rate), np.log(1 / rate - 1)
    with np.errstate(divide="ignore"):
        before = whole + np.log1p(-np.exp(np.minimum(without - whole, 0.0)))
    return np.where(losses == 0, np.log(1 / rate + (1 - 1 / rate)), before)
