"""The suite that follows from a schema and a profile."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, Kind, TableSchema, build
from dp_synth_pipeline.validation.checks import check_names
from dp_synth_pipeline.validation.expectations import suite_for, suite_json
from dp_synth_pipeline.validation.run import validate
from tests.unit.validation.tables import ROWS, profile, schema


def by_name(**declared):
    return {c.name: c for c in suite_for(schema(**declared), profile(), ROWS)}


def test_the_suite_has_exactly_the_names_known_ahead() -> None:
    checks = suite_for(schema(), profile(), ROWS)
    assert [c.name for c in checks] == [c.name for c in check_names(schema().names)]


def test_whatever_blocks_was_announced_as_able_to_block() -> None:
    announced = {c.name: c.blocking for c in check_names(schema().names)}
    assert all(announced[c.name] for c in suite_for(schema(), profile(), ROWS) if c.blocking)


def test_excluded_columns_have_no_check() -> None:
    names = {c.column for c in suite_for(schema(age={"kind": "excluded"}), profile(), ROWS)}
    assert "age" not in names


def test_the_suite_as_json_holds_every_check_of_the_rows() -> None:
    whole = suite_for(schema(), profile(), ROWS)
    checks = [c for c in whole if c.kind != "regenerated"]
    assert len(checks) == len(whole) - 1
    written = json.loads(suite_json(whole))["expectations"]
    assert [(e["meta"]["check"], e["type"], e["kwargs"], e["description"]) for e in written] == [
        (c.name, c.expectation, c.kwargs, c.description) for c in checks
    ]
    assert [e["severity"] == "critical" for e in written] == [c.blocking for c in checks]


def test_a_category_may_hold_named_values_only() -> None:
    assert by_name()["sector__domain"].kwargs["value_set"] == ["north", "south"]


def test_declared_categories_win_over_the_profile() -> None:
    check = by_name(sector={"categories": ["north", "south", "east"]})["sector__domain"]
    assert check.kwargs["value_set"] == ["north", "south", "east"]


def test_categories_take_the_storage_type_of_their_column() -> None:
    assert by_name()["grade__domain"].kwargs["value_set"] == [1, 2, 3]


def test_a_declared_constant_is_always_allowed() -> None:
    checks = by_name(sector={"nulls": "constant", "constant": "none"}, age={"nulls": "constant", "constant": -1})
    assert "none" in checks["sector__domain"].kwargs["value_set"]
    assert checks["age__domain"].kwargs["min_value"] == -1


def test_declared_bounds_win_over_the_profile() -> None:
    check = by_name(joined={"lower": date(2000, 1, 1)})["joined__domain"]
    assert check.kwargs["min_value"] == "2000-01-01"


def test_ranges_leave_room_for_rounding_to_the_written_digits() -> None:
    kwargs = by_name()["amount__domain"].kwargs
    assert (kwargs["min_value"], kwargs["max_value"]) == pytest.approx((-0.05, 100.05))


@pytest.mark.parametrize("policy", ["drop", "mean"])
def test_no_null_is_allowed_where_the_policy_removes_them(policy: str) -> None:
    check = by_name(age={"nulls": policy})["age__nulls"]
    assert check.blocking
    assert check.expectation == "expect_column_values_to_not_be_null"


def test_a_kept_null_rate_is_a_warning_with_a_tolerance_that_shrinks_with_rows() -> None:
    def width(rows: int) -> float:
        check = next(c for c in suite_for(schema(), profile(), rows) if c.name == "age__nulls")
        assert not check.blocking
        return check.kwargs["max_value"] - check.kwargs["min_value"]

    assert 0.04 < width(1_000_000) < width(400) < 0.2


def test_the_null_rate_does_not_grow_by_the_share_of_values_that_are_never_written() -> None:
    plain = profile()
    sector = replace(plain["sector"], weights=(0.3, 0.2), other=0.3, null_rate=0.2)
    changed = replace(plain, columns=tuple(sector if c.name == "sector" else c for c in plain.columns))
    check = next(c for c in suite_for(schema(), changed, 100_000) if c.name == "sector__nulls")
    assert 1 - 0.2 / 0.7 < check.kwargs["min_value"] < 1 - 0.2 < check.kwargs["max_value"]


def test_a_label_for_unnamed_values_is_allowed_and_leaves_the_null_rate_alone() -> None:
    checks = by_name(sector={"other": "draw", "other_label": "rest"})
    assert checks["sector__domain"].kwargs["value_set"] == ["north", "south", "rest"]
    dropped = by_name()["sector__domain"]
    assert dropped.kwargs["value_set"] == ["north", "south"]


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("age", 40, {"value_set": [40]}),
        ("joined", "2020-01-31", {"min_value": "2020-01-31", "max_value": "2020-01-31"}),
        ("member", True, {"value_set": [True]}),
    ],
)
def test_a_declared_constant_is_the_only_value_allowed(column: str, value: object, wanted: dict) -> None:
    checks = by_name(**{column: {"kind": "constant", "constant": value}})
    assert checks[f"{column}__domain"].kwargs == {"column": column, **wanted}
    assert checks[f"{column}__nulls"].expectation == "expect_column_values_to_not_be_null"


def test_a_constant_of_nulls_and_a_column_with_nothing_to_fill_in_stay_null() -> None:
    assert by_name(age={"kind": "constant", "constant": None})["age__domain"].expectation.endswith("to_be_null")
    plain = profile()
    empty = replace(plain["age"], bins=(), bin_weights=(), null_rate=1.0)
    changed = replace(plain, columns=tuple(empty if c.name == "age" else c for c in plain.columns))
    checks = {c.name: c for c in suite_for(schema(age={"nulls": "mean"}), changed, ROWS)}
    assert checks["age__nulls"].expectation == "expect_column_values_to_be_null"


@pytest.mark.parametrize("policy", ["keep", "drop"])
@pytest.mark.parametrize(("column", "way_out"), [("age", "lower and upper"), ("sector", "categories")])
def test_a_column_whose_values_noise_hid_is_warned_of(column: str, way_out: str, policy: str) -> None:
    plain = profile()
    hidden = replace(plain[column], values=(), weights=(), bins=(), bin_weights=(), other=0.9, null_rate=0.1)
    assert hidden.hidden
    changed = replace(plain, columns=tuple(hidden if c.name == column else c for c in plain.columns))
    checks = [c for c in suite_for(schema(**{column: {"nulls": policy}}), changed, 50) if c.column == column]
    kind = schema()[column].arrow_type
    nulls = pa.table({column: pa.nulls(50, kind)})
    failed = [r for r in validate(nulls, checks) if not r.passed]
    assert [r.name for r in failed] == [f"{column}__nulls"]
    assert not failed[0].blocking
    assert way_out in failed[0].description


def test_durations_are_bounded_in_microseconds_and_told_in_words() -> None:
    built = build({"took": pa.duration("us")}, {"took": {"lower": "-1 days"}})
    facts = TableProfile(ROWS, ROWS, "row", (ColumnProfile("took", Kind.DURATION, (), (), ((-3e6, 7.2e9),), (1.0,)),))
    check = next(c for c in suite_for(built, facts, ROWS) if c.name == "took__domain")
    assert (check.kwargs["min_value"], check.kwargs["max_value"]) == (-86_400_000_000, 7_200_000_000)
    assert "-1 days" in check.description
    assert "02:00:00" in check.description
    good = pa.table({"took": pa.array([-5, 7_000_000_000] * (ROWS // 2), pa.duration("us"))})
    bad = pa.table({"took": pa.array([-5, 7_300_000_000] * (ROWS // 2), pa.duration("us"))})
    suite = suite_for(built, facts, ROWS)
    assert all(r.passed for r in validate(good, suite))
    assert [r.name for r in validate(bad, suite) if not r.passed] == ["took__domain"]
    wrong = pa.table({"took": pa.array([-5, 7] * (ROWS // 2), pa.duration("s"))})
    assert "took__type" in [r.name for r in validate(wrong, suite) if not r.passed]


@pytest.mark.parametrize(
    ("storage", "kind", "value"),
    [
        ("decimal128(38, 0)", Kind.DECIMAL, str(10**38 - 1)),
        ("decimal128(18, 2)", Kind.DECIMAL, "1234567890123456.78"),
        ("int64", Kind.INTEGER, 2**63 - 1),
        ("timestamp[us]", Kind.DATETIME, 253_402_300_799_999_999),
    ],
)
def test_a_named_value_that_no_double_holds_lies_within_the_ends(storage: str, kind: Kind, value: object) -> None:
    column = Column("x", kind, storage)
    facts = ColumnProfile("x", kind, (value,), (1.0,))
    table = pa.table({"x": exact.released(column, (value,))})
    checks = suite_for(TableSchema((column,)), TableProfile(9, 9, "row", (facts,)), 1)
    assert all(r.passed for r in validate(table, checks))
