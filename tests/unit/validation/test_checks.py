"""Names of checks, and results brought to groups."""

from __future__ import annotations

import re

import pytest

from dp_synth_pipeline.validation.checks import REGENERATED, CheckResult, check_names, grouped, stems_of, summary

ODD = ["a b", "a_b", "a-b", "âge", "age", "名前", "", "<script>", "a__type", "a", "Amount (€)", "_x_", "x"]


def test_every_name_is_valid_in_dagster_even_for_odd_columns() -> None:
    for check in check_names(ODD):
        assert re.fullmatch(r"[A-Za-z0-9_]+", check.name)


def test_names_are_unique_even_if_columns_collide_after_cleaning() -> None:
    names = [c.name for c in check_names(ODD)]
    assert len(set(names)) == len(names) == 3 + 3 * len(ODD)


def test_a_plain_column_keeps_its_name() -> None:
    assert stems_of(["age", "a b", "a_b"])["a_b"] == "a_b"
    assert "age__type" in [c.name for c in check_names(["age"])]


def test_names_do_not_depend_on_the_order_of_columns() -> None:
    assert stems_of(ODD) == stems_of(ODD[::-1])


def test_without_columns_there_is_one_check_a_group() -> None:
    assert [c.name for c in check_names(None)] == ["columns", "row_count", REGENERATED, "types", "domains", "nulls"]


def result(name: str, passed: bool, blocking: bool = True, column: str | None = "a") -> CheckResult:
    return CheckResult(name, passed, blocking, column, f"{name} is as expected.", {"rows": 3})


def test_grouped_results_have_the_names_known_ahead_and_each_columns_outcome() -> None:
    results = [result(n, True, column=None) for n in ("columns", "row_count", REGENERATED)]
    results += [result(f"a__{k}", k != "domain") for k in ("type", "domain", "nulls")]
    groups = {g.name: g for g in grouped(results)}
    assert list(groups) == [c.name for c in check_names(None)]
    assert groups["types"].passed
    assert not groups["domains"].passed
    assert groups["domains"].observed["failed"] == ["a"]
    assert groups["domains"].observed["columns"]["a"] == {"passed": False, "rows": 3}


@pytest.mark.parametrize(("blocking", "blocks"), [(True, True), (False, False)])
def test_a_failed_group_blocks_only_if_a_failed_member_blocks(blocking: bool, blocks: bool) -> None:
    results = [result("a__nulls", True, blocking=True), result("b__nulls", False, blocking=blocking, column="b")]
    assert grouped(results)[-1].blocks is blocks


def test_the_summary_names_what_failed() -> None:
    assert summary([result("a__type", True)]) == "All 1 checks passed."
    assert "a__domain" in summary([result("a__domain", False)])
    assert "not published" in summary([result("a__domain", False)])
    assert "warnings only" in summary([result("a__nulls", False, blocking=False)])
