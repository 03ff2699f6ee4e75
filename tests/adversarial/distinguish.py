"""An attacker who knows two neighbouring tables and guesses which one was released, and a proof that he guesses too well.

A mechanism is run many times on D and on D'. Each run leaves a vector of scores: whatever an attacker may look at. On the
first half of the runs he picks an event S, "this score is at least (at most) t", for each point of the privacy curve that
was claimed. On the second half the mechanism is convicted if, beyond doubt,

    P[S | D] > exp(epsilon) * P[S | D'] + delta        or the same with D and D' exchanged,

where beyond doubt means a Clopper-Pearson lower bound on the left and an upper bound on the right, with Bonferroni over all
bounds (Jagielski, Ullman & Oprea 2020, "Auditing Differentially Private Machine Learning"; Ding et al. 2018, "Detecting
Violations of Differential Privacy"). An honest mechanism is convicted with a probability of at most `ALPHA`; one that is
not convicted was not proved guilty, which is no proof of innocence.

A mechanism has one claim for every delta, and all are put to the test: small deltas catch what is said aloud, large ones
catch too little noise, since the best event against Gaussian noise has a small likelihood ratio and a large probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

from dp_synth_pipeline.model.dpsgd import canaries
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Event

ALPHA = 3e-5
"""Chance that an honest mechanism is convicted in one trial; the suite's thirty trials keep 99.9 % together."""

DELTAS = (1e-5, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Where the privacy curve is put to the test."""

THRESHOLDS = 64
"""Events tried per score and direction."""


@pytest.fixture(scope="module", autouse=True)
def unprobed() -> Iterator[None]:
    """Train without clipping made-up examples: that takes half of a short training's time, and releases nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canaries, "PROBES", 0)
        yield


class Distinguished(AssertionError):
    """The attacker guesses better than the claim allows."""


@dataclass(frozen=True)
class Claim:
    """Points (epsilon, delta) of a privacy curve; each of them must hold for every event."""

    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, events: Event | Iterable[Event], deltas: Iterable[float] = DELTAS, *, fixed: bool = False) -> Claim:
        """Return what the accountant says that `events` cost, at each delta that they can meet at all."""
        listed = (events,) if isinstance(events, Event) else tuple(events)
        points = ((_epsilon(listed, d, fixed), d) for d in deltas if d > accountant.own_delta(listed))
        return cls(tuple((e, d) for e, d in points if math.isfinite(e)))


@cache
def _epsilon(events: tuple[Event, ...], delta: float, fixed: bool) -> float:
    return accountant.epsilon(events, delta, fixed=fixed)


@dataclass(frozen=True)
class Guess:
    """The event that score number `score` is at least `threshold`, or at most; `first`: it speaks for D, not for D'."""

    score: int
    threshold: float
    above: bool
    first: bool

    def count(self, runs: np.ndarray) -> int:
        """Count the runs, of shape (runs, scores), in which the event happened."""
        values = runs[:, self.score]
        return int((values >= self.threshold).sum() if self.above else (values <= self.threshold).sum())


@dataclass(frozen=True)
class Finding:
    """What the second half of the runs says about one guess at one point of the claim.

    Attributes:
        margin: proved excess of P[S | D] over exp(epsilon) P[S | D'] + delta; above 0 convicts.
        epsilon_proved: at this delta, no smaller epsilon is possible.
    """

    guess: Guess
    epsilon: float
    delta: float
    margin: float
    epsilon_proved: float


def findings(first: np.ndarray, second: np.ndarray, claim: Claim, alpha: float = ALPHA) -> list[Finding]:
    """Pick the best guess for each point of the claim on the first half of the runs; measure it on the second.

    Args:
        first, second: scores of runs on D and on D', both (runs, scores), in the order in which they were drawn.
        alpha: chance that any bound is wrong.
    """
    share = alpha / (2 * len(claim.points))
    (train_a, test_a), (train_b, test_b) = _halves(first), _halves(second)
    weights = _direction(train_a, train_b)
    train_a, test_a, train_b, test_b = (_with_blend(x, weights) for x in (train_a, test_a, train_b, test_b))
    found = []
    for epsilon, delta in claim.points:
        guess = _best(train_a, train_b, epsilon, delta, share)
        for_it, against = (test_a, test_b) if guess.first else (test_b, test_a)
        low = lower(guess.count(for_it), len(for_it), share)
        high = upper(guess.count(against), len(against), share)
        proved = math.log((low - delta) / high) if low > delta else 0.0
        found.append(Finding(guess, epsilon, delta, float(low - math.exp(epsilon) * high - delta), max(0.0, proved)))
    return found


