"""Readers see the old table or the new one; a failure leaves the old one and nothing else."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.targets import sink

pytestmark = pytest.mark.slow

OLD = pa.table({"x": [1, 2, 3]})
NEW = pa.table({"x": [7, 8], "y": ["a", None]})


def batches(table: pa.Table, then: Exception | None = None) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    if then is not None:
        raise then


def only(folder: Path, *names: str) -> None:
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)


def read_duckdb(path: Path, table: str = "t") -> list[tuple]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(f"SELECT * FROM {table}").fetchall()


def test_a_parquet_file_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "t.parquet"
    assert sink.write_parquet(batches(OLD), OLD.schema, target) == 3
    assert sink.write_parquet(batches(NEW), NEW.schema, target) == 2
    assert pq.read_table(target).equals(NEW)
    only(target.parent, "t.parquet")


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), InvalidInput("no")], ids=repr)
def test_a_failure_halfway_leaves_the_old_file_and_no_other(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "t.parquet"
    pq.write_table(OLD, target)
    with pytest.raises(type(error)):
        sink.write_parquet(batches(NEW, error), NEW.schema, target)  # type: ignore[arg-type]
    assert pq.read_table(target).equals(OLD)
    only(tmp_path, "t.parquet")


def test_a_reader_of_the_old_file_keeps_it_to_the_end(tmp_path: Path) -> None:
    target = tmp_path / "t.parquet"
    pq.write_table(OLD, target)
    with target.open("rb") as reader:
        sink.write_parquet(batches(NEW), NEW.schema, target)
        assert pq.read_table(reader).equals(OLD)
    assert pq.read_table(target).equals(NEW)


def test_a_batch_of_another_schema_is_an_error_that_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "t.parquet"
    pq.write_table(OLD, target)
    with pytest.raises((InvalidInput, ValueError)):
        sink.write_parquet(batches(NEW), OLD.schema, target)
    assert pq.read_table(target).equals(OLD)
    only(tmp_path, "t.parquet")


def test_text_is_replaced_whole(tmp_path: Path) -> None:
    sink.write_text("old", tmp_path / "card.json")
    assert sink.write_text("neu ü", tmp_path / "card.json").read_text(encoding="utf-8") == "neu ü"
    only(tmp_path, "card.json")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.pq"])
def test_a_synthetic_file_is_published_as_a_file(tmp_path: Path, name: str) -> None:
    pq.write_table(NEW, tmp_path / "synthetic.parquet")
    (tmp_path / name).write_text("old")
    assert sink.publish(tmp_path / "synthetic.parquet", str(tmp_path / name)) == str(tmp_path / name)
    if name.endswith("csv"):
        assert (tmp_path / name).read_text().splitlines() == ["x,y", "7,a", "8,"]
    else:
        assert pq.read_table(tmp_path / name).equals(NEW)
    only(tmp_path, "synthetic.parquet", name)


@pytest.mark.parametrize("table", ["t", "main.t", "other.t", 'other."odd"', "select"])
def test_a_duckdb_table_is_replaced_and_its_neighbours_are_left(tmp_path: Path, table: str) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE neighbour AS SELECT 42 AS a")
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    pq.write_table(NEW, tmp_path / "s.parquet")
    sink.publish(tmp_path / "s.parquet", f"duckdb:///{path}?table={table}")
    parts = ".".join('"' + p.replace('"', '""') + '"' for p in table.split("."))
    assert read_duckdb(path, parts) == [(7, "a"), (8, None)]
    assert read_duckdb(path, "neighbour") == [(42,)]
    with duckdb.connect(str(path)) as con:
        names = [r[0] for r in con.execute("SELECT table_name FROM information_schema.tables").fetchall()]
    assert not [n for n in names if n.startswith("__next")]


def test_a_failure_while_swapping_leaves_the_old_duckdb_table(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.execute("CREATE VIEW __next_t AS SELECT 5 AS a")  # a name that the swap needs, taken by a view
    pq.write_table(NEW, tmp_path / "s.parquet")
    with pytest.raises(InvalidInput, match="What was there is intact"):
        sink.publish(tmp_path / "s.parquet", f"duckdb:///{path}?table=t")
    assert read_duckdb(path) == [(1,)]


def test_a_synthetic_file_that_is_gone_is_an_error_that_leaves_the_old_table(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    (tmp_path / "t.csv").write_text("old")
    for target in (f"duckdb:///{path}?table=t", str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")):
        with pytest.raises(InvalidInput):
            sink.publish(tmp_path / "gone.parquet", target)
    assert read_duckdb(path) == [(1,)]
    assert (tmp_path / "t.csv").read_text() == "old"
    only(tmp_path, "d.duckdb", "t.csv")


@pytest.mark.parametrize("target", ["t.xlsx", "t", "duckdb:///x.duckdb", "duckdb:///?table=t"])
def test_an_unknown_target_is_refused_with_the_known_forms(tmp_path: Path, target: str) -> None:
    pq.write_table(NEW, tmp_path / "s.parquet")
    with pytest.raises(InvalidInput, match="duckdb:///"):
        sink.publish(tmp_path / "s.parquet", target)


LIMITED = """
import resource, signal, sys
from pathlib import Path
import pyarrow as pa, numpy as np
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.targets import sink

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
folder, kind = Path(sys.argv[1]), sys.argv[2]
noise = pa.record_batch({"x": np.random.default_rng().random(100_000)})
try:
    if kind == "stream":
        sink.write_parquet(iter([noise] * 20), noise.schema, folder / "t.parquet")
    elif kind == "duckdb":
        sink.publish(folder / "big.parquet", f"duckdb:///{folder}/d.duckdb?table=t")
    else:
        sink.publish(folder / "big.parquet", str(folder / f"t.{kind}"))
