"""Asks whether a refresh at a tick, or a backfill as a whole, would be admitted, before a run reserves anything.

A refresh that needs a second person is put on record as a request at its tick, and becomes a run at one after the approval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import ApprovalNeeded, BudgetExceeded, DpSynthError, InvalidInput
from dp_synth_pipeline.ledger import Ledger, refusal
from dp_synth_pipeline.orchestration import partitions
from dp_synth_pipeline.orchestration.dagster_internals import BACKFILL_ID_TAG
from dp_synth_pipeline.orchestration.settings import AnySettings, RelatedTablesSettings, TableSettings
from dp_synth_pipeline.synthesis import blocks, memory
from dp_synth_pipeline.synthesis.allocation import BudgetRequest
from dp_synth_pipeline.synthesis.database.sharing import DatabaseProtection
from dp_synth_pipeline.synthesis.protection import LedgerProtection

ASKS = "dp_synth/asks"
"""Metadata of a partitioned table's job: what one of its refreshes asks of which account. Declared, so public."""

FITTING = "dp_synth/fitting"
"""Tag of a backfill: "true" runs the partitions that fit, though others do not."""

_ASKING = {"account", "epsilon", "delta", "plan", "population", "unit", "partitions", "intended_use"}


@dataclass(frozen=True)
class Preflight:
    """Which partitions of a backfill the ledger would admit, one after the other; nothing is reserved.

    Attributes:
        keys: the partitions, in their order.
        fits: for each of them, whether it would be admitted.
        full: the blocks that refuse the first that would not, if others of its blocks would admit it.
    """

    keys: tuple[str, ...]
    fits: tuple[bool, ...]
    full: tuple[str, ...] = ()

    @property
    def fitting(self) -> list[str]:
        """The partitions that would be admitted."""
        return [k for k, fits in zip(self.keys, self.fits, strict=True) if fits]

    @property
    def told(self) -> str:
        """One sentence, such as '30 partitions, 24 fit; the first that does not: 2026-01-25'."""
        count = f"{len(self.keys)} partition{'' if len(self.keys) == 1 else 's'}"
        if all(self.fits):
            return f"{count}, all fit"
        first = f"{self.keys[self.fits.index(False)]}{refusal.without_room(self.full)}"
        return f"{count}, {sum(self.fits)} fit; the first that does not: {first}"


def preflight(settings: TableSettings, ledger: Ledger, keys: Sequence[str]) -> Preflight:
    """Return which partitions of a backfill would be admitted now; change nothing.

    Raises:
        InvalidInput: if the account cannot have balances for this table's partitions.
    """
    cut, account = settings.partitions, ledger.account(settings.charge.account)
    if cut is None:
        raise InvalidInput(
            f"{settings.name} has no partitions; write a `partitions` section, or refresh the whole table."
        )
    if settings.plan is not None:
        uses_left = next((p.times - p.used for p in ledger.plans(account.name) if p.name == settings.plan), 0)
        uses = 1 if cut.backfill == "single_run" else len(keys)
        return Preflight(tuple(keys), tuple(i < uses_left or uses <= uses_left for i in range(len(keys))))
    request = BudgetRequest.of(settings, account.delta).costs()
    paying: list[tuple[str, ...]] = [() for _ in keys]
    if settings.charges_blocks:
        blocks.require_blocks(ledger, settings)
        paying = [blocks.charged_blocks(cut, [k]) for k in keys]
    ask = partial(ledger.admitted, account.name, **request)
    return Preflight(tuple(keys), *(_in_turn if cut.backfill == "multi_run" else _at_once)(ask, paying))


def _in_turn(
    ask: Callable[..., list[bool]], paying: Sequence[tuple[str, ...]]
) -> tuple[tuple[bool, ...], tuple[str, ...]]:
    """Return which of several releases would be admitted, each after those before it, and what `full` says of a preflight.

    Args:
        ask: asks the ledger whether each of several releases would be admitted, by the blocks that they are charged to.
        paying: the blocks that each is charged to.
    """
    fits = tuple(ask(each=paying))
    return fits, _full(paying, fits, lambda place, block: ask(each=[*paying[:place], (block,)])[-1])


