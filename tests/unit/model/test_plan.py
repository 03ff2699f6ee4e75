"""A network is sized by public facts: the released count and the noise."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model import plan
from dp_synth_pipeline.model.plan import LEAST_HIDDEN, MOST_HIDDEN, capacity
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


def test_the_examples_hold() -> None:
    assert doctest.testmod(plan).failed == 0
