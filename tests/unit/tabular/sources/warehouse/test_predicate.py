"""A declared filter judges one row by itself; anything else is refused, without being run."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.warehouse import predicate

ROWS = pa.table({"age": [30, 40, 50, None], "city": ["Rome", "Oslo", "Rome", None]})


@pytest.mark.parametrize(
    "text",
    [
        *(
            "age > 1",
            "visit_date >= '2024-01-01'",
            "kind = 'select'",
            '"over" = 1',
            "(a > 1) AND (b < 2)",
            "n = 'it''s'",
        ),
        *("age IS NOT DISTINCT FROM 3", "extract(year FROM d) = 2020", "trim(BOTH ' ' FROM n) = 'from'", "`from` = 1"),
        *(
            "a BETWEEN 1 AND 2 OR n IN ('x', 'y')",
            "d > DATE '2020-01-01' - INTERVAL 1 YEAR",
            "n LIKE '#1%' OR n = '$5'",
        ),
        "CASE WHEN a > 1 THEN TRUE ELSE a::INT = 0 END",
    ],
)
def test_a_predicate_of_a_row_is_taken(text):
    assert predicate.check(f" {text} ") == text
    if "`" not in text:  # BigQuery's
        predicate.check_parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "a > 1; DROP TABLE t",
        "a = ';'",
        "true) --",
        "a > 1 /* */",
        "age > (SELECT avg(age) FROM t)",
        "age IN (TABLE t)",
        "row_number() OVER () < 3",
        "query_to_xml('x', true, true, '') IS NULL",
        "a > 1) OR (b < 2",
        "(a > 1",
        "a = 'open",
        "a = $$x$$",
        "EXISTS (FROM source_unfiltered u WHERE u.age > 90)",
        "age IN (FROM range(30))",
        "age IN (VALUES (1))",
        "age IN (PIVOT t ON x USING sum(y))",
        "extract(year FROM (FROM t)) = 2020",
        "age > ALL (WITH q AS (FROM t) FROM q)",
        "ctid < '(0,9)'::tid",
        '"CTID" IS NULL OR "ctid" < \'(0,9)\'::tid',
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(InvalidInput, match="filter: "):
        predicate.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "$a$'$a$ < 'x' AND EXISTS (FROM t) AND 'y' < $a$'$a$",
        "a = 1 # ' \n OR EXISTS (FROM t) # '",
        "`a'b` = 'x' OR EXISTS (FROM t) OR 'y' = `a'b`",
        "'''a'b''' = 'x' OR EXISTS (FROM t) OR 'y' = '''a'b'''",
    ],
    ids=["dollars", "a comment of BigQuery", "a name of BigQuery", "three quotes"],
)
def test_no_engines_own_quotes_hide_a_subquery(text):
    with pytest.raises(InvalidInput, match="may not stand in it"):
        predicate.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "EXISTS (FROM t)",
        "age IN (DESCRIBE t)",
        "age IN (SUMMARIZE t)",
        "row_number() OVER () < 3",
        "age > ANY (SHOW TABLES)",
        "lake.s.above_mean(age)",
        "COLUMNS(*) > 1",
        "age >",
    ],
)
def test_what_duckdb_parses_as_more_than_expressions_of_a_row_is_refused(text):
    with pytest.raises(InvalidInput, match="filter: "):
        predicate.check_parsed(text)


@pytest.mark.parametrize("text", ["NOT EXISTS (SUMMARIZE t)", "age IN (DESCRIBE source_unfiltered)"])
def test_a_filter_on_files_is_parsed_before_they_are_opened(uri, text):
    predicate.check(text)  # no word of it is forbidden
    with pytest.raises(InvalidInput, match="could look at other rows"):
        source.parse(uri, where=text)


@pytest.fixture(params=["csv", "parquet", "duckdb", "folder"])
def uri(request, tmp_path: Path) -> str:
    path = tmp_path / f"t.{request.param}"
    if request.param == "csv":
        duckdb.sql("SELECT * FROM ROWS").write_csv(str(path))
    elif request.param == "parquet":
        pq.write_table(ROWS, path)
    elif request.param == "folder":
        path.mkdir()
        pq.write_table(ROWS, path / "a.parquet")
    else:
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE t AS SELECT * FROM ROWS")
        return f"duckdb://{path}?table=t"
    return str(path)


def test_every_source_reads_only_the_rows_of_its_filter(uri, tmp_path):
    found, declared = source.parse(uri, where="city = 'Rome'"), {"age": {"kind": "integer"}}
    taken = ingestion.snapshot(found, tmp_path / "r" / "s.parquet", declared=declared)
    assert sorted(pq.read_table(taken.path)["age"].to_pylist()) == [30, 50]


def test_a_row_on_which_a_filter_cannot_be_evaluated_is_left_out_and_fails_nothing(uri, tmp_path):
    """An error for one row would tell that there is such a row, as often as somebody asks."""
    where = "CASE WHEN city = 'Rome' THEN true ELSE CAST(city AS INTEGER) > 0 END"
    taken = ingestion.snapshot(
        source.parse(uri, where=where), tmp_path / "r" / "s.parquet", declared={"age": {"kind": "integer"}}
    )
    assert sorted(pq.read_table(taken.path)["age"].to_pylist()) == [30, 50]


def test_a_filter_sees_the_declared_columns_of_a_csv_as_what_they_are_and_others_as_text(tmp_path):
    (tmp_path / "t.csv").write_text("age,paid,city\n7,$30,Rome\n30,$1200,Oslo\nx,$9,Rome\n200,$500,Rome\n")
    uri, place = str(tmp_path / "t.csv"), tmp_path / "r" / "s.parquet"
    declared = {"age": {"kind": "integer"}, "paid": {"kind": "decimal"}}
    taken = ingestion.snapshot(source.parse(uri, where="age > 20 AND paid > 100"), place, declared=declared)
    assert sorted(pq.read_table(taken.path)["age"].to_pylist()) == [30, 200]
    with pytest.raises(InvalidInput, match="of which no kind is declared are text"):
        ingestion.snapshot(source.parse(uri, where="age + 1 = 20"), place)
    for where in ("age > 20", "AGE BETWEEN '1' AND '20'", "'20' < age", "city = 'Rome' AND NOT (age <= '20')"):
        with pytest.raises(InvalidInput, match="it compares age by order, and nobody declared"):
            ingestion.snapshot(source.parse(uri, where=where), place)
    taken = ingestion.snapshot(source.parse(uri, where="TRY_CAST(age AS INTEGER) > 20"), place)
    assert sorted(pq.read_table(taken.path)["age"].to_pylist()) == ["200", "30"]


def test_a_filter_that_does_not_fit_the_source_is_told_without_a_value(uri, tmp_path):
    with pytest.raises(InvalidInput, match="filter: DuckDB cannot apply it") as refused:
        ingestion.snapshot(source.parse(uri, where="no_such > 1"), tmp_path / "r" / "s.parquet")
    assert "Rome" not in str(refused.value)


def test_a_filter_holds_for_demo_tables_too():
    whole = source.parse("demo://clinic_visits")
    assert whole.table is not None
    name = whole.table.column_names[0]
    assert ingestion.column_types(source.parse("demo://clinic_visits", where=f'"{name}" IS NULL'))


@pytest.mark.parametrize(
    "text",
    [
        "setseed(0.5) IS NULL OR random() < 0.1",
        "random() < 0.1",
        "RAND ( ) < 0.1",
        '"random"() < 0.1',
        "pg_catalog.random() < 0.5",
        "nextval('s') < 100",
        "ids.nextval < 100",
        "seq4() < 100",
        "uuid() < '8'",
        "uuidv4() < '8'",
        "gen_random_uuid()::text < '8'",
        "GENERATE_UUID() < '8'",
        "clock_timestamp() > d",
        "current_setting('a.b') = '1'",
        "uniform(1, 10, 7) < 2",
        "error('stop') IS NULL",
    ],
)
def test_what_is_no_function_of_the_row_is_refused_for_every_engine(text):
    with pytest.raises(InvalidInput, match="no function of the row"):
        predicate.check(text)


def test_every_function_that_duckdb_calls_volatile_is_refused():
    found = duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    ).fetchall()
    assert ("random",) in found
    for (name,) in found:
        with pytest.raises(InvalidInput, match="no function of the row"):
            predicate.check_parsed(f"{name}() IS NULL")


@pytest.mark.parametrize("text", ["d < now()", "d >= current_date - 30", "d > today()", "randomized = 1", "uuid = 'a'"])
def test_the_clock_of_a_query_and_columns_named_like_functions_are_taken(text):
    assert predicate.check(text) == text
    predicate.check_parsed(text)