def _at_once(
    ask: Callable[..., list[bool]], paying: Sequence[tuple[str, ...]]
) -> tuple[tuple[bool, ...], tuple[str, ...]]:
    """Return the same of one release over all blocks: it takes of each, once, what a release over it alone would."""
    each = list(dict.fromkeys((block,) for names in paying for block in names)) or [()]
    alone = dict(zip(each, ask(each=each), strict=True))
    fits = tuple(all(alone[(block,)] for block in names) if names else alone[()] for names in paying)
    return fits, _full(paying, fits, lambda _, block: alone[(block,)])


def _full(
    paying: Sequence[tuple[str, ...]], fits: tuple[bool, ...], admits: Callable[[int, str], bool]
) -> tuple[str, ...]:
    """Return the blocks that refuse the first release that does not fit; none, if it would fit none of its blocks.

    Args:
        admits: says of the release at a place whether it would be admitted over one block alone.
    """
    if all(fits):
        return ()
    first = fits.index(False)
    full = tuple(block for block in paying[first] if not admits(first, block))
    return full if len(full) < len(paying[first]) else ()


def refused_at_tick(settings: AnySettings, ledger: Ledger, keys: Sequence[str] = ()) -> dict[str, BudgetExceeded]:
    """Return why the ledger would refuse each refresh that a tick asks for, by partition; charge nothing, open no source.

    Only what would be refused for want of budget, or waits for a second person, is left to no run. Any other mistake,
    such as an account that nobody opened, needs a person, and a run that fails says so.

    Args:
        keys: the partitions that are due, each of which is a run; none for a table that is refreshed as a whole, whose
            one refusal is named by the empty text.
    """
    if settings.privacy == "none":
        return {}
    try:
        if settings.partitions is None:
            _preview(settings, ledger)
            return _waiting(settings, ledger, [""])
        answer = preflight(settings, ledger, keys)
    except BudgetExceeded as error:
        return {"": error}
    except DpSynthError:
        return {}
    under = ledger.account(settings.charge.account).under
    others = [f"umbrella {under!r} above it"] if under else []
    others += ["a quota"] if ledger.has_quotas(settings.charge.account) else []
    whose = f"Account {settings.charge.account!r}" + "".join(f", or {other}," for other in others)
    why = f"{whose} refuses a refresh of {settings.name}: {answer.told}."
    refused = {k: BudgetExceeded(why) for k, fits in zip(answer.keys, answer.fits, strict=True) if not fits}
    return refused | _waiting(settings, ledger, answer.fitting)


def _waiting(settings: AnySettings, ledger: Ledger, keys: Sequence[str]) -> dict[str, BudgetExceeded]:
    """Return the refreshes that wait for a second person, who is asked for them now; none by any other mistake."""
    protection = _protection(settings, ledger)
    waiting: dict[str, BudgetExceeded] = {}
    goes_on = memory.possible(protection)
    for key in keys:
        try:
            protection.ask(blocks.part(settings.asked, [key] if key else []), goes_on=goes_on)
        except ApprovalNeeded as error:
            waiting[key] = error
        except DpSynthError:
            continue
    return waiting


def _protection(settings: AnySettings, ledger: Ledger) -> LedgerProtection:
    """Return the account that pays for a table, or for related ones together."""
    if isinstance(settings, RelatedTablesSettings):
        return DatabaseProtection(settings, ledger)
    return LedgerProtection(settings, ledger)


def _preview(settings: AnySettings, ledger: Ledger) -> None:
    """Raise what reserving one refresh of a whole table would raise for want of budget."""
    account = ledger.account(settings.charge.account)
    if settings.plan is None:
        goes_on = memory.possible(_protection(settings, ledger))
        ledger.preview(account.name, **BudgetRequest.of(settings.asked, account.delta, goes_on=goes_on).costs())
        return
    plan = next((p for p in ledger.plans(account.name) if p.name == settings.plan), None)
    if plan is not None and plan.used >= plan.times:
        raise refusal.no_use_left(plan)


def asking(settings: TableSettings) -> dict[str, Any]:
    """Return the job metadata from which `asked_of` reads what a backfill asks; none for a table without partitions."""
    if settings.partitions is None or settings.privacy == "none":
        return {}
    return {ASKS: dg.MetadataValue.json(settings.model_dump(include=_ASKING, mode="json"))}


