"""Says what the Dagster UI shows of an asset: visibility, cost, columns and their lineage, and never a private value."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from dp_synth_pipeline.ledger import Entry, Lineage, Release
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


CARD = "card_in_full"
"""Metadata of a release card's asset: the card itself."""

DIGITS = 3
"""Of a number that a person reads here; the card's JSON has all of them."""

NEVER_LESS = ("epsilon", "delta")
"""What a figure's name begins with that must not be shown smaller than it is."""

PREVIEW_ROWS, PREVIEW_COLUMNS, PREVIEW_WIDTH = 10, 20, 40
"""Of a preview: rows, columns, and characters of a cell."""


def rounded_up(x: float) -> float:
    """Return an upper bound of three digits, so that what is shown still holds.

    Example:
        >>> rounded_up(2.999920999247302), rounded_up(6.813527e-06), rounded_up(0.0001)
        (3.0, 6.82e-06, 0.0001)
    """
    return float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(repr(x))) if math.isfinite(x) else x


def rounded_down(x: float) -> float:
    """Return a lower bound of three digits, for what is left to spend.

    Example:
        >>> rounded_down(5.531), rounded_down(0.0)
        (5.53, 0.0)
    """
    return float(Context(prec=DIGITS, rounding=ROUND_FLOOR).create_decimal(repr(x))) if math.isfinite(x) else x


def readable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts whose numbers have three digits: what a release cost is rounded up, all else to the nearest.

    A card stands above them, since it says in words what they say.

    Example:
        >>> readable({"epsilon_added": 1.00001, "noise_per_cell": 12.3456, "rows": 123456})
        {'epsilon_added': 1.01, 'noise_per_cell': 12.3, 'rows': 123456}
    """
    first = {CARD: facts[CARD]} if CARD in facts else {}
    return {name: _readable(name, value) for name, value in {**first, **facts}.items()}


def _readable(name: str, value: Any) -> Any:
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return rounded_up(value) if name.startswith(NEVER_LESS) else float(f"{value:.{DIGITS}g}")


def preview(rows: Path) -> dg.MarkdownMetadataValue:
    """Return the first ten rows of a synthetic table as Markdown; never call it on real rows."""
    with pq.ParquetFile(rows) as file:
        names = file.schema_arrow.names
        batches = file.iter_batches(batch_size=PREVIEW_ROWS, columns=names[:PREVIEW_COLUMNS])
        first = next(batches).to_pylist() if file.metadata.num_rows else []
    shown = names[:PREVIEW_COLUMNS]
    lines = [f"| {' | '.join(map(markdown, shown))} |", f"|{'---|' * len(shown)}"]
    lines += [f"| {' | '.join(_cell(row[name]) for name in shown)} |" for row in first]
    more = len(names) - len(shown)
    return dg.MetadataValue.md("\n".join(lines) + (f"\n\nand {more} more columns" if more else ""))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    return markdown(text if len(text) <= PREVIEW_WIDTH else f"{text[: PREVIEW_WIDTH - 1]}…")


def convergence(looks: Sequence[Mapping[str, Any]]) -> dict[str, dg.MetadataValue]:
    """Return the noisy losses that training paid for, a line each; nothing if it asked for none."""
    if not looks:
        return {}
    lines = ["| steps | loss, nats a row | deviation of its noise |", "|---|---|---|"]
    lines += [f"| {look['step']:,} | {look['loss']:.4g} | {look['deviation']:.2g} |" for look in looks]
    return {"convergence": dg.MetadataValue.md("\n".join(lines))}


def column_schema(schema: TableSchema, descriptions: Mapping[str, str]) -> dg.TableSchema:
    """Return the synthetic table's columns for the UI, with what a person wrote about them."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(c.name, c.storage, descriptions.get(c.name), tags={"dp_synth/kind": str(c.kind)})
            for c in schema.published
        ]
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
    chart = layout(list(account["history"]), account["forecast"], datetime.now(UTC).isoformat())
    if chart is None:
        return {}
    picture = base64.b64encode(drawing(chart, f"ε {account['epsilon']:g}").encode()).decode()
    caption = f"Left of account {account['name']}: {account['cost_left'] / account['cost_limit']:.1%} of its limit"
    return {"burn_down": dg.MetadataValue.md(f"![{markdown(caption)}](data:image/svg+xml;base64,{picture})")}


def cost(
    release: Release | Unprotected, entries: Sequence[Entry] = (), lineage: Lineage | None = None
) -> dict[str, Any]:
    """Return a release's cost, who paid and by which ledger entries; or that it promises nothing, and who says so.

    Args:
        lineage: all that it is a function of; its epsilon and delta are what the table promises.
    """
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
        facts |= {"epsilon_added": release.final_epsilon, "delta_added": release.final_delta}
    if lineage is not None:
        facts |= {"epsilon": lineage.epsilon, "delta": lineage.delta}
    return facts
