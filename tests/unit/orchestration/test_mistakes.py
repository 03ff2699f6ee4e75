"""Mistakes in a table's YAML are named by line, with what was expected, and no password is quoted."""

from __future__ import annotations

import re
from types import SimpleNamespace

import duckdb
import pandas as pd
import pytest
import yaml

from dp_synth_pipeline.cli import docs
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.component import TEMPLATE, VALIDATING, SyntheticTable

GOOD = {"source": "data/p.parquet", "account": "p", "epsilon": "1.0"}


def resolved(**changes: str) -> SyntheticTable:
    """Resolve a table's attributes, one a line."""
    return SyntheticTable.resolve_from_yaml("\n".join(f"{k}: {v}" for k, v in {**GOOD, **changes}.items()))


def test_a_table_without_mistakes_is_resolved() -> None:
    assert resolved(schedule="0 3 * * 1").epsilon == 1.0
    adults = "{where: age >= 18, rows: 5, target: adults.csv}"
    assert resolved(generation=f"{{outputs: {{adults: {adults}}}}}").generation.outputs["adults"].rows == 5


HEAD = "source: data/p.parquet\naccount: p\nepsilon: 1.0\n"

MISTAKES = [  # what stands below HEAD, the line that is wrong, and what is said of it
    ("epsilon_: 2", 4, "epsilon_: there is no such field"),
    ("nulls: delete", 4, "nulls: .*'keep'.*got 'delete'"),
    ("other: keep", 4, "other: .*'drop' or 'draw', got 'keep'"),
    ("delta: 2", 4, "delta must lie strictly between 0 and 1"),
    ("population: 1", 4, "population: .*greater than or equal to 2, got 1"),
    (
        "generation:\n  outputs:\n    adults:\n      target: a.csv\n      rows: 0",
        8,
        "generation.outputs.adults.rows: .*got 0",
    ),
    ("generation:\n  where: smoker is yes", 5, "where: this is no SQL condition: smoker is yes"),
    (
        "generation:\n  outputs:\n    adults:\n      target: a.csv\n      where: age >",
        8,
        "where: this is no SQL condition: age >",
    ),
    ("rows: 0", 4, "rows: .*greater than or equal to 1, got 0"),
    ("profile_share: 2", 4, "profile_share: .*less than 1, or input should be 'auto', got 2"),
    ("unit:\n  column: p\n  max_rows: 0", 6, "unit.max_rows: .*greater than or equal to 1, got 0"),
    ("unit: {max_rows: 3}", 4, "unit.column: field required"),
    ("columns: [age]", 4, "columns: .*dictionary"),
    ("columns:\n  age: number", 5, "columns.age: expected facts such as {kind: category}"),
    ("columns:\n  age: {}\n  sex:\n    kind: category\n    note: x", 8, "columns.sex: unknown fact 'note'; known: "),
    (
        "generation:\n  outputs:\n    old: {target: old.xlsx}",
        6,
        "generation.outputs.old.target: old.xlsx: unknown kind",
    ),
    ("columns:\n  sex: {description: 3}", 5, "columns.sex: description: expected text"),
    ("columns:\n  age:\n    nulls: delete", 6, "columns.age: nulls: expected one of keep, .*got 'delete'"),
    ("columns:\n  age:\n    kind: words", 6, "columns.age: kind: expected one of category, .*got 'words'"),
    (
        "columns:\n  age:\n    kind: integer\n    lower: young",
        7,
        "lower: a column of kind integer takes a finite number",
    ),
    ("columns:\n  age:\n    kind: integer\n    lower: 9\n    upper: 3", 7, "columns.age: lower is above upper"),
    ("columns:\n  age: {kind: integer, categories: [1, 2]}", 5, "kind integer takes no categories"),
    ("columns:\n  age: {kind: integer, decimals: many}", 5, "decimals: expected a whole number from 0, got 'many'"),
    ("columns:\n  grade: {kind: ordinal, categories: [a, a]}", 5, "columns.grade: a category is declared twice"),
    ("columns:\n  y: {nulls: constant}", 5, "nulls: constant needs a value"),
    ("columns:\n  y: {kind: constant}", 5, "kind: constant needs its value"),
    ("columns:\n  seen: {format: '%Q'}", 5, "format: expected the directives of a day"),
    ("columns:\n  seen: {kind: datetime, zone: Mars}", 5, "zone: expected a name such as Europe/Paris, got 'Mars'"),
    ("columns:\n  y: {other: hide}", 5, "other: expected one of drop, draw, got 'hide'"),
    ("columns:\n  a.b: {}\n  a: {nulls: x}", 6, "columns.a: nulls: expected one of"),
    ("columns:\n  a: {after: a}", 5, "columns.a: it hangs on itself, by way of a -> a"),
    ("columns:\n  a: {kind: date, after: b}\n  b: {kind: email}", 5, "columns.a: after: .*'b' is of kind email"),
    ("columns: {a: {}}\ncolumns_complete: true\nunit: b", 6, "unit: column 'b' is not among `columns`"),
    ('filter: "age > 18; drop table p"', 4, "filter: as SQL of DuckDB it is no predicate"),
    ('filter: "age >"', 4, "filter: as SQL of DuckDB it is no predicate"),
    ('filter: "age in (select a from b)"', 4, "filter: 'subquery' could look at other rows"),
    ("validation:\n  rules: [start less end]", 5, "rule 'start less end': it needs exactly one of"),
    (
        "columns: {a: {}}\ncolumns_complete: true\nvalidation:\n  rules: [a <= end]",
        7,
        "rule 'a <= end': there is no column 'end'",
    ),
    ("validation:\n  suite: nowhere.json", 5, "suite nowhere.json cannot be read"),
    ("validation:\n  severity: {row_cuont: warn}", 5, "severity 'row_cuont': no check is called so"),
    ("validation:\n  severity:\n    row_count: stop", 6, "row_count: .*'warn' or 'block', got 'stop'"),
    ("validation:\n  report_epsilon: 0.9", 5, "report_epsilon: .*at most a quarter"),
    ("schedule: every monday", 4, "schedule: expected a cron"),
    ("partitions:\n  column: d\n  cadence: hourly\n  start: 2026-01-01", 6, "cadence: .*'daily'.*got 'hourly'"),
    ("partitions:\n  column: d\n  cadence: daily\n  start: soon", 7, "start is a day such as 2026-01-01, got 'soon'"),
    ("partitions:\n  column: d\n  values: [A, a]", 6, "values are a list of texts"),
    ("compute: {trainig: {gpus: 1}}", 4, "trainig is unknown; expected one of executor, "),
    ("compute:\n  training: {gpus: 1.5}", 5, "local hands out whole GPUs, got gpus: 1.5"),
    ("compute:\n  training:\n    target: slurm", 6, "compute.training.target: .*'local', 'ray' or 'k8s'"),
    ("compute:\n  training: {target: k8s}", 5, "target k8s runs steps on other machines, which cannot reach a SQLite"),
    ("fresh_for: soon", 4, "fresh_for: expected hours, days or weeks"),
    ("automation:\n  generator: eager", 4, "an automation condition on generator would spend epsilon"),
    ("on_new_data:\n  minutes: 0", 5, "on_new_data.minutes: .*greater than or equal to 1, got 0"),
    ("training:\n  learningrate: 3", 5, "training.learningrate: there is no such field. Did you mean learning_rate?"),
    ("training:\n  settings:\n    learningrate: 3", 4, "training.learningrate: .*Did you mean learning_rate?"),
    ("training:\n  batch_share: 0", 5, "training: batch_share must be finite and above 0, got 0"),
    ("training:\n  seed: 3", 5, "training: seed: a seed would repeat the noise"),
    ("training:\n  start: public", 5, "start: public learns from a table that you declare public"),
    ("target: data/p.parquet", 4, "target: it is the source itself"),
    ("target: out.xlsx", 4, "target: out.xlsx: unknown kind of target"),
    ("owners: [bob]", 4, "owners: Invalid owner 'bob'"),
    ("tags: {'a b': c}", 4, "tags: .*invalid"),
    ("group: a b", 4, "group: .*not a valid"),
    ("table: a b", 4, "table: expected letters, digits and underscores"),
]