def asked_of(metadata: Mapping[str, Any], table: str) -> TableSettings:
    """Return what `asking` wrote, as settings that know no source.

    Raises:
        InvalidInput: if the table has no partitions, or no account to ask.
    """
    if ASKS not in metadata:
        raise InvalidInput(
            f"{table} has no partitions that an account pays for; write `partitions: {{column: visit_date, cadence: daily, "
            f"start: 2026-01-01}}` in its YAML."
        )
    return TableSettings(table=table, source="", **metadata[ASKS].value)


def check_backfill(context: dg.AssetExecutionContext, settings: TableSettings, ledger: Ledger) -> None:
    """Refuse a backfill that does not fit as a whole, in its first run, before anything of it is reserved.

    Raises:
        BudgetExceeded: with the sentence that `dp-synth backfill` prints.
    """
    tags = context.run.tags
    backfill_id = tags.get(BACKFILL_ID_TAG)
    if backfill_id is None or settings.partitions is None or tags.get(FITTING, "").lower() == "true":
        return
    keys = _targets(context, backfill_id, partitions.definition(settings.partitions))
    runs = {r.run_id for r in context.instance.get_runs(dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill_id}))}
    has_begun = any(
        r.table == settings.name and r.run_id in runs and r.state != "voided" for r in ledger.releases(settings.account)
    )
    if not keys or has_begun:
        return
    answer = preflight(settings, ledger, keys)
    if not all(answer.fits):
        raise BudgetExceeded(
            f"Backfill {backfill_id} of {settings.name}: {answer.told}. Backfill those that fit, or tag the backfill "
            f"{FITTING}: true to run them and have the others refused. Nothing was read and nothing was changed."
        )


def _targets(context: dg.AssetExecutionContext, backfill_id: str, definition: dg.PartitionsDefinition) -> list[str]:
    """Return the partitions of this asset that a backfill targets; none if Dagster does not tell."""
    backfill = context.instance.get_backfill(backfill_id)
    if backfill is None:
        return []
    if backfill.partition_names is not None:
        return list(backfill.partition_names)
    data = backfill.asset_backfill_data
    if data is None:
        return []
    subset = data.get_target_partitions_subset(context.asset_key)
    target_keys = set() if subset is None else set(subset.get_partition_keys())
    return [k for k in definition.get_partition_keys() if k in target_keys]


def asking_table(definitions: dg.Definitions, table: str) -> TableSettings:
    """Return what one partitioned table of a project asks of its account.

    Raises:
        InvalidInput: if the project has no such table, or no account pays for its partitions.
    """
    name = f"{table}_refresh"
    table_names = sorted(j.name.removesuffix("_refresh") for j in definitions.jobs or () if j.name.endswith("_refresh"))
    if table not in table_names:
        raise InvalidInput(f"this project has no table {table!r}; it has: {', '.join(table_names) or 'none'}.")
    return asked_of(definitions.resolve_job_def(name).metadata, table)


def chosen(settings: TableSettings, selection: str) -> list[str]:
    """Return the partitions that a person named, in their own order.

    Raises:
        InvalidInput: if the table has no such partition, or none yet.
    """
    if settings.partitions is None:
        return []
    keys = list(partitions.definition(settings.partitions).get_partition_keys())
    first, mark, last = selection.partition("..")
    names = [first, last] if mark else [k.strip() for k in selection.split(",") if k.strip()]
    unknown = [k for k in names if k not in keys]
    if unknown or not keys:
        have = f"it has {keys[0]} to {keys[-1]}" if keys else "its first window is not over yet"
        raise InvalidInput(
            f"--partitions: {settings.name} has no partition {unknown[0] if unknown else 'yet'!r}; {have}."
        )
    if mark:
        return keys[keys.index(first) : keys.index(last) + 1]
    return [k for k in keys if k in names] if names else keys


def runs(settings: TableSettings, keys: list[str]) -> list[list[str]]:
    """Return the partitions of each run: one, or under single_run all that adjoin one another."""
    cut = settings.partitions
    if cut is None or cut.backfill == "multi_run":
        return [[k] for k in keys]
    all_keys = list(partitions.definition(cut).get_partition_keys())
    groups: list[list[str]] = []
    for key in keys:
        if groups and all_keys.index(key) == all_keys.index(groups[-1][-1]) + 1:
            groups[-1].append(key)
        else:
            groups.append([key])
    return groups
