"""Chooses the executor that definitions need, and checks that a step runs where its table says, and reaches the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from logging import Logger
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.executors.compute import COMPUTE, ComputeSettings

CELERY = "celery"
"""The executor's name, in the YAML and in Dagster."""

DAGSTERS_OWN = {"in_process", "multi_or_in_process_executor", "multiprocess"}
"""Names of Dagster's executors that run every step on this machine, and know nothing of GPUs or of other machines."""


def executor_of(compute: ComputeSettings | None) -> dg.ExecutorDefinition | None:
    """Return what runs a table that declares where its stages run: the router, or Celery; else Dagster's default.

    Raises:
        InvalidInput: when Celery is asked for and dagster-celery is not installed.
    """
    if compute is None:
        return None
    if compute.executor == CELERY:
        return _celery(compute.broker, compute.backend, json.dumps(compute.config_source, sort_keys=True))
    from dp_synth_pipeline.orchestration.executors.routing import dp_synth_executor

    return dp_synth_executor


def executor_for(definitions: dg.Definitions, ledger: str) -> dg.ExecutorDefinition | None:
    """Return the executor of tables that say where their steps run, for all that runs beside them; else Dagster's default.

    Raises:
        InvalidInput: when a step runs on another machine and the ledger is a file of this one, or when one table asks
            for Celery and another for something else.
    """
    compute_tags = [tags[COMPUTE] for tags in map(_op_tags, definitions.assets or ()) if COMPUTE in tags]
    targets = {json.loads(tag).get("target", "local") for tag in compute_tags}
    executors = {job.executor_def for job in definitions.jobs or () if job.executor_def is not None}
    celery_executors = {executor for executor in executors if executor.name == CELERY}
    check_reachable(targets | ({CELERY} if celery_executors else set()), ledger)
    if not celery_executors:
        return executor_of(ComputeSettings()) if compute_tags else None
    if len(executors) > 1:
        raise InvalidInput(
            "compute: one table asks for executor: celery and another for something else. One code location has one "
            "executor for what is materialized outside its jobs: write the same executor, broker and backend in each."
        )
    return celery_executors.pop()


def check_placed(compute: ComputeSettings | None, stage: str, executor: str, log: Logger) -> None:
    """Refuse a step, or warn, where an executor of Dagster's own runs it otherwise than its table's `compute` says.

    That happens to what is materialized outside the table's job, in a project whose executor is not the router. The
    first stage answers for all, so that nothing is charged for a release that would then be refused half-way.

    Args:
        stage: one of `assets.stage`'s.
        executor: the name of the run's executor. `Definitions.execute_in_process` and other people's are left alone.

    Raises:
        InvalidInput: if the step, or one that follows the first, is to run on another machine.
    """
    if compute is None or executor not in DAGSTERS_OWN:
        return
    placed = compute.placed() if stage == "ingested" else {stage: compute.of(stage)}
    way = (
        f"This run has Dagster's executor {executor!r}, which knows nothing of `compute`. Launch the table's job "
        f"(its name ends in _refresh), or give the project the executor that does: "
        f"dg.Definitions(executor=dp_synth_pipeline.dp_synth_executor)."
    )
    elsewhere = (
        CELERY if compute.executor else next((c.target for c in placed.values() if c and c.target != "local"), "")
    )
    if elsewhere:
        raise InvalidInput(f"compute: this table's steps run on {elsewhere}. {way} Nothing was read or charged.")
    if (own := compute.of(stage)) and (own.gpus or own.cpus):
        log.warning(f"compute: {stage} asks for its own GPUs or threads, and gets none of its own here. {way}")


@cache
def _celery(broker: str | None, backend: str | None, config_source: str) -> dg.ExecutorDefinition:
    """Return dagster-celery's executor for one broker; the same one for every table that names it."""
    try:
        from dagster_celery import celery_executor
    except ImportError:
        raise InvalidInput(
            "compute: executor: celery needs dagster-celery; install the extra: pip install 'dp-synth-pipeline[celery]'."
        ) from None
    config = {"broker": broker, "backend": backend, "config_source": json.loads(config_source)}
    return celery_executor.configured({name: value for name, value in config.items() if value}, name=CELERY)


def check_reachable(targets: Iterable[str], ledger: str) -> None:
    """Refuse a ledger that is a file of this machine when a step runs on another one."""
    remote = sorted(set(targets) - {"local"})
    if remote and not ledger.startswith("postgresql"):
        destination = f"{'executor' if remote[0] == CELERY else 'target'} {remote[0]}"
        raise InvalidInput(
            f"compute: {destination} runs steps on other machines, which cannot reach a SQLite ledger: each would "
            f"count on a file of its own, and the budget would not hold. Keep the ledger in PostgreSQL "
            f"(DP_SYNTH_LEDGER=postgresql+psycopg://...), or write target: local and no executor."
        )


def _op_tags(part: Any) -> dict[str, str]:
    return dict(part.op.tags) if isinstance(part, dg.AssetsDefinition) and part.is_executable else {}
