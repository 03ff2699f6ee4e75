"""What Dagster and each engine add to a step: `python benchmarks/overhead.py [--steps 10] [--engines celery local]`.

Two chains of steps run on every engine that is installed. One does nothing, so that what remains is the engine's own cost;
the other imports what training needs, as the first thing that a step does, which is nearly free where the engine starts
its processes with the imports done (warm). A step's cost is the time from the end of the step before it to its own end.

Celery needs a Redis server (--redis); keys with a random prefix are made there and deleted. Prints a table, and writes every
step's seconds to benchmarks/results/overhead.csv. On a machine that is busy, or has few cores, the figures are larger.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import dagster as dg
import yaml
from dagster._core.definitions.reconstruct import ReconstructableJob

from dp_synth_pipeline.orchestration.executors.compute import Compute, ComputeSettings
from dp_synth_pipeline.orchestration.executors.placing import executor_of
from dp_synth_pipeline.orchestration.executors.routing import dp_synth_executor

RESULTS = Path(__file__).parent / "results"
STEPS, QUEUE, RAY = "OVERHEAD_STEPS", "OVERHEAD_QUEUE", "OVERHEAD_RAY"
PRELOAD = ["dp_synth_pipeline.model.dpsgd.training", "dp_synth_pipeline.orchestration.build"]
WORKER = "dp_synth_pipeline.orchestration.executors.celery_worker"

ENGINES = {
    "in-process": lambda: dg.in_process_executor,
    "multiprocess": lambda: dg.multiprocess_executor.configured({"max_concurrent": 1}),
    "multiprocess, preloaded": lambda: dg.multiprocess_executor.configured(
        {"max_concurrent": 1, "start_method": {"forkserver": {"preload_modules": PRELOAD}}}
    ),
    "local": lambda: dp_synth_executor,
    "ray": lambda: dp_synth_executor.configured({"ray": {"address": os.environ.get(RAY)}}),
    "celery": lambda: executor_of(ComputeSettings(executor="celery", **json.loads(os.environ.get(QUEUE, "{}")))),
}
"""Name to what makes its executor."""

BODIES: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "imports": lambda: __import__(PRELOAD[0]) and None,
}


def chain(engine: str, body: str) -> dg.JobDefinition:
    """Return a job of steps that follow each other."""
    tags = Compute(target="ray", cpus=0.5).tags() if engine == "ray" else {}

    @dg.op(name=f"{body}_step", ins={"after": dg.In(dg.Nothing)}, tags=tags)
    def step() -> None:
        BODIES[body]()

    @dg.job(name=f"{body}_chain", executor_def=ENGINES[engine]())
    def steps() -> None:
        after = None
        for number in range(int(os.environ.get(STEPS, "10"))):
            one = step.alias(f"step_{number}")
            after = one() if after is None else one(after)

    return steps


def __getattr__(name: str) -> dg.JobDefinition:
    """Make the job that a run's own processes ask this file for, such as `celery: imports`."""
    engine, _, body = name.partition(": ")
    if engine not in ENGINES or body not in BODIES:
        raise AttributeError(name)
    return chain(engine, body)


def measure(engine: str, body: str) -> list[float]:
    """Run a chain; return the seconds of every step after the first."""
    with dg.DagsterInstance.get() as instance:
        job = ReconstructableJob.for_file(__file__, f"{engine}: {body}")
        with dg.execute_job(job, instance=instance, raise_on_error=True) as result:
            ended = [
                record.timestamp
                for record in instance.all_logs(result.run_id)
                if record.dagster_event is not None and record.dagster_event.is_step_success
            ]
    return [after - before for before, after in pairwise(ended)]


@contextmanager
def ray() -> Iterator[None]:
    """Start Ray on this machine."""
    import ray as engine

    context = engine.init(include_dashboard=True, log_to_driver=False)
    os.environ[RAY] = f"http://{context.dashboard_url}"
    try:
        yield
    finally:
        engine.shutdown()


@contextmanager
def celery(broker: str) -> Iterator[None]:
    """Start one worker of ours on a queue of its own."""
    import redis

    client, prefix = redis.Redis.from_url(broker), f"dp-synth-benchmark-{uuid.uuid4().hex}:"
    own = {"broker_transport_options": {"global_keyprefix": prefix}}
    own["result_backend_transport_options"] = own["broker_transport_options"]
    queue = {"broker": broker, "backend": broker, "config_source": own}
    os.environ[QUEUE] = json.dumps(queue)
    file = Path(os.environ["DAGSTER_HOME"]) / "celery.yaml"
    file.write_text(yaml.safe_dump({"execution": {"config": queue}}))
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which("dagster-celery") or "dagster-celery"
    command = [
        program,
        "worker",
        "start",
        "-A",
        WORKER,
        "-y",
        str(file),
        "-q",
        "dagster",
        "-l",
        "ERROR",
        "--",
        "-c",
        "1",
    ]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = subprocess.Popen(command, start_new_session=True, **silent)
    try:
        time.sleep(20)  # until its imports are done
        yield
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)


def needs(engine: str, broker: str) -> str | None:
    """Return why an engine cannot be measured here, in a sentence, or None."""
    packages = {"ray": ("ray", "dagster_ray"), "celery": ("redis", "dagster_celery")}.get(engine, ())
    if missing := [p for p in packages if importlib.util.find_spec(p) is None]:
        return f"{engine} is left out: {missing[0]} is not installed; pip install 'dp-synth-pipeline[{engine}]'."
    if engine == "celery":
        import redis

        try:
            redis.Redis.from_url(broker, socket_connect_timeout=3).ping()
        except redis.RedisError:
            return "celery is left out: no Redis server answers; name one with --redis."
    return None


def main() -> None:
    """Measure what can be measured here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/14")
    asked = parser.parse_args()
    os.environ[STEPS] = str(asked.steps)
    starts: dict[str, Callable[[], AbstractContextManager[None]]] = {"ray": ray, "celery": lambda: celery(asked.redis)}
    rows, lines = [], ["| engine | s a step | with the imports of training | more |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as home:
        os.environ["DAGSTER_HOME"] = home
        quiet = {"telemetry": {"enabled": False}, "python_logs": {"python_log_level": "ERROR"}}
        (Path(home) / "dagster.yaml").write_text(yaml.safe_dump(quiet))
        for engine in asked.engines:
            if (why := needs(engine, asked.redis)) is not None:
                print(why)
                continue
            with starts.get(engine, nullcontext)():
                took = {body: measure(engine, body) for body in BODIES}
            rows += [(engine, body, seconds) for body, all_ in took.items() for seconds in all_]
            bare, warm = (statistics.median(took[body]) for body in BODIES)
            lines.append(f"| {engine} | {bare:.2f} | {warm:.2f} | {warm - bare:.2f} |")
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "overhead.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("engine", "body", "seconds"), *rows])


if __name__ == "__main__":
    main()
