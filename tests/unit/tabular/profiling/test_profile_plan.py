"""What a profile measures, and what that costs, follow from public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Threshold
from dp_synth_pipeline.privacy.odometer import covers
from dp_synth_pipeline.tabular.profiling import profile_plan
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import TableSchema, build

MIXED = build({"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "d": pa.bool_(), "e": pa.timestamp("us")})


def test_the_events_name_the_count_each_kind_of_histogram_and_the_threshold() -> None:
    plan = ProfilePlan(0.1, 50.0, 1e-7)
    assert plan.count_events() == (DiscreteLaplace(10.0),)
    assert plan.histogram_events(MIXED) == (
        Gaussian(50.0, 8),
        Gaussian(100.0, 9),
        Gaussian(200.0, 4),
        Threshold(1e-7),
    )
    assert profile_plan.weight(MIXED, PrivacyUnit()) == 8 + 9 / 4 + 4 / 16
    assert ProfilePlan(None, 50.0, 1e-7).count_events() == ()


def test_a_closer_look_is_an_event_of_its_own_that_costs_as_much_as_five_histograms() -> None:
    plan = ProfilePlan(0.1, 50.0, 1e-7, PrivacyUnit("u", 3), refined=2)
    assert plan.histogram_events(MIXED)[1] == Gaussian(22.5 / 3, 2)
    weights = [profile_plan.weight(MIXED, PrivacyUnit(), closer) for closer in (0, 2)]
    assert weights[1] - weights[0] == pytest.approx(2 / 0.45**2)


def test_a_threshold_counts_the_columns_that_are_looked_at_closer_twice() -> None:
    unit = PrivacyUnit("u", 3)
    assert ProfilePlan(None, 5.0, 1e-6, unit).delta(MIXED) == pytest.approx(1e-6 / 4)  # three numbers and a text
    assert ProfilePlan(None, 5.0, 1e-6, unit, refined=1).delta(MIXED) == pytest.approx(1e-6 / 5)


@given(st.floats(1e-300, 0.5), st.integers(1, 400), st.integers(0, 3))
def test_the_parts_of_delta_never_add_up_to_more_than_was_charged(delta: float, columns: int, refined: int) -> None:
    schema = build({f"c{i}": pa.string() for i in range(columns)})
    part = ProfilePlan(None, 5.0, delta, refined=refined).delta(schema)
    assert (columns + refined) * Fraction(part) <= Fraction(delta)


def test_declared_categories_and_booleans_alone_need_no_threshold() -> None:
    schema = build({"b": pa.string(), "d": pa.bool_()}, {"b": {"categories": ["x", "y"]}})
    plan = ProfilePlan(None, 0.5, 1e-6, population=10)
    assert plan.histogram_events(schema) == (Gaussian(0.5, 2),)


@pytest.mark.parametrize("declared", [{"b": {"nulls": "drop"}}, {}], ids=["drop", "unit"])
def test_rows_are_measured_when_they_are_not_units_or_some_are_left_out(declared: dict) -> None:
    schema = build({"b": pa.string(), "u": pa.int64()}, {"u": {"kind": "identifier"}, **declared})
    unit = PrivacyUnit("u", 3) if not declared else PrivacyUnit()
    assert ProfilePlan(0.1, 5.0, 1e-6, unit).histogram_events(schema)[0] == Gaussian(5.0 / unit.max_rows, 2)


def test_only_names_that_must_be_found_are_looked_for_closer() -> None:
    kinds = {"c": pa.string(), "declared": pa.string(), "flag": pa.bool_(), "x": pa.float64(), "grade": pa.int64()}
    declared = {"declared": {"categories": ["a"]}, "grade": {"kind": "ordinal"}}
    assert [c.name for c in build(kinds, declared).learned if profile_plan.finds_categories(c)] == ["c", "grade"]
    assert profile_plan.most_refined(build(kinds, declared)) == 2
    assert profile_plan.most_refined(build({f"c{i}": pa.string() for i in range(9)})) == profile_plan.MOST_REFINED


TEXTS = build({"a": pa.string(), "b": pa.string(), "c": pa.string()})


def rounded(events: Sequence[Event], digits: int, order: list[int]) -> list[Event]:
    """Return events as a person may write them."""
    written = [e if isinstance(e, Threshold) else e.with_noise(float(f"{e.noise:.{digits}g}")) for e in events]
    return [written[i] for i in order if i < len(written)]


@given(
    st.floats(0.3, 1e6),
    st.integers(0, 3),
    st.sampled_from([MIXED, TEXTS]),
    st.sampled_from([PrivacyUnit(), PrivacyUnit("u", 7)]),
    st.sampled_from([3, 4, 17]),
    st.permutations(range(5)),
)
def test_declared_events_pay_for_the_plan_that_is_read_from_them_however_rounded_and_in_whatever_order(
    scale: float, closer: int, schema: TableSchema, unit: PrivacyUnit, digits: int, order: list[int]
) -> None:
    closer = min(closer, profile_plan.most_refined(schema))
    written = rounded(ProfilePlan(0.1, scale, 1e-7, unit, refined=closer).histogram_events(schema), digits, order)
    read = profile_plan.declared(ProfilePlan(0.1, 0.0, 1e-7, unit), written, schema)
    assert read is not None
    assert (read.scale, read.refined) == (pytest.approx(scale, rel=0.01), closer)
    assert covers(written, read.histogram_events(schema))


@given(st.floats(0.3, 1e6), st.integers(0, 3), st.sampled_from([3, 17]), st.permutations(range(4)))
def test_the_discrete_noise_of_an_earlier_plan_is_what_was_declared_to_the_last_digit(
    scale: float, closer: int, digits: int, order: list[int]
) -> None:
    closer = min(closer, profile_plan.most_refined(TEXTS))
    kinds = {1.0: 4, profile_plan.REFINEMENT: closer, profile_plan.RANGE_FINDING: 9}
    events = [DiscreteGaussian(factor * scale, 1, n) for factor, n in kinds.items() if n]
    written = rounded([*events, Threshold(1e-7)], digits, order)
    read = profile_plan.declared(ProfilePlan(0.1, 0.0, 1e-7, sparing=True), written, TEXTS)
    assert read is not None
    assert not read.sparing, "its noise is what was declared, of each histogram"
    assert covers(written, read.histogram_events(TEXTS))
    for factor, n in kinds.items():
        assert n == 0 or DiscreteGaussian(read.noise(factor), 1, n) in written


def test_a_discrete_plan_of_an_earlier_version_pays_for_no_rounding() -> None:
    events = [DiscreteGaussian(50.0, 1, 8), DiscreteGaussian(100.0, 1, 9), Threshold(1e-7)]
    read = profile_plan.declared(ProfilePlan(0.1, 0.0, 1e-7), events, MIXED)
    assert read is not None
    assert read.histogram_events(MIXED) == tuple(events)
    assert ProfilePlan(0.1, 50.0, 1e-7).rounded(MIXED) == 4, "steps of the whole number, and three of the datetime"


@pytest.mark.parametrize("finer", [0.4, 0.45])
def test_a_plan_that_an_earlier_version_declared_pays_for_its_closer_looks(finer: float) -> None:
    events = [Gaussian(finer * 5.0, 2), Gaussian(5.0, 8), Gaussian(10.0, 9), Gaussian(20.0, 4), Threshold(1e-7)]
    found = noise_of(events)
    assert found is not None
    assert found[1] == 2
    assert covers(events, ProfilePlan(None, found[0], 1e-7, refined=2).histogram_events(MIXED))


def test_a_profile_of_names_and_times_of_histories_alone_has_no_closer_look() -> None:
    histories = replace(TEXTS, order=build({"t": pa.date32()})["t"])
    events = ProfilePlan(None, 5.0, 1e-7).histogram_events(histories)
    read = profile_plan.declared(ProfilePlan(None, 0.0, 1e-7), events, histories)
    assert read is not None
    assert read.refined == 0


@given(st.integers(0, 3), st.floats(0.3, 1e6))
def test_what_no_name_needs_gives_numbers_less_noise_and_no_more_in_all(spare: int, scale: float) -> None:
    plan = ProfilePlan(None, scale, 1e-7, sparing=True)
    finer = plan.of_numbers(MIXED, spare)
    numbers = TableSchema(tuple(c for c in MIXED.learned if c.kind.numeric))
    before, after = (sum(e.amount for e in p.histogram_events(numbers)[:-1]) for p in (plan, finer))
    assert finer.scale < scale or spare == 0
    assert float(after - before) <= spare * (1 / (profile_plan.REFINEMENT * scale)) ** 2
    assert replace(plan, sparing=False).of_numbers(MIXED, spare) == replace(plan, sparing=False)


def noise_of(events: Sequence[Event]) -> tuple[float, int] | None:
    read = profile_plan.declared(ProfilePlan(None, 0.0, 1e-7), events, MIXED)
    return None if read is None else (read.scale, read.refined)


def test_a_plan_that_was_declared_before_there_were_closer_looks_pays_for_none() -> None:
    assert noise_of([DiscreteGaussian(5.0, 1, 8), DiscreteGaussian(10.0, 1, 9)]) == (5.0, 0)
    assert noise_of([DiscreteGaussian(5.0, 1, 8)]) == (5.0, 0)
    assert noise_of([Threshold(1e-7)]) is None


def test_full_histograms_are_named_first_among_the_events_since_metadata_show_their_noise() -> None:
    for closer in (0, 2):
        first = ProfilePlan(0.1, 50.0, 1e-7, refined=closer).histogram_events(MIXED)[0]
        assert isinstance(first, Gaussian)
        assert first.noise_multiplier == 50.0
