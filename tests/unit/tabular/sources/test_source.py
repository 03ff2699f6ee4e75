"""Sources that can be read; those that cannot are in test_refusals.py."""

from __future__ import annotations

import csv
import gzip
import stat
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.schema import Kind
from dp_synth_pipeline.tabular.sources import duckdb_uri, ingestion, source
from dp_synth_pipeline.tabular.sql import readable
from tests.unit.tabular import snapshots
from tests.unit.tabular.snapshots import take

HEAD = ["name", "age", "paid", "born", "seen", "ok"]
CELLS = [
    [
        'Bo, "jr"' if i % 2 else "Ann",
        i % 50,
        i / 4,
        f"2001-02-{1 + i % 28:02d}",
        f"2020-01-01 10:{i % 60:02d}:00",
        i % 3 == 0,
    ]
    for i in range(120)
]


def snapshot(uri: str, folder: Path, **options) -> ingestion.Snapshot:
    return snapshots.read(uri, folder / "restricted" / "snapshot.parquet", **options)


def read(taken: ingestion.Snapshot) -> pa.Table:
    return pq.read_table(taken.path)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "with space and 'quote'.csv"])
def test_a_csv_file_is_read_with_its_types(tmp_path: Path, name: str) -> None:
    with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wt", newline="") as out:
        csv.writer(out, delimiter="\t" if name.endswith(".tsv") else ",").writerows([HEAD, *CELLS])
    taken = snapshot(str(tmp_path / name), tmp_path)
    assert [(c.name, c.kind.name) for c in taken.schema] == [
        *(("name", "category"), ("age", "integer"), ("paid", "decimal")),
        *(("born", "date"), ("seen", "datetime"), ("ok", "boolean")),
    ]
    table = read(taken)
    assert taken.units == table.num_rows == 120
    assert set(table["name"].to_pylist()) == {"Ann", 'Bo, "jr"'}


def test_a_byte_order_mark_and_empty_fields_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffa,b\n1,x\n2,\n,y\n" * 1 + "3,x\n" * 20, encoding="utf-8")
    table = read(snapshot(str(tmp_path / "t.csv"), tmp_path))
    assert table.column_names == ["a", "b"]
    assert (table["a"].null_count, table["b"].null_count) == (1, 1)


def test_one_column_with_no_delimiter_at_all_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("city\n" + "Ulm\nBonn\n" * 10)
    assert read(snapshot(str(tmp_path / "t.csv"), tmp_path)).column_names == ["city"]


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_glob_reads_all_files_that_match(tmp_path: Path, end: str) -> None:
    for i in range(3):
        part = pa.table({"a": pa.array([i] * 10), "b": ["x", "y"] * 5})
        if end == "csv":
            (tmp_path / f"p{i}.csv").write_text("a,b\n" + "".join(f"{i},{v}\n" for v in ["x", "y"] * 5))
        else:
            pq.write_table(part, tmp_path / f"p{i}.parquet")
    taken = snapshot(str(tmp_path / f"p*.{end}"), tmp_path)
    assert taken.units == 30
    assert set(read(taken)["a"].to_pylist()) == {0, 1, 2}


@pytest.mark.parametrize(("name", "other"), [("data[1]", "data1"), ("a*b", "aXb"), ("q?", "qa")])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_file_whose_name_looks_like_a_pattern_is_read_and_no_other(
    tmp_path: Path, name: str, other: str, end: str
) -> None:
    for stem, value in ((name, 1), (other, 2)):
        made = pa.table({"a": [value] * 3})
        if end == "csv":
            (tmp_path / f"{stem}.csv").write_text("a\n" + f"{value}\n" * 3)
        else:
            pq.write_table(made, tmp_path / f"{stem}.parquet")
    assert read(snapshot(str(tmp_path / f"{name}.{end}"), tmp_path)).column("a").to_pylist() == [1, 1, 1]


def test_a_folder_whose_name_looks_like_a_pattern_is_read_and_no_other(tmp_path: Path) -> None:
    for stem, value in (("day[1]", 1), ("day1", 2)):
        (tmp_path / stem).mkdir()
        pq.write_table(pa.table({"a": [value] * 3}), tmp_path / stem / "part.parquet")
    assert read(snapshot(str(tmp_path / "day[1]"), tmp_path)).column("a").to_pylist() == [1, 1, 1]


@pytest.mark.parametrize("name", [ingestion.UNIT, ingestion.KEY, "__Privacy_Unit"])
def test_a_column_named_as_the_snapshots_own_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"a": [1, 2], name: [3, 4]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match="reserved; rename it"):
        snapshot(str(tmp_path / "t.parquet"), tmp_path)


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    for place in ("data", "data/deep"):
        pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / place / "p.parquet")
    assert snapshot(str(tmp_path / "data"), tmp_path).units == 6


