"""Runs a table's assets in this process, and turns a failed step into an exit code."""

from __future__ import annotations

import logging
import os
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from filelock import FileLock

from dp_synth_pipeline.errors import AuditFailed, InvalidInput
from dp_synth_pipeline.orchestration import liveness, progress
from dp_synth_pipeline.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
    InstanceRef,
)
from dp_synth_pipeline.synthesis.progress import Progress


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        exit_code: 0 published, 1 failed, 2 bad input, 3 refused by the ledger, 130 interrupted.
        message: why not, in the words of the step that failed.
        details: the rule by which the ledger refused and its units, if it did.
        seconds: wall-clock seconds of each asset.
        failed_checks: names of blocking checks that failed.
    """

    run_id: str
    exit_code: int = 0
    message: str = ""
    details: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    failed_checks: list[str] = field(default_factory=list)


STOPPED = 130
"""Exit code of what Ctrl-C ended."""

INTERRUPTED = dg.DagsterExecutionInterruptedError.__name__

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


DIRECT = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
"""What steps print goes to the terminal as it is. By default, two processes for each step copy it there, and Ctrl-C makes
each of them print a traceback."""

POOLS = {"granularity": "run"}
"""A run of the command line takes no slot of Dagster's pools: nothing there would tell a person that it waits for one, nor
end the wait on Ctrl-C, and a run that was killed would keep its slot for ever."""


@contextmanager
def instance() -> Iterator[dg.DagsterInstance]:
    """Yield the instance of DAGSTER_HOME if that is set, otherwise one that lives in memory.

    One without a dagster.yaml sends no telemetry; Dagster knows no environment variable for that.
    """
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        with dg.DagsterInstance.ephemeral() as memory:
            yield memory
        return
    if not Path(home).is_dir():
        raise InvalidInput(f"DAGSTER_HOME is {home}, and there is no such folder; make it, or unset DAGSTER_HOME.")
    with FileLock(Path(home) / ".opening.lock"):  # two that make Dagster's tables at once would each find half of them
        dagster_instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(home, overrides=_overrides(Path(home))))
        liveness.bury(dagster_instance)
        dagster_instance.event_log_storage.get_pool_limits()
        dagster_instance.schedule_storage  # noqa: B018
    with dagster_instance:
        yield dagster_instance


def _overrides(home: Path) -> dict[str, Any]:
    """Return what a run of the command line has otherwise than dagster.yaml says."""
    try:
        config = yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return {**DIRECT, "telemetry": {"enabled": False}}
    except yaml.YAMLError:
        raise InvalidInput(f"{home / 'dagster.yaml'} is not YAML; mend it, and run again.") from None
    if "concurrency" not in config:
        return DIRECT
    return {
        **DIRECT,
        "concurrency": {**config["concurrency"], "pools": {**config["concurrency"].get("pools", {}), **POOLS}},
    }


def refresh(
    definitions: dg.Definitions,
    table: str,
    shown: Progress | None = None,
    *,
    partitions: Sequence[str] = (),
    only: Sequence[dg.AssetKey] | None = None,
    continues: str | None = None,
) -> Outcome:
    """Materialize one table's whole graph and say how it went; expected failures are told, not raised.

    Args:
        shown: hears how far the stages are.
        partitions: one partition, or some that adjoin one another, in one run.
        only: these assets, the others being made already; None for all.
        continues: the run that began the release which this run goes on with.

    Raises:
        ReleaseStateError: if that run is still under way.
    """
    for chatty in ("dagster", "sqlalchemy.pool"):  # the latter tells of connections that Ctrl-C cut short
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    job = definitions.resolve_job_def(f"{table}_refresh")
    run_id = str(uuid.uuid4())
    with liveness.alive(continues), liveness.alive(run_id) as tag, instance() as where:
        token = progress.SHOWN.set(shown)
        try:
            result = job.execute_in_process(
                instance=where,
                raise_on_error=False,
                run_config=QUIET,
                tags=partition_tags(partitions) | tag,
                asset_selection=only,
                run_id=run_id,
            )
        finally:
            progress.SHOWN.reset(token)
    return _outcome(result)


def partition_tags(keys: Sequence[str]) -> dict[str, str]:
    """Return the tags of a run over some partitions that adjoin one another."""
    if len(keys) < 2:
        return {PARTITION_NAME_TAG: keys[0]} if keys else {}
    return {ASSET_PARTITION_RANGE_START_TAG: keys[0], ASSET_PARTITION_RANGE_END_TAG: keys[-1]}


def _outcome(result: dg.ExecuteInProcessResult) -> Outcome:
    outcome = Outcome(result.run_id)
    for event in result.all_events:
        if event.event_type_value == "STEP_SUCCESS" and event.step_key:
            stage = event.step_key.split("__")[-1]
            outcome.seconds[stage] = round(event.step_success_data.duration_ms / 1000, 2)
        if event.event_type_value == "ASSET_CHECK_EVALUATION":
            check = event.asset_check_evaluation_data
            if not check.passed and check.blocking and check.severity is dg.AssetCheckSeverity.ERROR:
                outcome.failed_checks.append(_named(check))
    if result.success:
        return outcome
    outcome.exit_code, outcome.message = 1, "the run failed; see its log in the Dagster UI."
    for event in result.all_events:
        if event.event_type_value == "STEP_FAILURE":
            _explain(outcome, event.step_failure_data)
            break
        if event.event_type_value == "PIPELINE_FAILURE" and _interrupted(event.event_specific_data):
            outcome.message, outcome.exit_code = "interrupted.", STOPPED  # before the first step, or between two
    return outcome


def _named(check: dg.AssetCheckEvaluation) -> str:
    """Return a check's name, with its table's if it is one of related tables."""
    path = check.asset_key.path  # [database, table, "synthetic"], or [table, "synthetic"]
    return f"{path[-2]}: {check.check_name}" if len(path) > 2 else check.check_name


def _interrupted(failure: Any) -> bool:
    error = getattr(failure, "error", None)
    return error is not None and error.cls_name == INTERRUPTED


def _explain(outcome: Outcome, failure: Any) -> None:
    user_failure = failure.user_failure_data
    error = (user_failure.metadata or {}).get("error") if user_failure is not None else None
    if outcome.failed_checks and (error is None or error.value != AuditFailed.__name__):
        names = ", ".join(outcome.failed_checks)
        outcome.message = f"blocking checks failed: {names}. The table was not published; the one before is intact."
        return
    if user_failure is None and _interrupted(failure):
        outcome.message, outcome.exit_code = "interrupted.", STOPPED
        return
    if user_failure is None:
        if failure.error is not None:
            outcome.message = f"a step stopped on {failure.error.cls_name}; see the run's log in the Dagster UI."
        return
    outcome.message = user_failure.description or outcome.message
    facts = user_failure.metadata or {}
    if "exit_code" in facts:
        outcome.exit_code = int(facts["exit_code"].value)
    if "details" in facts:
        outcome.details = str(facts["details"].value)


def without_beta_warnings() -> None:
    """Keep Dagster's warnings about itself off the terminal: there is nothing in them that a person here could mend."""
    warnings.simplefilter("ignore", dg.BetaWarning)
