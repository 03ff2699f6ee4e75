"""A PostgreSQL table becomes a synthetic PostgreSQL table: types kept, grants kept, old or new, never half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.warehouse import postgres
from dp_synth_pipeline.targets import sink
from tests.integration.conftest import failure, steps

pytest.importorskip("adbc_driver_postgresql")

SERVER = os.environ.get("DP_SYNTH_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
PASSWORD = "s3cret-w0rd"


@dataclass
class Place:
    """A schema of its own on a real server."""

    schema: str
    server: str = SERVER

    def uri(self, table: str, server: str | None = None) -> str:
        return f"{server or self.server}?table={self.schema}.{table}"

    def run(self, query: str) -> list[tuple]:
        with psycopg.connect(self.server, autocommit=True) as con:
            done = con.execute(query.replace("$", self.schema))  # type: ignore[arg-type]
            return done.fetchall() if done.description else []

    def columns(self, table: str) -> list[tuple]:
        return self.run(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
            f"WHERE a.attrelid = '$.{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place(f"t_{uuid.uuid4().hex[:12]}")
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL answers at DP_SYNTH_TEST_POSTGRES")
    found.run("CREATE SCHEMA $")
    yield found
    found.run("DROP SCHEMA $ CASCADE")


VISITS = """
CREATE TYPE $.triage AS ENUM ('red', 'yellow', 'green');
CREATE DOMAIN $.money AS numeric(9, 2);
CREATE TABLE $.visits (
  id bigint, name text, age smallint, cost numeric(8, 2), fee $.money, ratio numeric, weight real,
  seen timestamptz, born date, booked timestamp, level $.triage, smoker boolean, city varchar(20), ward char(3),
  stay interval, opens time, nothing text, raw bytea
);
INSERT INTO $.visits
SELECT i, 'Name ' || i, 20 + i % 60, (i % 90) + 0.25, (i % 7) + 0.5, (i % 11) / 10.0, i % 30,
  timestamptz '2024-01-01 00:00+02' + (i % 300) * interval '1 day', date '1950-01-01' + i % 900,
  timestamp '2024-05-01 09:00' + (i % 40) * interval '1 hour',
  (ARRAY['red', 'yellow', 'green'])[1 + i % 3]::$.triage,
  CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 = 0 END, (ARRAY['Rome', 'Oslo', 'Lima'])[1 + i % 3], 'A' || i % 2,
  (i % 9) * interval '1 day' + interval '3 hours', time '08:00' + (i % 60) * interval '1 minute', NULL, 'x'
