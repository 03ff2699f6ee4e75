"""A lower bound of epsilon from a single training: who was in, guessed from what came out.

Each of some canaries is in the table with probability 1/2. An attacker sees the result and guesses, for those he is surest
of, whether they were in. If a mechanism is (epsilon, delta)-DP, no more guesses are right than the bound below allows, so
more right guesses prove a larger epsilon (Steinke, Nasr & Jagielski 2023, "Privacy Auditing with One (1) Training Run",
Theorem 5.2 and Appendix D). A low bound proves nothing: a better attacker might exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

LARGEST = 50.0
"""No epsilon above this is told apart."""

SHARES = (1.0, 0.25, 1 / 16)
"""Parts of the canaries that are guessed about, each a test of its own."""


@dataclass(frozen=True)
class Bound:
    """What the right guesses prove.

    Attributes:
        epsilon: no (epsilon', delta)-DP mechanism with epsilon' below this would be guessed so well, but with a
            probability of 1 - `confidence`.
        guesses, correct: of the test that proves most.
    """

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    correct: int


def p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    """Return an upper bound of the probability that an (epsilon, delta)-DP mechanism lets so many guesses be right.

    Example:
        >>> round(p_value(0.0, 100, 10, 10, 0.0), 6)
        0.000977
    """
    right = 1 / (1 + np.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, right))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    missed = np.arange(1, correct + 1)
    near = np.cumsum(binom.pmf(correct - missed, guesses, right))  # P[correct > guesses that are right >= correct - i]
    return min(1.0, tail + 2 * canaries * delta * float((near / missed).max()))


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """Return the largest epsilon that so many right guesses refute, at least 0.

    Args:
        canaries: all that were in with probability 1/2, guessed about or not.
        guesses: how many were guessed about, fixed before looking at which guesses are right.
        confidence: probability with which the bound holds for any attacker.

    Example:
        >>> round(one_run_epsilon(1000, 100, 75, 1e-4, 0.95), 3)
        0.673
    """
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError(f"expected correct <= guesses <= canaries, got {correct}, {guesses}, {canaries}.")
    if not (0 <= delta < 1 and 0 < confidence < 1):
        raise ValueError("delta must lie in [0, 1), and confidence between 0 and 1.")
    excess = partial(_excess, canaries, guesses, correct, delta, 1 - confidence)
    if excess(0.0) >= 0:
        return 0.0
    if excess(LARGEST) < 0:
        return LARGEST
    root: Any = brentq(excess, 0.0, LARGEST, xtol=1e-9)
    return max(0.0, float(root) - 1e-8)


def bound(scores: np.ndarray, included: np.ndarray, delta: float, confidence: float) -> Bound:
    """Guess that high scores were in and low ones out, for each of `SHARES`, and return what proves most.

    Args:
        scores: float (canaries,); higher where a canary seems to have been in.
        included: bool (canaries,); the truth, each drawn with probability 1/2.
        confidence: of all tests together.
    """
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(SHARES)
    bounds = []
    middle = int((scores <= _middle(scores)).sum())
    for share in SHARES:
        out, last = (middle, middle) if share == 1 else (n := max(1, int(share * len(scores) / 2)), len(scores) - n)
        correct = int(included[order[last:]].sum() + (~included[order[:out]]).sum())
        guesses = out + len(scores) - last
        proved = one_run_epsilon(len(scores), guesses, correct, delta, each)
        bounds.append(Bound(proved, delta, confidence, len(scores), guesses, correct))
    return max(bounds, key=lambda b: b.epsilon)


def _middle(scores: np.ndarray) -> float:
    """Return where two groups of scores part, by the scores alone: the middle of two means."""
    at = float(scores.mean())
    for _ in range(20):
        above, below = scores[scores > at], scores[scores <= at]
        if not len(above) or not len(below):
            break
        at = float(above.mean() + below.mean()) / 2
    return at


def _excess(canaries: int, guesses: int, correct: int, delta: float, level: float, epsilon: float) -> float:
    return p_value(epsilon, canaries, guesses, correct, delta) - level
