"""Builds the schedules that refresh a table, and lists their next dates for a forecast."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts, preflight
from dp_synth_pipeline.orchestration.dagster_internals import (
    UnresolvedAssetJobDefinition,
    schedule_execution_time_iterator,
)
from dp_synth_pipeline.orchestration.partitions import definition
from dp_synth_pipeline.orchestration.resources import LedgerResource, of_location
from dp_synth_pipeline.orchestration.settings import AnySettings, is_independent

ACCOUNT, EPSILON, LATER = "dp_synth/account", "dp_synth/epsilon", "dp_synth/refresh_epsilon"
PURPOSE = "dp_synth/purpose"
INDEPENDENT = "dp_synth/independent"
"""Tags by which a forecast knows what one tick of a schedule asks for."""


def schedules(settings: AnySettings, job: UnresolvedAssetJobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the table's refresh schedule, off until a person starts it; none without a cron.

    A schedule spends epsilon at every tick, so nothing starts one by itself. At a tick it asks the ledger first. What would
    be refused becomes no run: the tick is skipped with the reason, which the account's page shows too. Of several
    partitions, those that fit are refreshed.
    """
    if settings.schedule is None:
        return []
    tags, price = {}, "without a privacy guarantee; nothing is charged"
    if settings.privacy == "dp":
        account, epsilon = settings.charge
        tags, price = {ACCOUNT: account, EPSILON: repr(epsilon)}, f"each tick charges {account} at most {epsilon:g}"
        if (later := settings.asked.refresh.epsilon) is not None:
            tags[LATER], price = repr(later), f"{price}, and {later:g} where it goes on from an earlier release"
        if settings.intended_use:
            tags[PURPOSE] = settings.intended_use
        if is_independent(settings):
            tags[INDEPENDENT] = "true"
    cut = settings.partitions
    per = "" if cut is None else ": the window that is over, or each value in turn"

    @dg.schedule(
        name=f"{settings.name}_refresh_schedule",
        job=job,
        cron_schedule=settings.schedule,
        execution_timezone="UTC",
        description=f"Refreshes {settings.name}{per}; {price}.",
        tags=tags if cut is None else None,  # else a forecast reads the job's metadata
    )
    def _refresh(context: dg.ScheduleEvaluationContext):
        return _requests(settings, tags, context, of_location(LedgerResource, context).get())

    return [_refresh]


def _requests(
    settings: AnySettings, tags: dict[str, str], context: dg.ScheduleEvaluationContext, ledger: Ledger
) -> list[dg.RunRequest] | dg.SkipReason:
    """Return a run for each refresh that is due and that the ledger would admit, or why there is none."""
    at, cut = context.scheduled_execution_time, settings.partitions
    keys = [] if cut is None else due(definition(cut), at)
    refused = preflight.refused_at_tick(settings, ledger, keys)
    for refusal in dict.fromkeys(refused.values()):
        accounts.show_refusal(context.instance, ledger, settings, refusal)
    if cut is None and not refused:
        return [dg.RunRequest(tags=tags)]
    fitting = [key for key in keys if key not in refused]
    if refused and not fitting:
        return dg.SkipReason(str(next(iter(refused.values()))))
    return [dg.RunRequest(run_key=f"{at.isoformat()}:{key}", partition_key=key, tags=tags) for key in fitting]


def due(cut: dg.PartitionsDefinition, at: datetime) -> list[str]:
    """Return the partitions that a schedule refreshes at a tick: the newest window that is over, or every listed value."""
    if not isinstance(cut, dg.TimeWindowPartitionsDefinition):
        return list(cut.get_partition_keys())
    with dg.partition_loading_context(effective_dt=at):
        newest = cut.get_last_partition_key()
    return [] if newest is None else [newest]


def ticks(crons: list[str], until: datetime, *, at_most: int = 2000) -> tuple[datetime, ...]:
    """Return the ticks of some crons between now and `until`, ascending."""
    now = datetime.now(UTC).timestamp()

    def dates(cron: str) -> Iterator[datetime]:
        return takewhile(lambda t: t <= until, schedule_execution_time_iterator(now, cron, "UTC"))

    return tuple(sorted(t for cron in crons for t in islice(dates(cron), at_most))[:at_most])
