"""What an attacker can at most do who guesses whether one privacy unit was in the source: the whole trade-off.

The attacker reads everything that some events let out, knows all else, and decides "in" or "out". Their true-positive rate
is the chance of "in" when the unit was in, and their false-positive rate that of "in" when it was not. For a false-positive
rate x, (epsilon, delta)-DP allows a true-positive rate of at most min(e^epsilon x + delta, 1 - e^-epsilon (1 - delta - x)).
The events are (epsilon, delta(epsilon))-DP for every epsilon at once, so the least of these bounds holds. Every figure here
follows from finitely many such pairs, each of which is never too small, so every figure is an upper bound of the attacker.

References:
    Dong, Roth & Su 2022, "Gaussian Differential Privacy", Section 2 (trade-off functions, and their duals).
    Wasserman & Zhou 2010, "A Statistical Framework for Differential Privacy", Theorem 2.4 (one pair's bound).
    Gomez et al. 2025, "(epsilon, delta) Considered Harmful: Best Practices for Reporting Differential Privacy Guarantees"
        (one mu, and how far the trade-off lies from it).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Event

POINTS = 1000
"""Pairs of the curve that are looked at; more of them make the figures tighter, and none makes them wrong."""

FALSE_POSITIVES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
"""The false-positive rates at which a card says what an attacker can reach."""

BELIEFS = (0.75, 0.9, 0.95, 0.99)
"""How sure an attacker may have become, who was half sure, on a card."""

BISECTIONS = 60
"""Halvings of a logarithmic interval in which mu is searched; the upper end is returned."""

LEAST_MU, MOST_MU = 1e-6, 1e3


@dataclass(frozen=True)
class TradeOff:
    """A bound of every attacker on one privacy unit, as pairs (epsilon, delta) that all hold together.

    Attributes:
        epsilons: from 0 upwards, shape (points,).
        deltas: one for each, falling, shape (points,).
    """

    epsilons: np.ndarray
    deltas: np.ndarray

    @classmethod
    def of(
        cls, events: Event | Iterable[Event], epsilon: float, relation: str = ADD_REMOVE, *, fixed: bool = False
    ) -> TradeOff:
        """Return the trade-off of events, composed, from an epsilon of 0 up to `epsilon`.

        Args:
            epsilon: where the curve ends, but for a cell of the accountant's grid, such as the epsilon that is promised;
                what lies beyond it is bounded by its end.
            relation, fixed: as in `accountant.epsilon`.

        Raises:
            InvalidInput: if `epsilon` is not finite.
        """
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise InvalidInput(f"a trade-off ends at a finite epsilon of at least 0, got {epsilon}.")
        epsilons = np.linspace(0.0, epsilon + accountant.DISCRETISATION, POINTS)
        deltas = accountant.deltas(events, [float(e) for e in epsilons], relation, fixed=fixed)
        return cls(epsilons, _tightened(epsilons, deltas))

    def true_positive(self, false_positive: float) -> float:
        """Return the largest true-positive rate of any attacker with at most this false-positive rate.

        Example:
            >>> from dp_synth_pipeline.privacy.events import Gaussian
            >>> round(TradeOff.of(Gaussian(1.0), 5.0).true_positive(0.05), 3)  # Phi(Phi^-1(0.05) + 1) = 0.2595
            0.26
        """
        if not 0 <= false_positive <= 1:
            raise InvalidInput(f"a false-positive rate lies from 0 to 1, got {false_positive}.")
        rising = self.deltas + np.exp(self.epsilons) * false_positive
        falling = 1 - np.exp(-self.epsilons) * (1 - self.deltas - false_positive)
        return float(min(rising.min(), falling.min(), 1.0))

    @property
    def right_guess(self) -> float:
        """The largest chance to guess right for an attacker who was half sure: half of 1 plus the largest advantage."""
        return float(min(1.0, (1 + self.deltas[0]) / 2))

    def surer_than(self, belief: float) -> float:
        """Return the largest chance that what is released makes an attacker who was half sure at least `belief` sure.

        The chance is that of a unit which was in, of being believed to be in; a unit which was out has no larger one of
        being believed to be out. If L is the privacy loss, delta(epsilon) is the mean of 1 - e^(epsilon - L) where that is
        positive, so P[L >= t] is at most delta(epsilon) / (1 - e^(epsilon - t)) for every epsilon below t; and L reaches t
        where the odds grow by e^t.

        Args:
            belief: from 0.5 to 1, both excluded.
        """
        if not 0.5 < belief < 1:
            raise InvalidInput(f"a belief of who was half sure grows to between 0.5 and 1, got {belief}.")
        loss = math.log(belief / (1 - belief))
        below = self.epsilons < loss
        return float(min(1.0, np.min(self.deltas[below] / -np.expm1(self.epsilons[below] - loss))))

    def figures(self, slack: float) -> dict[str, Any]:
        """Return what a release card says, JSON-ready: mu and its slack, rates, and how sure an attacker can become."""
        return {
            "mu": self.mu(slack),
            "slack": slack,
            "right_guess": self.right_guess,
            "rates": [{"false_positive": x, "true_positive": self.true_positive(x)} for x in FALSE_POSITIVES],
            "surer": [{"belief": b, "chance": self.surer_than(b)} for b in BELIEFS],
        }

    def mu(self, slack: float) -> float:
        """Return a mu, never too small, such that every true-positive rate is at most Phi(Phi^-1(x) + mu) + slack.

        So nobody can do more than an attacker on one Gaussian mechanism whose noise is 1 / mu times what one unit moves,
        but for `slack`. It is mu of Gaussian differential privacy where `slack` is 0; tails of thresholds and of a grid
        have none at 0, which is why it is stated beside a delta.

        Args:
            slack: above 0, and at least the delta at the curve's end, such as the promised delta.
        """
        if not self.deltas[-1] <= slack < 1:
            raise InvalidInput(f"the slack of mu is at least the delta at the curve's end, got {slack}.")
        # Between two points the curve lies under the left one, and a Gaussian's over its own at the right one.
        needed, at = self.deltas[:-1] - slack, self.epsilons[1:]
        low, high = np.full(len(at), math.log(LEAST_MU)), np.full(len(at), math.log(MOST_MU))
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            enough = gaussian_delta(at, np.exp(middle)) >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return float(np.exp(high.max(initial=math.log(LEAST_MU))))


def _tightened(epsilons: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    """Return the deltas that follow from all pairs together, none larger than its own.

    A pair (b, d) allows an attacker no point under the corner of its two bounds, at false-positive rate and false-negative
    rate (1 - d) / (1 + e^b). So for every a below b the events are (a, 1 - (1 + e^a) (1 - d) / (1 + e^b))-DP as well.
    """
    with np.errstate(divide="ignore"):
        corners = np.log1p(-deltas) - np.logaddexp(0.0, epsilons)
    farthest = np.maximum.accumulate(corners[::-1])[::-1]
    return np.minimum.accumulate(np.minimum(deltas, -np.expm1(np.logaddexp(0.0, epsilons) + farthest)))


def gaussian_delta(epsilon: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return delta(epsilon) of the Gaussian mechanism whose noise is 1 / mu times its sensitivity (Balle & Wang 2018)."""
    from scipy.special import log_ndtr, ndtr

    lost = np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return ndtr(mu / 2 - epsilon / mu) - lost


def gaussian_true_positive(false_positive: Sequence[float] | np.ndarray, mu: float, slack: float = 0.0) -> np.ndarray:
    """Return the bound that a `mu` and its slack stand for, at each false-positive rate; values from 0 to 1.

    Example:
        >>> [round(float(r), 4) for r in gaussian_true_positive([0.01, 0.1], 1.0)]
        [0.0924, 0.3891]
    """
    from scipy.special import ndtr, ndtri

    return np.minimum(ndtr(ndtri(np.asarray(false_positive, float)) + mu) + slack, 1.0)
