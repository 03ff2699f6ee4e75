"""A declared filter judges one row by itself; anything else is refused, without being run."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.warehouse import predicate

ROWS = pa.table({"age": [30, 40, 50, None], "city": ["Rome", "Oslo", "Rome", None]})


EVERYWHERE = ("duckdb", "postgres", "snowflake", "bigquery")


def each(texts, engines=EVERYWHERE):
    return [(engine, text) for engine in engines for text in texts]


def own(texts):
    return [(engine, text) for engine, found in texts.items() for text in found]


OF_A_ROW = [
    *("age > 1", "visit_date >= '2024-01-01'", "kind = 'select'", "(a > 1) AND (b < 2)", "n <> 'x;--'", "a IS NULL"),
    *("a BETWEEN 1 AND 2 OR n IN ('x', 'y')", "n LIKE '#1%' OR n = '$5'", "extract(year FROM d) = 2020"),
    *("age IS NOT DISTINCT FROM 3", "CASE WHEN a > 1 THEN TRUE ELSE CAST(a AS DATE) = '2024-01-01' END"),
    *(
        "lower(trim(n)) = 'from'",
        "coalesce(a, 0) + abs(b) * 2 > round(c)",
        "d >= current_date",
        "randomized = 1",
        "uuid = 'a'",
    ),
]

OF_ITS_ENGINE = {
    "duckdb": [
        "xmin > 1",
        "n = 'it''s'",
        '"over" = 1',
        "a::INT = 0",
        "d > today()",
        "d < now()",
        "list_contains([1], a)",
    ],
    "snowflake": [
        "xmin > 1",
        '"over" = 1',
        "d > DATEADD(day, -30, CURRENT_DATE())",
        "TRY_CAST(a AS INT) > 1",
        "a:b = 1",
    ],
    "bigquery": [
        "_PARTITIONDATE > '2024-01-01'",
        "`from` = 1",
        "d > DATE_SUB(CURRENT_DATE(), INTERVAL 30 DAY)",
        "REGEXP_CONTAINS(n, r'\\d')",
        "SAFE_CAST(a AS INT64) > 1",
        "TIMESTAMP_TRUNC(t, MONTH) = TIMESTAMP '2024-01-01'",
    ],
    "postgres": [
        "n = 'it''s'",
        '"over" = 1',
        "a::int = 0",
        "d > DATE '2020-01-01' - INTERVAL '1 year'",
        "n ~ '^a'",
        "date_trunc('month', d) = '2024-01-01'",
        "to_char(d, 'YYYY') = '2024'",
        "j ->> 'a' = 'x'",
    ],
}


@pytest.mark.parametrize(("dialect", "text"), [*each(OF_A_ROW), *own(OF_ITS_ENGINE)])
def test_a_predicate_of_a_row_is_taken_and_what_runs_says_the_same(dialect, text):
    runs = predicate.check(f" {text} ", dialect)
    assert predicate.check(runs, dialect) == runs


def test_what_runs_keeps_the_rows_that_were_asked_for():
    for text, kept in (
        ("age BETWEEN 30 AND 40 OR city IS NULL", 3),
        ("NOT (age > 30 AND city = 'Rome')", 2),
        ("lower(city) LIKE 'r_m%' AND age - 10 * 2 < 25", 1),
        ("CASE WHEN city = 'Rome' THEN age::VARCHAR = '50' ELSE city IN ('Oslo') END -- of both", 2),
    ):
        assert len(duckdb.sql(f"SELECT * FROM ROWS WHERE {predicate.check(text)}").fetchall()) == kept


BEYOND_A_ROW = [
    *(
        "",
        "  ",
        "a >",
        "(a > 1",
        "a = 'open",
        "a > 1; DROP TABLE t",
        "a > 1;",
        "a > 1) OR (b < 2",
        "true) GROUP BY (a",
        "true GROUP BY a",
        "true QUALIFY a",
        "true UNION SELECT 1",
        "true) LIMIT (1",
    ),
    *(
        "age > (SELECT avg(age) FROM t)",
        "EXISTS (SELECT 1 FROM t)",
        "age IN (SELECT 1)",
        "age > ALL (SELECT 1)",
        "avg(age) OVER () > 1",
    ),
    *(
        "row_number() OVER () < 3",
        "s.f(a) > 1",
        "random() < 0.1",
    ),
]

BEYOND_A_ROW_OF = {
    "duckdb": [
        "EXISTS (FROM t)",
        "age IN (DESCRIBE t)",
        "age IN (FROM range(30))",
        "age > ANY (SHOW TABLES)",
        "lake.s.above_mean(age)",
        "COLUMNS(*) > 1",
        "age IN (PIVOT t ON x USING sum(y))",
        "rowid < 3",
        "age > ALL (WITH q AS (FROM t) FROM q)",
        '"random"() < 0.1',
        "nextval('s') < 100",
        "uuid() < '8'",
        "error('stop') IS NULL",
        "getvariable('a') = 1",
        "stats(age) = ''",
        "file_row_number < 9",
        "$a$'$a$ < 'x' AND EXISTS (FROM t) AND 'y' < $a$'$a$",
        "age IN (VALUES (1))",
        "age IN (TABLE t)",
    ],
    "postgres": [
        "ctid < '(0,9)'",
        '"ctid" IS NULL',
        "XMIN = 1",
        "t.f = 1",
        "(t).f = 1",
        "a = ANY(SELECT 1)",
        "pg_sleep(1) IS NULL",
        "nextval('s') < 100",
        "gen_random_uuid()::text < '8'",
        "age IN (TABLE t)",
        "clock_timestamp() > d",
        "current_setting('a.b') = '1'",
        "setseed(0.5) IS NULL",
        "'t'::regclass = 1",
        "a OPERATOR(s.+) 1 = 2",
        'a COLLATE "mine" = 1',
        "generate_series(1, 3) = 2",
        "query_to_xml('x', true, true, '') IS NULL",
        "current_user = 'a'",
        "$a$'$a$ < 'x' OR EXISTS (TABLE t)",
    ],
    "snowflake": [
        "ids.nextval < 100",
        "seq4() < 100",
        "metadata$filename = 'x'",
        "$1 = 2",
        "randstr(5, 1) = 'a'",
    ],
    "bigquery": [
        "RAND() < 0.1",
        "GENERATE_UUID() < '8'",
        "a = 1 # ' \n OR EXISTS (SELECT 1) # '",
        "a IN UNNEST(b)",
        "`a'b` = 'x' OR EXISTS (SELECT 1) OR 'y' = `a'b`",
        "'''a'b''' = 'x' OR EXISTS (SELECT 1)",
    ],
}

OF_SOMEBODY = ["f(a) > 1", "a::mine = 1"]
"""What is a person's own may run anything; DuckDB has no such function in a file or a table."""


@pytest.mark.parametrize(
    ("dialect", "text"), [*each(BEYOND_A_ROW), *each(OF_SOMEBODY, EVERYWHERE[1:]), *own(BEYOND_A_ROW_OF)]
)
def test_anything_else_is_refused_whatever_quotes_hide_it(dialect, text):
    with pytest.raises(InvalidInput, match="filter: "):
        predicate.check(text, dialect)


def test_each_expression_that_is_taken_is_one_that_sqlglot_has_and_none_holds_a_query():
    found = {name: getattr(exp, name) for name in predicate._READS_ITS_ROW}
    assert not [n for n, c in found.items() if issubclass(c, (exp.Query, exp.AggFunc, exp.Rand, exp.UDTF))]


@pytest.mark.parametrize("text", ["NOT EXISTS (SUMMARIZE t)", "age IN (DESCRIBE source_unfiltered)"])
def test_a_filter_on_files_is_parsed_before_they_are_opened(uri, text):
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


def test_every_function_that_duckdb_calls_volatile_is_refused():
    found = duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    ).fetchall()
    assert ("random",) in found
    for (name,) in found:
        with pytest.raises(InvalidInput, match="no function of the row"):
            predicate.check(f"{name}() IS NULL")
