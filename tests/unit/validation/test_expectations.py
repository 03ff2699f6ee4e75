"""The suite that follows from a schema and a profile."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from dp_synth_pipeline.validation.checks import check_names
from dp_synth_pipeline.validation.expectations import suite_for, suite_from_json, suite_json
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


def test_the_suite_reads_back_from_its_editable_json() -> None:
    checks = suite_for(schema(), profile(), ROWS)
    text = suite_json(checks)
    assert suite_from_json(text) == checks
    assert json.loads(text)["expectations"][0]["severity"] == "critical"


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


def test_the_null_rate_may_grow_by_the_share_of_values_that_are_never_written() -> None:
    plain = profile()
    sector = replace(plain["sector"], weights=(0.3, 0.2), other=0.3, null_rate=0.2)
    changed = replace(plain, columns=tuple(sector if c.name == "sector" else c for c in plain.columns))
    check = next(c for c in suite_for(schema(), changed, 100_000) if c.name == "sector__nulls")
    assert check.kwargs["min_value"] < 1 - 0.2 / 0.7 < 1 - 0.2 < check.kwargs["max_value"]
