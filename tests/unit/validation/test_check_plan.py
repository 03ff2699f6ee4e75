"""What a person asks to be checked: rules, a suite of their own, severities; named early, then run beside ours."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.tabular.constraints import parse
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.checks import Check, CheckResult, grouped
from dp_synth_pipeline.validation.expectations import suite_json
from dp_synth_pipeline.validation.rules import rule_checks, rule_names
from dp_synth_pipeline.validation.run import validate
from dp_synth_pipeline.validation.user_suite import columns_of, read_suite
from tests.unit.validation.tables import ROWS, good, profile, schema, spoiled

COLUMNS = schema().names
RULES = [
    "seen <= logged",
    "joined <= seen",
    "age >= 18",
    "joined < 2003-01-01",
    "amount = age + price",
    "sector -> grade",
]


def rules(*texts: str):
    return [parse(t) for t in texts or RULES]


def checked(table: pa.Table, *texts: str) -> dict[str, CheckResult]:
    return {r.name: r for r in validate(table, rule_checks(rules(*texts), schema()))}


def test_each_rule_is_a_check_of_its_own_with_a_name_known_ahead() -> None:
    names = [n.name for n in rule_names(rules())]
    assert names == [c.name for c in rule_checks(rules(), schema())]
    assert names[0] == "rule_1__seen_le_logged"
    assert names[5] == "rule_6__sector_gives_grade"


def test_odd_column_names_give_valid_check_names() -> None:
    (name,) = rule_names(rules('"âge (€)" -> `marital status`'))
    assert re.fullmatch(r"[A-Za-z0-9_]+", name.name)


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        ("joined < 2003-01-01", "expect_column_values_to_be_between"),
        ("age <= amount", "expect_column_pair_values_a_to_be_greater_than_b"),
        ("age == grade", "expect_column_pair_values_to_be_equal"),
        ("joined <= seen", "expect_multicolumn_values_to_keep_rule"),
        ("sector -> member", "expect_multicolumn_values_to_keep_rule"),
    ],
)
def test_great_expectations_own_words_are_used_where_it_has_them(text, expectation) -> None:
    (check,) = rule_checks(rules(text), schema(grade={"kind": "integer"}))
    assert check.expectation == expectation


def test_rules_that_hold_pass_and_those_that_do_not_count_the_rows() -> None:
    table = good()
    found = checked(table)
    assert {n for n, r in found.items() if r.passed} == {
        "rule_1__seen_le_logged",
        "rule_2__joined_le_seen",
        "rule_3__age_ge_18",
        "rule_4__joined_lt_2003_01_01",
    }
    frame = table.to_pandas()
    usual = frame.groupby("sector")["grade"].agg(lambda g: (g != g.mode()[0]).sum()).sum()
    assert found["rule_6__sector_gives_grade"].observed == {"rows": ROWS, "unexpected": usual}
    assert found["rule_5__amount_eq_age_plus_price"].blocks


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [("age >= 18", "age", 17), ("age > 17", "age", 17), ("age < 90", "age", 90), ("grade <= age", "age", -1)],
)
def test_one_row_that_breaks_a_rule_fails_its_check(text, column, value) -> None:
    (result,) = validate(spoiled(column, value), rule_checks(rules(text), schema(grade={"kind": "integer"})))
    assert not result.passed
    assert result.observed["unexpected"] == 1


def test_a_rule_about_a_missing_column_fails_by_name() -> None:
    (result,) = checked(good().drop_columns(["sector"]), "sector -> grade").values()
    assert result.observed == {"problem": "the column sector is missing"}


def test_severities_follow_the_last_pattern_and_groups_stand_for_their_members() -> None:
    asked = CheckPlan(COLUMNS, rules("age >= 18"), severity={"*": "warn", "nulls": "block", "rule_*": "block"})
    blocking = {n.name for n in asked.names() if n.blocking}
    assert blocking == {f"{c}__nulls" for c in COLUMNS} | {"rule_1__age_ge_18"}
    assert blocking == {c.name for c in asked.suite(schema(), profile(), ROWS) if c.blocking}


def test_a_severity_of_no_check_is_refused_where_names_are_known() -> None:
    with pytest.raises(InvalidInput, match=r"severity 'age__domian'.*columns, row_count"):
        CheckPlan(COLUMNS, severity={"age__domian": "warn"})
    with pytest.raises(InvalidInput, match="rows"):
        CheckPlan(None, severity={"rows": "warn"})
    CheckPlan(None, severity={"age__domain": "warn", "domains": "block"})


def test_a_warned_column_warns_in_its_group_too() -> None:
    asked = CheckPlan(None, severity={"sector__domain": "warn"})
    results = validate(spoiled("sector", "west"), asked.suite(schema(), profile(), ROWS))
    group = next(r for r in grouped(results) if r.name == "domains")
    assert (group.passed, group.blocking) == (False, False)


def suite_file(folder, text: str, name: str = "mine.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_persons_own_suite_runs_beside_ours_with_its_severities(tmp_path) -> None:
    path = suite_file(
        tmp_path,
        """
        expectations:
        - {type: expect_column_mean_to_be_between, kwargs: {column: age, max_value: 10}, severity: info}
        - {type: expect_column_values_to_be_between, kwargs: {column: joined, min_value: 1990-01-01}}
        - {type: expect_column_values_to_match_regex, kwargs: {column: sector, regex: ^n}, meta: {check: northern}}
        """,
    )
    asked = CheckPlan(COLUMNS, own=read_suite(path))
    results = {r.name: r for r in validate(good(), asked.suite(schema(), profile(), ROWS))}
    assert list(results) == [n.name for n in asked.names()]
    mean = results["own_1__column_mean_to_be_between_age"]
    assert (mean.passed, mean.blocking) == (False, False)
    assert mean.observed["observed"] > 10
    assert results["own_2__column_values_to_be_between_joined"].passed
    assert results["own__northern"].blocks
    assert results["own__northern"].observed["unexpected"] > 0


def test_our_own_suite_can_be_edited_and_handed_back(tmp_path) -> None:
    ours = CheckPlan(COLUMNS, rules()).suite(schema(), profile(), ROWS)
    own = read_suite(suite_file(tmp_path, suite_json(ours), "suite.json"))
    ours = [c for c in ours if c.kind != "regenerated"]  # it looks at more than the rows
    assert [(c.expectation, c.kwargs, c.blocking) for c in own] == [(c.expectation, c.kwargs, c.blocking) for c in ours]
    both = validate(good(), [*ours, *own])
    verdicts = [(r.passed, r.blocking) for r in both]
    assert verdicts[: len(ours)] == verdicts[len(ours) :]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid"),
        ("[]", "got no list of expectations"),
        ("expectations: []", "got no list of expectations"),
        ("expectations: [{kwargs: {}}]", "expectation 1: it has no type"),
        ("expectations: [{type: expect_nice}]", "Great Expectations has no expect_nice"),
        ("expectations: [{type: ../../x}]", "Great Expectations has no"),
        ("expectations: [{type: expect_column_to_exist, kwargs: [a]}]", "kwargs and meta are mappings"),
        ("expectations: [{type: expect_column_to_exist, severity: fatal}]", "critical, warning or info"),
        (
            "expectations: [{type: expect_column_to_exist, meta: {check: a}}, {type: expect_table_row_count_to_equal, "
            "meta: {check: a}}]",
            "two expectations are called own__a",
        ),
    ],
)
def test_a_broken_suite_is_refused_with_its_place(tmp_path, text, why) -> None:
    with pytest.raises(InvalidInput, match=why) as told:
        read_suite(suite_file(tmp_path, text))
    assert "mine.yaml" in str(told.value)


def test_a_missing_suite_is_refused_by_path(tmp_path) -> None:
    with pytest.raises(InvalidInput, match=r"none.json cannot be read \(FileNotFoundError\)"):
        read_suite(tmp_path / "none.json")


def test_arguments_that_an_expectation_does_not_take_fail_it_alone() -> None:
    wrong = Check("own_1__odd", None, "own", True, "?", "expect_column_values_to_be_between", {"colunm": "age"})
    asked = CheckPlan(COLUMNS, own=[wrong])
    failed = [r for r in validate(good(), asked.suite(schema(), profile(), ROWS)) if not r.passed]
    assert [r.name for r in failed] == ["own_1__odd"]
    assert failed[0].observed["problem"].startswith("could not be evaluated")


def test_the_columns_of_an_expectation_are_found_in_its_arguments() -> None:
    pair = Check("a", None, "own", True, "?", "x", {"column_A": "a", "column_B": "b", "column_list": ["c"]})
    assert columns_of(pair) == ["a", "b", "c"]


def test_data_docs_show_each_expectation_quote_no_cell_and_need_no_network(tmp_path) -> None:
    page = tmp_path / "index.html"
    odd = Check(
        "odd", None, "own", True, "?", "expect_column_values_to_be_between", {"column": "sector", "min_value": 3}
    )
    suite = [*CheckPlan(COLUMNS, rules()).suite(schema(), profile(), ROWS), odd]
    validate(spoiled("sector", "a_telling_value"), suite, docs=data_docs.to(page))
    text = page.read_text()
    assert "Every row keeps the rule age" in text
    assert "raised an exception" in text
    assert "a_telling_value" not in text
    assert "Traceback" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"<script|<img|<link|url\(|https?://|\bsrc=|onclick", text)


def test_data_docs_say_whose_checks_they_are_in_words_and_signs(tmp_path) -> None:
    page, heading = tmp_path / "index.html", data_docs.Heading("people <b>", "r-7", "run-9", "2026-01-01 10:00 UTC")
    suite = CheckPlan(COLUMNS).suite(schema(), profile(), ROWS)
    validate(spoiled("amount", 101.0), suite, docs=data_docs.to(page, heading))
    text = page.read_text()
    assert "<title>Checks of people &lt;b&gt;</title>" in text
    assert "<h1>Checks of people &lt;b&gt;</h1>" in text
    assert text.count("<h1") == 1
    for told in ("<code>r-7</code>", "<code>run-9</code>", "<code>2026-01-01 10:00 UTC</code>"):
        assert told in text
    assert "Expectation Validation Result" not in text
    assert 'aria-label="passed"' in text
    assert 'aria-label="failed"' in text
    assert re.search(r"\d% null", text)
    assert "[pyarrow]" not in text
    assert 'name="viewport"' in text
    assert len(text.encode()) < 2_000_000


def test_a_page_that_cannot_be_drawn_takes_no_check_down(tmp_path, monkeypatch) -> None:
    from great_expectations.render.view import view

    monkeypatch.setattr(view.DefaultJinjaPageView, "render", lambda *_: 1 / 0)
    page = tmp_path / "index.html"
    assert all(
        r.passed for r in validate(good(), CheckPlan(COLUMNS).suite(schema(), profile(), ROWS), docs=data_docs.to(page))
    )
    assert "checks.json" in page.read_text()


def test_results_are_json_ready() -> None:
    json.dumps([r.observed for r in validate(good(), rule_checks(rules(), schema()))])


def test_a_further_table_has_one_check_that_fails_as_its_rows_do() -> None:
    plan = CheckPlan(COLUMNS, rules("age >= 18"), outputs=["adults"])
    assert "output_adults" in [n.name for n in plan.names()]
    suite = plan.suite_of_output(schema(), profile(), ROWS, conditional=False)
    kept = plan.output_result("adults", validate(good(), suite))
    broken = plan.output_result("adults", validate(good().slice(0, ROWS - 1), suite))
    assert (kept.name, kept.passed, kept.blocks) == ("output_adults", True, False)
    assert (broken.passed, broken.blocks, broken.observed["failed"]) == (False, True, ["row_count"])


def test_a_person_decides_whether_the_check_of_a_further_table_blocks() -> None:
    plan = CheckPlan(COLUMNS, outputs=["adults"], severity={"output_*": "warn"})
    assert not {n.name: n for n in plan.names()}["output_adults"].blocking
    suite = plan.suite_of_output(schema(), profile(), ROWS + 1, conditional=False)
    assert not plan.output_result("adults", validate(good(), suite)).blocks


def test_rows_drawn_on_a_condition_may_have_any_part_of_nulls() -> None:
    nulls = [c for c in CheckPlan(COLUMNS).suite(schema(), profile(), ROWS, conditional=True) if c.kind == "null_rate"]
    full = [c for c in CheckPlan(COLUMNS).suite(schema(), profile(), ROWS) if c.kind == "null_rate"]
    assert [c.name for c in nulls] == [c.name for c in full]
    rates = [c for c in nulls if "proportion" in c.expectation]
    assert rates
    assert all((c.kwargs["min_value"], c.kwargs["max_value"]) == (0.0, 1.0) for c in rates)


MOVED = {"mean": 0.04, "columns": {"grade": 0.09, **{f"c{i}": 0.01 for i in range(9)}}}
"""What a release says of how far its table moved."""


@pytest.mark.parametrize(("at_most", "passed"), [(0.03, False), (0.05, True)])
def test_a_table_that_moved_too_far_fails_its_check_and_names_the_columns(at_most: float, passed: bool) -> None:
    asked = CheckPlan(COLUMNS, drift_at_most=at_most)
    (check,) = [c for c in asked.suite(schema(), profile(), ROWS, moved=MOVED) if c.name == "drift"]
    (result,) = validate(good(), [check])
    assert (result.passed, result.blocking) == (passed, False)
    assert result.observed["moved"] == 0.04
    assert next(iter(result.observed["furthest"])) == "grade"
    assert len(result.observed["furthest"]) == 5
    assert "drift" not in suite_json([check])


def test_a_release_that_goes_on_from_none_has_not_moved() -> None:
    asked = CheckPlan(COLUMNS, drift_at_most=0.05, severity={"drift": "block"})
    (result,) = validate(good(), [c for c in asked.suite(schema(), profile(), ROWS) if c.name == "drift"])
    assert (result.passed, result.blocking) == (True, True)
    assert "drift" not in {n.name for n in CheckPlan(COLUMNS).names()}
