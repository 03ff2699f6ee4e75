"""Builds the schedules that refresh a table, and lists their next dates for a forecast."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice, takewhile

import dagster as dg

from dp_synth_pipeline.orchestration.dagster_internals import (
    UnresolvedAssetJobDefinition,
    schedule_execution_time_iterator,
)
from dp_synth_pipeline.orchestration.partitions import definition
from dp_synth_pipeline.orchestration.settings import TableSettings

ACCOUNT, EPSILON = "dp_synth/account", "dp_synth/epsilon"
"""Tags by which a forecast knows what one tick of a schedule asks for."""


def schedules(settings: TableSettings, job: UnresolvedAssetJobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the table's refresh schedule, off until a person starts it; none without a cron.

    A schedule spends epsilon at every tick, so nothing starts one by itself.
    """
    if settings.schedule is None:
        return []
    tags, price = {}, "without a privacy guarantee; nothing is charged"
    if settings.privacy == "dp":
        account, epsilon = settings.charge
        tags, price = {ACCOUNT: account, EPSILON: repr(epsilon)}, f"each tick charges {account} at most {epsilon:g}"
    cut = settings.partitions
    execution = None if cut is None else partial(_request_runs, definition(cut), tags)
    per = "" if cut is None else ": the window that is over, or each value in turn"
    return [
        dg.ScheduleDefinition(
            name=f"{settings.name}_refresh_schedule",
            job=job,
            cron_schedule=settings.schedule,
            execution_timezone="UTC",
            description=f"Refreshes {settings.name}{per}; {price}.",
            tags=tags if execution is None else None,  # else they stand on the requests
            execution_fn=execution,
        )
    ]


def due(cut: dg.PartitionsDefinition, at: datetime) -> list[str]:
    """Return the partitions that a schedule refreshes at a tick: the newest window that is over, or every listed value."""
    if not isinstance(cut, dg.TimeWindowPartitionsDefinition):
        return list(cut.get_partition_keys())
    with dg.partition_loading_context(effective_dt=at):
        newest = cut.get_last_partition_key()
    return [] if newest is None else [newest]


def _request_runs(cut: dg.PartitionsDefinition, tags: dict[str, str], context: dg.ScheduleEvaluationContext):
    """Ask for a run of each partition that is due."""
    for key in due(cut, context.scheduled_execution_time):
        yield dg.RunRequest(
            run_key=f"{context.scheduled_execution_time.isoformat()}:{key}", partition_key=key, tags=tags
        )


def ticks(crons: list[str], until: datetime, *, at_most: int = 2000) -> tuple[datetime, ...]:
    """Return the ticks of some crons between now and `until`, ascending."""
    now = datetime.now(UTC).timestamp()

    def dates(cron: str) -> Iterator[datetime]:
        return takewhile(lambda t: t <= until, schedule_execution_time_iterator(now, cron, "UTC"))

    return tuple(sorted(t for cron in crons for t in islice(dates(cron), at_most))[:at_most])
