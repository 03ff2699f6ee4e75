"""This sensor asks for a refresh when a file was rewritten. It opens no file and keeps no private value.

It looks at one thing: when a file was last modified. Whoever runs the loading job knows that already, and it says that the
job ran, not what it wrote. A file's size, a row count or a newest timestamp are functions of the rows: to act on them, or
to keep them in a cursor that everybody sees, would be a look at the data that no account paid for. That a load happened is
public by declaration: write `on_new_data` only where loads do not depend on single persons, such as nightly exports.

Before it asks, the ledger is asked. What would be refused becomes no run: the tick is skipped with the reason, and the data
wait until there is room in the account.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.orchestration import accounts, preflight
from dp_synth_pipeline.orchestration.dagster_internals import UnresolvedAssetJobDefinition
from dp_synth_pipeline.orchestration.resources import LedgerResource, of_location
from dp_synth_pipeline.orchestration.settings import TableSettings, duration


def sensors(settings: TableSettings, job: UnresolvedAssetJobDefinition) -> list[dg.SensorDefinition]:
    """Return the table's sensor on new data, off until a person starts it; none without `on_new_data`."""
    trigger = settings.on_new_data
    if trigger is None:
        return []
    watched = Path((trigger.watermark or settings.source).removeprefix("file://")).expanduser()
    pause = duration(trigger.at_most_every, "at_most_every").total_seconds()

    @dg.sensor(
        name=f"{settings.name}_new_data_sensor",
        job=job,
        minimum_interval_seconds=60 * trigger.minutes,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Asks for a refresh when {watched.name} was written anew, at most once in {trigger.at_most_every}.",
    )
    def _new_data(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = datetime.now(UTC)
        cursor = json.loads(context.cursor) if context.cursor else None
        try:
            modified_at = datetime.fromtimestamp(watched.stat().st_mtime, UTC).isoformat(timespec="seconds")
        except OSError:
            return dg.SensorResult(skip_reason=f"{watched.name} is not there.")
        if cursor is None:  # what was there when a person started the sensor may be released already
            why = f"noted when {watched.name} was written; the next change asks for a refresh."
            return dg.SensorResult(skip_reason=why, cursor=_cursor(modified_at, None))
        if modified_at == cursor["written"]:
            return dg.SensorResult(skip_reason=f"{watched.name} is as it was.")
        if cursor["asked"] is not None and (now - datetime.fromisoformat(cursor["asked"])).total_seconds() < pause:
            return dg.SensorResult(skip_reason=f"new data wait: at most one refresh in {trigger.at_most_every}.")
        ledger = of_location(LedgerResource, context)
        refusal = preflight.refused_at_tick(settings, ledger.get()).get("")
        if refusal is not None:  # the data wait for room in the account, and the refusal is shown once for each load
            if cursor.get("refused") != modified_at:
                accounts.show_refusal(context.instance, ledger.get(), settings, refusal)
            return dg.SensorResult(skip_reason=str(refusal), cursor=json.dumps({**cursor, "refused": modified_at}))
        request = dg.RunRequest(run_key=f"{settings.name}:{modified_at}")
        return dg.SensorResult(run_requests=[request], cursor=_cursor(modified_at, now.isoformat()))

    return [_new_data]


def _cursor(modified_at: str, requested_at: str | None) -> str:
    return json.dumps({"written": modified_at, "asked": requested_at})
