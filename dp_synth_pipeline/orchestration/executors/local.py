"""Runs steps as child processes of the run, on GPUs that an operating system lock hands out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from dagster import DagsterEvent, DagsterEventType

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.gpus import DEVICES, GpuSlots, Held
from dp_synth_pipeline.orchestration.dagster_internals import (
    CheckStepHealthResult,
    EngineEventData,
    StepHandler,
    StepHandlerContext,
)
from dp_synth_pipeline.orchestration.executors.compute import Compute

ENDED = {DagsterEventType.STEP_SUCCESS, DagsterEventType.STEP_FAILURE, DagsterEventType.STEP_UP_FOR_RETRY}
"""One of these is the last word of a step's attempt."""

GRACE_SECONDS = 10.0
"""How long a step may take to end after SIGTERM, before it gets SIGKILL."""


@dataclass(frozen=True)
class Waiting:
    """A step that has not started, for want of a GPU or of a free process."""

    context: StepHandlerContext
    compute: Compute


@dataclass(frozen=True)
class Child:
    """A started step and the time at which it started, in seconds since the epoch."""

    process: subprocess.Popen[bytes]
    started: float


def step_key(context: StepHandlerContext) -> str:
    """Return the one step that a handler is asked about."""
    return next(iter(context.execute_step_args.step_keys_to_execute or ()))


class LocalStepHandler(StepHandler):
    """Starts each step as a process of its own; one that waits for a GPU holds up only those that wait for one too."""

    def __init__(self, slots: GpuSlots, max_concurrent: int, grace_seconds: float = GRACE_SECONDS) -> None:
        self._slots = slots
        self._max_concurrent = max_concurrent
        self._grace_seconds = grace_seconds
        self._waiting: dict[str, Waiting] = {}
        self._children: dict[str, Child] = {}
        self._refused: dict[str, str] = {}

    @property
    def name(self) -> str:
        return "LocalStepHandler"

    def place(self, context: StepHandlerContext, compute: Compute) -> None:
        """Start the step now if it can have what it asks for, else when it can."""
        key = step_key(context)
        self._children.pop(key, None)
        self._refused.pop(key, None)
        self._waiting[key] = Waiting(context, compute)
        self._start_ready()
        if key in self._waiting:
            message = (
                f"Waits for {compute.gpus:g} of this machine's {len(self._slots.names)} GPUs, or for a free process."
            )
            DagsterEvent.engine_event(context.get_step_context(key), message, EngineEventData())

    def launch_step(self, step_handler_context: StepHandlerContext) -> Iterator[DagsterEvent]:
        """Start the step without a GPU; `place` is the way to ask for one."""
        self.place(step_handler_context, Compute())
        yield from ()

    def check_step_health(self, step_handler_context: StepHandlerContext) -> CheckStepHealthResult:
        """Start what waited and can start; report a step whose process ended without a last word."""
        key = step_key(step_handler_context)
        self._start_ready()
        if key in self._waiting:
            return CheckStepHealthResult.healthy()
        if key in self._refused:
            return CheckStepHealthResult.unhealthy(self._refused[key])
        child = self._children.get(key)
        if child is None:
            return CheckStepHealthResult.unhealthy("no process of this run executes it.")
        code = child.process.poll()
        if code is None or _ended_since(step_handler_context, key, child.started):
            return CheckStepHealthResult.healthy()
        return CheckStepHealthResult.unhealthy(_how_it_died(code))

    def terminate_step(self, step_handler_context: StepHandlerContext) -> Iterator[DagsterEvent]:
        """End the run's steps: ask all of them at once, then kill this one if it outlives the grace period."""
        key = step_key(step_handler_context)
        self._waiting.clear()  # the run ends, so nothing new may start
        for child in self._children.values():
            _signal(child.process, signal.SIGTERM)
        child = self._children.get(key)
        if child is not None:
            try:
                child.process.wait(timeout=self._grace_seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _signal(child.process, signal.SIGKILL, gone_too=True)
                child.process.wait()
        message = "Ended the step's process." if child else "The step had not started."
        yield DagsterEvent.engine_event(step_handler_context.get_step_context(key), message, EngineEventData())

    def _start_ready(self) -> None:
        gpus_short = False  # GPU steps start in the order they came, so that a large one is not overtaken for ever
        for key, step in list(self._waiting.items()):
            busy = sum(child.process.poll() is None for child in self._children.values())
            if busy >= self._max_concurrent:
                return
            if step.compute.gpus and gpus_short:
                continue
            try:
                gpu_locks = self._slots.acquire(int(step.compute.gpus))
            except InvalidInput as error:
                self._refused[key] = str(error)
                del self._waiting[key]
                continue
            if gpu_locks is None:
                gpus_short = True
                continue
            del self._waiting[key]
            self._start(step, gpu_locks)

    def _start(self, step: Waiting, gpu_locks: Held) -> None:
        context, key = step.context, step_key(step.context)
        args = context.execute_step_args
        env = {**os.environ, DEVICES: ",".join(gpu_locks.names), "DAGSTER_RUN_STEP_KEY": key}
        env |= {pair["name"]: pair["value"] for pair in args.get_command_env()}
        if step.compute.cpus:
            env["OMP_NUM_THREADS"] = str(max(1, int(step.compute.cpus)))
        command = [sys.executable, "-m", "dagster", "api", "execute_step"]  # as in the run's own environment
        start_time = time.time()
        try:
            process = subprocess.Popen(command, env=env, pass_fds=gpu_locks.files, start_new_session=True)
        finally:
            gpu_locks.close()  # from now on the child alone holds its GPUs
        self._children[key] = Child(process, start_time)
        gpus = f"GPU {', '.join(gpu_locks.names)}" if gpu_locks.names else "no GPU"
        text = f"Executing step {key} in process {process.pid} with {gpus}."
        DagsterEvent.step_worker_starting(
            context.get_step_context(key),
            message=text,
            metadata={"pid": str(process.pid), "gpus": list(gpu_locks.names)},
        )


def _signal(process: subprocess.Popen[bytes], signal_number: signal.Signals, *, gone_too: bool = False) -> None:
    """Signal the step's whole process group, its own workers too."""
    if not gone_too and process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal_number)
    except (ProcessLookupError, PermissionError):
        return


def _ended_since(context: StepHandlerContext, key: str, start_time: float) -> bool:
    """Whether the log holds the last word of this attempt: then the executor will read it, and the step is well."""
    records = context.instance.get_records_for_run(context.execute_step_args.run_id, of_type=ENDED).records
    return any(r.event_log_entry.step_key == key and r.event_log_entry.timestamp >= start_time for r in records)


def _how_it_died(code: int) -> str:
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        hint = " (often: out of memory)" if number == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}, exit code {128 + number}."
    return f"its process ended with exit code {code} and no result; see its captured log."
