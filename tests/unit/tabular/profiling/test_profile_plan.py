"""What a profile measures, and what that costs, follow from public facts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.ledger.declared import covers
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, Threshold
from dp_synth_pipeline.tabular.profiling import profile_plan
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import TableSchema, build

MIXED = build({"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "d": pa.bool_(), "e": pa.timestamp("us")})


def test_the_events_name_the_count_both_kinds_of_histograms_and_the_threshold() -> None:
    plan = ProfilePlan(0.1, 50.0, 1e-7)
    assert plan.count_events() == (DiscreteLaplace(10.0),)
    assert plan.histogram_events(MIXED) == (
        DiscreteGaussian(50.0, 1, 8),
        DiscreteGaussian(100.0, 1, 9),
        Threshold(1e-7),
    )
    assert profile_plan.weight(MIXED, PrivacyUnit()) == 8 + 9 / 4
    assert ProfilePlan(None, 50.0, 1e-7).count_events() == ()


def test_a_closer_look_is_an_event_of_its_own_that_costs_as_much_as_six_histograms() -> None:
    plan = ProfilePlan(0.1, 50.0, 1e-7, PrivacyUnit("u", 3), refined=2)
    assert plan.histogram_events(MIXED)[1] == DiscreteGaussian(20.0, 3, 2)
    weights = [profile_plan.weight(MIXED, PrivacyUnit(), closer) for closer in (0, 2)]
    assert weights[1] - weights[0] == pytest.approx(2 * 6.25)


def test_a_threshold_counts_the_columns_that_are_looked_at_closer_twice() -> None:
    unit = PrivacyUnit("u", 3)
    assert ProfilePlan(None, 5.0, 1e-6, unit).keys(MIXED) == 4 * 3  # three numbers and a text
    assert ProfilePlan(None, 5.0, 1e-6, unit, refined=1).keys(MIXED) == 5 * 3


def test_declared_categories_and_booleans_alone_need_no_threshold() -> None:
    schema = build({"b": pa.string(), "d": pa.bool_()}, {"b": {"categories": ["x", "y"]}})
    plan = ProfilePlan(None, 0.5, 1e-6, population=10)
    assert plan.histogram_events(schema) == (DiscreteGaussian(0.5, 1, 2),)


@pytest.mark.parametrize("declared", [{"b": {"nulls": "drop"}}, {}], ids=["drop", "unit"])
def test_rows_are_measured_when_they_are_not_units_or_some_are_left_out(declared: dict) -> None:
    schema = build({"b": pa.string(), "u": pa.int64()}, {"u": {"kind": "identifier"}, **declared})
    unit = PrivacyUnit("u", 3) if not declared else PrivacyUnit()
    assert ProfilePlan(0.1, 5.0, 1e-6, unit).histogram_events(schema)[0] == DiscreteGaussian(5.0, unit.max_rows, 2)


def test_only_names_that_must_be_found_are_looked_for_closer() -> None:
    kinds = {"c": pa.string(), "declared": pa.string(), "flag": pa.bool_(), "x": pa.float64(), "grade": pa.int64()}
    declared = {"declared": {"categories": ["a"]}, "grade": {"kind": "ordinal"}}
    assert [c.name for c in build(kinds, declared).learned if profile_plan.finds_categories(c)] == ["c", "grade"]
    assert profile_plan.most_refined(build(kinds, declared)) == 2
    assert profile_plan.most_refined(build({f"c{i}": pa.string() for i in range(9)})) == profile_plan.MOST_REFINED


TEXTS = build({"a": pa.string(), "b": pa.string(), "c": pa.string()})


@given(
    st.floats(0.3, 1e6),
    st.integers(0, 3),
    st.sampled_from([MIXED, TEXTS]),
    st.sampled_from([3, 4, 17]),
    st.permutations(range(4)),
)
def test_declared_events_pay_for_the_plan_that_is_read_from_them_however_rounded_and_in_whatever_order(
    scale: float, closer: int, schema: TableSchema, digits: int, order: list[int]
) -> None:
    closer = min(closer, profile_plan.most_refined(schema))
    events = ProfilePlan(0.1, scale, 1e-7, refined=closer).histogram_events(schema)
    declared = [
        replace(e, scale=float(f"{e.scale:.{digits}g}")) if isinstance(e, DiscreteGaussian) else e for e in events
    ]
    declared = [declared[i] for i in order if i < len(declared)]
    noise = profile_plan.declared_noise([Gaussian(3.0), *declared])
    assert noise is not None
    assert noise == (pytest.approx(scale, rel=0.01), closer)
    read = ProfilePlan(0.1, noise[0], 1e-7, refined=noise[1])
    assert covers(declared, read.histogram_events(schema))


def test_a_plan_that_was_declared_before_there_were_closer_looks_pays_for_none() -> None:
    assert profile_plan.declared_noise([DiscreteGaussian(5.0, 1, 8), DiscreteGaussian(10.0, 1, 9)]) == (5.0, 0)
    assert profile_plan.declared_noise([DiscreteGaussian(5.0, 1, 8)]) == (5.0, 0)
    assert profile_plan.declared_noise([Threshold(1e-7)]) is None


def test_full_histograms_are_named_first_among_the_events_since_metadata_show_their_noise() -> None:
    for closer in (0, 2):
        first = ProfilePlan(0.1, 50.0, 1e-7, refined=closer).histogram_events(MIXED)[0]
        assert isinstance(first, DiscreteGaussian)
        assert first.scale == 50.0