@pytest.mark.parametrize(("below", "line", "said"), MISTAKES)
def test_a_mistake_is_found_when_definitions_load_and_is_named_by_line(below, line, said, monkeypatch) -> None:
    monkeypatch.delenv("DP_SYNTH_LEDGER", raising=False)
    with pytest.raises(InvalidInput, match=said) as caught:
        SyntheticTable.resolve_from_yaml(HEAD + below)
    text = str(caught.value)
    assert text.startswith("one mistake in this table's YAML:\n")
    assert f":{line}: " in text, text
    assert "pydantic" not in text


MISSPELT = [  # what stands below HEAD, the line that is wrong, and what is said of it
    (
        "columns:\n  sex: {}\n  agee: {kind: integer}",
        6,
        "declared column 'agee' is not in the source.* Did you mean age?",
    ),
    ("columns:\n  agee: {kind: excluded}", 5, "columns.agee: .* Did you mean age?"),
    ("columns:\n  left: {after: arived}", 5, "after: there is no column 'arived'.* Did you mean arrived?"),
    ("columns: {age: {}, sex: {}, arrived: {}}\ncolumns_complete: true", 4, "columns: .*'left' that is not declared"),
    ("unit: persn\nrows: 5", 4, "unit column 'persn' is not in the source"),
    ("unit:\n  column: agee\n  max_rows: 2", 4, "unit: unit column 'agee' .* Did you mean age?"),
    ("validation:\n  predict: sexx", 5, "validation: predict: 'sexx' is no column.* Did you mean sex?"),
    ("validation:\n  sensitive: [age, sexx]", 5, "sensitive: 'sexx' .* Did you mean sex?"),
    ("validation:\n  rules: [arived <= left]", 5, "there is no column 'arived' .* Did you mean arrived?"),
    ("generation:\n  where: agee > 3", 5, "where: no column 'agee'.* Did you mean age?"),
    ("filter: age > 3 AND sexx = 'F'", 4, "filter: there is no column 'sexx'.* Did you mean sex?"),
    (
        "partitions:\n  column: arived\n  cadence: daily\n  start: 2026-01-01",
        5,
        "column: no column 'arived'.* Did you mean arrived?",
    ),
    ("generation:\n  share: {sexx: {F: 0.5}}", 5, "share: no column 'sexx'.* Did you mean sex?"),
]
COLUMNS = ["age", "sex", "arrived", "left"]


