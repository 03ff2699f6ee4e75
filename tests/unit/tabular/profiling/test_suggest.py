"""What a released profile suggests: kinds by storage type and noisy shares, bounds rounded outward."""

from __future__ import annotations

from datetime import date, datetime
from itertools import pairwise

import pytest

from dp_synth_pipeline.tabular import declare, schema
from dp_synth_pipeline.tabular.facts import Column
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.grid import outward
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile
from dp_synth_pipeline.tabular.profiling.suggest import suggest

DAY = 86_400_000_000


def advise(kind, storage, values=(), weights=(), *, population=1000, **facts):
    column = Column("c", kind, storage)
    found = suggest(column, ColumnProfile("c", kind, tuple(values), tuple(weights), **facts), population)
    return found.facts, " | ".join(found.remarks)


def bins(*edges, share=1.0):
    cells = tuple(pairwise(edges))
    return {"bins": cells, "bin_weights": (share / len(cells),) * len(cells)}


def test_text_with_named_values_is_a_category_with_their_noisy_shares():
    facts, told = advise(Kind.CATEGORY, "string", ("F", "M"), (0.6, 0.3), other=0.1)
    assert facts == {"kind": "category", "categories": ["F", "M"]}
    assert "F 60 %, M 30 %" in told
    assert "10 % too rare to be named" in told


@pytest.mark.parametrize(("values", "weights", "other"), [((), (), 1.0), (("a",), (0.05,), 0.95)])
def test_text_that_is_nearly_all_unnamed_is_left_out(values, weights, other):
    facts, told = advise(Kind.CATEGORY, "string", values, weights, other=other)
    assert facts == {"kind": "excluded"}
    assert "kind: identifier" in told


def test_an_integer_of_few_heavy_values_is_a_scale_in_order():
    facts, told = advise(Kind.INTEGER, "int64", (2.0, 0.0, 1.0), (0.5, 0.3, 0.19), **bins(5, 6, share=0.01))
    assert facts == {"kind": "ordinal", "categories": ["0", "1", "2"]}
    assert "0 30 %, 1 19 %, 2 50 %" in told


def test_an_integer_with_mass_between_its_heavy_values_stays_a_number():
    facts, told = advise(Kind.INTEGER, "int64", (40.0,), (0.47,), **bins(1, 50, 100, share=0.53))
    assert facts == {"kind": "integer", "lower": 1, "upper": 100}
    assert "often 40 47 %" in told


def test_nulls_are_kept_and_said():
    facts, told = advise(Kind.BOOLEAN, "bool", (True, False), (0.5, 0.2), null_rate=0.3)
    assert facts == {"kind": "boolean", "nulls": "keep"}
    assert "30 % null" in told


def test_a_column_of_nulls_is_left_out():
    assert advise(Kind.DECIMAL, "double", null_rate=1.0)[0] == {"kind": "excluded"}


def test_a_column_of_one_value_says_that_it_may_be_constant():
    assert "constant: 2024" in advise(Kind.INTEGER, "int64", (2024.0,), (1.0,))[1]


def test_a_running_number_is_noticed():
    assert "kind: identifier" in advise(Kind.INTEGER, "int64", **bins(0, 500, 1010))[1]
    assert "kind: identifier" not in advise(Kind.INTEGER, "int64", **bins(0, 50, 100))[1]


def test_precision_and_zone_are_passed_on():
    assert advise(Kind.DECIMAL, "double", decimals=2, **bins(0.13, 9.87))[0] == {
        "kind": "decimal",
        "lower": 0.1,
        "upper": 9.9,
        "decimals": 2,
    }
    facts, _ = advise(Kind.DATETIME, "timestamp[us, tz=Europe/Paris]", resolution=1, **bins(0, 30 * DAY))
    assert facts["zone"] == "Europe/Paris"


@pytest.mark.parametrize(
    ("kind", "storage", "edges", "lower", "upper"),
    [
        (Kind.DATE, "date32[day]", (-100, 1000), date(1969, 1, 1), date(1972, 12, 31)),
        (Kind.DATE, "date32[day]", (10, 100), date(1970, 1, 1), date(1970, 4, 30)),
        (Kind.DATETIME, "timestamp[us]", (0, 330 * DAY), datetime(1970, 1, 1), datetime(1970, 12, 1)),
        (Kind.DATETIME, "timestamp[us]", (-DAY, 1000 * DAY), datetime(1969, 1, 1), datetime(1973, 1, 1)),
    ],
)
def test_dates_are_rounded_outward_to_months_or_years_and_read_back(kind, storage, edges, lower, upper):
    facts, _ = advise(kind, storage, **bins(*edges))
    column = declare.build({"c": schema.parse_storage(storage)}, {"c": facts})["c"]
    assert (column.lower, column.upper) == (lower, upper)


@pytest.mark.parametrize("edges", [(0, 5e9), (-3 * DAY, 2.5 * DAY)])
def test_durations_are_rounded_outward_and_read_back(edges):
    facts, _ = advise(Kind.DURATION, "duration[us]", **bins(*edges))
    column = declare.build({"c": schema.parse_storage("duration[us]")}, {"c": facts})["c"]
    assert column.lower.total_seconds() * 1e6 <= edges[0]
    assert column.upper.total_seconds() * 1e6 >= edges[1]


def test_dates_beyond_the_calendar_get_no_bounds():
    assert advise(Kind.DATE, "date32[day]", **bins(-1e7, 1e7))[0] == {"kind": "date"}


@pytest.mark.parametrize("ends", [(17, 90.5), (-3.172, 99_412.7), (0.00031, 0.00047), (-5, -5), (1e15, 1e15 + 3)])
def test_bounds_are_rounded_outward_and_not_far(ends):
    low, high = outward(*ends)
    assert low <= ends[0]
    assert high >= ends[1]
    length = ends[1] - ends[0] or abs(ends[1])
    assert (ends[0] - low) + (high - ends[1]) <= 0.21 * length
