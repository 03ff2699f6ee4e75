"""The Celery app whose workers take every step once: `dagster-celery worker start -A <this module> -q gpu -y celery.yaml`.

A queue may deliver a task again while it still runs (with Redis, after `visibility_timeout`). Each delivery puts itself
on the run's log before it loads any code, and only the first of an attempt goes on. The ledger would refuse the second
in any case. Here it does not even fail the run.
"""

import multiprocessing
import socket
import uuid
from typing import Any

import celery
import dagster as dg
from celery.exceptions import Ignore
from celery.signals import worker_init, worker_process_init
from dagster_celery.executor import CeleryExecutor
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task

from dp_synth_pipeline.orchestration.dagster_internals import EngineEventData, ExecuteStepArgs, unpack_value

ATTEMPT, DELIVERY = "attempt", "delivery"
"""Metadata of the event by which a delivery puts itself on the log: the attempt's number, and its own random name."""


class OncePerAttempt(celery.Task):
    """Executes a step's attempt at its first delivery, and drops every later one without a result."""

    def __call__(self, execute_step_args_packed: dict[str, Any], executable_dict: dict[str, Any]) -> Any:
        """Execute the step.

        Raises:
            Ignore: if this attempt was delivered before; the first delivery's result is left as it is.
        """
        step_args = unpack_value(execute_step_args_packed, as_type=ExecuteStepArgs)
        with dg.DagsterInstance.from_ref(dg._check.not_none(step_args.instance_ref)) as instance:
            if not first_delivery(instance, step_args):
                raise Ignore
        return self.run(execute_step_args_packed, executable_dict)


def first_delivery(instance: dg.DagsterInstance, step_args: ExecuteStepArgs) -> bool:
    """Put this delivery of a step's attempt on its run's log; return whether it is the first one there."""
    run = dg._check.not_none(instance.get_run_by_id(step_args.run_id))
    step = next(iter(step_args.step_keys_to_execute or ()))
    attempt = step_args.known_state.get_retry_state().get_attempt_count(step) if step_args.known_state else 0
    own_name, host = uuid.uuid4().hex, socket.gethostname()
    facts = {ATTEMPT: dg.MetadataValue.int(attempt), DELIVERY: own_name, "host": host}
    message = f"A worker on {host} was handed attempt {attempt + 1}."
    instance.report_engine_event(message, run, EngineEventData(metadata=facts), CeleryExecutor, step_key=step)
    first_name = _deliveries(instance, step_args.run_id, step, attempt)[0]
    if first_name != own_name:
        message = (
            "This attempt was delivered before, so this delivery is dropped. If the worker that has it died, cancel the "
            "run and re-execute it from its failed steps."
        )
        instance.report_engine_event(message, run, cls=CeleryExecutor, step_key=step)
    return first_name == own_name


def _deliveries(instance: dg.DagsterInstance, run_id: str, step: str, attempt: int) -> list[str]:
    """Return the names of the deliveries of an attempt, in the order of the log."""
    deliveries = []
    for record in instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records:
        event = record.event_log_entry.dagster_event
        facts = event.engine_event_data.metadata if event and event.step_key == step else {}
        if DELIVERY in facts and facts[ATTEMPT].value == attempt:
            deliveries.append((record.storage_id, str(facts[DELIVERY].value)))
    return [name for _, name in sorted(deliveries)]


@worker_init.connect
def preload(**_: Any) -> None:
    """Import what training needs before the worker forks: every step begins warm."""
    from dp_synth_pipeline.model.autoregressive import generator, initialization  # noqa: F401
    from dp_synth_pipeline.model.dpsgd import training  # noqa: F401
    from dp_synth_pipeline.orchestration import build  # noqa: F401


@worker_process_init.connect
def may_have_workers(**_: Any) -> None:
    """Let a step start the processes of its training; Celery's own are daemons, which may have no children."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


app = make_app()
app.conf.worker_max_tasks_per_child = 1  # a step's rows and GPU memory end with its process; imports are the parent's
execute_plan = create_task(app, base=OncePerAttempt)