FROM generate_series(1, 600) AS i;
"""

KINDS = {
    "id": {"kind": "identifier"},
    "name": {"kind": "excluded"},
    "raw": {"kind": "excluded"},
    "nothing": {"categories": ["a", "b"]},
}


@pytest.fixture
def visits(place: Place) -> Place:
    place.run(VISITS)
    return place


def snapshot(uri: str, folder: Path, where: str | None = None, **options) -> tuple[ingestion.Snapshot, pa.Table]:
    taken = ingestion.snapshot(
        source.parse(uri, where=where), folder / "r" / "s.parquet", **{"declared": KINDS, **options}
    )
    return taken, pq.read_table(taken.path)


def test_types_and_values_are_kept_and_excluded_columns_never_selected(visits, tmp_path, monkeypatch):
    asked = []
    select = postgres.select
    monkeypatch.setattr(postgres, "select", lambda *args: asked.append(select(*args)) or asked[-1])
    taken, rows = snapshot(visits.uri("visits"), tmp_path)
    assert {c.name: c.storage for c in taken.schema.columns} == {
        "id": "int64",
        "name": "string",
        "age": "int16",
        "cost": "decimal128(8, 2)",
        "fee": "decimal128(9, 2)",
        "ratio": "double",
        "weight": "float",
        "seen": "timestamp[us, tz=UTC]",
        "born": "date32[day]",
        "booked": "timestamp[us]",
        "level": "string",
        "smoker": "bool",
        "city": "string",
        "ward": "string",
        "stay": "duration[us]",
        "opens": "time64[us]",
        "nothing": "string",
        "raw": "binary",
    }
    real = visits.run("SELECT sum(cost), sum(fee), max(seen), count(smoker), count(*), min(stay) FROM $.visits")[0]
    table = rows.to_pandas()
    assert (table["cost"].sum(), table["fee"].sum()) == real[:2]
    assert table["seen"].max() == real[2]
    assert (table["smoker"].count(), len(table)) == real[3:5]
    assert table["stay"].min() == real[5].total_seconds() * 1e6
    assert set(table["level"]) == {"red", "yellow", "green"}
    (query,) = asked
    assert '"cost"' in query
    for name in ("id", "name", "raw"):
        assert f'"{name}"' not in query
    assert [p.name for p in taken.path.parent.iterdir()] == ["s.parquet"]


def test_the_filter_is_applied_by_the_server_in_its_own_language(visits, tmp_path):
    where = "seen >= timestamptz '2024-06-01' AND level::text ~ '^r'"
    _, rows = snapshot(visits.uri("visits"), tmp_path, where)
    assert rows.num_rows == visits.run(f"SELECT count(*) FROM $.visits WHERE {where}")[0][0] > 0


def test_years_and_months_of_an_interval_are_days_by_thirty(place, tmp_path):
    place.run("CREATE TABLE $.t (a int, d interval)")
    place.run("INSERT INTO $.t VALUES (1, '1 year 2 months 3 days 00:00:01.5'), (2, '-1 month')")
    taken = ingestion.snapshot(source.parse(place.uri("t")), tmp_path / "r" / "s.parquet")
    days = 86_400_000_000
    assert sorted(pq.read_table(taken.path)["d"].to_pylist()) == [-30 * days, 423 * days + 1_500_000]


def test_a_refresh_writes_a_synthetic_table_of_the_same_types(visits, bench):
    target = visits.uri("synthetic_visits")
    uri = visits.server.replace("postgres@", f"postgres:{PASSWORD}@")
    changes = {"source": visits.uri("visits", uri), "target": visits.uri("synthetic_visits", uri), "columns": KINDS}
    result = bench.refresh(**changes, filter="age < 70")
    assert "published" in steps(result, "STEP_SUCCESS"), failure(result).user_failure_data
    wanted = dict(visits.columns("visits"))
    del wanted["name"], wanted["raw"]
    text = dict.fromkeys(("level", "city", "ward"), "text")
    other = {"fee": "numeric(9,2)", "ratio": "double precision"}
    assert dict(visits.columns("synthetic_visits")) == {**wanted, **text, **other}
    rows, smokers, levels = visits.run(
        "SELECT count(*), count(smoker), array_agg(DISTINCT level) FROM $.synthetic_visits"
    )[0]
    assert 300 < rows < 900
    assert 0 < smokers < rows
    assert set(levels) <= {"red", "yellow", "green", None}
    for event in result.all_events:
        assert PASSWORD not in repr(event)
    told = [e for e in result.get_asset_materialization_events() if e.asset_key.path[-1] == "published"]
    assert target.replace("postgres@", "") in str(told[0].materialization.metadata["places"])


NEW = pa.table({"x": pa.array([7, 8], pa.int64()), "y": ["a", None]})


@pytest.fixture
def old(place: Place, tmp_path: Path) -> Path:
    """An old table that others may read, and the file that shall replace it."""
    place.run("CREATE TABLE $.t AS SELECT 1 AS x")
    pq.write_table(NEW, tmp_path / "s.parquet")
    return tmp_path / "s.parquet"


def test_a_table_is_replaced_and_its_grants_stay(place, old):
    role = f"r_{place.schema}"
    place.run(f'CREATE ROLE "{role}"')
    try:
        place.run(f'GRANT SELECT ON $.t TO PUBLIC; GRANT INSERT ON $.t TO "{role}" WITH GRANT OPTION')
        before = place.run("SELECT relacl FROM pg_class WHERE oid = '$.t'::regclass")
        assert sink.publish(old, place.uri("t")) == place.uri("t").replace("postgres@", "")
        assert place.run("SELECT * FROM $.t ORDER BY x") == [(7, "a"), (8, None)]
        after = place.run("SELECT relacl FROM pg_class WHERE oid = '$.t'::regclass")
        assert sorted(after[0][0]) == sorted(before[0][0])
    finally:
        place.run(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


KILLED = """
import os, signal, sys
from pathlib import Path
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.tabular.sources.warehouse.postgres import Postgres
at = sys.argv[3]
method, honest = ("drop", Postgres.drop) if at == "before" else ("rename", Postgres.rename)
def killed(self, *given):
    if at == "after":
        honest(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(Postgres, method, killed)
sink.publish(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("at", ["before", "between", "after"])
def test_a_publish_killed_around_its_swap_leaves_the_old_table_and_does_not_stop_the_next(place, old, at):
    place.run("CREATE TABLE $.__next_t (left_over int)")
    done = subprocess.run([sys.executable, "-c", KILLED, str(old), place.uri("t"), at], check=False)
    assert done.returncode == -signal.SIGKILL
    assert place.run("SELECT * FROM $.t") == [(1,)]
    sink.publish(old, place.uri("t"))
    assert place.run("SELECT count(*) FROM $.t") == [(2,)]
    assert place.run("SELECT tablename FROM pg_tables WHERE schemaname = '$'") == [("t",)]


def test_a_reader_keeps_the_old_table_to_the_end_of_its_query_and_a_long_one_stops_the_swap(place, old, monkeypatch):
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT", "200ms")
    with psycopg.connect(SERVER) as reader:
        reader.execute(f"SELECT * FROM {place.schema}.t")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=r"held a lock .* What was there is intact"):
            sink.publish(old, place.uri("t"))
    assert place.run("SELECT * FROM $.t") == [(1,)]


def test_views_on_the_old_table_are_not_dropped_with_it(place, old):
    place.run("CREATE VIEW $.v AS SELECT * FROM $.t")
    with pytest.raises(InvalidInput, match="views or keys depend on the old table"):
        sink.publish(old, place.uri("t"))
    assert place.run("SELECT * FROM $.v") == [(1,)]


def test_a_new_schema_is_made_and_long_names_do_not_collide(place, old):
    name = "n" * 60
    place.run(f"CREATE TABLE $.{name}b AS SELECT 1 AS kept")
    sink.publish(old, place.uri(f"{name}a"))
    assert place.run(f"SELECT kept FROM $.{name}b") == [(1,)]
    place.run("DROP SCHEMA $ CASCADE")
    sink.check_writable(place.uri("t"))
    sink.publish(old, place.uri("t"))
    assert place.run("SELECT count(*) FROM $.t") == [(2,)]


def test_what_cannot_be_replaced_is_refused_before_anything_is_spent(place, old):
    place.run("CREATE VIEW $.v AS SELECT 1 AS x")
    with pytest.raises(InvalidInput, match="no ordinary table"):
        sink.check_writable(place.uri("v"))
    role = f"r_{place.schema}"
    place.run(f'CREATE ROLE "{role}" LOGIN')
    theirs = place.uri("t", SERVER.replace("postgres@", f"{role}@"))
    try:
        with pytest.raises(InvalidInput, match="you may not make tables"):
            sink.check_writable(theirs)
        with pytest.raises(InvalidInput, match="permission denied"):
            sink.publish(old, theirs)
        place.run(f'GRANT CREATE, USAGE ON SCHEMA $ TO "{role}"')
        with pytest.raises(InvalidInput, match="belongs to somebody else"):
            sink.check_writable(theirs)
        with pytest.raises(InvalidInput, match=r"permission denied.*Nothing was charged"):
            ingestion.snapshot(source.parse(theirs), old.parent / "r" / "s.parquet")
    finally:
        place.run(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
    assert place.run("SELECT * FROM $.t") == [(1,)]


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        (("5432", "1"), None, "no server answers"),
        (("127.0.0.1", "no-such-host.invalid"), None, "no such host"),
        (("/test", "/no_such_database"), None, "no such database"),
        (("postgres:", "no_such_user:"), None, "no such user"),
        ((PASSWORD, f"{PASSWORD} x"), None, "refused"),
        ((".t", ".no_such_table"), None, "no such table"),
        (("", ""), "no_such_column > 1", "names a column that the table does not have"),
        (("", ""), "secret::int > 1", "refused"),
        (("", ""), "secret > > 1", "no function of the row"),
        (("", ""), "set_config('x.y', pg_reload_conf()::text, false) > nextval('s')::text", "no function of the row"),
    ],
)
def test_refusals_say_what_to_do_and_quote_neither_a_password_nor_a_value(place, tmp_path, change, where, reason):
    place.run("CREATE TABLE $.t AS SELECT i AS x, 'private-value' AS secret FROM generate_series(1, 9) i")
    uri = place.uri("t", SERVER.replace("postgres@", f"postgres:{PASSWORD}@")).replace(*change)
    with pytest.raises(InvalidInput, match=reason) as refused:
        ingestion.snapshot(source.parse(uri, where=where), tmp_path / "r" / "s.parquet")
    assert PASSWORD not in str(refused.value)
    assert "private-value" not in str(refused.value)
    assert not list((tmp_path / "r").glob("*"))


