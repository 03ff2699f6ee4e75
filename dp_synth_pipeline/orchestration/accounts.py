"""Shows each privacy account as an asset of its own: the share used, what still fits, its releases and its burn-down.

No step makes an account, so the asset is an external one. A materialization of it is reported whenever a run begins or
settles a release, and whenever one is refused, be it in a run or at a tick of a schedule or a sensor before any run. What a
person does to the account on the command line is seen at the next of these. A materialization rather than an observation,
since Dagster calls an asset without one missing, and draws its numbers over time. Nothing on the page is private: balances,
names and our own texts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, DpSynthError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.settings import AnySettings
from dp_synth_pipeline.reporting import statements
from dp_synth_pipeline.reporting.templates import markdown
from dp_synth_pipeline.reporting.wording import at_most, at_most_percent, scientific
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.release import Release

GROUP = "privacy_accounts"
"""The asset group of all accounts, and the first part of their keys."""

NEWEST = 10
"""Releases that the page lists; `dp-synth ledger show` lists all."""

BLOCKS = 20
"""Of the bar that shows the share used."""

WAITS = "waits for a second person"
"""What the last event says of a refusal that ends once somebody approves."""

EVENT, WHY, TABLE, RUN = "last_event", "refused_because", "table", "run"
"""Metadata of a report: what happened, why it was refused if it was, of which table, in which run if there was one."""


@dataclass(frozen=True)
class Refusal:
    """A release that an account refused.

    Attributes:
        id: its place in Dagster's event log.
        run_id: the run that was refused; empty at a tick, before any run.
        at: when, ISO text.
        why: the whole reason.
        waits: whether a second person may still approve it.
    """

    id: int
    account: str
    table: str
    run_id: str
    at: str
    why: str
    waits: bool = False


def key(account: str) -> dg.AssetKey:
    """Return the asset of an account."""
    return dg.AssetKey([GROUP, account])


class AccountSpec(dg.AssetSpec):
    """An account, which every table that it pays for brings, and a project shows once."""

    def replace_attributes(self, **changes: Any) -> dg.AssetSpec:
        """Return itself: Dagster notes the YAML file in what that declares; an account belongs to none of them.

        Dagster takes equal specs of one key for one, and refuses others.
        """
        return self


def assets(settings: AnySettings) -> list[dg.AssetSpec]:
    """Return the asset of the account that pays for a table, the same one for all its tables; none where no account pays."""
    if settings.privacy == "none":
        return []
    account = settings.charge.account
    return [
        AccountSpec(
            key(account),
            description=f"What privacy account {account} has left. It is reported at each release and each refusal; "
            f"`dp-synth ledger show {account}` prints it at any time.",
            group_name=GROUP,
            kinds={"account"},
            tags=metadata.tags(metadata.RELEASABLE, "dp", {}),
        )
    ]


def show(instance: dg.DagsterInstance, release: Release | DatabaseRelease, event: str) -> None:
    """Report the account that pays for a release, now that something happened to it; nothing where no account pays.

    Args:
        event: what happened, such as 'began' or 'settled'.
    """
    record = release.record
    if isinstance(record, LedgerRelease):
        facts = {EVENT: f"A release of {record.table} {event}.", **_where(record.table, record.run_id)}
        _report(instance, release.protection.ledger, record.account, facts)


def show_refusal(
    instance: dg.DagsterInstance, ledger: Ledger, settings: AnySettings, refusal: BudgetExceeded, run_id: str = ""
) -> None:
    """Report the account that refused a table, with the reason.

    Args:
        run_id: empty at a tick, before any run.
    """
    end = WAITS if isinstance(refusal, ApprovalNeeded) else "was refused"
    event = f"A release of {settings.name} {end}{'' if run_id else ' before any run'}; nothing was read."
    facts = {EVENT: event, WHY: str(refusal), **_where(settings.name, run_id)}
    _report(instance, ledger, settings.charge.account, facts)


def refusals(instance: dg.DagsterInstance, after: int | None = None, limit: int = 1000) -> Iterator[Refusal]:
    """Yield the refusals that the pages of all accounts show, newest first for each account.

    Args:
        after: only those whose `id` is greater.
        limit: how many reports of each account are looked through.
    """
    for asset in instance.get_asset_keys(prefix=[GROUP]):
        wanted = dg.AssetRecordsFilter(asset_key=asset, after_storage_id=after)
        for record in instance.fetch_materializations(wanted, limit=limit).records:
            seen = record.asset_materialization
            if seen is not None and WHY in seen.metadata:
                wanted_facts = (EVENT, WHY, TABLE, RUN)
                told = {name: str(value.value) for name, value in seen.metadata.items() if name in wanted_facts}
                at = datetime.fromtimestamp(record.timestamp, UTC).isoformat(timespec="seconds")
                waits, run = WAITS in told.get(EVENT, ""), told.get(RUN, "")
                yield Refusal(record.storage_id, asset.path[-1], told[TABLE], run, at, told[WHY], waits)


def facts(ledger: Ledger, account: str) -> dict[str, Any]:
    """Return what the page of an account shows, as metadata."""
    page = statements.page(ledger, account)["accounts"][0]
    releases = [r for r in ledger.releases(account) if r.state != "voided"]
    used = (page["cost_spent"] + page["cost_held"]) / page["cost_limit"]
    fits = _fits(ledger, account, releases[-1] if releases else None)
    return {
        "in_words": f"{_bar(used)} {at_most_percent(used)} used; {fits}",
        "share_used": metadata.rounded_up(used),
        "share_held_by_unfinished_releases": metadata.rounded_up(page["cost_held"] / page["cost_limit"]),
        "limit": f"ε {page['epsilon']:g} at δ {scientific(page['delta'])}",
        "epsilon_left_for_one_release": metadata.rounded_down(page["epsilon_left"]),
        **({"umbrella": f"{page['under']}: {ledger.share(page['under'])}"} if page["under"] else {}),
        "releases": len(releases),
        **metadata.burn_down(page),
        "newest_releases": dg.MetadataValue.md(_newest(page["releases"])),
    }


def _where(table: str, run_id: str) -> dict[str, Any]:
    return {TABLE: table} | ({RUN: dg.MetadataValue.dagster_run(run_id)} if run_id else {})


def _report(instance: dg.DagsterInstance, ledger: Ledger, account: str, event: dict[str, Any]) -> None:
    """Report the account as it stands; a ledger that cannot be read now is no reason to end a release that it admitted."""
    try:
        seen = facts(ledger, account)
    except DpSynthError as error:
        logging.getLogger(__name__).warning("the page of account %s is not up to date: %s", account, error)
        return
    shown = {"in_words": seen.pop("in_words"), **event, **seen}
    instance.report_runless_asset_event(dg.AssetMaterialization(key(account), metadata=shown))


def _fits(ledger: Ledger, account: str, last: LedgerRelease | None) -> str:
    """Say what the account would still admit, in releases like the last one if there is one."""
    most = f"ε ≤ {metadata.rounded_down(ledger.balance(account).epsilon_left):g} fits one more release"
    if last is None:
        return f"no release yet, {most}"
    plan = next((p for p in ledger.plans(account) if p.id == last.plan), None)
    if plan is not None:
        return f"{plan.times - plan.used} uses of plan {plan.name} are left"
    asked: dict[str, Any] = {n: getattr(last, n) for n in ("epsilon", "delta", "own_delta", "purpose")}
    count = ledger.capacity(account, **asked, blocks=last.blocks)
    return f"fits {count} more like the last" if count else f"fits none like the last, {most}"


def _bar(share: float) -> str:
    """Return a share as a bar of text, rounded up: Dagster shows a picture only after a click."""
    full = min(BLOCKS, math.ceil(share * BLOCKS - 1e-9))
    return "█" * full + "░" * (BLOCKS - full)


def _newest(releases: list[dict[str, Any]]) -> str:
    rows = ["| when | table | state | ε at most | share |", "|---|---|---|---|---|"]
    for r in [r for r in releases if r["state"] != "voided"][: -NEWEST - 1 : -1]:
        epsilon = r["epsilon"] if r["final_epsilon"] is None else r["final_epsilon"]
        share = "held" if r["charged_share"] is None else at_most_percent(r["charged_share"])
        on = (r["ended_at"] or r["reserved_at"])[:10]
        rows.append(f"| {on} | {markdown(r['table'])} | {r['state']} | {_figure(epsilon)} | {share} |")
    return "\n".join(rows)


def _figure(epsilon: float | None) -> str:
    return "" if epsilon is None or not math.isfinite(epsilon) else at_most(epsilon, 3)