@pytest.fixture(params=["csv", "parquet"])
def at_hand(request, tmp_path, monkeypatch) -> str:
    """A source that is there, as definitions are looked at by `dg check defs`, to stand in place of HEAD's."""
    monkeypatch.setenv(VALIDATING, "1")
    file, rows = tmp_path / f"people.{request.param}", pd.DataFrame({name: ["CANARY"] for name in COLUMNS})
    rows.to_csv(file, index=False) if request.param == "csv" else rows.to_parquet(file)
    return HEAD.replace("data/p.parquet", str(file))


@pytest.mark.parametrize(("below", "line", "said"), MISSPELT)
def test_a_name_that_no_column_of_a_file_has_is_found_by_its_header_and_named_by_line(
    below, line, said, at_hand, monkeypatch
) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        SyntheticTable.resolve_from_yaml(at_hand + below)
    assert f":{line}: " in str(caught.value), caught.value
    assert "CANARY" not in str(caught.value)
    SyntheticTable.resolve_from_yaml(HEAD + below)  # a source that is not there yet
    monkeypatch.delenv(VALIDATING)
    SyntheticTable.resolve_from_yaml(at_hand + below)  # a server, or a step of a release that is paid for


def test_names_that_a_file_has_are_no_mistake_whatever_is_said_of_them(at_hand) -> None:
    facts = (
        "{age: {kind: integer, lower: 0}, arrived: {format: '%d.%m.%Y'}, left: {after: arrived}, sex: {kind: excluded}}"
    )
    told = "validation: {rules: [arrived <= left], predict: age}\ngeneration: {where: AGE > 3}"
    SyntheticTable.resolve_from_yaml(f"{at_hand}columns: {facts}\n{told}\nunit: age")


