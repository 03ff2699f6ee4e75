"""The profile's plan: how much it takes, and which columns are worth a closer look, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.language.note_spec import NoteSpec
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import calibration
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.release_plan import ReleasePlan
from dp_synth_pipeline.tabular.profiling import formulas, ordered_dates, profile_plan
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import TableSchema, build

pytestmark = pytest.mark.slow

DELTA = 1e-5
EPSILONS = st.floats(0.1, 16)
SIZES = st.integers(100, 10**7)


def schema(numbers: int, texts: int, declared: int = 0) -> TableSchema:
    kinds = {f"x{i}": pa.int64() for i in range(numbers)} | {f"c{i}": pa.string() for i in range(texts + declared)}
    return build(kinds, {f"c{i}": {"categories": ["a", "b"]} for i in range(declared)})


def plan(columns: TableSchema, epsilon: float, rows: int, part: float = 1.0, **facts) -> ProfilePlan:
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=epsilon, delta=DELTA, **facts)
    request = replace(allocation.BudgetRequest.of(settings, DELTA), share=part)
    return allocation.plan_profile(settings, request, columns, population=rows)


def share(found: ProfilePlan, columns: TableSchema, epsilon: float) -> float:
    """The part of the squared signal to noise that the histograms take."""
    rest = epsilon * (1 - allocation.COUNT_SHARE)
    whole = calibration.gaussian_noise(rest, DELTA * (1 - allocation.THRESHOLD_SHARE))
    return float(sum(e.amount for e in found.histogram_events(columns) if isinstance(e, Gaussian))) * whole**2


@given(st.integers(0, 40), st.integers(1, 40), EPSILONS, SIZES)
def test_closer_looks_are_paid_from_the_profiles_own_share(numbers: int, texts: int, epsilon: float, rows: int) -> None:
    columns = schema(numbers, texts)
    taken = share(found := plan(columns, epsilon, rows), columns, epsilon)
    assert allocation.LEAST_PROFILE * (1 - 1e-9) <= taken <= allocation.MOST_SCARCE * (1 + 1e-9)
    looked = profile_plan.weight(columns, found.unit, found.refined) / profile_plan.weight(columns, found.unit)
    scarce = taken / looked * (found.scale / allocation.PROFILE_NOISE / rows) ** 2 > allocation.SCARCE
    assert scarce or taken <= allocation.MOST_PROFILE * (1 + 1e-9)


@given(st.integers(0, 40), st.integers(1, 40), EPSILONS, SIZES)
def test_closer_looks_cost_the_other_histograms_nothing_or_little(
    numbers: int, texts: int, epsilon: float, rows: int
) -> None:
    found, without = (plan(schema(numbers, *t), epsilon, rows) for t in ((texts, 0), (0, texts)))
    aim = allocation.PROFILE_NOISE * rows * (1 + 1e-9)
    assert found.scale <= max(aim, 1.23 * without.scale)
    assert found.refined == 0 or found.sparing or found.scale <= math.sqrt(allocation.MOST_BEYOND) * aim
    assert without.refined == 0, "declared names need no look"


def test_where_noise_is_low_three_columns_are_looked_at_and_where_it_is_high_those_that_lost_much() -> None:
    def looks(found: ProfilePlan) -> tuple[int, bool]:
        return found.refined, found.sparing

    assert looks(plan(schema(6, 9), 2.51, 44_000)) == (2, False)
    assert looks(plan(schema(6, 9), 0.5, 44_000)) == (2, True)
    assert looks(plan(schema(2, 4), 2.51, 1_000_000)) == (profile_plan.MOST_REFINED, False)
    assert looks(plan(schema(2, 4), 0.2, 300)) == (0, True)
    assert looks(plan(schema(40, 12), 2.51, 9_000)) == (profile_plan.MOST_REFINED, True)


@given(st.integers(0, 40), st.integers(1, 40), EPSILONS)
def test_the_fewer_the_rows_the_more_a_profile_takes(numbers: int, texts: int, epsilon: float) -> None:
    columns = schema(numbers, texts)
    shares = [share(plan(columns, epsilon, rows), columns, epsilon) for rows in (100, 1_000, 10_000, 100_000)]
    assert all(
        fewer >= more * (1 - 1e-9) for fewer, more in pairwise(shares) if max(fewer, more) > allocation.MOST_PROFILE
    )


def test_a_table_of_few_rows_spends_most_on_seeing_its_values_unless_trainings_need_it() -> None:
    columns = schema(16, 15)
    assert share(plan(columns, 1.0, 1_323), columns, 1.0) == pytest.approx(0.781, abs=0.001)
    study = {"training": {"tune": {"learning_rate": [0.001, 0.01]}}}
    assert share(plan(columns, 1.0, 1_323, **study), columns, 1.0) == pytest.approx(allocation.MOST_PROFILE)
    shared = share(plan(columns, 1.0, 1_323, part=0.5), columns, 1.0)
    assert shared == pytest.approx(allocation.MOST_PROFILE / 2)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.5])
def test_the_census_spends_what_it_spent_before_scarce_tables_spent_more(epsilon: float) -> None:
    census = schema(6, 9)
    assert share(plan(census, epsilon, 43_958), census, epsilon) <= allocation.MOST_PROFILE * (1 + 1e-9)


def test_a_share_of_ones_own_is_kept_to() -> None:
    columns = schema(2, 4)
    for own in (0.02, 0.5):
        assert math.isclose(share(plan(columns, 1.0, 10_000, profile_share=own), columns, 1.0), own)


def test_a_table_without_texts_is_planned_as_before_and_texts_share_the_delta_of_thresholds():
    settings = [
        TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA, columns=columns)
        for columns in ({}, {"note": {"kind": "text", "max_length": 40}})
    ]
    without, beside = (
        allocation.plan_profile(s, allocation.BudgetRequest.of(s, DELTA), schema(3, 2), population=40_000)
        for s in settings
    )
    assert without.threshold_delta == DELTA * allocation.THRESHOLD_SHARE
    assert beside.threshold_delta == without.threshold_delta / 2
    assert (beside.scale, beside.refined) == (without.scale, without.refined)


def test_texts_take_their_part_of_what_is_left_and_marginals_and_training_the_rest():
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA)
    budget = allocation.RemainingBudget((), Budget(3.0, DELTA))
    whole, own_delta = budget.whole(), 1e-9
    for columns, part in ((1, 0.6), (2, 0.75)):
        found = allocation.texts(budget, settings, own_delta, columns)
        gaussian, threshold = found.events
        assert math.isclose((whole / gaussian.noise) ** 2, part, rel_tol=1e-2)
        assert threshold.own_delta == own_delta


def test_a_language_model_takes_its_part_of_what_is_left_and_what_is_left_after_pays_for_the_rest():
    budget = allocation.RemainingBudget((), Budget(3.0, DELTA))
    (words,) = allocation.note_words(budget, 1).events
    after = allocation.RemainingBudget((words,), Budget(3.0, DELTA))
    assert math.isclose((budget.whole() / after.whole()) ** 2, 1 - 0.6 / 5, rel_tol=2e-2)
    plan = allocation.notes(after, NoteSpec(), 28_000)
    left = allocation.RemainingBudget((words, plan.event), Budget(3.0, DELTA)).whole()
    assert math.isclose((budget.whole() / left) ** 2, 0.4, rel_tol=2e-2)


def test_a_declared_plan_counts_the_words_of_notes_only_if_it_says_so():
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA)
    training = SubsampledGaussian(2.0, 0.1, 10)
    before = ReleasePlan.of((training, Gaussian(2.0)), ("notes", "marginals"))
    assert allocation.Declared(settings, before, 3.0, DELTA).note_words(1_000, ()) is None
    paid = ReleasePlan.of((Gaussian(7.0), training), ("words of notes", "notes"))
    plan = allocation.Declared(settings, paid, 3.0, DELTA).note_words(1_000, ())
    assert plan is not None
    assert plan.events == (Gaussian(7.0, 1),)


def test_votes_for_what_a_language_model_writes_take_their_part_of_what_is_left():
    note = {"kind": "text", "max_length": 9, "model": "m", "prompt": "Write a note."}
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA, columns={"note": note})
    assert settings.note_columns == ["note"]
    assert settings.tuned_columns == []
    budget = allocation.RemainingBudget((), Budget(3.0, DELTA))
    plan = allocation.votes(budget, settings, 28_000)
    (event,) = plan.events
    assert event.count == plan.rounds
    left = allocation.RemainingBudget((event,), Budget(3.0, DELTA)).whole()
    assert math.isclose((budget.whole() / left) ** 2, 0.4, rel_tol=2e-2)


def test_a_declared_plan_says_how_many_rounds_vote_and_is_refused_without_any():
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA)
    paid = ReleasePlan.of((Gaussian(5.0, 3), Gaussian(2.0)), ("votes", "marginals"))
    plan = allocation.Declared(settings, paid, 3.0, DELTA).votes(1_000, ())
    assert (plan.noise_multiplier, plan.rounds, plan.candidates) == (5.0, 3, 100)
    with pytest.raises(InvalidInput, match="no votes"):
        allocation.Declared(settings, ReleasePlan.of((Gaussian(2.0),), ("marginals",)), 3.0, DELTA).votes(1_000, ())


def test_a_language_model_beside_a_column_of_counts_leaves_these_their_part():
    columns = {c: {"kind": "text", "max_length": 9, **model} for c, model in (("a", {}), ("b", {"model": "m"}))}
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=3.0, delta=DELTA, columns=columns)
    budget = allocation.RemainingBudget((), Budget(3.0, DELTA))
    gaussian, _ = allocation.texts(budget, settings, 1e-9, 1).events
    assert math.isclose((budget.whole() / gaussian.noise) ** 2, 1 / (2 + 2 / 3), rel_tol=1e-2)


def dates(pairs: int, epsilon: float, rows: int, relation: str = ADD_REMOVE, **facts):
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=epsilon, delta=DELTA, **facts)
    named = tuple((f"a{i}", f"b{i}") for i in range(pairs))
    request = allocation.BudgetRequest.of(settings, DELTA)
    return allocation.plan_dates(settings, request, named, relation, rows), allocation.whole_noise(
        settings, request, relation
    )


@given(st.integers(1, 40), EPSILONS, SIZES)
def test_finding_how_dates_hang_together_takes_a_small_part_and_no_more_than_it_needs(
    pairs: int, epsilon: float, rows: int
) -> None:
    found, whole = dates(pairs, epsilon, rows)
    if found is None:
        return
    taken = sum(e.amount for e in found.events) * whole**2
    assert taken <= allocation.DATES_SHARE * (1 + 1e-9)
    assert found.scale >= ordered_dates.NOISE * rows * (1 - 1e-9), "less noise than is needed is paid for"
    assert ordered_dates.finds_any(found.scale, rows)


def test_where_noise_would_hide_all_nothing_is_spent_on_dates() -> None:
    assert dates(3, 1.0, 300)[0] is None
    assert dates(3, 1.0, 30_000)[0] is not None


def computed(columns: int, epsilon: float, rows: int, relation: str = ADD_REMOVE, **facts):
    settings = TableSettings(table="t", source="t.csv", account="t", epsilon=epsilon, delta=DELTA, **facts)
    request = allocation.BudgetRequest.of(settings, DELTA)
    names = tuple(f"a{i}" for i in range(columns))
    return allocation.plan_formulas(settings, request, names, relation, rows), allocation.whole_noise(
        settings, request, relation
    )


@given(st.integers(3, 12), EPSILONS, SIZES)
def test_finding_formulas_takes_a_small_part_and_no_more_than_it_needs(columns: int, epsilon: float, rows: int) -> None:
    found, whole = computed(columns, epsilon, rows)
    if found is None:
        return
    looked_at = rows * found.rate
    taken = sum(e.amount for e in found.events) * whole**2
    assert taken <= allocation.FORMULAS_SHARE * (1 + 1e-9)
    assert found.scale >= formulas.NOISE * looked_at * (1 - 1e-9), "less noise than is needed is paid for"
    assert formulas.finds_any(found.scale, looked_at)
    assert found.columns == tuple(f"a{i}" for i in range(len(found.columns))), "the first ones"


def test_formulas_are_looked_for_among_as_many_columns_as_noise_lets_be_told() -> None:
    plans = [computed(12, 1.0, rows)[0] for rows in (300, 6_000, 6_600, 16_000)]
    taken = [len(p.columns) if p else 0 for p in plans]
    assert taken[0] == 0
    assert 3 <= taken[1] < taken[2] < 12
    assert taken[3] == 12
    assert computed(2, 1.0, 10**5)[0] is None


def test_a_unit_of_several_rows_and_a_replaced_one_move_formulas_more() -> None:
    one, three = (computed(12, 2.0, 15_000, unit=unit)[0] for unit in ("row", {"column": "p", "max_rows": 3}))
    replaced = computed(12, 2.0, 6_000, REPLACE_ONE)[0]
    for plan in (one, three, replaced):
        assert plan is not None
    assert three.unit.max_rows == 3
    noise = three.scale / 3
    assert three.events == (Gaussian(noise / three.spread, 1), Gaussian(noise, three.tried))
    assert three.weight < one.weight, "three times the noise lets fewer be told"
    assert replaced.weight < one.weight


def test_a_unit_of_several_rows_and_a_replaced_one_move_dates_more() -> None:
    one, three = (dates(3, 2.0, 3_000, unit=unit)[0] for unit in ("row", {"column": "p", "max_rows": 3}))
    replaced = dates(3, 2.0, 3_000, REPLACE_ONE)[0]
    assert one is not None
    assert three is not None
    assert replaced is not None
    assert three.unit.max_rows == 3
    assert three.scale == pytest.approx(3 * one.scale)
    assert replaced.scale >= 2 * one.scale  # and a little more: a replaced unit is priced by curves
