"""Which engine a URI names, what each is asked for, and what is said when its driver is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.warehouse import cloud, engines, postgres, types
from dp_synth_pipeline.targets import sink

SNOWFLAKE = "snowflake://ann:p%40ss@org-acct/DB/PUBLIC?table=VISITS&warehouse=WH&role=R"
BIGQUERY = "bigquery://my-project/clinic?table=visits&credentials=/keys/k.json&location=EU"


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("postgresql://h/d?table=t", "Postgres"),
        ("postgres://h/d?table=t", "Postgres"),
        (SNOWFLAKE, "Snowflake"),
        (BIGQUERY, "BigQuery"),
        ("delta://folder", "Delta"),
        ("duckdb:///x.duckdb?table=t", "NoneType"),
        ("x.csv", "NoneType"),
        ("demo://rand_hie", "NoneType"),
    ],
)
def test_the_scheme_names_the_engine(uri, kind):
    assert type(engines.engine(uri)).__name__ == kind


def test_snowflake_gets_its_arguments_and_its_sql():
    table = cloud.Snowflake(SNOWFLAKE)
    assert table.arguments() == {
        "adbc.snowflake.sql.account": "org-acct",
        "adbc.snowflake.sql.db": "DB",
        "adbc.snowflake.sql.schema": "PUBLIC",
        "adbc.snowflake.sql.warehouse": "WH",
        "adbc.snowflake.sql.role": "R",
        "username": "ann",
        "password": "p@ss",
    }
    assert table.select(["AGE", 'odd"one'], "AGE > 1") == 'SELECT "AGE", "odd""one" FROM "VISITS" WHERE (AGE > 1)'
    assert table.swap()[0] == 'CREATE OR REPLACE TABLE "VISITS" CLONE "__next_VISITS" COPY GRANTS'
    assert table.shown == "snowflake://org-acct/DB/PUBLIC?table=VISITS"


def test_bigquery_gets_its_arguments_and_its_sql():
    table = cloud.BigQuery(BIGQUERY)
    assert table.arguments() == {
        "adbc.bigquery.sql.project_id": "my-project",
        "adbc.bigquery.sql.dataset_id": "clinic",
        "adbc.bigquery.sql.location": "EU",
        "adbc.bigquery.sql.auth_type": "adbc.bigquery.sql.auth_type.json_credential_file",
        "adbc.bigquery.sql.auth_credentials": "/keys/k.json",
    }
    assert table.select(["age"], None) == "SELECT `age` FROM `clinic`.`visits`"
    assert table.swap()[0] == "CREATE OR REPLACE TABLE `clinic`.`visits` COPY `clinic`.`__next_visits`"
    with pytest.raises(InvalidInput, match="no name like"):
        table.select(["a`b"], None)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("snowflake://ann:hunter2@acct/DB?table=t", "account, database and schema are needed"),
        ("snowflake://ann:hunter2@acct/DB/S?table=a.t", "name the table alone"),
        ("snowflake://ann:hunter2@acct/DB/S?table=t&warehous=x", "unknown parameter 'warehous'"),
        ("bigquery://p?table=t", "project and dataset are needed"),
        ("postgresql://ann:hunter2@h/d?table=a.b.c", "name the table as schema.table"),
    ],
)
def test_a_mistake_in_a_uri_is_told_before_anything_is_imported(uri, reason):
    with pytest.raises(InvalidInput, match=reason) as refused:
        source.parse(uri)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "module", "extra"),
    [
        ("postgresql://h/d?table=t", "adbc_driver_postgresql", "postgres"),
        (SNOWFLAKE, "adbc_driver_snowflake", "snowflake"),
        (BIGQUERY, "adbc_driver_bigquery", "bigquery"),
        ("delta://folder", "deltalake", "delta"),
    ],
)
def test_a_missing_driver_is_told_with_the_extra_that_brings_it(uri, module, extra, monkeypatch):
    for name in (module, f"{module}.dbapi"):
        monkeypatch.setitem(sys.modules, name, None)
    for asked in (lambda: sink.check_writable(uri), lambda: ingestion.column_types(source.parse(uri))):
        with pytest.raises(InvalidInput, match=rf"pip install 'dp-synth-pipeline\[{extra}\]'"):
            asked()


def numeric(precision: int, scale: int) -> int:
    return ((precision << 16) | (scale & 0x7FF)) + 4


@pytest.mark.parametrize(
    ("type_name", "category", "modifier", "arrow_type"),
    [
        ("numeric", "b", numeric(8, 2), pa.decimal128(8, 2)),
        ("numeric", "b", numeric(38, 0), pa.decimal128(38, 0)),
        ("numeric", "b", numeric(60, 2), pa.float64()),
        ("numeric", "b", numeric(3, 5), pa.float64()),
        ("numeric", "b", numeric(3, -2), pa.float64()),
        ("numeric", "b", -1, pa.float64()),
        ("triage", "e", -1, pa.string()),
        ("timestamptz", "b", -1, pa.timestamp("us", "UTC")),
        ("_int4", "b", -1, pa.binary()),
    ],
)
def test_postgres_types_have_an_arrow_type(type_name, category, modifier, arrow_type):
    assert postgres.column("x", type_name, category, modifier).arrow_type == arrow_type


def test_only_asked_columns_and_kept_rows_are_selected():
    columns = [postgres.column("a", "int4", "b", -1), postgres.column("b", "numeric", "b", numeric(5, 1))]
    assert postgres.select("t", columns, "c > 1") == 'SELECT "a", CAST("b" AS text) FROM t WHERE (c > 1)'


def test_rows_are_cast_to_types_that_warehouses_have_and_keep_their_values(tmp_path: Path):
    table = pa.table(
        {
            "small": pa.array([1, 255, None], pa.uint8()),
            "large": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "took": pa.array([1, 2, None], pa.duration("us")),
            "opens": pa.array([1, 2, None]).cast(pa.time64("us")),
            "at": pa.array([1, 2, None], pa.timestamp("us", "Europe/Paris")),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    rows = types.batches(tmp_path / "t.parquet", types.portable).read_all()
    assert [str(t) for t in rows.schema.types] == [
        "int16",
        "decimal128(20, 0)",
        "duration[us]",
        "time64[us]",
        "timestamp[us, tz=UTC]",
    ]
    assert [int(v) for v in rows["large"].to_pylist()[:2]] == [1, 2**64 - 1]
    assert rows["at"].cast(pa.int64()).to_pylist() == [1, 2, None]
    lake = types.batches(tmp_path / "t.parquet", types.portable_without_durations).read_all()
    assert lake["took"].to_pylist() == lake["opens"].to_pylist() == [1, 2, None]
    for field in rows.schema:
        assert postgres.stored(field.type)
