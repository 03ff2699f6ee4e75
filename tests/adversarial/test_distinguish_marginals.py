"""Noisy marginals pass a distinguishing test: the counts of pairs, and the choice of which pairs are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dp_synth_pipeline.model.marginals import measuring
from dp_synth_pipeline.model.marginals.plan import SCORE_UNIT, MarginalsPlan, candidates, plan_marginals
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered
from tests.adversarial.distinguish import Claim, Distinguished, check
from tests.unit.tabular.snapshots import no_noise

ROWS = 40
HONEST, MUTANT = 1000, 500
ALL = ((2, 2, 2), plan_marginals((2, 2, 2), ROWS, 1.2))
UNITS = ((2, 2, 2), plan_marginals((2, 2, 2), 10 * ROWS, 1.2, max_rows=3))
TRIPLES = ((2, 2, 2, 2), plan_marginals((2, 2, 2, 2), 10 * ROWS, 1.2, triples=1))
FEWER = ((6, 6, 6), plan_marginals((6, 6, 6), ROWS, 3.0))

Patch = pytest.MonkeyPatch
Pair = tuple[np.ndarray, np.ndarray]
Case = tuple[tuple[int, ...], MarginalsPlan]


def beside(cards: tuple[int, ...], plan: MarginalsPlan) -> Pair:
    """Everybody alike, and one unit more, with all the rows it may have, that nobody is like."""
    held = np.zeros((ROWS, len(cards)), np.int16)
    return held, np.concatenate([held, np.ones((plan.max_rows, len(cards)), np.int16)])


def scores(codes: np.ndarray, cards: tuple[int, ...], plan: MarginalsPlan) -> list[float]:
    """The counts of all cells of value 1 with value 1, the sum of them, and which pairs were chosen."""
    shares = [np.full(c, 1 / c) for c in cards]
    found = measuring.measure(codes, shares, plan, rows=ROWS, odometer=Odometer([plan.event]))
    ones = {clique: float(cells[(1,) * len(clique)]) for clique, cells in found.layout.blocks(found.counts)}
    cliques = [*measuring.all_pairs(len(cards)), *(candidates(cards) if plan.triples else ())]
    return [*(ones.get(c, 0.0) for c in cliques), sum(ones.values()), *(float(c in ones) for c in cliques)]


def attack(tables: Pair, cards: tuple[int, ...], plan: MarginalsPlan, runs: int) -> None:
    first, second = (np.array([scores(codes, cards, plan) for _ in range(runs)]) for codes in tables)
    check(first, second, Claim.of(plan.event))


def on_the_brink() -> Pair:
    """Tables that differ in one row, of which a noiseless choice would count different pairs."""
    rng = np.random.default_rng()
    with no_noise():
        while True:
            held = rng.integers(0, 6, (ROWS, 3)).astype(np.int16)
            more = np.concatenate([held, rng.integers(0, 6, (1, 3)).astype(np.int16)])
            if scores(held, *FEWER)[4:] != scores(more, *FEWER)[4:]:
                return held, more


def test_the_cases_are_what_they_are_meant_to_be() -> None:
    assert ALL[1].chosen == ALL[1].pairs == 3
    assert UNITS[1].chosen == 3
    assert UNITS[1].scale == pytest.approx(3 * ALL[1].scale)
    assert FEWER[1].chosen < FEWER[1].pairs


@pytest.mark.parametrize("case", [ALL, UNITS, TRIPLES], ids=["rows", "units", "triples"])
def test_pairs_tell_no_more_than_their_event_costs(case: Case) -> None:
    attack(beside(*case), *case, HONEST)


def apart() -> Pair:
    """Independent coins, and a row more that is far from each other: its triple's score moves by a row."""
    held = np.random.default_rng().integers(0, 2, (ROWS, 4)).astype(np.int16)
    return held, np.concatenate([held, np.ones((1, 4), np.int16)])


def test_the_choice_of_triples_tells_no_more_than_its_event_costs() -> None:
    attack(apart(), *TRIPLES, HONEST)


def test_the_choice_of_pairs_tells_no_more_than_its_event_costs() -> None:
    attack(on_the_brink(), *FEWER, HONEST)


def released(wrong: Callable[[np.ndarray, np.ndarray], np.ndarray], *, scores: bool) -> Callable[[Patch], None]:
    """Marginals that make the mistake in scores, whose sensitivity is high, or in cells."""

    def install(patch: Patch) -> None:
        honest = mechanisms.noisy_histograms

        def noise(histograms: Any, *, sensitivity: float, **rest: Any) -> Any:
            noisy, event = honest(histograms, sensitivity=sensitivity, **rest)
            if (sensitivity >= SCORES) is not scores:
                return noisy, event
            return [wrong(np.asarray(h), n) for h, n in zip(histograms, noisy, strict=True)], event

        patch.setattr(mechanisms, "noisy_histograms", noise)

    return install


def true(counts: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    return counts


def quieter(counts: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    return counts + np.round(0.3 * (noisy - counts)).astype(np.int64)


SCORES = round(1 / SCORE_UNIT) + 1

MUTANTS = {
    "the true counts": (ALL, beside, released(true, scores=False)),
    "a third of the noise": (ALL, beside, released(quieter, scores=False)),
    "the true counts of units": (UNITS, beside, released(true, scores=False)),
    "the true counts of triples": (TRIPLES, beside, released(true, scores=False)),
    "a choice by true scores": (FEWER, lambda *case: on_the_brink(), released(true, scores=True)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_marginals_are_caught_with(monkeypatch: Patch, mutant: str) -> None:
    case, tables, install = MUTANTS[mutant]
    pair = tables(*case)
    install(monkeypatch)
    with pytest.raises(Distinguished):
        attack(pair, *case, MUTANT)


def test_noise_for_one_pair_on_all_pairs_is_caught(monkeypatch: Patch) -> None:
    honest = mechanisms.noisy_histograms
    monkeypatch.setattr(
        mechanisms,
        "noisy_histograms",
        lambda h, *, scale, sensitivity, odometer: honest(
            h, scale=scale / 3**0.5, sensitivity=sensitivity, odometer=Unmetered()
        ),
    )
    with pytest.raises(Distinguished):  # missed with a probability of 1e-10; with half the runs, of 0.004
        attack(beside(*ALL), *ALL, 8 * MUTANT)
