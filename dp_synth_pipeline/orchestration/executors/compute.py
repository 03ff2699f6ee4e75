"""Says what a step asks of a machine, as a person declares it and as every engine reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

import dagster as dg
from pydantic import ConfigDict, Field, ValidationError, model_validator

from dp_synth_pipeline.errors import InvalidInput

COMPUTE = "dp_synth/compute"
"""Tag of a step, a job or a run: JSON of a `Compute`."""

GPU_POOL = "gpu"
"""The Dagster pool of steps that ask for GPUs; its limit holds across runs and engines."""

RAY, K8S, CELERY = "dagster-ray/config", "dagster-k8s/config", "dagster-celery/queue"

FIELDS = {
    "ingested": "ingestion",
    "profile": "profile",
    "completed": "profile",
    "texts": "marginals",
    "marginals": "marginals",
    "generator": "training",
    "synthetic": "generation",
    "checks": "checks",
    "quality_report": "checks",
}
"""Which field of `ComputeSettings` places each stage; the others run where the job or the executor says."""


class Compute(dg.Model, dg.Resolvable):
    """One step's engine and share of a machine; nothing declared means a local process without a GPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Literal["local", "ray", "k8s"] = Field(default="local", description="The engine that runs the step.")
    gpus: float = Field(default=0, ge=0, description="Whole GPUs; Ray alone also takes a fraction, such as 0.5.")
    cpus: float | None = Field(default=None, gt=0, description="Asked of the engine; local: the number of threads.")
    memory_gib: float | None = Field(default=None, gt=0, description="Asked of ray or k8s; not limited locally.")
    workers: int | None = Field(default=None, ge=1, description="training: its processes; by default one for each GPU.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="k8s: labels that the node must have.")
    tolerations: list[dict[str, Any]] = Field(default_factory=list, description="k8s: taints that are tolerated.")
    queue: str | None = Field(default=None, description="celery: by default gpu with GPUs, else dagster.")

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, fields: Any) -> Any:
        return _refuse_unknown_keys(cls, fields, "compute")

    @model_validator(mode="after")
    def _whole(self) -> Compute:
        if self.target != "ray" and not float(self.gpus).is_integer():
            raise InvalidInput(
                f"compute: {self.target} hands out whole GPUs, got gpus: {self.gpus:g}. Write a whole number, or "
                f"target: ray, which shares one."
            )
        if self.workers is not None and self.gpus and self.workers != self.gpus:
            raise InvalidInput(
                f"compute: each training process has a GPU of its own, got workers: {self.workers} with gpus: "
                f"{self.gpus:g}. Leave workers away, or gpus for processes without one."
            )
        return self

    @property
    def processes(self) -> int:
        """How many processes train together: those declared, else one for each GPU, and one at least."""
        return self.workers or max(1, int(self.gpus))

    def tags(self) -> dict[str, Any]:
        """Return the neutral tag and each engine's own, so that the step can also run under that engine's executor."""
        queue = {CELERY: self.queue or GPU_POOL} if self.queue or self.gpus else {}
        return {COMPUTE: self.model_dump_json(exclude_defaults=True), RAY: self._ray(), K8S: self._k8s(), **queue}

    def _ray(self) -> dict[str, Any]:
        memory = None if self.memory_gib is None else int(self.memory_gib * 2**30)
        resources = {"num_gpus": float(self.gpus), "num_cpus": self.cpus, "memory": memory}
        return {name: value for name, value in resources.items() if value is not None}

    def _k8s(self) -> dict[str, Any]:
        requests: dict[str, str] = {} if self.cpus is None else {"cpu": f"{self.cpus:g}"}
        limits: dict[str, str] = {}
        if self.memory_gib is not None:
            requests["memory"] = limits["memory"] = f"{int(self.memory_gib * 1024)}Mi"
        if self.gpus:  # Kubernetes takes a device's limit as its request
            limits["nvidia.com/gpu"] = f"{math.ceil(self.gpus)}"
        container = {"resources": {"requests": requests, "limits": limits}} if requests or limits else {}
        pod: dict[str, Any] = {}
        if self.node_selector:
            pod["node_selector"] = self.node_selector
        if self.tolerations:
            pod["tolerations"] = self.tolerations
        return {"container_config": container, "pod_spec_config": pod}


