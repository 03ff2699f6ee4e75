"""How the router hands out steps, with engines that only take notes."""

import builtins
import json
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.executor.step_delegating import CheckStepHealthResult, StepHandler

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.gpus import GpuSlots
from dp_synth_pipeline.orchestration.executors import engines, local
from dp_synth_pipeline.orchestration.executors.compute import COMPUTE, K8S, RAY, Compute
from dp_synth_pipeline.orchestration.executors.local import Child, LocalStepHandler
from dp_synth_pipeline.orchestration.executors.routing import RoutingStepHandler


class Notes(StepHandler):
    """An engine that writes down what it was asked, and reads tags as dagster-ray and dagster-k8s do."""

    name = "Notes"

    def __init__(self):
        self.calls = []

    def launch_step(self, step_handler_context):
        self.calls.append(("launch", step_handler_context.step_tags["s"]))
        yield from ()

    def check_step_health(self, step_handler_context):
        self.calls.append(("health", step_handler_context.step_tags["s"]))
        return CheckStepHealthResult.unhealthy("gone")

    def terminate_step(self, step_handler_context):
        self.calls.append(("terminate", step_handler_context.step_tags["s"]))
        yield from ()


def context(step=None, run=None, key="s", log=()):
    record = [SimpleNamespace(event_log_entry=SimpleNamespace(step_key=k, timestamp=t)) for k, t in log]
    instance = SimpleNamespace(get_records_for_run=lambda run_id, of_type: SimpleNamespace(records=record))
    args = SimpleNamespace(step_keys_to_execute=[key], run_id="r", get_command_env=list)
    tags = {key: {} if step is None else {COMPUTE: json.dumps(step)}}
    return SimpleNamespace(
        step_tags=tags,
        dagster_run=SimpleNamespace(tags={} if run is None else {COMPUTE: json.dumps(run)}),
        execute_step_args=args,
        instance=instance,
        get_step_context=lambda _: None,
    )


def router(every_seconds=0.0, default=None):
    notes = {"ray": Notes(), "k8s": Notes()}
    here = SimpleNamespace(placed=[], place=lambda context, compute: here.placed.append(compute))
    return RoutingStepHandler(here, notes.__getitem__, default or Compute(), every_seconds), here, notes


def test_each_step_goes_to_the_engine_of_its_own_tag_and_the_engine_is_made_only_when_asked_for():
    made = []
    handler, here, notes = router()
    handler._engine = lambda target: made.append(target) or notes[target]
    list(handler.launch_step(context(step={"gpus": 1}, run={"target": "k8s"})))
    assert here.placed == [Compute(gpus=1)]
    assert made == []
    list(handler.launch_step(context(step={"target": "ray"})))
    list(handler.launch_step(context(step={"target": "ray"})))
    assert made == ["ray"]


def test_an_engine_reads_what_the_run_declared_for_a_step_without_a_tag():
    handler, _, notes = router()
    list(handler.launch_step(context(run={"target": "k8s", "gpus": 1})))
    ((_, tags),) = notes["k8s"].calls
    assert json.loads(tags[K8S])["container_config"]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert json.loads(tags[RAY]) == {"num_gpus": 1.0}


def test_what_a_person_wrote_for_the_engine_on_the_step_itself_is_kept():
    handler, _, notes = router()
    asked = context(step={"target": "ray", "gpus": 1})
    asked.step_tags["s"][RAY] = '{"num_gpus": 0.25}'
    list(handler.launch_step(asked))
    assert notes["ray"].calls[0][1][RAY] == '{"num_gpus": 0.25}'


