"""A network is sized by public facts: the released count and the noise."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model import plan
from dp_synth_pipeline.model.plan import LEAST_HIDDEN, MOST_HIDDEN, TrainingPlan, capacity, learning_rate
from dp_synth_pipeline.model.spec import GeneratorSpec

UNITS, NOISE = st.integers(1, 10**9), st.floats(1e-3, 1e4)


@given(UNITS, NOISE)
def test_sizes_stay_within_bounds_in_steps_of_eight(units: int, noise: float) -> None:
    assert LEAST_HIDDEN <= capacity(units, noise) <= MOST_HIDDEN
    assert capacity(units, noise) % 8 == 0


@given(UNITS, NOISE, st.floats(1, 100))
def test_more_units_never_make_it_smaller_and_more_noise_never_larger(units: int, noise: float, more: float) -> None:
    assert capacity(int(units * more), noise) >= capacity(units, noise)
    assert capacity(units, noise * more) <= capacity(units, noise)


def test_without_privacy_it_is_as_large_as_it_gets() -> None:
    assert capacity(100, 0.0) == MOST_HIDDEN


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
