"""What a release is expected to be off follows from its own plans, is near what was measured, and says when it is poor."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from itertools import pairwise
from statistics import median

import numpy as np
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import REPLACE_ONE
from dp_synth_pipeline.synthesis.expected_quality import (
    EPSILONS,
    FACTORS,
    KEPT,
    MEAN_SIZE,
    POOR,
    Noise,
    Shape,
    better,
    expected,
    planned,
    quality,
    remembered,
)
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from tests.docs.pages import ROOT

DELTA = 1e-5
ADULT = Shape(43_958, 15)


def test_the_noise_is_that_of_the_plans_of_a_release():
    noise = planned(ADULT, 2.51, DELTA)
    assert noise.profile * ADULT.rows == pytest.approx(20, rel=0.05), "docs/spending.md"
    assert noise.measured == 115, "all pairs, and ten triples"
    assert noise.pairs * ADULT.rows == pytest.approx(3.71 * math.sqrt(115 / 0.9), rel=0.01)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.51])
def test_what_is_expected_of_the_census_is_within_a_quarter_of_what_was_measured(epsilon):
    with (ROOT / "benchmarks/figures/epsilon.csv").open() as file:
        runs = [float(row["tvd2"]) for row in csv.DictReader(file) if float(row["epsilon"]) == epsilon]
    assert expected(ADULT, epsilon, DELTA).two_way == pytest.approx(median(runs), rel=0.25)


def test_what_is_expected_of_any_part_of_the_census_is_within_a_quarter_too():
    with (ROOT / "benchmarks/figures/expected.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if (line["table"], line["columns"]) == ("adult", "15.0")]
    assert min(float(line["rows"]) for line in lines) == 1_000
    for line in lines:
        told = expected(Shape(int(float(line["rows"])), 15), float(line["epsilon"]), DELTA)
        assert told.two_way == pytest.approx(float(line["tvd2"]), rel=0.25), line


def test_without_noise_a_table_is_as_far_off_as_a_sample_of_it():
    shape, rng = Shape(20_000, 2, cells=10.0), np.random.default_rng(1)
    drawn = rng.multinomial(shape.rows, np.full((10, 10), 0.01).ravel(), size=200) / shape.rows
    told = quality(shape, Noise(0.0, 0.0, 1))
    assert told.two_way == pytest.approx(np.abs(drawn - 0.01).sum(1).mean() / 2, rel=0.03)
    ones = drawn.reshape(200, 10, 10).sum(2)
    assert told.one_way == pytest.approx(np.abs(ones - 0.1).sum(1).mean() / 2, rel=0.05)


def test_what_a_column_lacks_its_pairs_lack_for_either_of_them():
    told = quality(Shape(10**9, 15), Noise(0.03, 0.0, 1))
    assert told.two_way == pytest.approx(1 - (1 - told.one_way) ** 2, rel=1e-3)


def test_noise_of_pairs_moves_pairs_alone_and_no_distance_is_above_one():
    little, much = (quality(ADULT, Noise(0.001, pairs, 1)) for pairs in (0.001, 0.002))
    assert little.two_way < much.two_way < 2 * little.two_way
    assert little.one_way == much.one_way
    assert quality(Shape(1, 2), Noise(100.0, 100.0, 1)).two_way == 1.0


@pytest.mark.parametrize(
    ("worse", "relation"),
    [
        (Shape(1000, 15), "add-remove"),
        (Shape(5000, 40), "add-remove"),
        (Shape(5000, 15, max_rows=4), "add-remove"),
        (Shape(5000, 15), REPLACE_ONE),
    ],
)
def test_fewer_rows_more_columns_more_rows_a_unit_and_replacing_one_are_worse(worse, relation):
    assert expected(worse, 1.0, DELTA, relation).two_way > 1.1 * expected(Shape(5000, 15), 1.0, DELTA).two_way


def test_a_unit_of_several_rows_has_the_profile_and_the_pairs_noisier():
    one, four = planned(Shape(5000, 15), 1.0, DELTA), planned(Shape(5000, 15, max_rows=4), 1.0, DELTA)
    assert four.profile > 2.5 * one.profile
    assert four.pairs > 3 * one.pairs


def test_refreshes_that_remember_begin_as_one_release_and_their_precisions_add_up():
    shape = Shape(8000, 15)
    told = remembered(shape, 4.1, 0.86, 12, DELTA)
    assert len(told) == 12
    assert told[0] == expected(shape, 4.1, DELTA)
    assert all(later.two_way < earlier.two_way for earlier, later in pairwise(told))
    chance, begun = quality(shape, Noise(0.0, 0.0, 1)).two_way, planned(shape, 4.1, DELTA)
    precisions = [(q.two_way**2 - quality(shape, Noise(begun.profile, 0.0, 1)).two_way ** 2) ** -1 for q in told]
    assert np.diff(precisions) == pytest.approx(np.full(11, precisions[1] - precisions[0]))
    assert told[-1].two_way > chance


def test_what_is_known_and_what_is_new_are_weighed_so_that_no_other_weight_comes_nearer():
    shape, drift = Shape(8000, 15), 0.01
    begun, step = planned(shape, 4.1, DELTA), drift / (MEAN_SIZE * shape.cells**2)
    floor = quality(shape, replace(begun, pairs=0.0)).two_way ** 2
    before = (quality(shape, begun).two_way ** 2 - floor) / KEPT**2
    again = (remembered(shape, 4.1, 0.86, 2, DELTA, drift=1.0)[1].two_way ** 2 - floor) / KEPT**2  # all that is left
    moved = quality(shape, replace(begun, pairs=0.0, behind=step)).two_way ** 2 - floor
    weight = min(np.linspace(0, 1, 1001), key=lambda w: (1 - w) ** 2 * (before + moved) + w**2 * again)
    left = KEPT**2 * ((1 - weight) ** 2 * before + weight**2 * again) + (1 - weight) ** 2 * moved
    assert remembered(shape, 4.1, 0.86, 2, DELTA, drift=drift)[1].two_way ** 2 - floor == pytest.approx(left, rel=0.01)


def test_a_table_that_drifted_was_about_as_far_off_as_expected():
    for epsilon, times, drift, measured in (
        (0.86, 12, 0.0125, {3: 0.045, 6: 0.049, 11: 0.055}),  # benchmarks/README.md, the census under slow drift
        (0.372, 52, 0.0027, {10: 0.045, 20: 0.049, 35: 0.053, 51: 0.056}),
    ):
        told = remembered(Shape(8000, 15), 4.1, epsilon, times, DELTA, drift=drift)
        for week, distance in measured.items():
            assert told[week].two_way == pytest.approx(distance, rel=0.2)


def test_however_far_a_table_moves_a_refresh_is_no_further_off_than_its_own_counts():
    shape = Shape(8000, 15)
    told = remembered(shape, 4.1, 0.86, 12, DELTA, drift=1.0)
    alone = told[-1].two_way
    assert all(later.two_way == pytest.approx(alone, rel=0.01) for later in told[1:])
    slow = remembered(shape, 4.1, 0.86, 12, DELTA, drift=0.01)
    assert all(near.two_way < far.two_way for near, far in zip(slow[1:], told[1:], strict=True))


def test_what_is_advised_makes_a_release_not_poor_and_less_of_it_does_not():
    shape = Shape(5000, 15)
    assert expected(shape, 0.5, DELTA).poor
    rows, epsilon = better(shape, 0.5, DELTA)
    assert rows in FACTORS
    assert epsilon in EPSILONS
    fewer = FACTORS[FACTORS.index(rows) - 1] if rows > FACTORS[0] else 1
    less = EPSILONS[EPSILONS.index(epsilon) - 1]
    assert (
        expected(Shape(rows * 5000, 15), 0.5, DELTA).two_way
        < POOR
        <= expected(Shape(fewer * 5000, 15), 0.5, DELTA).two_way
    )
    assert expected(shape, epsilon, DELTA).two_way < POOR <= expected(shape, less, DELTA).two_way


def test_nothing_is_advised_where_nothing_helps():
    assert better(Shape(20, 15), 0.1, DELTA) == (None, None)


@pytest.mark.parametrize(("rows", "columns", "name"), [(0, 15, "rows"), (-3, 15, "rows"), (10, 1, "columns")])
def test_no_rows_and_no_pair_are_refused_by_name(rows, columns, name):
    with pytest.raises(InvalidInput, match=f"{name} must be at least"):
        Shape(rows, columns)


def test_a_released_profile_tells_the_rows_the_columns_and_their_cells():
    even = ColumnProfile("a", Kind.CATEGORY, ("x", "y"), (0.5, 0.5))
    bins = tuple((float(i), i + 1.0) for i in range(100))
    line = ColumnProfile("b", Kind.INTEGER, (), (), bins, (0.01,) * 100)
    skewed = ColumnProfile("c", Kind.CATEGORY, ("x",), (0.81,), other=0.19)
    shape = Shape.of(TableProfile(900, 1000, "row", (even, line, skewed)), max_rows=2)
    assert (shape.rows, shape.columns, shape.max_rows) == (1000, 3, 2)
    roots = math.sqrt(2), math.sqrt(20), 0.9 + math.sqrt(0.19)
    assert shape.cells == pytest.approx((sum(roots) / 3) ** 2)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, DELTA), (math.nan, DELTA), (200.0, DELTA), (1.0, 0.0), (1.0, 1.0)]
)
def test_an_epsilon_or_delta_that_no_release_has_is_refused(epsilon, delta):
    with pytest.raises(InvalidInput, match=r"epsilon|delta"):
        expected(ADULT, epsilon, delta)
