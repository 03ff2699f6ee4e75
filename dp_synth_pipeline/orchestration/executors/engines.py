"""Takes the step handlers of dagster-ray and dagster-k8s from their own executors, so that each keeps its own rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster import InitExecutorContext

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.dagster_internals import StepDelegatingExecutor, StepHandler

EXTRAS = {"ray": "dagster-ray", "k8s": "dagster-k8s"}


def engine_handler(target: str, context: InitExecutorContext, config: Mapping[str, Any]) -> StepHandler:
    """Return the step handler of an engine, made by that engine's own executor from its own configuration.

    Args:
        context: of the routing executor.
        config: what the routing executor was given under `ray` or `k8s`.
    """
    definition = _definition(target)
    if target == "k8s" and not hasattr(context.instance.run_launcher, "instance_config_map"):
        raise InvalidInput(
            "a step asks for target: k8s; dagster-k8s takes the pod's image, home and instance from its run launcher, so "
            "dagster.yaml must name dagster_k8s.K8sRunLauncher."
        )
    executor_def = definition.configured({"ray": dict(config)} if target == "ray" else dict(config))
    resolution, make = executor_def.apply_config_mapping({}), definition.executor_creation_fn
    if not resolution.success or resolution.value is None or make is None:
        problems = "; ".join(error.message for error in resolution.errors or ())
        raise InvalidInput(f"the executor's configuration under `{target}` does not fit {EXTRAS[target]}: {problems}")
    executor = make(context._replace(executor_def=executor_def, executor_config=resolution.value["config"]))
    assert isinstance(executor, StepDelegatingExecutor)
    return executor._step_handler


def _definition(target: str) -> dg.ExecutorDefinition:
    try:
        if target == "ray":
            from dagster_ray.core.executor import ray_executor as found  # pyright: ignore[reportMissingImports]
        else:
            from dagster_k8s import k8s_job_executor as found  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InvalidInput(
            f"a step asks for target: {target}, which needs {EXTRAS[target]}; install the extra: "
            f"pip install 'dp-synth-pipeline[{target}]'."
        ) from None
    return found
