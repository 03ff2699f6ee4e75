"""A network is sized by public facts: the released count and the noise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.model.autoregressive import plan
from dp_synth_pipeline.model.autoregressive.plan import LEAST_HIDDEN, MOST_HIDDEN, capacity
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals.pairs import ORDINARY

UNITS, NOISE = st.integers(1, 10**9), st.floats(1e-3, 1e4)


@given(UNITS, NOISE)
def test_sizes_stay_within_bounds_in_steps_of_eight(units: int, noise: float) -> None:
    assert LEAST_HIDDEN <= capacity(units, noise, 15) <= MOST_HIDDEN
    assert capacity(units, noise, 15) % 8 == 0


@given(UNITS, NOISE, st.floats(1, 100))
def test_more_units_never_make_it_smaller_and_more_noise_never_larger(units: int, noise: float, more: float) -> None:
    assert capacity(int(units * more), noise, 15) >= capacity(units, noise, 15)
    assert capacity(units, noise * more, 15) <= capacity(units, noise, 15)


@given(UNITS, NOISE, st.sampled_from([8, 16, 32]))
def test_a_network_that_needs_less_is_no_larger(units: int, noise: float, least: int) -> None:
    assert least <= capacity(units, noise, 15, least=least) <= capacity(units, noise, 15)


def test_without_privacy_it_is_as_large_as_it_gets() -> None:
    assert capacity(100, 0.0, 15) == MOST_HIDDEN


@given(UNITS, NOISE)
def test_an_ordinary_table_s_network_is_as_large_as_its_noise_allows(units: int, noise: float) -> None:
    assert len({capacity(units, noise, columns) for columns in (1, 2, 15, ORDINARY)}) == 1


@given(UNITS, NOISE, st.integers(2, 3000))
def test_a_wide_table_s_network_stays_within_what_training_can_follow(units: int, noise: float, columns: int) -> None:
    hidden = capacity(units, noise, columns)
    between = hidden * GeneratorSpec().embedding * columns * (columns - 1) // 2
    assert hidden == 1 or between <= plan.MOST_WEIGHTS


def test_triples_are_asked_for_where_there_is_signal_or_a_person_asks() -> None:
    strong, weak = (43_958, 1.6), (43_958, 8.0)
    assert plan.wanted_triples(*strong, GeneratorSpec()) == plan.TRIPLES
    assert plan.wanted_triples(*weak, GeneratorSpec()) == 0
    assert plan.wanted_triples(*weak, GeneratorSpec(triples=3)) == 3
    assert plan.wanted_triples(*strong, GeneratorSpec(triples=0)) == 0
