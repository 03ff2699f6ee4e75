"""Planted values: DESIGN section 9, number 17. Whatever happens, they stay in the restricted store; purged, nowhere.

Each test plants a value, lets a run succeed or makes a library fail on that very value, and then searches every file under
DAGSTER_HOME: event logs, compute logs, storage, ledger, store; as text, and as the bytes of a number.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import absl.logging
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from tests.integration.conftest import (
    people,
    shell,  # noqa: F401
)
from tests.integration.test_command_line import GOOD, write
from tests.light import GRID, light  # noqa: F401

WORD = "KANARIENVOGEL"
NUMBER = 98765432.1
BIG = 9765432109876543


@pytest.fixture
def home(shell, monkeypatch):  # noqa: F811
    """A command line whose runs are kept in a DAGSTER_HOME on disk, with store and ledger in it."""
    folder = shell.folder / "dagster_home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}")
    monkeypatch.delenv("DP_SYNTH_HOME")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    # Dagster closes all log handlers when a run starts, and this one would take pytest's own stream with it.
    monkeypatch.setattr(absl.logging.PythonHandler, "close", lambda self: None)
    shell.home = folder
    return shell


def traces(folder: Path, *secrets: object) -> set[str]:
    """Names of the files under a folder in which a secret is found."""
    wanted = []
    for secret in secrets:
        wanted.append(str(secret).encode())
        if isinstance(secret, float):
            wanted.append(struct.pack("<d", secret))
        if isinstance(secret, int):
            wanted.append(struct.pack("<q", secret))
    found = set()
    for file in (f for f in folder.rglob("*") if f.is_file()):
        seen = file.read_bytes()
        if file.suffix == ".parquet":  # compressed, so that its bytes alone would tell nothing
            seen += pq.read_table(file).to_pandas().to_csv().encode()
        if any(one in seen for one in wanted) or (file.suffix == ".safetensors" and _singles(seen) & set(secrets)):
            found.add(str(file.relative_to(folder)))
    return found


def _singles(seen: bytes) -> set[object]:
    """Return the planted number if it lies among weights in single precision.

    Anywhere else four bytes are as likely to be compressed or encrypted ones: a megabyte holds any four once in 4,000 runs.
    """
    return {NUMBER} if np.float32(NUMBER) in np.frombuffer(seen[: len(seen) // 4 * 4], "<f4") else set()


def unrestricted(folder: Path, *secrets: object) -> set[str]:
    return {name for name in traces(folder, *secrets) if not name.startswith("store/restricted/")}


def refresh(home, source, *args, epsilon=2):
    return home(
        "synthesize", source, "--out", "o.parquet", "--epsilon", epsilon, "--account", "t", "--open-account", *args,
        "--purpose", "testing",
    )  # fmt: skip


def test_the_search_finds_what_is_there(tmp_path):
    pq.write_table(pa.table({"x": [WORD], "y": [NUMBER]}), tmp_path / "a.parquet", compression="zstd")
    (tmp_path / "b.bin").write_bytes(b"..." + struct.pack("<d", NUMBER))
    (tmp_path / "c.bin").write_bytes(struct.pack("<q", BIG))
    save_file({"w": np.array([0.5, NUMBER, 2.5], np.float32)}, tmp_path / "d.safetensors")
    assert traces(tmp_path, WORD) == {"a.parquet"}
    assert traces(tmp_path, NUMBER) == {"a.parquet", "b.bin", "d.safetensors"}
    assert traces(tmp_path, BIG) == {"c.bin"}


def test_a_whole_run_leaves_planted_values_in_restricted_files_only_and_after_a_purge_nowhere(home):
    frame = people(1200)
    frame["secret"] = "filler"
    frame.loc[7, ["city", "income", "secret"]] = [f"{WORD}-CITY", NUMBER, f"{WORD}-EXCLUDED"]
    frame.to_parquet(home.folder / "t.parquet")
    done = refresh(home, "t.parquet", "--exclude", "secret", "--exclude", "person", epsilon=4)
    assert done.code == 0, done.err
    assert WORD not in done.text
    assert traces(home.home, f"{WORD}-CITY", NUMBER)  # the snapshot holds them
    assert not traces(home.home, f"{WORD}-EXCLUDED")  # what is excluded is never copied
    assert unrestricted(home.home, WORD, NUMBER) == set()
    assert not traces(home.folder / "dagster_home/store/releasable", WORD, NUMBER)
    assert f"{WORD}-CITY" not in set(pd.read_parquet(home.folder / "o.parquet")["city"])
    assert home("purge", "--all", "--yes").code == 0
    assert traces(home.home, WORD, NUMBER) == set()


def _bad_cast(folder):
    lines = [*GOOD * 80, f"{WORD},a,0.5", *GOOD]
    return write(folder / "t.csv", "age,g,x", *lines)


def _bad_line(folder):
    return write(folder / "t.csv", "age,g,x", *GOOD, f"30,{WORD},0.5,9", *GOOD)


def _bad_unicode(folder):
    path = folder / "t.csv"
    bad = f"30,{WORD}".encode() + b"\xff\xfe\xc3,0.5\n"
    path.write_bytes(b"age,g,x\n" + "\n".join(GOOD).encode() + b"\n" + bad + "\n".join(GOOD).encode() + b"\n")
    return path


def _overflow(folder):
    seconds = np.arange(1000) % 50
    seconds[7] = BIG
    table = pa.table({"age": np.arange(1000) % 60, "took": pa.array(seconds, pa.duration("s"))})
    # Parquet keeps seconds as bare integers; its footer says what they are.
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def _far_date(folder):
    stamps = np.arange(1000, dtype=np.int64) * 1000
    stamps[7] = BIG
    pq.write_table(
        pa.table({"age": np.arange(1000) % 60, "at": pa.array(stamps, pa.timestamp("ms"))}), folder / "t.parquet"
    )
    return folder / "t.parquet"


def _bad_view(folder):
    with duckdb.connect(str(folder / "d.duckdb")) as con:
        con.execute("CREATE TABLE raw AS SELECT range % 9 AS age, CAST(range % 5 AS VARCHAR) AS n FROM range(900)")
        con.execute(f"INSERT INTO raw VALUES (3, '{WORD}')")
        con.execute("CREATE VIEW t AS SELECT age, CAST(n AS INTEGER) AS n FROM raw")
    return f"duckdb:///{folder / 'd.duckdb'}?table=t"


SOURCES = {f.__name__.strip("_"): f for f in (_bad_cast, _bad_line, _bad_unicode, _overflow, _far_date, _bad_view)}

READ = ("bad_cast", "bad_line", "bad_unicode", "overflow")
"""Those of which every other row is read, since one that is odd is a fact about somebody."""


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_on_which_a_library_fails_is_told_without_its_value(home, name):
    done = refresh(home, SOURCES[name](home.folder))
    assert done.code in ((0,) if name in READ else (1, 2))
    assert "Traceback" not in done.text
    for secret in (WORD, BIG):
        assert str(secret) not in done.text
    assert unrestricted(home.home, WORD, BIG) == set()


@pytest.mark.parametrize("name", SOURCES)
def test_discovering_the_schema_of_such_a_source_tells_no_value_either(home, name):
    source = SOURCES[name](home.folder)
    told = []
    for command in (["show", source], ["infer", source, "--epsilon", 1, "--account", "t", "--open-account"]):
        done = home("schema", *command)
        told.append(done.code)
        assert "Traceback" not in done.text
        for secret in (WORD, BIG):
            assert str(secret) not in done.text
    assert told[1] in ((0,) if name in READ else (1, 2))
    assert unrestricted(home.home, WORD, BIG) == set()


PLACES = [
    ("dp_synth_pipeline.tabular.sources.ingestion", "_digest"),
    ("dp_synth_pipeline.tabular.profiling.measure", "measure"),
    ("dp_synth_pipeline.tabular.encoding.nulls", "complete"),
    ("dp_synth_pipeline.tabular.encoding.codec.TableCodec", "encode"),
    ("dp_synth_pipeline.model.dpsgd.training", "train"),
    ("dp_synth_pipeline.tabular.encoding.codec.TableCodec", "decode"),
    ("dp_synth_pipeline.reporting.table_checks", "validate"),
    ("dp_synth_pipeline.validation.fidelity", "compare"),
    ("dp_synth_pipeline.reporting.release_card", "render_card"),
]
ERRORS = {
    "pandas": lambda: pd.to_datetime(pd.Series([WORD])),
    "pyarrow": lambda: pa.array([WORD]).cast(pa.int64()),
    "duckdb": lambda: duckdb.sql(f"SELECT CAST('{WORD}' AS INTEGER)").fetchall(),
}


def _failing(kind):
    def broken(*args, **kwargs):
        try:
            ERRORS[kind]()
        except Exception as error:
            raise ValueError(f"while looking at {WORD}") from error

    return broken


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_a_library_that_fails_anywhere_in_the_chain_quotes_nothing_in_the_event_log(home, monkeypatch, place, name):
    people(600).drop(columns="person").to_parquet(home.folder / "t.parquet")
    kind = list(ERRORS)[len(name) % len(ERRORS)]
    monkeypatch.setattr(f"{place}.{name}", _failing(kind))
    done = refresh(home, "t.parquet", epsilon=4)
    # What fails while rows are read ends in one sentence; what fails in the owner's report ends nothing.
    assert done.code == {"_digest": 2, "compare": 0}.get(name, 1)
    assert WORD not in done.text
    assert unrestricted(home.home, WORD) == set()


DEFINITIONS = """
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.tabular.encoding import nulls

