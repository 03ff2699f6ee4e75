"""Runs beside one another: one at a time refreshes a table, a living one is waited for, a dead one is in nobody's way."""

import re
import subprocess
import sys
from contextlib import contextmanager

import dagster as dg
import pytest

from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.orchestration import liveness
from dp_synth_pipeline.orchestration.in_process import instance
from dp_synth_pipeline.reporting import release_card
from dp_synth_pipeline.synthesis import generator_files
from tests.integration.conftest import interrupt, people
from tests.unit.ledger.stores import in_processes

HOLD = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print('held', flush=True); input()"
ASKED = ("synthesize", "t.parquet", "--out", "o.parquet", "--epsilon", 2, "--open-account", "--purpose", "testing")


@contextmanager
def living(path, hold=HOLD):
    """Let another process hold a lock, and kill it (SIGKILL) in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def table(shell):
    people(600).drop(columns="person").to_parquet(shell.folder / "t.parquet")
    return shell


def test_while_one_run_refreshes_a_table_another_is_refused_and_a_dead_one_is_gone_on_with(table, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt(patched, training, "train")
        assert table(*ASKED).code == 130
    (release,) = table.ledger().releases()
    with living(table.folder / "home" / "runs" / f"{release.run_id}.lock"):
        again = table(*ASKED)
        assert again.code == 2, again.text
        assert f"is being refreshed by run {release.run_id[:8]}" in again.text
        resumed = table(*ASKED, "--resume")
        assert resumed.code == 2, resumed.text
        assert "is still under way in another process" in resumed.text
    assert len(table.ledger().releases()) == 1, "nothing more was reserved"
    assert table(*ASKED, "--resume").code == 0


def test_what_was_learnt_survives_a_failure_after_its_settlement(table, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt(patched, generator_files, "release_to")
        done = table(*ASKED)
    assert done.code == 130, done.text
    assert "is paid for, and what it learnt is kept" in done.text
    (release,) = table.ledger().releases()
    assert release.state == "settled"
    trained = []
    monkeypatch.setattr(training, "train", lambda *asked, **named: trained.append(1))
    assert table(*ASKED, "--resume").code == 0
    assert not trained, "nothing is learnt a second time"
    assert table.ledger().releases() == [release]
    assert (table.folder / "o.parquet").exists()
    assert table("card", "verify", table.folder / "home/store/releasable/t/release_card.json").code == 0


def test_what_was_learnt_survives_a_failure_before_its_settlement(table, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt(patched, type(table.ledger()), "settle")
        done = table(*ASKED)
    assert done.code == 130, done.text
    trained = []
    monkeypatch.setattr(training, "train", lambda *asked, **named: trained.append(1))
    assert table(*ASKED, "--resume").code == 0
    assert not trained
    (release,) = table.ledger().releases()
    assert release.state == "settled"
    table.ledger().verify()


def test_a_release_that_was_settled_for_a_crash_releases_nothing_that_it_learnt(table, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt(patched, type(table.ledger()), "settle")
        assert table(*ASKED).code == 130
    (release,) = table.ledger().releases()
    table.ledger().settle(release.id, why="it is not wanted", who="test")
    assert table(*ASKED, "--resume").code == 2
    assert not (table.folder / "o.parquet").exists()


def test_a_release_whose_card_was_not_written_goes_on_from_there(table, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt(patched, release_card, "render_card")
        assert table(*ASKED).code == 130
    written = (table.folder / "o.parquet").stat().st_mtime_ns
    page = table.folder / "home/store/releasable/t/release_card.html"
    assert not page.exists()
    assert table(*ASKED, "--resume").code == 0
    assert page.exists()
    assert (table.folder / "o.parquet").stat().st_mtime_ns == written, "rows that are published stay as they are"
    done = table(*ASKED, "--resume")
    assert (done.code, "to go on with. Run without --resume" in done.text) == (2, True)


def test_the_advice_says_what_is_left_before_a_person_ends_a_release_for_it(table, monkeypatch):
    from dp_synth_pipeline.tabular.profiling import measure

    with monkeypatch.context() as patched:
        interrupt(patched, measure, "measure")
        done = table(*ASKED)
    assert "Then the account can pay for no other release; a person may raise it" in done.text
    (end,) = re.findall(r"dp-synth (ledger settle \S+) --why REASON", done.text)
    assert table(*end.split(), "--why", "lost").code == 0
    assert table(*ASKED).code == 3

    table("ledger", "open", "roomy", "--epsilon", 3)
    roomy = (
        "synthesize",
        "t.parquet",
        "--out",
        "r.parquet",
        "--epsilon",
        2,
        "--account",
        "roomy",
        "--purpose",
        "testing",
    )
    with monkeypatch.context() as patched:
        interrupt(patched, measure, "measure")
        done = table(*roomy)
    (end,) = re.findall(r"dp-synth (ledger settle \S+) --why REASON", done.text)
    said = re.search(r"one more release of epsilon ([\d.]+) at most", done.text)
    another = "can pay for another such release" in done.text
    assert table(*end.split(), "--why", "lost").code == 0
    fits = 2.0 if another else float(said.group(1))
    assert table("ledger", "can", "roomy", "--epsilon", fits).code == 0


def no_run_yet():
    with instance() as found:
        assert found.get_runs() == []


def test_dagsters_tables_are_made_once_however_many_processes_begin_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert in_processes(4, no_run_yet) == [0] * 4


def test_a_run_whose_process_is_gone_is_marked_as_failed_and_its_slots_are_free(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("concurrency:\n  pools:\n    default_limit: 1\n")
    job = dg.Definitions(jobs=[dg.GraphDefinition("nothing").to_job()]).resolve_job_def("nothing")
    with instance() as before:
        here, locks = liveness.socket.gethostname(), [tmp_path / "another home" / f"{i}.lock" for i in range(3)]
        runs = [
            before.create_run_for_job(
                job, status=dg.DagsterRunStatus.STARTED, tags={liveness.HOST: host, liveness.LOCK: str(lock)}
            )
            for host, lock in zip((here, here, "elsewhere"), locks, strict=True)
        ]
        before.event_log_storage.initialize_concurrency_limit_to_default("gpu")
        before.event_log_storage.claim_concurrency_slot("gpu", runs[0].run_id, "step")
    locks[1].parent.mkdir()
    with living(locks[1]), instance() as after:
        states = [after.get_run_by_id(run.run_id).status.value for run in runs]
        assert states == ["FAILURE", "STARTED", "STARTED"]
        assert not after.event_log_storage.get_concurrency_info("gpu").active_slot_count
        assert [liveness.is_alive(after, run.run_id) for run in runs] == [False, True, True]
