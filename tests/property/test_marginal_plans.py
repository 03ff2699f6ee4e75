"""All marginals together never cost more than was reserved, and no unit moves a score further than is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.model.marginals import measuring, plan
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.model.marginals.plan import plan_marginals, score_sensitivity
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer

CARDS = st.lists(st.integers(1, 60), min_size=2, max_size=8).map(tuple)


def measured(cards: tuple[int, ...], rows: int, made: plan.MarginalsPlan, odometer: Odometer) -> None:
    held = np.zeros((3, len(cards)), np.int16)
    shares = [np.full(c, 1 / c) for c in cards]
    measuring.measure(held, shares, made, rows=rows, odometer=odometer)


@given(CARDS, st.integers(1, 10**7), st.floats(0.05, 500), st.integers(1, 50), st.integers(0, 4), st.integers(0, 1))
@settings(deadline=None)
def test_all_that_is_measured_costs_what_was_reserved_and_never_more(
    cards: tuple[int, ...], rows: int, noise: float, max_rows: int, triples: int, given_columns: int
) -> None:
    made = plan_marginals(cards, rows, noise, max_rows, triples, given_columns)
    assert made.triples <= min(triples, len(plan.candidates(cards)))
    odometer = Odometer([made.event])
    measured(cards, rows, made, odometer)
    spent = sum(event.amount for event in odometer.used)
    assert spent <= made.event.amount
    assert spent == pytest.approx(made.event.amount, rel=1e-9)


@given(st.integers(1, 4), st.floats(1, 50))
def test_triples_that_cost_nothing_are_refused(triples: int, noise: float) -> None:
    cards = (4,) * 5
    made = plan_marginals(cards, 10**7, noise, triples=triples)
    assert made.triples == triples
    quieter = replace(made, scale=noise * made.pairs**0.5 * (1 + 1e-9))
    with pytest.raises(NotCharged):
        measured(cards, 10**7, quieter, Odometer([made.event]))


@pytest.mark.parametrize(
    "mutant",
    [
        lambda made: replace(made, scale=made.scale * (1 - plan.SCORE_SHARE) ** 0.5),
        lambda made: replace(made, scale=made.scale * (1 - 1e-9)),
        lambda made: replace(made, score_scale=made.score_scale * (1 - 1e-9)),
        lambda made: replace(made, chosen=made.chosen + 1),
        lambda made: replace(made, max_rows=2),
    ],
    ids=["scores are free", "less noise", "less noise of scores", "one pair more", "a unit of two rows"],
)
def test_marginals_are_refused_where_the_plan_is_not_what_was_charged(mutant: Callable) -> None:
    made = plan_marginals((60,) * 6, 100, 50.0)
    assert made.chosen < made.pairs
    with pytest.raises(NotCharged):
        measured((60,) * 6, 100, mutant(made), Odometer([made.event]))


def test_a_count_of_marginals_too_many_is_refused_before_its_noise_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, drawn = measuring.measure_cliques, []

    def twice(*args: Any, **how: Any) -> Any:
        honest(*args, **how)
        monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda *more: drawn.append(more))
        return honest(*args, **how)

    monkeypatch.setattr(measuring, "measure_cliques", twice)
    made = plan_marginals((4,) * 5, 1000, 5.0)
    with pytest.raises(NotCharged):
        measured((4,) * 5, 1000, made, Odometer([made.event]))
    assert drawn == []


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


@st.composite
def people(draw: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of some persons, and which person has each; the last one is the one more."""
    rows = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    units = np.repeat(np.arange(len(rows)), rows)
    cells = st.lists(st.integers(0, 2), min_size=4 * len(units), max_size=4 * len(units))
    return np.array(draw(cells)).reshape(-1, 4), units


@given(people())
@settings(deadline=None)
def test_one_person_more_with_any_rows_moves_counts_of_parts_by_one_row_in_each_clique(
    table: tuple[np.ndarray, np.ndarray],
) -> None:
    codes, units = table
    layout = Layout((3,) * 4, tuple(measuring.all_pairs(4)))
    others = units < units.max()
    with_one, without = (
        measuring.count(c, layout, measuring.parts_of(u)) for c, u in ((codes, units), (codes[others], units[others]))
    )
    moved = with_one - without
    assert (moved >= 0).all(), "nobody else's rows count otherwise"
    for place in (place for _, place in layout.places()):
        assert moved[place].sum() <= measuring.WHOLE
    assert np.linalg.norm(moved) <= measuring.WHOLE * len(layout.cliques) ** 0.5 * (1 + 1e-12)

    def even(clique: tuple[int, ...]) -> np.ndarray:
        return np.full((3,) * len(clique), 0.7)

    scored = [
        measuring.scores(c, layout, even, measuring.parts_of(u))
        for c, u in ((codes, units), (codes[others], units[others]))
    ]
    assert np.abs(scored[0] - scored[1]).max() <= score_sensitivity(1)
