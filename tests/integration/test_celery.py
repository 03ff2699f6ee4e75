"""A run through a real Celery worker and Redis, whose queue delivers steps again while they run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.reconstruct import ReconstructableJob

from dp_synth_pipeline.ledger import Ledger
from tests.integration.conftest import people
from tests.light import light_but_for_costs  # noqa: F401

BROKER = os.environ.get("DP_SYNTH_TEST_REDIS", "redis://127.0.0.1:6379/15")
APP = "dp_synth_pipeline.orchestration.executors.celery_worker"
JOBS = Path(__file__).with_name("celery_jobs.py")


@pytest.fixture
def queue():
    """Settings of a queue of its own that delivers every task again after two seconds; its keys are deleted afterwards."""
    redis = pytest.importorskip("redis", reason="the extra celery is not installed")
    pytest.importorskip("dagster_celery", reason="the extra celery is not installed")
    client = redis.Redis.from_url(BROKER, socket_connect_timeout=3)
    try:
        client.ping()
    except redis.RedisError:
        pytest.skip("no Redis server; set DP_SYNTH_TEST_REDIS")
    prefix = f"dp-synth-test-{uuid.uuid4().hex}:"
    again = {"visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    source = {
        "broker_transport_options": {"global_keyprefix": prefix, **again},
        "result_backend_transport_options": {"global_keyprefix": prefix},
        "task_acks_late": True,
    }
    yield {"broker": BROKER, "backend": BROKER, "config_source": source}
    for key in client.scan_iter(f"{prefix}*"):
        client.delete(key)


@pytest.fixture
def home(tmp_path, monkeypatch, queue):
    """A folder with a table, an open account and an instance, to which run and worker both come by the environment."""
    people().to_parquet(tmp_path / "people.parquet")
    Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}").open_account("people", epsilon=10.0, delta=1e-4)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (tmp_path / "celery.yaml").write_text(yaml.safe_dump({"execution": {"config": queue}}))
    facts = {"DAGSTER_HOME": tmp_path / "home", "CELERY_FOLDER": tmp_path, "CELERY_QUEUE": json.dumps(queue)}
    for name, value in {**facts, "OMP_NUM_THREADS": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with dg.DagsterInstance.get() as instance:  # its SQLite files are made by one process, before several open them
        assert not instance.all_instigator_state()
    return tmp_path


class Worker:
    """A worker as the documentation starts it, for both queues, two tasks at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        program = shutil.which("dagster-celery", path=str(Path(sys.executable).parent))
        assert program is not None
        options = ["-A", APP, "-y", str(self.folder / "celery.yaml"), "-q", "dagster,gpu", "--", "-c", "2"]
        path = os.pathsep.join([str(Path(program).parent), os.environ["PATH"]])
        self.log = (self.folder / "worker.log").open("w")
        self.process = subprocess.Popen(
            [program, "worker", "start", *options],
            env={**os.environ, "PATH": path},
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


def ran(folder: Path) -> tuple[bool, list[dg.EventLogEntry], Ledger]:
    """Run the job; return whether it succeeded, its log, and the ledger."""
    with Worker(folder), dg.DagsterInstance.get() as instance:
        job = ReconstructableJob.for_file(str(JOBS), "delivered")
        with dg.execute_job(job, instance=instance, raise_on_error=False) as result:
            return result.success, instance.all_logs(result.run_id), Ledger.open(f"sqlite:///{folder / 'ledger.db'}")


def test_a_training_that_is_delivered_twice_runs_once_is_charged_once_and_its_run_succeeds(home):
    success, log, ledger = ran(home)
    assert success, (home / "worker.log").read_text()[-2000:]
    dropped = [e.step_key for e in log if e.dagster_event and "delivered before" in (e.dagster_event.message or "")]
    assert "people__generator" in dropped
    begun = [e.step_key for e in log if e.dagster_event and e.dagster_event.is_step_start]
    assert len(begun) == len(set(begun)) == 4
    assert [e.mechanism for e in ledger.entries()] == ["row count", "profile", "training"]
    (release,) = ledger.releases()
    assert (release.state, release.final_epsilon <= 4.0) == ("settled", True)
    assert ledger.balance("people").cost_spent == release.charged_cost
    ledger.verify()