@pytest.mark.parametrize(
    "form", ["duckdb:///{path}?table=t", "duckdb:///{path}?table=main.t", "duckdb:///{path}?table=s.t"]
)
def test_a_duckdb_table_is_read_and_its_file_left_alone(tmp_path: Path, form: str) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE SCHEMA s")
        for table in ("t", "s.t"):
            con.execute(f"CREATE TABLE {table} AS SELECT i % 7 AS a, 'x' || i % 3 AS b FROM range(50) r(i)")
    before = path.read_bytes()
    assert snapshot(form.format(path=path), tmp_path).units == 50
    assert path.read_bytes() == before


def test_duckdb_types_are_kept_as_storage(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute(
            "CREATE TABLE t AS SELECT i::UTINYINT AS u8, i::BIGINT AS i64, 1.5::FLOAT AS f, 2.25::DECIMAL(9,2) AS d,"
            " DATE '1950-01-01' AS born, TIMESTAMP_S '2020-01-01' AS s, TIMESTAMP_MS '2020-01-01' AS ms,"
            " TIMESTAMP '2020-01-01' AS us, TIMESTAMP_NS '2020-01-01' AS ns, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS z,"
            " i % 2 = 0 AS ok, 'a'::ENUM('a', 'b') AS e FROM range(60) r(i)"
        )
    taken = snapshot(f"duckdb:///{tmp_path}/d.duckdb?table=t", tmp_path)
    assert [str(c.arrow_type) for c in taken.schema] == [
        *("uint8", "int64", "float", "decimal128(9, 2)", "date32[day]"),
        *("timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]", "timestamp[us, tz=UTC]"),
        *("bool", "string"),
    ]


def test_zones_of_a_parquet_file_are_kept_whatever_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    moments = [datetime(2020, 1, 1, 5, tzinfo=UTC), datetime(1955, 7, 1, tzinfo=UTC)] * 10
    taken = take(pa.table({"z": pa.array(moments, pa.timestamp("us", "Europe/Berlin"))}), tmp_path)
    assert taken.schema["z"].storage == "timestamp[us, tz=Europe/Berlin]"
    assert set(read(taken)["z"].to_pylist()) == set(moments)
    naive = take(pa.table({"z": pa.array([datetime(2020, 1, 1)] * 9, pa.timestamp("us"))}), tmp_path / "naive")
    assert naive.schema["z"].storage == "timestamp[us]"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_zoned_datetimes_of_every_unit_are_read(tmp_path: Path, unit: str) -> None:
    moments = [datetime(2024, 1, 1 + i % 9, 5, i % 60, tzinfo=UTC) for i in range(40)]
    taken = take(pa.table({"seen": pa.array(moments, pa.timestamp(unit, "Europe/Paris"))}), tmp_path)
    assert taken.schema["seen"].storage == f"timestamp[{'us' if unit in ('s', 'ms') else unit}, tz=Europe/Paris]"
    assert sorted(pq.read_table(taken.path)["seen"].to_pylist()) == sorted(moments)


def test_zones_elsewhere_are_utc_unless_declared(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT TIMESTAMPTZ '2020-01-01 05:00:00+00' AS z FROM range(30)")
    for declared, zone in (({}, "UTC"), ({"z": {"zone": "Asia/Tokyo"}}, "Asia/Tokyo")):
        found = source.parse(f"duckdb:///{tmp_path}/d.duckdb?table=t")
        taken = ingestion.snapshot(found, tmp_path / "restricted" / "s.parquet", declared=declared)
        assert taken.schema["z"].storage == f"timestamp[us, tz={zone}]"
        (tmp_path / "restricted" / "s.parquet").unlink()


def test_files_that_disagree_on_the_zone_are_utc_and_on_a_duration_are_refused(tmp_path: Path) -> None:
    for kind, name in ((pa.timestamp("us", "Asia/Tokyo"), "a"), (pa.timestamp("us", "UTC"), "b")):
        pq.write_table(pa.table({"x": pa.array([5] * 20, pa.int64()).cast(kind)}), tmp_path / f"{name}.parquet")
    taken = ingestion.snapshot(source.parse(str(tmp_path / "*.parquet")), tmp_path / "r" / "s.parquet")
    assert taken.schema["x"].storage == "timestamp[us, tz=UTC]"
    for unit in ("s", "ms"):
        (tmp_path / "d").mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": pa.array([5] * 20, pa.duration(unit))}), tmp_path / "d" / f"{unit}.parquet")
    with pytest.raises(InvalidInput, match="column 'x' is a duration in one file and another type or unit in another"):
        ingestion.snapshot(source.parse(str(tmp_path / "d")), tmp_path / "r" / "d.parquet")


LENGTHS = [timedelta(seconds=1), timedelta(days=-2, seconds=5), timedelta(days=400), None]


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "duckdb", "csv"])
def test_durations_of_every_source_are_microseconds_in_the_snapshot(tmp_path: Path, kind: str) -> None:
    declared = {"d": {"kind": "duration"}}
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
            con.execute("CREATE TABLE t (d INTERVAL)")
            con.executemany("INSERT INTO t VALUES (?)", [[v] for v in LENGTHS] * 9)
        found = source.parse(f"duckdb:///{tmp_path}/d.duckdb?table=t")
    elif kind == "csv":
        cells = ["00:00:01", "-1 days -23:59:55", "400 days", '""']
        (tmp_path / "d.csv").write_text("d,e\n" + "".join(f"{c},1\n" for c in cells * 9))
        found = source.parse(str(tmp_path / "d.csv"))
    else:
        pq.write_table(pa.table({"d": pa.array(LENGTHS * 9, pa.duration(kind))}), tmp_path / "d.parquet")
        found = source.parse(str(tmp_path / "d.parquet"))
    taken = ingestion.snapshot(found, tmp_path / "restricted" / "s.parquet", declared=declared)
    assert taken.schema["d"].storage == "duration[us]"
    held = read(taken)["d"].to_pylist()
    wanted = [None if v is None else v // timedelta(microseconds=1) for v in LENGTHS]
    assert sorted(held, key=str) == sorted(wanted * 9, key=str)


def test_durations_are_intervals_where_duckdb_reads_them_for_people(tmp_path: Path) -> None:
    table = pa.table({"d": pa.array(LENGTHS, pa.duration("us")), "a": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "d.parquet")
    shown = duckdb.connect().execute(f"SELECT {readable(table.schema)} FROM '{tmp_path}/d.parquet'").fetchall()
    assert [row[0] for row in shown] == LENGTHS


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        (pa.array([1.0, 2.5, 1e15] * 9), {"1.0", "2.5", "1000000000000000.0"}),
        (pa.array([datetime(2020, 1, 1), datetime(2020, 1, 1, 5)] * 9), {"2020-01-01 00:00:00", "2020-01-01 05:00:00"}),
        (pa.array([date(2020, 1, 1)] * 9), {"2020-01-01"}),
        (pa.array([True, False] * 9), {"true", "false"}),
        (pa.array([Decimal("1.50")] * 9), {"1.50"}),
    ],
    ids=["float", "datetime", "date", "boolean", "decimal"],
)
def test_declared_categories_of_other_types_are_spelled_once_in_the_snapshot(
    tmp_path: Path, values: pa.Array, spelled: set[str]
) -> None:
    taken = take(pa.table({"c": values}), tmp_path, {"c": {"kind": "category"}})
    assert set(read(taken)["c"].to_pylist()) == spelled
    assert taken.schema["c"].arrow_type == values.type, "the synthetic column has the source's type"