except InvalidInput as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("kind", ["stream", "parquet", "csv"])
def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path, kind: str) -> None:
    """The operating system stops writes at 200 kB, in a process of its own."""
    target = tmp_path / ("t.csv" if kind == "csv" else "t.parquet")
    pq.write_table(OLD, target)
    old = target.read_bytes()
    pq.write_table(pa.table({"x": np.random.default_rng().random(100_000)}), tmp_path / "big.parquet")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stdout
    assert "intact" in done.stdout
    assert target.read_bytes() == old
    only(tmp_path, target.name, "big.parquet")


def test_a_table_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    pq.write_table(pa.table({"x": np.random.default_rng().random(100_000)}), tmp_path / "big.parquet")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.replace("200_000", "600_000"), str(tmp_path), "duckdb"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "What was there is intact" in done.stdout
    assert read_duckdb(tmp_path / "d.duckdb") == [(1,)]


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pq.write_table(OLD, tmp_path / "t.parquet")
    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(InvalidInput, match=r"the disk is full\. Free some space; what was there is intact"):
        sink.write_parquet(batches(NEW), NEW.schema, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(OLD)
    only(tmp_path, "t.parquet")


def test_a_target_is_checked_before_anything_is_spent_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.check_writable(str(tmp_path / "new" / "deep" / "t.parquet"))
    with pytest.raises(InvalidInput, match="the disk is full"):
        sink.check_writable(str(tmp_path / "t.parquet"), needed=2**62)
    with pytest.raises(InvalidInput, match="is a folder"):
        sink.check_writable(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="not a folder"):
        sink.check_writable(str(tmp_path / "file" / "t.parquet"))
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InvalidInput, match="not a folder that you may write to"):
        sink.check_writable(str(tmp_path / "t.parquet"))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("form", ["csv", "duckdb"])
def test_durations_come_out_as_intervals_wherever_they_are_published(tmp_path: Path, form: str) -> None:
    table = pa.table({"took": pa.array([90_000_000, None, -1_000_000], pa.duration("us"))})
    pq.write_table(table, tmp_path / "s.parquet")
    if form == "csv":
        sink.publish(tmp_path / "s.parquet", str(tmp_path / "out.csv"))
        assert (tmp_path / "out.csv").read_text().splitlines() == ["took", "00:01:30", "", "-00:00:01"]
    else:
        sink.publish(tmp_path / "s.parquet", f"duckdb:///{tmp_path / 'w.duckdb'}?table=main.t")
        with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as con:
            assert con.execute("SELECT typeof(took), epoch(took) FROM t").fetchall()[0] == ("INTERVAL", 90.0)


OPEN = "import sys, duckdb; con = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"


@pytest.fixture
def busy(tmp_path: Path):
    """A DuckDB file that another process has open; yields its path and that process."""
    path = tmp_path / "busy.duckdb"
    command = [sys.executable, "-c", OPEN, str(path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    yield path, other
    other.kill()
    other.wait()


def test_a_duckdb_file_that_another_process_has_open_is_waited_for_and_said(tmp_path: Path, busy) -> None:
    path, other = busy
    pq.write_table(NEW, tmp_path / "s.parquet")
    said: list[str] = []

    def told(why: str) -> None:
        said.append(why)
        other.kill()  # a lock of the operating system dies with its process, however it ends

    sink.publish(tmp_path / "s.parquet", f"duckdb:///{path}?table=t", told)
    assert said == ["waits for busy.duckdb, which another program has open"]
    assert read_duckdb(path) == [(7, "a"), (8, None)]


def test_waiting_for_a_duckdb_file_has_a_limit_and_a_next_step(tmp_path: Path, busy, monkeypatch) -> None:
    path, _ = busy
    pq.write_table(NEW, tmp_path / "s.parquet")
    monkeypatch.setattr(sink, "WAIT_SECONDS", 0.3)
    for wait in (
        lambda: sink.publish(tmp_path / "s.parquet", f"duckdb:///{path}?table=t"),
        lambda: sink.check_writable(f"duckdb:///{path}?table=t"),
    ):
        with pytest.raises(
            InvalidInput, match="another program has had it open for 0 s; close it there, and run again"
        ):
            wait()


def test_waiting_for_a_duckdb_file_ends_on_ctrl_c(tmp_path: Path, busy, monkeypatch) -> None:
    path, _ = busy
    pq.write_table(NEW, tmp_path / "s.parquet")
    said: list[str] = []

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sink, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        sink.publish(tmp_path / "s.parquet", f"duckdb:///{path}?table=t", said.append)
    assert len(said) == 1


def test_a_duckdb_target_that_is_no_database_is_noticed_before_anything_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    path.write_bytes(b"no database" * 999)
    with pytest.raises(InvalidInput, match="is it a DuckDB database"):
        sink.check_writable(f"duckdb:///{path}?table=t")
    assert path.read_bytes() == b"no database" * 999
