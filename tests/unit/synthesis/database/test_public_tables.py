"""A public table is copied as it is: rows in their order, each with a key of its own, and types that all cells fit."""

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.database import public_tables
from dp_synth_pipeline.synthesis.database.settings import DatabaseTable

PUBLIC = {"why": "on our site", "by": "Ann"}


def copied(folder, source, stored_as=None, key="sku", **more):
    """Return the copy of a table that is given as CSV, as a table or by its address; its columns are as said."""
    if isinstance(source, pa.Table):
        pq.write_table(source, folder / "given.parquet")
        source = str(folder / "given.parquet")
    elif "\n" in source:
        (folder / "given.csv").write_text(source)
        source = str(folder / "given.csv")
    path = folder / "copy.parquet"
    schema = public_tables.copy(DatabaseTable(source=source, key=key, public=PUBLIC, **more), stored_as, path)
    assert [p.name for p in folder.iterdir() if p.name.startswith("copy")] == ["copy.parquet"]
    rows = pq.read_table(path)
    assert [(c.name, c.arrow_type) for c in schema.columns] == [(f.name, f.type) for f in rows.schema]
    return rows


CATALOGUE = """sku,zip,since,until,price,left,mixed,note,empty,new
010,01234,2024-03-01,2024-03-01 08:30:00,1.50,3,1,"one, two",,true
002,99999,2023-12-31,,2.25,,x,,,false
100,00001,,2024-01-02 23:59:59,,-7,2.5, padded ,,true
"""


def test_the_cells_of_a_csv_get_the_types_that_all_of_them_fit(tmp_path):
    rows = copied(tmp_path, CATALOGUE)
    assert rows.to_pydict() == {
        "sku": ["010", "002", "100"],
        "zip": ["01234", "99999", "00001"],
        "since": [dt.date(2024, 3, 1), dt.date(2023, 12, 31), None],
        "until": [dt.datetime(2024, 3, 1, 8, 30), None, dt.datetime(2024, 1, 2, 23, 59, 59)],
        "price": [1.5, 2.25, None],
        "left": [3, None, -7],
        "mixed": ["1", "x", "2.5"],
        "note": ["one, two", None, "padded"],
        "empty": [None, None, None],
        "new": [True, False, True],
    }
    assert rows.schema.field("left").type == pa.int64()


def test_one_cell_in_many_rows_that_is_no_number_keeps_all_of_them_text(tmp_path):
    lines = [f"{n},{'x' if n == 1234 else n}" for n in range(3000)]
    rows = copied(tmp_path, "\n".join(["sku,size", *lines]) + "\n")
    assert rows["size"].to_pylist() == [*map(str, range(1234)), "x", *map(str, range(1235, 3000))]
    assert rows["sku"].to_pylist() == [*map(str, range(3000))]


def test_the_key_of_a_csv_stays_text_unless_what_refers_to_it_is_stored_otherwise(tmp_path):
    text = "sku,price\n3,1\n1,2\n2,3\n"
    assert copied(tmp_path, text)["sku"].to_pylist() == ["3", "1", "2"]
    assert copied(tmp_path, text, pa.string())["sku"].to_pylist() == ["3", "1", "2"]
    for stored in (pa.int64(), pa.int32(), pa.float64()):
        rows = copied(tmp_path, text, stored)
        assert (rows["sku"].type, rows["sku"].to_pylist()) == (stored, [3, 1, 2])
        assert rows["price"].to_pylist() == [1, 2, 3]


def test_a_table_may_have_no_columns_but_its_key(tmp_path):
    assert copied(tmp_path, "sku\nb\na\n").to_pydict() == {"sku": ["b", "a"]}


def test_columns_that_elsewhere_would_be_taken_for_persons_or_made_anew_are_copied_too(tmp_path):
    text = "sku,name,email,iban,start_date,end_date\n1,Ann,a@b.at,AT1,2024-01-01,2024-02-01\n2,Bob,b@b.at,AT2,,\n"
    rows = copied(tmp_path, text)
    assert rows.column_names == ["sku", "name", "email", "iban", "start_date", "end_date"]
    assert rows["email"].to_pylist() == ["a@b.at", "b@b.at"]
    assert rows["end_date"].to_pylist() == [dt.date(2024, 2, 1), None]