def broken(*args, **kwargs):
    print("nothing to see")
    raise ValueError("while looking at " + "{word}")

if {fail}:
    nulls.complete = broken
accountant.DISCRETISATION = {grid}
defs = build_defs([TableSettings(table="t", source={source!r}, account="t", epsilon=4.0, training={{"max_epochs": 1}},
                                 columns={{"person": {{"kind": "excluded"}}}})])
"""


@pytest.mark.parametrize("fail", [True, False], ids=["failing", "passing"])
def test_the_captured_logs_of_a_dagster_run_hold_no_planted_value(home, fail):
    frame = people(600)
    frame.loc[7, ["city", "income"]] = [WORD, NUMBER]
    frame.to_parquet(home.folder / "t.parquet")
    assert home("ledger", "open", "t", "--epsilon", 9).code == 0
    source = str(home.folder / "t.parquet")
    (home.folder / "defs.py").write_text(DEFINITIONS.format(word=WORD, fail=fail, grid=GRID, source=source))
    select = "key:t/ingested+" if not fail else "key:t/ingested or key:t/profile or key:t/completed"
    # Steps that fail do so in processes of their own, from which tracebacks are passed on; the other run is one process.
    config = [] if fail else ["--config-json", '{"execution": {"config": {"in_process": {}}}}']
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "asset", "materialize", "--select", select, "-f", "defs.py", *config],
        cwd=home.folder, env={**os.environ, "DP_SYNTH_DEBUG": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == fail, done.stderr[-2000:]
    logs = [f for f in home.home.rglob("*") if f.suffix in (".err", ".out")]
    assert logs  # or there would be nothing to search
    assert WORD not in done.stdout + done.stderr
    assert unrestricted(home.home, WORD, NUMBER) == set()
    assert home("purge", "--all", "--yes").code == 0
    assert traces(home.home, WORD, NUMBER) == set()


def test_a_run_in_a_home_without_settings_sends_nothing_anywhere(home):
    (home.home / "dagster.yaml").unlink()
    done = refresh(home, "nothing.parquet")
    assert done.code == 2  # no run yet
    people(300).drop(columns="person").head(1).to_parquet(home.folder / "t.parquet")
    done = refresh(home, "t.parquet")
    assert done.code in (0, 2), "noise decides whether one row can be learnt"
    assert "elemetry" not in done.text
    assert not list(home.home.rglob("event.log"))
    assert list((home.home / "history").rglob("*.db"))  # and yet there was a run