def test_identifiers_and_excluded_columns_never_reach_the_snapshot(tmp_path: Path) -> None:
    table = pa.table({"id": [f"person-{i}" for i in range(40)], "secret": ["s"] * 40, "x": [1, 2] * 20})
    taken = take(table, tmp_path, {"id": {"kind": "identifier"}, "secret": {"kind": "excluded"}})
    assert read(taken).column_names == ["x"]
    assert b"person-7" not in taken.path.read_bytes()


def test_the_snapshot_is_readable_by_its_owner_only_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    taken = take(pa.table({"x": [1, 2] * 20}), tmp_path)
    assert stat.S_IMODE(taken.path.stat().st_mode) == 0o400
    assert stat.S_IMODE(taken.path.parent.stat().st_mode) == 0o700
    assert [p.name for p in taken.path.parent.iterdir()] == ["snapshot.parquet"]


def visits(people: int = 40, each: int = 9) -> pa.Table:
    who = np.repeat(np.arange(people), each)
    return pa.table({"who": pa.array(who), "x": pa.array(np.arange(len(who)))})


def test_each_unit_keeps_at_most_its_rows_and_has_a_dense_number(tmp_path: Path) -> None:
    table = pa.concat_tables([visits(), pa.table({"who": [99], "x": [10**6]})])
    taken = take(table, tmp_path, unit=PrivacyUnit("who", 4))
    units = np.asarray(read(taken)[ingestion.UNIT])
    assert taken.units == 41
    assert np.unique(units).tolist() == list(range(41))
    assert (np.diff(units) >= 0).all(), "training clips neighbouring rows as one unit"
    assert sorted(np.bincount(units).tolist()) == [1] + [4] * 40
    assert "who" not in read(taken).column_names
    owners = np.asarray(read(taken)["x"]) // 9
    assert len(set(zip(owners, units, strict=True))) == 41, "rows stay with their unit"