STORED = pa.table(
    {
        "sku": pa.array([9, 4, 7], pa.int32()),
        "price": pa.array([Decimal("1.50"), None, Decimal("0.10")], pa.decimal128(8, 2)),
        "since": pa.array([1, None, 2], pa.timestamp("us", "UTC")),
        "zip": ["007", "", " 8"],
        "size": pa.array([1.5, 2.0, None], pa.float32()),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
)


def test_a_parquet_file_keeps_its_types_its_order_and_its_cells(tmp_path):
    rows = copied(tmp_path, STORED)
    assert rows.schema.types[:5] == STORED.schema.types[:5]
    assert rows.to_pylist() == STORED.to_pylist()


def test_many_rows_stay_in_their_order(tmp_path):
    keys = [(n * 7919) % 300_007 for n in range(300_007)]
    pq.write_table(pa.table({"sku": keys}), tmp_path / "many.parquet", row_group_size=5_000)
    assert copied(tmp_path, str(tmp_path / "many.parquet"))["sku"].to_pylist() == keys
    lines = [f"{key},{'text of a row' * 5}" for key in keys]
    assert copied(tmp_path, "\n".join(["sku,text", *lines, ""]))["sku"].to_pylist() == [*map(str, keys)]


def test_the_key_of_a_parquet_file_is_stored_as_what_refers_to_it(tmp_path):
    assert copied(tmp_path, STORED, pa.int64())["sku"].type == pa.int64()
    assert copied(tmp_path, STORED, pa.string())["sku"].to_pylist() == ["9", "4", "7"]
    rows = copied(tmp_path, STORED, pa.float64())
    assert (rows["sku"].type, rows.column_names) == (pa.float64(), STORED.column_names)
    assert rows.drop_columns("sku").to_pylist() == STORED.drop_columns("sku").to_pylist()


def test_a_table_of_duckdb_is_copied_with_its_types(tmp_path):
    with duckdb.connect(str(tmp_path / "w.duckdb")) as con:
        con.execute("CREATE SCHEMA shop")
        con.execute("CREATE TABLE shop.products (sku VARCHAR, price DECIMAL(6, 2), since DATE)")
        con.execute("INSERT INTO shop.products VALUES ('02', 1.5, '2024-01-02'), ('01', NULL, NULL)")
    rows = copied(tmp_path, f"duckdb:///{tmp_path / 'w.duckdb'}?table=shop.products")
    assert sorted(rows.to_pylist(), key=lambda row: row["sku"], reverse=True) == [
        {"sku": "02", "price": Decimal("1.50"), "since": dt.date(2024, 1, 2)},
        {"sku": "01", "price": None, "since": None},
    ]


def test_of_a_filtered_table_the_rows_that_satisfy_it_are_copied_in_their_order(tmp_path):
    assert copied(tmp_path, STORED, filter="sku > 5")["sku"].to_pylist() == [9, 7]
    twice = "sku,kept\n3,yes\n1,no\n1,yes\n"
    assert copied(tmp_path, twice, filter="kept = 'yes'")["sku"].to_pylist() == ["3", "1"]


@pytest.mark.parametrize(
    ("source", "stored_as", "words"),
    [
        ("sku,price\n1,2\n1,3\n", None, "key: '1' in 'sku' names several rows"),
        ("sku,price\n1,2\n 1 ,3\n", None, "names several rows"),
        ("sku,price\n7,2\n007,3\n", pa.int64(), "key: 7 in 'sku' names several rows"),
        ("sku,price\n1,2\n,3\n,4\n", None, "key: 'sku' is empty in 2 of 3 rows"),
        ("sku,price\n", None, "key: 'sku' is empty in 0 of 0 rows"),
        (pa.table({"sku": [1, None]}), None, "key: 'sku' is empty in 1 of 2 rows"),
        (pa.table({"sku": ["a", "b", "a"]}), None, "key: 'a' in 'sku' names several rows"),
        ("sku,price\na,2\nb,3\n", pa.int64(), "key: 'sku' holds string, and columns that refer to it hold int64"),
        (pa.table({"sku": [1.5]}), pa.int64(), "key: 'sku' holds double, and columns that refer to it hold int64"),
        (pa.table({"sku": [dt.date(2024, 1, 1)]}), pa.int64(), "'sku' holds date32.day., and columns that refer to it"),
        ("sky,price\n1,2\n", None, "key: there is no column 'sku'; it has: sky, price. Did you mean sky?"),
        ("nowhere.csv", None, "nowhere.csv"),
    ],
)
def test_a_table_whose_rows_are_not_told_apart_by_the_key_that_others_hold_is_refused(
    tmp_path, source, stored_as, words
):
    with pytest.raises(InvalidInput, match=words.replace("?", r"\?")):
        copied(tmp_path, source, stored_as)


def test_a_copy_is_released_unchanged_and_again_if_a_run_had_got_so_far(tmp_path):
    pq.write_table(STORED, tmp_path / "kept.parquet")
    for _ in range(2):
        released = public_tables.release_to(tmp_path / "kept.parquet", tmp_path / "products")
        assert released == tmp_path / "products" / public_tables.FILE
        assert released.read_bytes() == (tmp_path / "kept.parquet").read_bytes()
    assert [p.name for p in released.parent.iterdir()] == [public_tables.FILE]