def check(first: np.ndarray, second: np.ndarray, claim: Claim, alpha: float = ALPHA) -> list[Finding]:
    """Return the findings of an attack that failed.

    Raises:
        Distinguished: if the claim is proved to be wrong.
    """
    found = findings(first, second, claim, alpha)
    worst = max(found, key=lambda f: f.margin)
    if worst.margin > 0:
        raise Distinguished(
            f"claimed epsilon {worst.epsilon:.3g} at delta {worst.delta:g}, but {worst.epsilon_proved:.3g} is the least "
            f"possible: score {worst.guess.score} {'>=' if worst.guess.above else '<='} {worst.guess.threshold:.6g} "
            f"tells the tables apart."
        )
    return found


def check_in_turn(draw: Callable[[int], tuple[np.ndarray, np.ndarray]], claim: Claim, runs: int) -> None:
    """Check half of the runs of a mutant, and all of them if half do not convict it, as they do in nearly all trials.

    Only for mutants: two checks may convict what is honest twice as often as one.

    Args:
        draw: returns the scores of so many runs more on D and on D'.

    Raises:
        Distinguished: if the claim is proved to be wrong.
    """
    half = draw(runs // 2)
    check(*half, claim)
    rest = draw(runs - runs // 2)
    first, second = (np.concatenate(both) for both in zip(half, rest, strict=True))
    check(first, second, claim)


def lower(hits: np.ndarray | int, runs: int, alpha: float) -> np.ndarray:
    """Return the Clopper-Pearson lower bound of a probability, wrong with probability at most `alpha`."""
    k = np.asarray(hits)
    return np.where(k > 0, beta.ppf(alpha, np.maximum(k, 1), runs - k + 1), 0.0)


def upper(hits: np.ndarray | int, runs: int, alpha: float) -> np.ndarray:
    """Return the Clopper-Pearson upper bound of a probability, wrong with probability at most `alpha`."""
    k = np.asarray(hits)
    return np.where(k < runs, beta.isf(alpha, k + 1, np.maximum(runs - k, 1)), 1.0)


def _halves(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = len(runs) // 2
    return runs[:middle], runs[middle:]


def _direction(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return Fisher's linear discriminant of two samples, (2 + scores, scores) with the centre and scale it needs."""
    both = _finite(np.concatenate([a, b]))
    centre, scale = both.mean(0), both.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    x, y = (np.clip((_finite(z) - centre) / scale, -6, 6) for z in (a, b))
    within = np.cov(np.concatenate([x - x.mean(0), y - y.mean(0)]).T).reshape(a.shape[1], a.shape[1])
    weights = np.linalg.solve(within + 1e-3 * np.eye(a.shape[1]), y.mean(0) - x.mean(0))
    return np.stack([centre, scale, weights])


def _with_blend(runs: np.ndarray, direction: np.ndarray) -> np.ndarray:
    centre, scale, weights = direction
    blend = np.clip((_finite(runs) - centre) / scale, -6, 6) @ weights
    return np.column_stack([runs, blend])


def _finite(x: np.ndarray) -> np.ndarray:
    return np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def _best(a: np.ndarray, b: np.ndarray, epsilon: float, delta: float, alpha: float) -> Guess:
    best, chosen = -math.inf, Guess(0, 0.0, True, True)
    for score in range(a.shape[1]):
        cuts = np.unique(np.concatenate([a[:, score], b[:, score]]))
        if len(cuts) > THRESHOLDS:
            cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, THRESHOLDS).astype(int))]
        for above in (True, False):
            hits = [_hits(x[:, score], cuts, above) for x in (a, b)]
            for first in (True, False):
                k, other = hits if first else hits[::-1]
                n, m = (len(a), len(b)) if first else (len(b), len(a))
                margin = lower(k, n, alpha) - math.exp(epsilon) * upper(other, m, alpha)
                at = int(np.argmax(margin))
                if margin[at] > best:
                    best, chosen = float(margin[at]), Guess(score, float(cuts[at]), above, first)
    return chosen


def _hits(values: np.ndarray, cuts: np.ndarray, above: bool) -> np.ndarray:
    ordered = np.sort(values)
    if above:
        return len(values) - np.searchsorted(ordered, cuts, side="left")
    return np.searchsorted(ordered, cuts, side="right")
