"""The routing executor with real processes: slots declared, no GPU needed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableJob

from tests.integration import routing_jobs as jobs

FILE = Path(jobs.__file__)


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "told").mkdir()
    (tmp_path / "home/dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(jobs.TOLD, str(tmp_path / "told"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@contextmanager
def ran(name: str):
    with dg.DagsterInstance.get() as instance:
        job = ReconstructableJob.for_file(str(FILE), name)
        yield dg.execute_job(job, instance=instance, raise_on_error=False)


def told(name: str) -> dict:
    return json.loads(jobs.told(name).read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_one_job_mixes_cpu_and_gpu_steps_and_a_step_that_waits_for_a_gpu_blocks_no_other(home):
    with ran("mixed") as result:
        assert result.success
    facts = {name: told(f"gpu_{name}") for name in "abc"}
    assert told("cpu")["gpus"] == ""
    assert {f["gpus"] for f in facts.values()} == {"0", "1"}
    for gpu in "01":  # never two steps on one GPU at a time
        on_it = sorted((f["begun"], f["ended"]) for f in facts.values() if f["gpus"] == gpu)
        assert all(one[1] <= other[0] for one, other in pairwise(on_it))


def test_a_killed_step_is_noticed_in_seconds_frees_its_gpu_is_retried_as_declared_and_stops_what_follows(home):
    with ran("deadly") as result:
        failed = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
        kinds = [(e.event_type_value, e.step_key) for e in result.all_events if e.event_type_value.startswith("STEP_")]
        (noticed,) = _times(result.run_id, "STEP_FAILURE")
    assert not result.success
    assert told("attempt_0")["gpus"] == told("attempt_1")["gpus"] == "0"  # the only slot, free again after a kill -9
    assert kinds.count(("STEP_UP_FOR_RETRY", "dies_once")) == 1
    assert ("STEP_SUCCESS", "dies_once") in kinds
    assert [e.step_key for e in failed] == ["dies"]
    assert "SIGKILL" in failed[0].step_failure_data.error.message
    assert "137" in failed[0].step_failure_data.error.message
    assert 0 <= noticed - told("died")["at"] < 10
    assert not jobs.told("downstream").exists()


def _times(run_id: str, kind: str) -> list[float]:
    with dg.DagsterInstance.get() as instance:
        log = instance.all_logs(run_id)
    return [e.timestamp for e in log if e.dagster_event and e.dagster_event.event_type_value == kind]


def test_cancel_ends_the_step_and_its_own_workers_and_starts_nothing_else(home):
    command = [sys.executable, "-m", "dagster", "job", "execute", "-f", str(FILE), "-a", "endless"]
    run = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        jobs.wait_for("stubborn", 90)
        time.sleep(0.2)
        pids = told("stubborn")
        run.send_signal(signal.SIGINT)
        run.wait(timeout=60)
    finally:
        run.kill()
    assert run.returncode != 0
    assert not alive(pids["pid"])
    assert not alive(pids["worker"])
    assert not jobs.told("never").exists()


@pytest.fixture
def ray_address(home, monkeypatch):
    """A Ray that runs on this machine and declares one GPU."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("dagster_ray")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    context = ray.init(num_cpus=2, num_gpus=1, include_dashboard=True, log_to_driver=False)
    address = f"http://{context.dashboard_url}"
    monkeypatch.setenv("ROUTING_RAY", address)
    monkeypatch.setattr(jobs, "RAY", {"address": address})
    yield address
    ray.shutdown()


