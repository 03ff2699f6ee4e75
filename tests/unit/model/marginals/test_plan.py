"""A network is sized by public facts: the released count and the noise."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals import plan
from dp_synth_pipeline.model.marginals.pairs import ORDINARY
from dp_synth_pipeline.model.marginals.plan import LEAST_HIDDEN, MOST_HIDDEN, TrainingPlan, capacity, learning_rate

ADULT = (20, 9, 40, 16, 16, 7, 15, 6, 5, 2, 30, 20, 20, 42, 2)
"""About as many codes as the columns of the Adult census get."""

UNITS, NOISE = st.integers(1, 10**9), st.floats(1e-3, 1e4)


@given(UNITS, NOISE)
def test_sizes_stay_within_bounds_in_steps_of_eight(units: int, noise: float) -> None:
    assert LEAST_HIDDEN <= capacity(units, noise, 15) <= MOST_HIDDEN
    assert capacity(units, noise, 15) % 8 == 0


@given(UNITS, NOISE, st.floats(1, 100))
def test_more_units_never_make_it_smaller_and_more_noise_never_larger(units: int, noise: float, more: float) -> None:
    assert capacity(int(units * more), noise, 15) >= capacity(units, noise, 15)
    assert capacity(units, noise * more, 15) <= capacity(units, noise, 15)


def test_without_privacy_it_is_as_large_as_it_gets() -> None:
    assert capacity(100, 0.0, 15) == MOST_HIDDEN


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
    assert (made.chosen, made.pairs, made.scale, made.score_scale) == pytest.approx(planned, rel=1e-12)


@given(UNITS, NOISE)
def test_an_ordinary_table_s_network_is_as_large_as_its_noise_allows(units: int, noise: float) -> None:
    assert len({capacity(units, noise, columns) for columns in (1, 2, 15, ORDINARY)}) == 1


@given(UNITS, NOISE, st.integers(2, 3000))
def test_a_wide_table_s_network_and_its_plan_stay_within_what_a_fit_can_follow(
    units: int, noise: float, columns: int
) -> None:
    hidden = capacity(units, noise, columns)
    between = hidden * GeneratorSpec().embedding * columns * (columns - 1) // 2
    assert hidden == 1 or between <= plan.MOST_WEIGHTS
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


def test_triples_are_asked_for_where_there_is_signal_or_a_person_asks() -> None:
    strong, weak = (43_958, 1.6), (43_958, 8.0)
    assert plan.wanted_triples(*strong, GeneratorSpec()) == plan.TRIPLES
    assert plan.wanted_triples(*weak, GeneratorSpec()) == 0
    assert plan.wanted_triples(*weak, GeneratorSpec(triples=3)) == 3
    assert plan.wanted_triples(*strong, GeneratorSpec(triples=0)) == 0


STEPS, BATCH = st.integers(1, 10**6), st.floats(1, 1e6)


@given(STEPS, BATCH, NOISE, st.floats(1, 50))
def test_more_steps_or_noise_never_raise_the_learning_rate(steps: int, batch: float, noise: float, more: float) -> None:
    spec, first = GeneratorSpec(), TrainingPlan(0.1, steps, batch, noise)
    rate = learning_rate(first, spec)
    assert 0 < rate <= plan.RATES["adam"] * plan.QUIETEST * plan.STRETCH
    for other in (
        TrainingPlan(0.1, int(steps * more), batch, noise),
        TrainingPlan(0.1, steps, batch, noise * more),
        TrainingPlan(0.1, steps, batch / more, noise),
    ):
        assert learning_rate(other, spec) <= rate
    assert learning_rate(first, GeneratorSpec(microbatch=8)) <= rate


def test_rate_times_steps_is_kept_and_the_rate_falls_with_the_cube_root_of_the_noise() -> None:
    def rate(steps: int, noise: float, **spec) -> float:
        return learning_rate(TrainingPlan(0.1, steps, 1000.0, noise), GeneratorSpec(**spec))

    assert abs(rate(400, 4.0) / rate(800, 4.0) - 2) < 1e-12
    assert abs(rate(600, 32.0) / rate(600, 4.0) - 0.5) < 1e-12
    assert rate(600, 4.0, microbatch=4) == rate(600, 32.0), "twice the sensitivity, a quarter of the groups"
    assert rate(600, 0.0) == rate(600, 1e-9), "without noise, as with next to none"
    assert abs(rate(600, 4.0, optimizer="sgd") / rate(600, 4.0) - plan.RATES["sgd"] / plan.RATES["adam"]) < 1e-9
    assert rate(600, 4.0, learning_rate=0.3) == 0.3


def test_the_examples_hold() -> None:
    assert doctest.testmod(plan).failed == 0
