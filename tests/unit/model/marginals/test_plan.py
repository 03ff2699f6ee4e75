"""How many pairs and triples are measured follows from public facts: cardinalities, the released count, the noise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model.marginals import plan
from dp_synth_pipeline.model.marginals.pairs import ORDINARY

ADULT = (20, 9, 40, 16, 16, 7, 15, 6, 5, 2, 30, 20, 20, 42, 2)
"""About as many codes as the columns of the Adult census get."""

UNITS, NOISE = st.integers(1, 10**9), st.floats(1e-3, 1e4)


CARDS = st.lists(st.integers(1, 60), min_size=2, max_size=ORDINARY).map(tuple)


@given(CARDS, UNITS, NOISE, st.integers(1, 9))
def test_up_to_a_hundred_columns_all_pairs_are_scored_and_all_columns_joined(
    cards: tuple[int, ...], rows: int, noise: float, max_rows: int
) -> None:
    made = plan.plan_marginals(cards, rows, noise, max_rows)
    assert made.scored in (0, made.pairs)
    assert (made.scored == 0) == (made.chosen == made.pairs)
    assert made.chosen >= len(cards) - 1


@pytest.mark.parametrize(
    ("rows", "noise", "planned"),
    [
        (43_958, 3.4, (105, 105, 34.83963260426263, 0.0)),
        (2_000, 3.4, (14, 105, 13.409780841692463, 111.27431779166295)),
        (500, 60.0, (14, 105, 236.64319132398464, 1963.6644316175814)),
    ],
)
def test_the_plan_for_a_table_like_the_adult_census_is_what_it_always_was(
    rows: int, noise: float, planned: tuple[int, int, float, float]
) -> None:
    made = plan.plan_marginals(ADULT, rows, noise)
    assert (made.chosen, made.pairs, made.scale, made.score_scale) == pytest.approx(planned, rel=1e-11)


@given(UNITS, NOISE, st.integers(2, 3000))
def test_the_plan_of_a_wide_table_stays_within_what_a_fit_can_follow(units: int, noise: float, columns: int) -> None:
    made = plan.plan_marginals((4,) * columns, units, noise)
    assert made.chosen <= plan.MOST_MEASURED
    assert made.chosen <= (made.scored or made.pairs) <= made.pairs


def test_of_many_columns_only_as_many_pairs_are_scored_as_their_noise_lets_one_tell_apart() -> None:
    narrow, wide = math.comb(100, 2), math.comb(1000, 2)
    assert plan.worth_scoring(1000, 200, 5.0) == narrow
    assert narrow < plan.worth_scoring(1000, 5_000, 5.0) < plan.worth_scoring(1000, 10_000, 5.0) < wide
    assert plan.worth_scoring(1000, 1_000_000, 5.0) == wide
    assert plan.worth_scoring(9000, 200, 5.0) == 8999, "all columns can be joined"
    loudest = plan.plan_marginals((4,) * 1000, 5_000, 5.0)
    assert loudest.score_scale <= 5_000 * 1.001


def test_pairs_of_columns_of_one_code_are_not_planned_in_a_wide_table() -> None:
    made = plan.plan_marginals((1, 3) * 80, 200, 50.0)
    assert made.pairs == math.comb(80, 2)
    assert plan.plan_marginals((1,) * 200, 200, 5.0).chosen == 0
    assert plan.plan_marginals((*[1] * 200, 2, 2), 200, 5.0).chosen == 1


def test_few_wide_or_many_columns_give_few_candidates() -> None:
    assert plan.candidates((200, 200, 200)) == []
    assert plan.candidates((2, 3, 4, 400)) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    many = plan.candidates((*[2] * 20, *[10] * 30))
    assert len(many) == plan.CANDIDATES
    assert all(c < 20 for triple in many for c in triple), "those with the fewest cells"
