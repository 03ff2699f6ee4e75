"""Notices a ledger that was deleted, restored or replaced. At each charge, its chain head is kept in Dagster's event log.

The ledger's own verification catches edited entries. It cannot know of entries that are gone, so each materialization
that charges writes the head of the chain beside its other metadata, and the next one asks the ledger whether it still
holds that head.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.assets.stage import key
from dp_synth_pipeline.orchestration.settings import AnySettings

HEAD = "ledger_head"
CHARGING = ("ingested", "generator", "settled")
"""The stages whose materializations carry the chain head."""


def check_continuity(instance: dg.DagsterInstance, ledger: Ledger, settings: AnySettings) -> None:
    """Stop if the ledger is not the one, grown, that this table, or these related ones, were charged to before.

    Raises:
        LedgerCorrupted: if a head that Dagster remembers is unknown to the ledger, or the ledger does not verify.
    """
    heads = {
        f"{settings.name}/{stage}": time_and_head
        for stage in CHARGING
        if (time_and_head := _recorded_head(instance, key(settings, stage))) is not None
    }
    if not heads:
        return
    _, head = max(heads.values())
    try:
        ledger.verify(since=head)
    except LedgerCorrupted as error:
        raise LedgerCorrupted(
            f"{error} This table was charged to a ledger whose chain head was {head[:12]}…; restore that ledger from "
            f"its backup. If a person replaced it on purpose, wipe the materializations of "
            f"{' and '.join(heads)} in Dagster. Nothing was read."
        ) from None


def forget(instance: dg.DagsterInstance, tables: Sequence[str]) -> None:
    """Wipe the materializations that carry a chain head, for a person who put these tables' ledger aside on purpose."""
    instance.wipe_assets([dg.AssetKey([table, stage]) for table in tables for stage in CHARGING])


def _recorded_head(instance: dg.DagsterInstance, asset: dg.AssetKey) -> tuple[float, str] | None:
    event = instance.get_latest_materialization_event(asset)
    materialization = event.asset_materialization if event is not None else None
    if event is None or materialization is None or HEAD not in materialization.metadata:
        return None
    return event.timestamp, str(materialization.metadata[HEAD].value)
