"""Declares, opens and reports every stage of a release as a Dagster asset, of one table or of related ones."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import isgenerator
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.orchestration import accounts, automation, metadata, partitions
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.executors.placing import check_placed, check_reachable
from dp_synth_pipeline.orchestration.failures import refuse, reported
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource, of_project
from dp_synth_pipeline.orchestration.settings import AnySettings, RelatedTablesSettings, duration
from dp_synth_pipeline.reporting import card_pages
from dp_synth_pipeline.reporting.card import ReleaseCard
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.profile_cache import RENEW
from dp_synth_pipeline.synthesis.protection import no_guarantee
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import PartitionSettings, PublicSettings
from dp_synth_pipeline.synthesis.store import Store, ledger_url

Reserved = TypeVar("Reserved", Release, DatabaseRelease)

STATES = "dp_synth_states"
"""Key of the IO manager, so that it can live beside a project's own."""


def key(settings: AnySettings, name: str) -> dg.AssetKey:
    """Name one stage of one table; of a database's tables, as in `visits/profile`."""
    return dg.AssetKey([settings.name, *name.split("/")])


def stage(
    settings: AnySettings,
    name: str,
    *,
    visibility: str,
    description: str,
    kinds: set[str],
    after: Sequence[str] = (),
    checks: Sequence[dg.AssetCheckSpec] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes an asset of one stage, as `in_its_project` calls it.

    Args:
        visibility: `metadata.RESTRICTED` or `metadata.RELEASABLE`.
        after: the stages whose states it takes, such as `visits/profile`; none, if it follows the sources.
        checks: asset checks that the stage itself evaluates, so that nobody can run it without them.
    """
    kind = name.rpartition("/")[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill policies: each stage of each table would say it
        asset = dg.asset(
            ins=states_of(settings, after),
            deps=[] if after else [key(settings, source) for source in settings.source_names],
            check_specs=checks,
            op_tags=op_tags(settings.compute, kind),
            pool=pool_of(settings.compute, kind),
            **described(settings, name, visibility, description, kinds),
            **_partitioned(settings.partitions),
            automation_condition=automation.condition(settings.automation, name),
        )
    return lambda body: asset(in_its_project(settings, name, after, body))


def described(settings: AnySettings, name: str, visibility: str, description: str, kinds: set[str]) -> dict[str, Any]:
    """Return what an asset says of itself, by the names of Dagster's arguments."""
    kind = name.rpartition("/")[2]
    spends = automation.spending_tag(kind) if settings.privacy == "dp" else {}
    fresh = (
        dg.FreshnessPolicy.time_window(fail_window=duration(settings.fresh_for, "fresh_for"))
        if settings.fresh_for
        else None
    )
    return {
        "key": key(settings, name),
        "description": _noticed(settings.public, description),
        "kinds": kinds,
        "tags": metadata.tags(visibility, settings.privacy, settings.tags) | spends,
        "group_name": settings.group or settings.name,
        "owners": settings.owners or None,
        "code_version": settings.code_version(),
        "io_manager_key": STATES,
        "freshness_policy": fresh if kind == "published" else None,
    }


def states_of(settings: AnySettings, stages: Sequence[str]) -> dict[str, dg.AssetIn]:
    """Return the inputs of a step that takes these stages' states."""
    return {_argument(name): dg.AssetIn(key=key(settings, name)) for name in stages}


def _argument(name: str) -> str:
    return name.replace("/", "__")


def in_its_project(
    settings: AnySettings, name: str, after: Sequence[str], body: Callable[..., Any]
) -> Callable[..., Iterator[Any]]:
    """Return a stage's body as Dagster calls it: placed as the table says, in its project, its errors reported.

    The body takes Dagster's context, the release as the first stage of `after` left it, and the others' states. That of a
    stage that follows the sources takes the context, the ledger and the store. It returns what it makes, or yields it.
    """
    kind = name.rpartition("/")[2]

    def step(context: dg.AssetExecutionContext, **states: dict):
        with reported(name):
            check_placed(settings.compute, kind, context.job_def.executor_def.name, context.log)
            resources = context.job_def.resource_defs
            ledger, store = of_project(LedgerResource, resources), of_project(StoreResource, resources)
            if settings.compute is not None:
                check_reachable(settings.compute.targets, ledger.url or ledger_url())
            if after:
                first, *others = (states[_argument(one)] for one in after)
                made = body(context, _opened(context, settings, first, ledger.get(), store.get()), *others)
            else:
                made = body(context, ledger.get(), store.get())
            yield from made if isgenerator(made) else [made]

    return step


def _partitioned(cut: PartitionSettings | None) -> dict[str, Any]:
    """Return the partitions, and one run over all of a backfill's if asked; one run for each is Dagster's own default."""
    if cut is None:
        return {}
    single = {"backfill_policy": dg.BackfillPolicy.single_run()} if cut.backfill == "single_run" else {}
    return {"partitions_def": partitions.definition(cut), **single}


def _noticed(public: PublicSettings | None, description: str) -> str:
    if public is None:
        return description
    notice = no_guarantee(public.by, public.why)
    without = f"{notice[0].upper()}{notice[1:]}. Made without noise, clipping or charge, where under privacy: dp it is:"
    return f"{without} {description}"


def _opened(
    context: dg.AssetExecutionContext, settings: AnySettings, state: dict[str, Any], ledger: Ledger, store: Store
) -> Release | DatabaseRelease:
    """Go on with the release that an upstream asset's state is of, under the release's own terms."""
    how: dict[str, Any] = {
        "attempt": f"{context.run_id}:{context.retry_number}",
        "progress": DagsterProgress(context),
    }
    release: Release | DatabaseRelease
    if isinstance(settings, RelatedTablesSettings):
        release = DatabaseRelease.open(settings, DatabaseState.from_dict(state), ledger, store, **how)
    else:
        release = Release.open(settings, RunState.from_dict(state), ledger, store, **how)
        release.renew_profile = context.run_tags.get(RENEW, "").lower() == "true"
    if settings.compute is not None and settings.compute.training is not None:
        release.workers = settings.compute.training.processes
    return release


def admitted(
    context: dg.AssetExecutionContext, settings: AnySettings, ledger: Ledger, reserve: Callable[..., Reserved]
) -> Reserved:
    """Reserve a release, and show on its account's page what was held for it, or why it was refused.

    Its key is this run, this step and this attempt, so that a retry is a new charge.
    """
    key = f"{context.run_id}:{settings.name}:{context.retry_number}"
    try:
        release = reserve(key=key, run_id=context.run_id, progress=DagsterProgress(context))
    except BudgetExceeded as refusal:
        accounts.show_refusal(context.instance, ledger, settings, refusal, context.run_id)
        refuse(context, str(refusal))
        raise
    accounts.show(context.instance, release, "began")
    return release


def materialized(
    release: Release | DatabaseRelease, visibility: str, facts: Mapping[str, Any], **how: Any
) -> dg.MaterializeResult:
    """Return what an asset hands on, and what the UI shows of it: its cost, and public facts, in three digits."""
    return dg.MaterializeResult(
        value=release.state.to_dict(),
        metadata=metadata.readable({**metadata.cost(release.record), "visibility": visibility, **facts}),
        **how,
    )


def costs(release: Release | DatabaseRelease) -> dict[str, Any]:
    """Return what a release cost, with the entries that prove it and what its tables promise."""
    return metadata.cost(release.record, release.protection.entries(release.id), release.lineage)


def carded(release: Release | DatabaseRelease, card: ReleaseCard, page: Path | None) -> dg.MaterializeResult:
    """Return what the asset of a release's card hands on."""
    record = release.record
    paid = isinstance(record, LedgerRelease)
    account = {"account_page": dg.MetadataValue.asset(accounts.key(record.account))} if paid else {}
    return materialized(
        release,
        metadata.RELEASABLE,
        {
            **costs(release),
            "ledger_head": release.protection.head(),
            "seal": card.facts.seal,
            metadata.CARD: dg.MetadataValue.md(card_pages.render_markdown(card)),
            **account,
            "page": dg.MetadataValue.path(str(page)),
            "card": dg.MetadataValue.path(str(release.folder / "release_card.json")),
        },
    )


def reported_on(release: Release | DatabaseRelease, page: Path) -> dg.MaterializeResult:
    """Return what the asset of a quality report hands on.

    The figures are exact functions of real rows: they stay on the page, out of the event log. So does whether an attack did
    better than chance, unless a person lets that bit out: all who may see the run read it.
    """
    shown = {"visibility": metadata.RESTRICTED, "page": dg.MetadataValue.path(str(page))}
    return dg.MaterializeResult(value=release.state.to_dict(), metadata=shown)
