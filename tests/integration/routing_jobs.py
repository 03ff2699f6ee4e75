"""Jobs for test_routing.py: their steps tell, in files, which GPUs they saw and that they ran."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.orchestration.executors.compute import COMPUTE, Compute
from dp_synth_pipeline.orchestration.executors.routing import dp_synth_executor

TOLD = "ROUTING_TOLD"


def told(name: str) -> Path:
    return Path(os.environ[TOLD]) / name


def tell(name: str, **facts) -> None:
    told(name).write_text(json.dumps({"gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "pid": os.getpid(), **facts}))


def wait_for(name: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not told(name).exists():
        if time.monotonic() > until:
            raise TimeoutError(name)
        time.sleep(0.05)


def gpu(count: int) -> dict[str, str]:
    return {COMPUTE: json.dumps({"gpus": count})}


def on(target: str, **asked) -> dict:
    return Compute(target=target, **asked).tags()


def held(name: str) -> None:
    """Hold a GPU until the CPU step has run: were that blocked by the third GPU step, this would time out."""
    begun = time.time()
    wait_for("cpu")
    tell(name, begun=begun, ended=time.time())


@dg.op(tags=gpu(1))
def gpu_a():
    held("gpu_a")


@dg.op(tags=gpu(1))
def gpu_b():
    held("gpu_b")


@dg.op(tags=gpu(1))
def gpu_c():
    held("gpu_c")


@dg.op
def late_cpu():
    tell("cpu")


@dg.job(executor_def=dp_synth_executor.configured({"local": {"gpus": 2, "max_concurrent": 4}}))
def mixed():
    gpu_a()
    gpu_b()
    gpu_c()
    late_cpu()


@dg.op(tags=gpu(1), retry_policy=dg.RetryPolicy(max_retries=1))
def dies_once(context: dg.OpExecutionContext):
    tell(f"attempt_{context.retry_number}")
    if context.retry_number == 0:
        os.kill(os.getpid(), signal.SIGKILL)


@dg.op(tags=gpu(1))
def dies(start):
    tell("died", at=time.time())
    os.kill(os.getpid(), signal.SIGKILL)


@dg.op
def downstream(start):
    tell("downstream")


@dg.job(executor_def=dp_synth_executor.configured({"local": {"gpus": 1}}))
def deadly():
    downstream(dies(dies_once()))


@dg.op(tags=gpu(1))
def stubborn():
    """Ignores SIGTERM, as does its own worker."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    worker = subprocess.Popen([sys.executable, "-c", ignore])
    tell("stubborn", worker=worker.pid)
    while True:
        time.sleep(1)


@dg.op(tags=gpu(1))
def never(start):
    tell("never")


@dg.job(executor_def=dp_synth_executor.configured({"local": {"gpus": 1, "grace_seconds": 1.0}}))
def endless():
    never(stubborn())


@dg.op(tags=on("ray", gpus=1, cpus=0.5))
def on_ray():
    tell("on_ray")


@dg.op(tags=on("ray", cpus=0.5))
def dies_on_ray():
    tell("died_on_ray", at=time.time())
    os.kill(os.getpid(), signal.SIGKILL)


@dg.op(tags=gpu(1))
def local_gpu():
    tell("local_gpu")


RAY = {"address": os.environ.get("ROUTING_RAY")}


@dg.job(executor_def=dp_synth_executor.configured({"local": {"gpus": 1}, "ray": RAY}))
def three_engines():
    late_cpu()
    local_gpu()
    on_ray()
    downstream(dies_on_ray())


@dg.op(tags=on("ray", cpus=0.5))
def long_on_ray():
    tell("long_on_ray")
    time.sleep(600)


@dg.job(executor_def=dp_synth_executor.configured({"ray": RAY}))
def long():
    never(long_on_ray())


ASKED = {"gpus": 2, "memory_gib": 16, "node_selector": {"pool": "gpu"}, "tolerations": [{"key": "gpu"}]}


@dg.op(tags=on("k8s", **ASKED))
def in_a_pod():
    tell("in_a_pod")


@dg.job(executor_def=dp_synth_executor.configured({"k8s": {"load_incluster_config": False, "job_image": "image:1"}}))
def in_pods():
    late_cpu()
    in_a_pod()
