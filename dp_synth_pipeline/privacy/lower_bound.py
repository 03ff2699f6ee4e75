"""What an attack proves of a mechanism's epsilon, from its scores of canaries that were in the data and that were not.

A score above a threshold means "in". Each threshold gives a rate of false positives and one of true positives, and both
are bounded by Clopper-Pearson intervals, all of them together at one confidence. Two lower bounds follow:

- `epsilon_alone` assumes nothing about the mechanism but that trials are independent: (epsilon, delta)-DP allows no true
  positive rate above exp(epsilon) * false positives + delta (Kairouz, Oh & Viswanath 2015, Theorem 2.1).
- `epsilon_of_kind` refutes claims of one kind, DP-SGD with a given rate and number of steps. Each such claim is a whole
  trade-off curve, and it is refuted where one of the points lies above that curve (Nasr et al. 2023, "Tight Auditing of
  Differentially Private Machine Learning", section 4). What is left is the least epsilon of a claim that is not refuted.
  This bound is much tighter, since it need not see events that are as rare as delta.

A bound below the claim acquits nobody. A bound above it convicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Event

SHARES = (0.4, 0.1, 0.01, 1e-3, 1e-4)
"""Thresholds: the scores above which lie these shares of the canaries that were out. Fixed before any score is seen."""

SLOPES = np.linspace(0.0, 10.0, 201)
"""Epsilons at which a claimed trade-off curve is looked at: each is a line that no point may lie above."""

INTERVAL = 1e-3
"""Width of the privacy-loss grid. A wider one than the accountant's refutes less and never too much."""

LEAST, MOST = 0.5, 16.0
"""Noise searched by `epsilon_of_kind`, relative to the claim's."""

HALVINGS = 14
"""Of the range of noise, on a logarithmic scale: the noise is found to a part in five thousand."""


@dataclass(frozen=True)
class Point:
    """One threshold of an attack, as far as it is proved.

    Attributes:
        false_positives: at most this share of the canaries that are out is taken for in.
        true_positives: at least this share of the canaries that are in is taken for in.
    """

    false_positives: float
    true_positives: float

    @property
    def mirrored(self) -> Point:
        """The same threshold for the question "out", which a claim must withstand too."""
        return Point(1 - self.true_positives, 1 - self.false_positives)


def points(out: np.ndarray, inside: np.ndarray, confidence: float) -> tuple[Point, ...]:
    """Return what scores prove at every threshold, all of it together with probability `confidence`.

    Above the k-th largest of n independent scores lies a probability that is at most Beta(k, n - k + 1), whatever they
    are distributed like, so a threshold may be taken from the very scores that bound its false positives.

    Args:
        out: float (canaries,); scores of those that were not in the data, independent draws.
        inside: float (canaries,); scores of those that were, independent draws and independent of `out`.

    Raises:
        ValueError: if an array is empty or holds NaN, or the confidence does not lie between 0 and 1.

    Example:
        >>> surest = points(np.zeros(100), np.ones(100), 0.95)[-1]
        >>> round(surest.false_positives, 3), round(surest.true_positives, 3)
        (0.047, 0.953)
    """
    from scipy.stats import beta

    if not (len(out) and len(inside) and 0 < confidence < 1) or np.isnan(out).any() or np.isnan(inside).any():
        raise ValueError("expected scores of both kinds without NaN, and a confidence between 0 and 1.")
    ranks = sorted({max(1, round(share * len(out))) for share in SHARES}, reverse=True)
    wrong = (1 - confidence) / (2 * len(ranks))
    falling = np.sort(out)[::-1]
    found = []
    for rank in ranks:
        hits = int((inside > falling[rank - 1]).sum())
        low = float(beta.ppf(wrong, hits, len(inside) - hits + 1)) if hits else 0.0
        found.append(Point(float(beta.isf(wrong, rank, len(out) - rank + 1)), low))
    return tuple(found)


def epsilon_alone(found: Sequence[Point], delta: float) -> float:
    """Return the largest epsilon, at least 0, that the points refute at `delta` for any mechanism at all.

    Example:
        >>> round(epsilon_alone([Point(0.01, 0.5)], 1e-5), 2)
        3.91
    """
    ratios = [(q.true_positives - delta) / q.false_positives for p in found for q in (p, p.mirrored)]
    return math.log(max(1.0, *ratios))


def refutes(found: Sequence[Point], claim: Event) -> bool:
    """Return whether a point lies above the trade-off curve that `claim` promises, so that the claim is not true.

    Raises:
        ValueError: if the claim has no such curve, as a threshold.
    """
    loss = claim.pld(INTERVAL)
    if loss is None:
        raise ValueError(f"expected an event with a privacy loss distribution, got {claim.kind}.")
    deltas = np.asarray(loss.get_delta_for_epsilon(SLOPES.tolist()))
    both = [q for p in found for q in (p, p.mirrored)]
    return any(bool((q.true_positives > np.exp(SLOPES) * q.false_positives + deltas).any()) for q in both)


def epsilon_of_kind(found: Sequence[Point], claim: Event, delta: float) -> float:
    """Return the least epsilon at `delta` of a claim like `claim` that the points do not refute.

    Claims that differ in their noise alone are tried: all with more noise than the one whose epsilon is returned are
    refuted. It is 0 if not even sixteen times the claimed noise is refuted, and at most the epsilon of half the noise.
    """
    low, high = math.log(LEAST), math.log(MOST)

    def refuted(logarithm: float) -> bool:
        return refutes(found, claim.with_noise(claim.noise * math.exp(logarithm)))

    if not refuted(high):
        return 0.0
    if refuted(low):
        high = low
    for _ in range(HALVINGS if high > low else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return accountant.epsilon(claim.with_noise(claim.noise * math.exp(high)), delta)