def test_which_rows_of_a_unit_are_kept_differs_between_runs_and_favours_none(tmp_path: Path) -> None:
    kept = [
        frozenset(read(take(visits(), tmp_path / str(i), unit=PrivacyUnit("who", 3)))["x"].to_pylist())
        for i in range(8)
    ]
    # Two runs agree on 40 units with probability (1 / 84)^40.
    assert len(set(kept)) == 8
    # Each of nine places is kept with probability 1/3, in 320 draws; 6 deviations are 0.16.
    places = np.bincount([x % 9 for k in kept for x in k], minlength=9) / (8 * 40)
    assert np.abs(places - 1 / 3).max() < 0.16


def test_rows_without_a_unit_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"who": pa.array([1, 1, 2, 2, None, None] * 10), "x": [1, 1, 1, 1, 7, 7] * 10})
    taken = take(table, tmp_path, unit=PrivacyUnit("who", 50))
    assert taken.units == 2
    assert set(read(taken)["x"].to_pylist()) == {1}


def test_a_unit_may_be_text(tmp_path: Path) -> None:
    taken = take(pa.table({"who": ["a", "b", "a", "c"] * 5, "x": [1, 2] * 10}), tmp_path, unit=PrivacyUnit("who", 2))
    assert taken.units == 3
    assert taken.schema["who"].kind is Kind.IDENTIFIER


def test_the_digest_ignores_the_order_of_rows_and_nothing_else(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3, 3] * 10, "b": ["x", "y", None, None] * 10})
    same = table.take(pa.array(np.random.default_rng().permutation(40)))

    def digest(t: pa.Table, name: str) -> str:
        return take(t, tmp_path / name).digest

    first = digest(table, "first")
    assert digest(same, "same") == first
    changes = {
        "cell": table.set_column(0, "a", pa.array([4, *table["a"].to_pylist()[1:]])),
        "null": table.set_column(1, "b", pa.array([None, *table["b"].to_pylist()[1:]])),
        "row more": pa.concat_tables([table, table.slice(0, 1)]),
        "pair more": pa.concat_tables([table, table.slice(0, 1), table.slice(0, 1)]),
        "row less": table.slice(1),
        "swap": table.set_column(0, "a", pa.array([2, 1, 3, 3] * 10)),
        "name": table.rename_columns(["a", "c"]),
        "type": table.set_column(0, "a", table["a"].cast(pa.int32())),
    }
    digests = {name: digest(t, name) for name, t in changes.items()}
    assert first not in digests.values()
    assert len(set(digests.values())) == len(changes)


def test_a_demo_is_a_source_and_an_unknown_one_is_refused() -> None:
    for name in ("patients", "visits", "clinic_visits"):  # the last is what YAML of earlier versions names
        assert source.parse(f"demo://{name}").table is not None
    with pytest.raises(InvalidInput, match="clinic_visits"):
        source.parse("demo://nothing")


def test_a_duckdb_uri_means_the_same_file_to_sources_and_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert duckdb_uri.split("duckdb:///new.duckdb?table=s.t") == (Path("new.duckdb"), ("s", "t"))
    assert duckdb_uri.split("duckdb:///here/new.duckdb?table=t")[0] == Path("here/new.duckdb")
    assert duckdb_uri.split(f"duckdb://{tmp_path}/here/new.duckdb?table=t")[0] == tmp_path / "here/new.duckdb"
    assert duckdb_uri.split(f"duckdb:///{tmp_path}/here/new.duckdb?table=t")[0] == tmp_path / "here/new.duckdb"


def answers(folder: Path, *words: str) -> str:
    path = folder / "answers.csv"
    path.write_text("id,said\n" + "".join(f"{i},{words[i % len(words)]}\n" for i in range(120)))
    return str(path)


@pytest.mark.parametrize(
    "words", [("yes", "no"), ("Yes", "No"), ("T", "F"), ("t", "f"), ("yes", "no", ""), ("true", "no")]
)
def test_answers_in_a_csv_stay_the_words_that_they_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    taken = snapshot(answers(tmp_path, *words), tmp_path)
    (column,) = (c for c in taken.schema.columns if c.name == "said")
    assert (column.kind, column.storage) == (Kind.CATEGORY, "string")
    assert set(pq.read_table(taken.path)["said"].to_pylist()) == {w or None for w in words}


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE", "")])
def test_true_and_false_in_a_csv_are_booleans(tmp_path: Path, words: tuple[str, ...]) -> None:
    taken = snapshot(answers(tmp_path, *words), tmp_path)
    assert taken.schema.columns[1].kind is Kind.BOOLEAN


def test_a_person_may_declare_answers_to_be_booleans(tmp_path: Path) -> None:
    taken = snapshot(answers(tmp_path, "yes", "no"), tmp_path, declared={"said": {"kind": "boolean"}})
    assert taken.schema.columns[1].storage == "bool"
