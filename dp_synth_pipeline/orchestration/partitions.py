"""Translates a table's partitions into Dagster's."""

import dagster as dg

from dp_synth_pipeline.orchestration.dagster_internals import CheckError
from dp_synth_pipeline.synthesis import blocks
from dp_synth_pipeline.synthesis.settings import PartitionSettings, ReleaseSettings


def definition(cut: PartitionSettings) -> dg.PartitionsDefinition:
    """Return the partitions as Dagster knows them; a window is one only when it is over."""
    if cut.values is not None:
        return dg.StaticPartitionsDefinition(cut.values)
    start = str(cut.start)
    if cut.cadence == "daily":
        return dg.DailyPartitionsDefinition(start_date=start)
    if cut.cadence == "weekly":
        return dg.WeeklyPartitionsDefinition(start_date=start, day_offset=1)
    return dg.MonthlyPartitionsDefinition(start_date=start)


def keys_of(context: dg.AssetExecutionContext, settings: ReleaseSettings) -> tuple[str, ...]:
    """Return the partitions that a run refreshes; none for a table without.

    Raises:
        InvalidInput: if the table has partitions and the run names none: it must not read them all.
    """
    if settings.partitions is None:
        return ()
    try:
        return tuple(context.partition_keys)
    except (dg.DagsterError, CheckError):
        return blocks.part(settings).keys