STAGES = tuple(dict.fromkeys(FIELDS.values()))


class ComputeSettings(dg.Model, dg.Resolvable):
    """Where each stage of one table runs; a stage that is not named runs where the job or the executor says."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)  # a URL may hold a password

    executor: Literal["celery"] | None = Field(
        default=None, description="celery runs every step through a queue; by default each step's target says where."
    )
    broker: str | None = Field(
        default=None, repr=False, description="celery: URL of the broker, as its workers have it."
    )
    backend: str | None = Field(default=None, repr=False, description="celery: URL of the backend of results.")
    config_source: dict[str, Any] = Field(
        default_factory=dict, repr=False, description="celery: its other settings, as in the workers' own file."
    )
    ingestion: Compute | None = None
    profile: Compute | None = None
    marginals: Compute | None = None
    training: Compute | None = None
    generation: Compute | None = None
    checks: Compute | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, fields: Any) -> Any:
        return _refuse_unknown_keys(cls, fields, "compute")

    @model_validator(mode="after")
    def _fits(self) -> ComputeSettings:
        stages = self.placed()
        with_workers = [
            name for name, stage_compute in stages.items() if stage_compute.workers is not None and name != "training"
        ]
        if with_workers:
            raise InvalidInput(f"compute: {with_workers[0]} is one process; workers belongs to training.")
        celery_fields = [name for name in ("broker", "backend", "config_source") if getattr(self, name)]
        if celery_fields and self.executor is None:
            raise InvalidInput(
                f"compute: {celery_fields[0]} is Celery's, so it goes with executor: celery; write that too."
            )
        elsewhere = [name for name, stage_compute in stages.items() if stage_compute.target != "local"]
        if elsewhere and self.executor == "celery":
            raise InvalidInput(
                f"compute: with executor: celery the queues' workers run every step, got a target for {elsewhere[0]}. "
                f"Leave target away (queue picks the workers), or leave executor away."
            )
        return self

    def placed(self) -> dict[str, Compute]:
        """Return what was declared, by its field; nothing for the stages that are not named."""
        return {name: found for name in STAGES if (found := getattr(self, name)) is not None}

    @property
    def targets(self) -> set[str]:
        """Where its steps run: `local`, `ray`, `k8s`, or `celery` for all."""
        return {"celery"} if self.executor else {found.target for found in self.placed().values()}

    def of(self, stage: str) -> Compute | None:
        """Return what was declared for one stage, if anything was."""
        return getattr(self, FIELDS[stage]) if stage in FIELDS else None


def op_tags(compute: ComputeSettings | None, stage: str) -> dict[str, Any] | None:
    """Return the tags of one stage's step; none when nothing was declared for it."""
    stage_compute = compute.of(stage) if compute else None
    return stage_compute.tags() if stage_compute else None


def pool_of(compute: ComputeSettings | None, stage: str) -> str | None:
    """Return the `gpu` pool for a stage that asks for GPUs."""
    stage_compute = compute.of(stage) if compute else None
    return GPU_POOL if stage_compute and stage_compute.gpus else None


def resolve(step: Mapping[str, str], run: Mapping[str, str], default: Compute) -> Compute:
    """Return what one step runs on: its own tag, else its job's or run's, else the default; never a mixture of them.

    A step that declares zero GPUs gets none, whatever its job says.
    """
    for where, tags in (("step", step), ("run", run)):
        if COMPUTE in tags:
            try:
                return Compute.model_validate(json.loads(tags[COMPUTE]))
            except (ValidationError, ValueError) as error:
                reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not JSON"
                raise InvalidInput(
                    f"the {where}'s tag {COMPUTE} cannot be read ({reason}). Write JSON such as "
                    f'{{"target": "local", "gpus": 1}}.'
                ) from None
    return default


def _refuse_unknown_keys(cls: type[dg.Model], fields: Any, section: str) -> Any:
    if isinstance(fields, Mapping) and (unknown := [str(k) for k in fields if k not in cls.model_fields]):
        raise InvalidInput(f"{section}: {unknown[0]} is unknown; expected one of {', '.join(cls.model_fields)}.")
    return fields
