"""Says what the Dagster UI shows of an asset: visibility, cost, columns and their lineage, and never a private value."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from dp_synth_pipeline.ledger import Entry, Release
from dp_synth_pipeline.reporting.burndown import drawing, layout
from dp_synth_pipeline.reporting.templates import markdown
from dp_synth_pipeline.synthesis.no_protection import Unprotected
from dp_synth_pipeline.tabular.schema import TableSchema

RESTRICTED = "restricted"
"""The asset looks at real rows, and never leaves."""

RELEASABLE = "releasable"
"""The asset is noised and charged, or computed from what is."""


GUARANTEE = "dp_synth/guarantee"
"""Tag of every asset and job: `dp`, or `none` for a source that a person declared public."""


VISIBILITY = "dp_synth/visibility"
"""Tag of every asset: `RESTRICTED` or `RELEASABLE`."""


def tags(visibility: str, guarantee: str, extra: dict[str, str]) -> dict[str, str]:
    """Return asset tags that say whether the asset may leave, and what it promises. A person's own tags change neither."""
    return {**extra, VISIBILITY: visibility, GUARANTEE: guarantee}


def column_schema(schema: TableSchema) -> dg.TableSchema:
    """Return the synthetic table's columns for the UI."""
    return dg.TableSchema(
        columns=[dg.TableColumn(c.name, c.storage, tags={"dp_synth/kind": str(c.kind)}) for c in schema.published]
    )


def column_lineage(schema: TableSchema, upstream: dg.AssetKey) -> dg.TableColumnLineage:
    """Return where columns come from: a learned one from its namesake upstream, an identifier from nothing."""
    learned_names = {c.name for c in schema.learned}
    return dg.TableColumnLineage(
        {c.name: [dg.TableColumnDep(upstream, c.name)] if c.name in learned_names else [] for c in schema.published}
    )


def burn_down(account: Mapping[str, Any]) -> dict[str, dg.MetadataValue]:
    """Return an account's burn-down as a picture; nothing if there is nothing to draw yet.

    Args:
        account: one of the accounts that `statements.page` returns.
    """
    chart = layout(list(account["history"]), account["forecast"], None)
    if chart is None:
        return {}
    picture = base64.b64encode(drawing(chart, f"ε {account['epsilon']:g}").encode()).decode()
    caption = f"Left of account {account['name']}: {account['cost_left'] / account['cost_limit']:.1%} of its limit"
    return {"burn_down": dg.MetadataValue.md(f"![{markdown(caption)}](data:image/svg+xml;base64,{picture})")}


def cost(release: Release | Unprotected, entries: Sequence[Entry] = ()) -> dict[str, Any]:
    """Return a release's cost, who paid and by which ledger entries; or that it promises nothing, and who says so."""
    if isinstance(release, Unprotected):
        return {
            "guarantee": release.notice,
            "release": release.id,
            "run_id": release.run_id,
            "code_version": release.code_version,
        }
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
