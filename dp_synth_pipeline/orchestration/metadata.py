"""What the Dagster UI shows about an asset: visibility, cost, columns and their lineage. Never a private value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dp_synth_pipeline.ledger import Entry, Release
from dp_synth_pipeline.tabular.schema import TableSchema

RESTRICTED = "restricted"
"""Looks at real rows; never leaves."""

RELEASABLE = "releasable"
"""Noised and charged, or computed from what is."""


def tags(visibility: str, extra: dict[str, str]) -> dict[str, str]:
    """Asset tags that say whether the asset may leave."""
    return {"dp_synth/visibility": visibility, **extra}


def column_schema(schema: TableSchema) -> dg.TableSchema:
    """The synthetic table's columns for the UI."""
    return dg.TableSchema(
        columns=[dg.TableColumn(c.name, c.storage, tags={"dp_synth/kind": str(c.kind)}) for c in schema.published]
    )


def column_lineage(schema: TableSchema, upstream: dg.AssetKey) -> dg.TableColumnLineage:
    """Each learned column comes from its namesake upstream; identifiers come from nothing."""
    learned = {c.name for c in schema.learned}
    return dg.TableColumnLineage(
        {c.name: [dg.TableColumnDep(upstream, c.name)] if c.name in learned else [] for c in schema.published}
    )


def cost(release: Release, entries: Sequence[Entry] = ()) -> dict[str, Any]:
    """What a release costs, who paid and by which entries of the ledger, for an asset's metadata."""
    facts: dict[str, Any] = {
        "account": release.account,
        "release": release.id,
        "run_id": release.run_id,
        "code_version": release.code_version,
        "epsilon_asked": release.epsilon,
    }
    if entries:
        facts["entries"] = [f"{e.id} ({e.mechanism})" for e in entries]
    if release.final_epsilon is not None:
        facts |= {"epsilon": release.final_epsilon, "delta": release.final_delta}
    return facts
