"""An adversary who picks the second run after seeing the first, against the rule and against a tempting mutant of it.

The mutant admits while `get_epsilon(delta)`, at the best order of the moment, stays under epsilon. Both runs have
finitely many outcomes, so the delta of the pair is an exact finite sum: no accountant has to be believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

from dp_synth_pipeline.privacy import filter

EPSILON, DELTA = 3.0, 1e-5
ORDERS = np.array(filter.ORDERS, dtype=float)
ALLOWED = np.array([filter.limit(EPSILON, DELTA, order) for order in ORDERS])
OURS = list(ORDERS).index(filter.best_order(EPSILON, DELTA))


@dataclass(frozen=True)
class Pair:
    """The outcome's probabilities with the victim (p) and without (q)."""

    p: np.ndarray
    q: np.ndarray

    def rdp(self) -> np.ndarray:
        """Renyi divergence at every pinned order."""
        logs = ORDERS[:, None] * np.log(self.p) + (1 - ORDERS[:, None]) * np.log(self.q)
        return np.logaddexp.reduce(logs, axis=1) / (ORDERS - 1)


def rule_f(spent: np.ndarray) -> bool:
    """What the ledger does: one order, fixed when the account was opened."""
    return bool(spent[OURS] <= ALLOWED[OURS])


def mutant(spent: np.ndarray) -> bool:
    """What a ledger on top of `get_epsilon` does: any order will do, a new one each time."""
    return bool((spent <= ALLOWED).any())


def gaussian(noise: float, cells: int = 25) -> Pair:
    """A Gaussian release, rounded to a few cells: post-processing, so it costs no more."""
    cuts = np.linspace(-4 * noise, 1 + 4 * noise, cells - 1)
    masses = [np.diff(norm.cdf(cuts, mean, noise), prepend=0, append=1) for mean in (1, 0)]
    masses = [np.append(m[:-1], norm.sf(cuts[-1], mean, noise)) for m, mean in zip(masses, (1, 0), strict=True)]
    return Pair(*masses)


def leak(chance: float, loss: float) -> Pair:
    """With a chance, an outcome that is exp(loss) times likelier with the victim; else next to nothing."""
    q = chance * np.exp(-loss)
    return Pair(np.array([chance, 1 - chance]), np.array([q, 1 - q]))


def likeliest_leak(loss: float, spent: np.ndarray, admits) -> Pair:
    """The most probable leak of a given loss that the rule still admits."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if admits(spent + leak(middle, loss).rdp()) else (low, middle)
    return leak(low, loss)


@cache
def attack(admits) -> tuple[np.ndarray, np.ndarray]:
    """All outcomes of both runs, where the second is the worst that is admitted given the first one's outcome."""
    first = gaussian(3.0)
    spent = first.rdp()
    assert admits(spent)
    joint_p, joint_q = [], []
    for p, q in zip(first.p, first.q, strict=True):
        short = EPSILON - np.log(p / q)  # the loss that is missing to break the promise
        options = [
            likeliest_leak(short + more, spent, admits) for more in np.linspace(0.05, 1.5, 15) if short + more > 0
        ]
        second = max(options, key=lambda o: float(o.p[0] - np.exp(short) * o.q[0]))
        joint_p.extend(p * second.p)
        joint_q.extend(q * second.q)
    return np.array(joint_p), np.array(joint_q)


def delta_of(joint: tuple[np.ndarray, np.ndarray]) -> float:
    """The exact delta at EPSILON."""
    p, q = joint
    assert p.sum() == pytest.approx(1)
    assert q.sum() == pytest.approx(1)
    return float(np.maximum(p - np.exp(EPSILON) * q, 0).sum())


def test_the_adversary_breaks_the_mutant() -> None:
    assert delta_of(attack(mutant)) > 1.7 * DELTA


def test_the_adversary_does_not_break_rule_f_though_it_comes_close() -> None:
    assert 0.9 * DELTA < delta_of(attack(rule_f)) <= DELTA


@pytest.mark.parametrize("admits", [mutant, rule_f])
def test_a_privacy_loss_distribution_of_both_runs_says_the_same(admits) -> None:
    p, q = attack(admits)
    names = range(len(p))
    both = pld.from_two_probability_mass_functions(
        dict(zip(names, np.log(q), strict=True)),
        dict(zip(names, np.log(p), strict=True)),
        value_discretization_interval=1e-4,
        symmetric=False,
    )
    assert both.get_delta_for_epsilon(EPSILON) == pytest.approx(delta_of((p, q)), rel=0.01)