@pytest.mark.parametrize(
    "source",
    ["*.csv", "folder", "duckdb:///f.duckdb?table=t", "postgresql://h/d?table=t", "s3://b/p.parquet", "later.csv"],
)
def test_a_source_that_is_no_file_of_this_machine_is_left_to_the_run(source, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(VALIDATING, "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for file in ("one.csv", "f.duckdb"):
        (tmp_path / file).write_text("age\n1\n")
    SyntheticTable.resolve_from_yaml(HEAD.replace("data/p.parquet", f"'{source}'") + "columns: {agee: {}}")


def test_no_more_than_the_first_line_of_a_file_is_looked_at(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(VALIDATING, "1")
    file = tmp_path / "p.csv"
    file.write_bytes(b"age,sex\n" + b"30,\xff\x00\n" * 100_000)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: pytest.fail("the rows were opened"))
    SyntheticTable.resolve_from_yaml(HEAD.replace("data/p.parquet", str(file)) + "columns: {sex: {}}")


@pytest.mark.parametrize("epsilon", ["much", "-1", "{a: 1}"])
def test_an_epsilon_that_is_no_number_above_zero_is_named_by_line(epsilon) -> None:
    with pytest.raises(InvalidInput, match=":3: epsilon: "):
        resolved(epsilon=epsilon)


def test_facts_that_hold_for_some_storage_type_are_left_to_the_source() -> None:
    facts = "{age: {lower: 0}, day: {lower: 2024-01-01}, t: {kind: datetime, zone: Europe/Paris}, s: {format: '%H:%M'}}"
    assert set(resolved(columns=facts).columns) == {"age", "day", "t", "s"}


def test_a_declared_column_that_names_people_is_told_where_nobody_chose_the_unit(tmp_path, caplog) -> None:
    facts, context = "{patient_id: {kind: excluded}}", SimpleNamespace(path=tmp_path / "visits")
    for chosen in ({}, {"unit": "row"}, {"unit": "patient_id"}):
        resolved(columns=facts, **chosen).build_defs(context)
        assert ("visits: The privacy unit is a row, so rows of one patient_id" in caplog.text) == (not chosen)
        caplog.clear()


def test_a_large_epsilon_is_told_when_definitions_load(tmp_path, caplog) -> None:
    for epsilon, told in (("8", True), ("3", False)):
        resolved(epsilon=epsilon).build_defs(SimpleNamespace(path=tmp_path / "visits"))
        assert ("One refresh of visits has a large budget: ε = 8." in caplog.text) is told
        caplog.clear()


@pytest.mark.parametrize(
    ("checked", "written", "told"),
    [
        (True, {"schedule": "0 3 * * 1"}, True),
        (False, {"schedule": "0 3 * * 1"}, False),
        (True, {}, False),
        (True, {"schedule": "0 3 * * 1", "refresh": "{remember: false}"}, False),
        (True, {"schedule": "0 3 * * 1", "refresh": "{remember: true, epsilon: 0.3}"}, False),
    ],
)
def test_whoever_checks_a_schedule_is_told_of_refreshes_that_remember_and_no_run_is(
    tmp_path, monkeypatch, caplog, checked, written, told
) -> None:
    if checked:
        monkeypatch.setenv(VALIDATING, "1")
    resolved(**written).build_defs(SimpleNamespace(path=tmp_path / "visits"))
    assert ("visits: a schedule refreshes it, and each refresh is by itself." in caplog.text) is told
    assert ("--every '0 3 * * 1' --remember divides the account" in caplog.text) is told


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(InvalidInput, match="2 mistakes") as caught:
        resolved(epsilon="much", nulls="delete")
    assert "epsilon" in str(caught.value)
    assert "nulls" in str(caught.value)


def test_a_password_is_not_quoted() -> None:
    with pytest.raises(InvalidInput) as caught:
        resolved(
            source="'postgresql://ana:hunter2@host/db?table=t'", target="'postgresql://ana:hunter2@host/db?table=t'"
        )
    assert "hunter2" not in str(caught.value)


def test_an_unknown_field_is_named_by_line() -> None:
    with pytest.raises(InvalidInput, match=":4: trainin: there is no such field"):
        resolved(trainin="{purpose: testing}")


def test_every_page_that_the_scaffolder_names_comes_with_the_package() -> None:
    named = set(re.findall(r"dp-synth docs (\w+)", TEMPLATE)) - {"lists"}
    assert {"tables", "executors"} <= named
    assert named <= {path.stem for path in docs.FOLDER.rglob("*.md")}
    assert ".md" not in TEMPLATE


def test_what_the_scaffolder_writes_works_as_it_stands_and_with_each_line_taken_in() -> None:
    text = TEMPLATE.format(name="visits")
    table = SyntheticTable.resolve_from_yaml(yaml.safe_dump(yaml.safe_load(text)["attributes"]))
    assert table.account == "visits"
    lines = [re.sub(r"^  # (?!--)", "  ", line) for line in text.splitlines()]
    full = yaml.safe_load("\n".join(lines))["attributes"]
    assert {"unit", "columns", "partitions", "compute", "validation", "schedule"} <= set(full)
    full.pop("partitions")  # a person with rows on several days: `units_span` must be stated
    assert SyntheticTable.resolve_from_yaml(yaml.safe_dump(full)).validation.rules == ["start <= end"]
