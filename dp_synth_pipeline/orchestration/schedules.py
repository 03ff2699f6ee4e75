"""When a table is refreshed, and what that will cost: schedules, and their next dates for a forecast."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._utils.schedules import schedule_execution_time_iterator

from dp_synth_pipeline.orchestration.config import TableSettings

ACCOUNT, EPSILON = "dp_synth/account", "dp_synth/epsilon"
"""Tags by which a forecast knows what one tick of a schedule asks for."""


def schedules(settings: TableSettings, job: UnresolvedAssetJobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the table's refresh schedule, off until a person starts it; none without a cron.

    A schedule spends epsilon at every tick, so nothing starts one by itself.
    """
    if settings.schedule is None:
        return []
    return [
        dg.ScheduleDefinition(
            name=f"{settings.name}_refresh_schedule",
            job=job,
            cron_schedule=settings.schedule,
            execution_timezone="UTC",
            description=f"Refreshes {settings.name}; each tick charges {settings.account} at most {settings.epsilon:g}.",
            tags={ACCOUNT: settings.account, EPSILON: repr(settings.epsilon)},
        )
    ]


def ticks(crons: list[str], until: datetime, *, at_most: int = 2000) -> tuple[datetime, ...]:
    """Return the ticks of some crons between now and `until`, ascending."""
    now = datetime.now(UTC).timestamp()

    def dates(cron: str) -> Iterator[datetime]:
        return takewhile(lambda t: t <= until, schedule_execution_time_iterator(now, cron, "UTC"))

    return tuple(sorted(t for cron in crons for t in islice(dates(cron), at_most))[:at_most])
