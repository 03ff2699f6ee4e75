"""The routing executor runs each step of a run on the engine that the step's own tag names."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from dagster import Executor, InitExecutorContext, multiple_process_executor_requirements

from dp_synth_pipeline.gpus import GpuSlots, devices
from dp_synth_pipeline.orchestration.dagster_internals import (
    CheckStepHealthResult,
    RetryMode,
    StepDelegatingExecutor,
    StepHandler,
    StepHandlerContext,
    get_retries_config,
)
from dp_synth_pipeline.orchestration.executors.compute import Compute, resolve
from dp_synth_pipeline.orchestration.executors.engines import engine_handler
from dp_synth_pipeline.orchestration.executors.local import LocalStepHandler, step_key

SLOTS = "gpu_slots"
"""Folder of the locks, under DAGSTER_HOME."""


class Routed(StepHandlerContext):
    """A step's context in which the engine reads the tags of what was resolved, under those of the step itself."""

    def __init__(self, context: StepHandlerContext, compute: Compute) -> None:
        self.__dict__.update(context.__dict__)
        resolved = {k: v if isinstance(v, str) else json.dumps(v) for k, v in compute.tags().items()}
        self._tags = {key: {**resolved, **tags} for key, tags in context.step_tags.items()}

    @property
    def step_tags(self) -> Mapping[str, Mapping[str, str]]:
        return self._tags


class RoutingStepHandler(StepHandler):
    """Hands each step to the engine that its own tag names, else its run's tag, else the default.

    Args:
        local: runs what is not sent elsewhere.
        engine: makes the handler of `ray` or `k8s`; asked at that engine's first step only.
        every_seconds: how often a remote engine is asked about one step.
    """

    def __init__(
        self,
        local: LocalStepHandler,
        engine: Callable[[str], StepHandler],
        default: Compute,
        every_seconds: float = 5.0,
    ) -> None:
        self._local = local
        self._engine = engine
        self._default = default
        self._every_seconds = every_seconds
        self._remote: dict[str, StepHandler] = {}
        self._asked: dict[str, float] = {}

    @property
    def name(self) -> str:
        return "RoutingStepHandler"

    def launch_step(self, step_handler_context: StepHandlerContext) -> Iterator[dg.DagsterEvent]:
        """Start the step on its engine."""
        compute = self._compute(step_handler_context)
        if compute.target == "local":
            self._local.place(step_handler_context, compute)
            return
        handler = self._handler(compute.target)
        self._asked[step_key(step_handler_context)] = time.monotonic()
        yield from handler.launch_step(Routed(step_handler_context, compute))

    def check_step_health(self, step_handler_context: StepHandlerContext) -> CheckStepHealthResult:
        """Ask the step's engine; a remote one not more often than every few seconds."""
        compute = self._compute(step_handler_context)
        if compute.target == "local":
            return self._local.check_step_health(step_handler_context)
        key, now = step_key(step_handler_context), time.monotonic()
        if now - self._asked.get(key, -self._every_seconds) < self._every_seconds:
            return CheckStepHealthResult.healthy()
        self._asked[key] = now
        return self._handler(compute.target).check_step_health(Routed(step_handler_context, compute))

    def terminate_step(self, step_handler_context: StepHandlerContext) -> Iterator[dg.DagsterEvent]:
        """End the step where it runs."""
        compute = self._compute(step_handler_context)
        if compute.target == "local":
            yield from self._local.terminate_step(step_handler_context)
        else:
            yield from self._handler(compute.target).terminate_step(Routed(step_handler_context, compute))

    def _compute(self, context: StepHandlerContext) -> Compute:
        return resolve(context.step_tags[step_key(context)], context.dagster_run.tags, self._default)

    def _handler(self, target: str) -> StepHandler:
        if target not in self._remote:
            self._remote[target] = self._engine(target)
        return self._remote[target]


CONFIG = {
    "local": dg.Field(
        {
            "gpus": dg.Field(dg.Noneable(int), default_value=None, description="GPU slots; by default those found."),
            "max_concurrent": dg.Field(dg.Noneable(int), default_value=None, description="Processes at once."),
            "grace_seconds": dg.Field(float, default_value=10.0, description="From SIGTERM to SIGKILL, on cancel."),
        },
        default_value={},
    ),
    "ray": dg.Field(dg.Permissive(), default_value={}, description="As under `ray` of dagster-ray's executor."),
    "k8s": dg.Field(dg.Permissive(), default_value={}, description="As for dagster-k8s' k8s_job_executor."),
    "default": dg.Field(dg.Permissive(), default_value={}, description="For steps and runs without a tag."),
    "retries": get_retries_config(),
}


@dg.executor(name="dp_synth_executor", config_schema=CONFIG, requirements=multiple_process_executor_requirements())
def dp_synth_executor(init_context: InitExecutorContext) -> Executor:
    """Runs each step where its own tag says: a local process with its own GPUs, Ray, or Kubernetes."""
    config: Mapping[str, Any] = init_context.executor_config
    local = config["local"]
    home = os.environ.get("DAGSTER_HOME") or init_context.instance.root_directory
    handler = LocalStepHandler(
        GpuSlots(Path(home) / SLOTS, devices(local["gpus"])),
        max_concurrent=local["max_concurrent"] or os.cpu_count() or 1,
        grace_seconds=local["grace_seconds"],
    )
    return StepDelegatingExecutor(
        RoutingStepHandler(
            handler,
            engine=lambda target: engine_handler(target, init_context, config[target]),
            default=Compute.model_validate(config["default"]),
        ),
        retries=dg._check.not_none(RetryMode.from_config(config["retries"])),
        sleep_seconds=0.2,
        check_step_health_interval_seconds=1,
        should_verify_step=True,
    )
