"""All marginals together never cost more than was reserved, and no unit moves a score further than is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model.marginals import measuring, plan
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.model.marginals.plan import plan_marginals, score_sensitivity
from dp_synth_pipeline.privacy import mechanisms

CARDS = st.lists(st.integers(1, 60), min_size=2, max_size=8).map(tuple)


def cost(cards: tuple[int, ...], rows: int, made: plan.MarginalsPlan) -> tuple[float, float]:
    """Return the squared ratios of sensitivity to noise of all that is measured, added up, and what they may be."""
    spent: list[float] = []
    steps = [("scores", made.scored)] if made.chosen < made.pairs else []
    steps += [("cells", made.chosen)]
    steps += [("scores", len(plan.candidates(cards))), ("cells", made.triples)] if made.triples else []

    def released(histograms: list[np.ndarray], *, scale: float, sensitivity: int = 1) -> tuple[list[np.ndarray], None]:
        # One unit moves each clique's cells, and each score, by `sensitivity`.
        what, moved = steps[len(spent)]
        assert sensitivity == (score_sensitivity(made.max_rows) if what == "scores" else made.max_rows)
        spent.append(moved * (sensitivity / scale) ** 2)
        return histograms, None

    honest, mechanisms.noisy_histograms = mechanisms.noisy_histograms, released  # type: ignore[assignment]
    try:
        held = np.zeros((3, len(cards)), np.int16)
        measuring.measure(held, cards, [np.full(c, 1 / c) for c in cards], made, rows=rows)
    finally:
        mechanisms.noisy_histograms = honest
    assert len(spent) == len(steps)
    return sum(spent), 1 / made.event.noise_multiplier**2


@given(CARDS, st.integers(1, 10**7), st.floats(0.05, 500), st.integers(1, 50), st.integers(0, 4))
def test_all_that_is_measured_costs_at_most_what_was_reserved(
    cards: tuple[int, ...], rows: int, noise: float, max_rows: int, triples: int
) -> None:
    made = plan_marginals(cards, rows, noise, max_rows, triples)
    assert made.triples <= min(triples, len(plan.candidates(cards)))
    spent, reserved = cost(cards, rows, made)
    assert spent <= reserved * (1 + 1e-9)


@given(st.integers(1, 4), st.floats(1, 50))
def test_triples_that_cost_nothing_are_caught(triples: int, noise: float) -> None:
    cards = (4,) * 5
    made = plan_marginals(cards, 10**7, noise, triples=triples)
    assert made.triples == triples
    spent, reserved = cost(cards, 10**7, replace(made, scale=noise * made.pairs**0.5))
    assert spent > reserved * (1 + 1e-9)


def test_a_plan_that_forgets_what_scores_cost_is_caught() -> None:
    made = plan_marginals((60,) * 6, 100, 50.0)
    assert made.chosen < made.pairs
    spent, reserved = cost((60,) * 6, 100, replace(made, scale=made.scale * (1 - plan.SCORE_SHARE) ** 0.5))
    assert spent > reserved * (1 + 1e-9)


@given(st.data())
def test_a_unit_moves_no_score_by_more_than_is_said(data: st.DataObject) -> None:
    cards = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple))
    most = data.draw(st.integers(1, 5))

    def table(rows: int) -> np.ndarray:
        drawn = [data.draw(st.tuples(*(st.integers(0, c - 1) for c in cards))) for _ in range(rows)]
        return np.array(drawn, dtype=np.int16).reshape(rows, len(cards))

    held = table(data.draw(st.integers(0, 10)))
    more = np.concatenate([held, table(most)])
    shares = [np.array(data.draw(st.lists(st.floats(0, 1), min_size=c, max_size=c))) for c in cards]
    rows = data.draw(st.integers(1, 30))
    cliques = [*measuring.all_pairs(len(cards)), *plan.candidates(cards)]
    layout = Layout(cards, tuple(cliques))

    def expected(clique: measuring.Clique) -> np.ndarray:
        joint = np.ones(())
        for c in clique:
            joint = np.multiply.outer(joint, shares[c])
        return rows * joint

    before, after = (measuring.scores(t, layout, expected) for t in (held, more))
    assert np.abs(after - before).max() <= score_sensitivity(most)


@given(st.integers(1, 1000))
def test_a_units_rounded_score_is_counted_whole(max_rows: int) -> None:
    assert score_sensitivity(max_rows) * plan.SCORE_UNIT >= max_rows + plan.SCORE_UNIT * (1 - 1e-6)


@given(CARDS, st.integers(1, 10**6), st.floats(0.05, 500))
def test_enough_pairs_are_chosen_to_reach_every_column(cards: tuple[int, ...], rows: int, noise: float) -> None:
    made = plan_marginals(cards, rows, noise)
    assert len(cards) - 1 <= made.chosen <= made.pairs == len(cards) * (len(cards) - 1) // 2
    assert made.scale >= plan.LEAST_SCALE
