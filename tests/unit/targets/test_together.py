"""Related tables change together: in one transaction with their keys, or as one folder; what was there stays if it fails."""

import os
import uuid

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.targets import together

SERVER = os.environ.get("DP_SYNTH_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
RELATIONS = Relations(
    [
        Related("people", key="person"),
        Related("visits", key="visit", parent="people", reference="person", max_rows=3),
        Related("bills", parent="visits", reference="visit", max_rows=2),
    ]
)


def files(folder, persons, orphan=False):
    """Tables of so many people, two visits each, one bill a visit; and one bill of a visit that there is not."""
    people = pa.table({"person": [f"p{n}" for n in range(persons)], "age": list(range(persons))})
    visits = pa.table({"visit": list(range(2 * persons)), "person": [f"p{n // 2}" for n in range(2 * persons)]})
    bills = pa.table({"visit": [*range(2 * persons), *([99999] if orphan else [])]})
    found = {}
    for name, table in {"people": people, "visits": visits, "bills": bills}.items():
        found[name] = folder / f"{name}.parquet"
        pq.write_table(table, found[name])
    return found


@pytest.mark.parametrize("target", ["out", "out/{table}.csv", "out/{table}.parquet"])
def test_a_folder_is_replaced_as_a_whole(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    for persons in (3, 5):
        places = together.publish(RELATIONS, files(tmp_path / "made", persons), target)
        assert set(places) == {"people", "visits", "bills"}
        count = f"SELECT count(*) FROM '{places['people']}'"
        assert duckdb.sql(count).fetchall() == [(persons,)]
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["made", "out"]


def test_a_folder_that_cannot_be_filled_is_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    found = files(tmp_path / "made", 3)
    together.publish(RELATIONS, found, "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    found["bills"].unlink()
    with pytest.raises((InvalidInput, OSError)):
        together.publish(RELATIONS, found, "out")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["made", "out"]


def test_duckdb_has_the_keys_and_keeps_the_old_tables_if_a_row_lacks_its_parent(tmp_path):
    target = f"duckdb:///{tmp_path / 'w.duckdb'}?table=clinic.{{table}}"
    for persons in (3, 5):
        together.publish(RELATIONS, files(tmp_path, persons), target)
    with pytest.raises(InvalidInput):
        together.publish(RELATIONS, files(tmp_path, 7, orphan=True), target)
    with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as con:
        assert con.sql("SELECT count(*) FROM clinic.people").fetchall() == [(5,)]
        kinds = con.sql("SELECT constraint_type FROM duckdb_constraints()").fetchall()
    assert sum(kind == ("FOREIGN KEY",) for kind in kinds) == 2


@pytest.fixture
def schema():
    pytest.importorskip("adbc_driver_postgresql")
    name = f"t_{uuid.uuid4().hex[:12]}"
    try:
        con = psycopg.connect(SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL answers at DP_SYNTH_TEST_POSTGRES")
    with con:
        yield name, con
        con.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")  # type: ignore[arg-type]


def test_postgres_has_the_keys_and_keeps_grants_and_the_old_tables_if_a_row_lacks_its_parent(tmp_path, schema):
    name, con = schema
    target = f"{SERVER}?table={name}.{{table}}"
    together.publish(RELATIONS, files(tmp_path, 3), target)
    con.execute(f"GRANT SELECT ON {name}.visits TO PUBLIC")
    together.publish(RELATIONS, files(tmp_path, 5), target)
    with pytest.raises(InvalidInput, match="SQLSTATE 23503"):
        together.publish(RELATIONS, files(tmp_path, 7, orphan=True), target)
    assert con.execute(f"SELECT count(*) FROM {name}.people").fetchall() == [(5,)]
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = %s::regnamespace"
    assert con.execute(keys, [name]).fetchall() == [(2,)]
    seen = con.execute("SELECT has_table_privilege('public', %s, 'SELECT')", [f"{name}.visits"]).fetchall()
    assert seen == [(True,)]


SHOP = Relations(
    [
        Related("people", key="person", refers=(("born in", "countries"),)),
        Related("orders", None, "people", "person", max_rows=2, refers=(("product", "products"), ("gift", "products"))),
    ],
    [PublicTable("products", "sku"), PublicTable("countries", "code")],
)


def sold(folder, persons, **orders):
    """Files of people with an order each, of products of which some are bought, and of two countries."""
    folder.mkdir(exist_ok=True)
    people = {"person": list(range(persons)), "born in": ["at", None, *["de"] * persons][:persons]}
    bought = {"person": list(range(persons)), "product": [f"{n % 3:03}" for n in range(persons)]}
    bought |= {"gift": pa.nulls(persons, pa.string())} | orders
    tables = {
        "products": {"sku": ["002", "000", "001", "003"], "price": [2, None, 1, 3]},
        "countries": {"code": ["de", "at"]},
        "people": people,
        "orders": bought,
    }
    found = {}
    for name, table in tables.items():
        found[name] = folder / f"{name}.parquet"
        pq.write_table(pa.table(table), found[name])
    return found


def foreign_keys(con):
    """Which columns refer to which, of a DuckDB file."""
    asked = """SELECT table_name, constraint_column_names[1], referenced_table, referenced_column_names[1]
        FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'"""
    return set(con.sql(asked).fetchall())


REFERENCES = {
    ("people", "born in", "countries", "code"),
    ("orders", "product", "products", "sku"),
    ("orders", "gift", "products", "sku"),
    ("orders", "person", "people", "person"),
}


def test_duckdb_has_keys_to_public_tables_and_keeps_the_old_ones_if_a_row_refers_to_none(tmp_path):
    target = f"duckdb:///{tmp_path / 'w.duckdb'}?table=shop.{{table}}"
    for persons in (3, 5):
        places = together.publish(SHOP, sold(tmp_path / "made", persons), target)
    assert set(places) == {"products", "countries", "people", "orders"}
    for wrong in ({"product": [*["001"] * 6, "009"]}, {"gift": [*["001"] * 6, "1"]}):
        with pytest.raises(InvalidInput):
            together.publish(SHOP, sold(tmp_path / "made", 7, **wrong), target)
    with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as con:
        assert con.sql("SELECT count(*) FROM shop.orders").fetchall() == [(5,)]
        rows = [("002", 2), ("000", None), ("001", 1), ("003", 3)]
        assert con.sql("SELECT * FROM shop.products").fetchall() == rows
        assert foreign_keys(con) == REFERENCES
        primary = "SELECT table_name FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
        assert {name for (name,) in con.sql(primary).fetchall()} == {"products", "countries", "people"}


def test_postgres_has_keys_to_public_tables_and_keeps_the_old_ones_and_grants_if_a_row_refers_to_none(tmp_path, schema):
    name, con = schema
    target = f"{SERVER}?table={name}.{{table}}"
    together.publish(SHOP, sold(tmp_path / "made", 3), target)
    con.execute(f"GRANT SELECT ON {name}.products TO PUBLIC")
    together.publish(SHOP, sold(tmp_path / "made", 5), target)
    with pytest.raises(InvalidInput, match="SQLSTATE 23503"):
        together.publish(SHOP, sold(tmp_path / "made", 7, product=[*["001"] * 6, "009"]), target)
    assert con.execute(f"SELECT count(*) FROM {name}.orders").fetchall() == [(5,)]
    rows = [("000", None), ("001", 1), ("002", 2), ("003", 3)]
    assert con.execute(f"SELECT * FROM {name}.products ORDER BY 1").fetchall() == rows
    asked = """SELECT f.relname, a.attname, t.relname, k.attname FROM pg_constraint c
        JOIN pg_class f ON f.oid = c.conrelid JOIN pg_class t ON t.oid = c.confrelid
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        JOIN pg_attribute k ON k.attrelid = c.confrelid AND k.attnum = c.confkey[1]
        WHERE c.contype = 'f' AND c.connamespace = %s::regnamespace"""
    assert set(con.execute(asked, [name]).fetchall()) == REFERENCES
    seen = con.execute("SELECT has_table_privilege('public', %s, 'SELECT')", [f"{name}.products"]).fetchall()
    assert seen == [(True,)]


@pytest.mark.parametrize("target", ["out", "out/{table}.csv"])
def test_a_folder_holds_the_public_tables_too(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    for persons in (3, 5):
        places = together.publish(SHOP, sold(tmp_path / "made", persons), target)
    assert {p.stem for p in (tmp_path / "out").iterdir()} == {"products", "countries", "people", "orders"}
    kept = duckdb.sql(
        f"SELECT sku FROM read_csv('{places['products']}', all_varchar = true)"
        if "csv" in target
        else f"SELECT sku FROM '{places['products']}'"
    ).fetchall()
    assert kept == [("002",), ("000",), ("001",), ("003",)]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("out.parquet", "holds one table"),
        ("duckdb:///w.duckdb?table=clinic", "holds one table"),
        ("snowflake://me@account/db/schema?table={table}", "replaces one table at a time"),
        ("out/{table}/rows.parquet", "lie in one folder"),
        ("out/{table}.xlsx", "unknown kind of target"),
    ],
)
def test_a_target_that_cannot_hold_related_tables_is_refused_with_those_that_can(target, words):
    with pytest.raises(InvalidInput, match=words):
        together.addresses(["people", "visits"], target)


def test_a_target_that_a_table_is_read_from_is_refused(tmp_path):
    (tmp_path / "people.parquet").touch()
    with pytest.raises(InvalidInput, match="source of people itself"):
        together.check(["people"], str(tmp_path), {"source of people": str(tmp_path / "people.parquet")})