@pytest.mark.slow
def test_one_job_mixes_local_cpu_local_gpu_and_ray_and_notices_a_death_there(ray_address):
    with ran("three_engines") as result:
        failed = [e.step_key for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
        (noticed,) = _times(result.run_id, "STEP_FAILURE")
    assert failed == ["dies_on_ray"]
    assert told("cpu")["gpus"] == ""
    assert told("local_gpu")["gpus"] == "0"
    assert told("on_ray")["gpus"] == "0"
    assert noticed - told("died_on_ray")["at"] < 20
    assert not jobs.told("downstream").exists()


@pytest.mark.slow
def test_cancel_stops_the_job_on_ray(ray_address):
    command = [sys.executable, "-m", "dagster", "job", "execute", "-f", str(FILE), "-a", "long"]
    run = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        jobs.wait_for("long_on_ray", 90)
        pid = told("long_on_ray")["pid"]
        run.send_signal(signal.SIGINT)
        run.wait(timeout=60)
    finally:
        run.kill()
    until = time.monotonic() + 20
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive(pid)
    assert not jobs.told("never").exists()


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
"""
LAUNCHER = """
telemetry: {enabled: false}
run_launcher:
  module: dagster_k8s
  class: K8sRunLauncher
  config: {service_account_name: dagster, instance_config_map: dagster-instance, load_incluster_config: false,
           dagster_home: /home, postgres_password_secret: secret}
"""


def test_a_pod_is_asked_for_what_the_step_declared_and_its_command_runs_the_step(home, monkeypatch):
    client = pytest.importorskip("dagster_k8s.client").DagsterKubernetesClient
    (home / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(home / "kubeconfig"))
    (home / "home/dagster.yaml").write_text(LAUNCHER)
    bodies = []

    def create(self, body, namespace, **rest):  # no cluster here: run what the pod would run
        bodies.append(body)
        (container,) = body.spec.template.spec.containers
        given = {v.name: v.value for v in container.env if v.value and v.name != "DAGSTER_HOME"}
        subprocess.run(container.args, env={**os.environ, **given}, check=True, cwd=Path(__file__).parents[2])

    monkeypatch.setattr(client, "create_namespaced_job_with_retries", create)
    with ran("in_pods") as result:
        assert result.success
    (body,) = bodies
    pod = body.spec.template.spec
    (container,) = pod.containers
    assert container.image == "image:1"
    assert container.resources.limits == {"nvidia.com/gpu": "2", "memory": "16384Mi"}
    assert container.resources.requests == {"memory": "16384Mi"}
    assert pod.node_selector == {"pool": "gpu"}
    assert [t.key for t in pod.tolerations] == ["gpu"]
    assert jobs.told("in_a_pod").exists()
    assert jobs.told("cpu").exists()


TABLE = """
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import TableSettings

facts = dict(account="people", epsilon=4.0, columns={{"person": {{"kind": "excluded"}}}}, training={{"max_epochs": 1}})
compute = {{"training": {{"gpus": 1, "cpus": 1}}, "generation": {{"cpus": 1}}}}
table = TableSettings(table="people", source={source!r}, compute=compute, **facts)
people_refresh = build_defs([table], ledger={url!r}, store={store!r}).resolve_job_def("people_refresh")
"""


@pytest.mark.slow
def test_a_whole_table_is_refreshed_step_by_step_in_processes_and_charged_once(home, bench):
    (home / "table.py").write_text(
        TABLE.format(source=str(bench.folder / "people.parquet"), url=bench.url, store=str(bench.store))
    )
    config = {"execution": {"config": {"local": {"gpus": 1}}}}
    with dg.DagsterInstance.get() as instance:
        job = ReconstructableJob.for_file(str(home / "table.py"), "people_refresh")
        result = dg.execute_job(job, instance=instance, run_config=config, raise_on_error=False)
        spans = {e.dagster_event.step_key: e.message for e in instance.all_logs(result.run_id) if _starts(e)}
    assert result.success
    assert spans["people__generator"].endswith("with GPU 0.")
    assert spans["people__ingested"].endswith("with no GPU.")
    (release,) = bench.ledger.releases("people")
    assert release.state == "settled"


def _starts(entry) -> bool:
    return entry.dagster_event is not None and entry.dagster_event.event_type_value == "STEP_WORKER_STARTING"