def test_health_and_cancel_reach_the_engine_that_runs_the_step_and_health_not_too_often():
    handler, _, notes = router(every_seconds=60)
    asked = context(step={"target": "ray"})
    list(handler.launch_step(asked))
    assert handler.check_step_health(asked).is_healthy  # just launched: not asked yet
    handler._asked["s"] -= 61
    assert handler.check_step_health(asked).unhealthy_reason == "gone"
    list(handler.terminate_step(asked))
    assert [what for what, _ in notes["ray"].calls] == ["launch", "health", "terminate"]
    assert notes["k8s"].calls == []


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A local handler with one slot, whose engine events go nowhere."""
    monkeypatch.setattr(local.DagsterEvent, "engine_event", lambda *a, **k: None)
    monkeypatch.setattr(local.DagsterEvent, "step_worker_starting", lambda *a, **k: None)
    return LocalStepHandler(GpuSlots(tmp_path, ["0"]), max_concurrent=2, grace_seconds=1)


def started(here, monkeypatch):
    names = []
    monkeypatch.setattr(here, "_start", lambda waiting, held: names.append(next(iter(waiting.context.step_tags))))
    return names


def test_a_step_that_asks_for_more_gpus_than_there_are_fails_alone_with_the_reason(here, monkeypatch):
    names = started(here, monkeypatch)
    here.place(context(key="big"), Compute(gpus=2))
    here.place(context(key="small"), Compute(gpus=1))
    told = here.check_step_health(context(key="big"))
    assert "asks for 2 GPUs, but this machine offers 1" in told.unhealthy_reason
    assert names == ["small"]


def test_gpu_steps_start_in_the_order_they_came_and_cpu_steps_pass_them(tmp_path, monkeypatch):
    other = GpuSlots(tmp_path, ["0", "1"])
    here = LocalStepHandler(other, max_concurrent=9)
    monkeypatch.setattr(local.DagsterEvent, "engine_event", lambda *a, **k: None)
    names, busy = started(here, monkeypatch), other.acquire(1)
    here.place(context(key="needs_two"), Compute(gpus=2))
    here.place(context(key="needs_one"), Compute(gpus=1))  # a slot is free, but it would starve the first
    here.place(context(key="cpu"), Compute())
    assert names == ["cpu"]
    assert here.check_step_health(context(key="needs_two")).is_healthy
    busy.close()
    here.check_step_health(context(key="needs_two"))
    assert names[:2] == ["cpu", "needs_two"]


def dead(here, code):
    process = subprocess.Popen([sys.executable, "-c", f"import os; os._exit({code})"] if code >= 0 else ["sleep", "60"])
    if code < 0:
        process.send_signal(-code)
    process.wait()
    here._children["s"] = Child(process, time.time())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-signal.SIGKILL, "SIGKILL.*137"),
        (137, "SIGKILL.*137"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (3, "code 3"),
        (0, "code 0"),
    ],
)
def test_a_process_that_ended_without_a_last_word_is_reported_with_how_it_died(here, code, said):
    dead(here, code)
    told = here.check_step_health(context())
    assert not told.is_healthy
    assert re.search(said, told.unhealthy_reason)


def test_a_process_that_died_after_its_last_word_is_well_and_an_earlier_attempts_word_is_not_its_own(here):
    dead(here, -signal.SIGKILL)
    begun = here._children["s"].started
    assert here.check_step_health(context(log=[("s", begun + 1)])).is_healthy
    assert not here.check_step_health(context(log=[("s", begun - 1), ("other", begun + 1)])).is_healthy


def test_a_step_that_nobody_here_started_is_not_taken_for_a_running_one(here):
    assert not here.check_step_health(context()).is_healthy


@pytest.mark.parametrize("target", ["ray", "k8s"])
def test_an_engine_that_is_not_installed_is_refused_with_the_extra_to_install(target, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith(("dagster_ray", "dagster_k8s")):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidInput, match=rf"pip install 'dp-synth-pipeline\[{target}\]'"):
        engines.engine_handler(target, None, {})


def test_kubernetes_without_its_run_launcher_is_refused_with_what_is_missing():
    pytest.importorskip("dagster_k8s")
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(InvalidInput, match=r"dagster_k8s\.K8sRunLauncher"):
        engines.engine_handler("k8s", SimpleNamespace(instance=instance), {})