def test_a_numeric_that_is_not_a_number_is_refused_without_being_quoted(place, tmp_path):
    place.run("CREATE TABLE $.t AS SELECT 'NaN'::numeric(5, 2) AS x, 1 AS y FROM generate_series(1, 9)")
    with pytest.raises(InvalidInput, match="does not fit its column's type"):
        ingestion.snapshot(source.parse(place.uri("t")), tmp_path / "r" / "s.parquet")


def test_a_filter_cannot_write(place, tmp_path):
    place.run("CREATE TABLE $.t AS SELECT i AS x FROM generate_series(1, 9) i")
    place.run("CREATE SEQUENCE $.s")
    body = f"SELECT nextval(''{place.schema}.s'') + i"
    place.run(f"CREATE FUNCTION $.f(i int) RETURNS bigint LANGUAGE sql AS '{body}'")
    for where in (f"x < {place.schema}.f(x)", f"x < nextval('{place.schema}.s')"):
        with pytest.raises(InvalidInput, match=r"\(.*\)['\"] is no function of the row"):
            source.parse(place.uri("t"), where=where)
    assert place.run("SELECT is_called FROM $.s") == [(False,)]


def test_an_error_in_the_middle_of_the_stream_quotes_no_value(place, tmp_path):
    place.run("CREATE TABLE $.t AS SELECT i AS x, 'private-' || i AS y FROM generate_series(1, 9000) i")
    with pytest.raises(InvalidInput, match="the driver refused") as refused:
        ingestion.snapshot(
            source.parse(place.uri("t"), where="CASE WHEN x > 8000 THEN y ELSE '1' END::int > 0"),
            tmp_path / "r" / "s.parquet",
        )
    assert "private" not in str(refused.value)
    assert not list((tmp_path / "r").glob("*"))
