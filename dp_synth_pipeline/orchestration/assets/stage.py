"""Declares, opens and reports every stage of a table's release as a Dagster asset."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration import automation, metadata, partitions
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.executors.placing import check_placed, check_reachable
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.progress import DagsterProgress
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource, of_project
from dp_synth_pipeline.orchestration.settings import AnySettings, TableSettings, duration
from dp_synth_pipeline.synthesis.profile_cache import RENEW
from dp_synth_pipeline.synthesis.protection import no_guarantee
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import PartitionSettings, PublicSettings
from dp_synth_pipeline.synthesis.store import ledger_url

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
    """Return a decorator that makes an asset of one stage, and hands it the ledger and the store of its project.

    Args:
        visibility: `metadata.RESTRICTED` or `metadata.RELEASABLE`.
        after: the stages whose states it takes, such as `visits/profile`; none, if it follows the sources.
        checks: asset checks that the stage itself evaluates, so that nobody can run it without them.
    """
    cut, kind = settings.partitions, name.rpartition("/")[2]
    spends = automation.spending_tag(kind) if settings.privacy == "dp" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill policies: each stage of each table would say it
        asset = dg.asset(
            key=key(settings, name),
            ins=states_of(settings, after),
            deps=[] if after else [key(settings, source) for source in settings.source_names],
            check_specs=checks,
            description=_described(settings.public, description),
            kinds=kinds,
            tags=metadata.tags(visibility, settings.privacy, settings.tags) | spends,
            group_name=settings.group or settings.name,
            owners=settings.owners or None,
            code_version=settings.code_version(),
            io_manager_key=STATES,
            op_tags=op_tags(settings.compute, kind),
            pool=pool_of(settings.compute, kind),
            **_partitioned(cut),
            automation_condition=automation.condition(settings.automation, name),
            freshness_policy=freshness(settings) if name == "published" else None,
        )
    return lambda body: asset(in_its_project(settings, kind, body))


def states_of(settings: AnySettings, stages: Sequence[str]) -> dict[str, dg.AssetIn]:
    """Return the inputs of a step that takes these stages' states."""
    return {name.replace("/", "__"): dg.AssetIn(key=key(settings, name)) for name in stages}


def in_its_project(settings: AnySettings, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stage's body as Dagster calls it, placed as the table says and with the resources of its project."""

    def step(context: dg.AssetExecutionContext, **states: dict):
        with reported(name):
            check_placed(settings.compute, name, context.job_def.executor_def.name, context.log)
            resources = context.job_def.resource_defs
            ledger, store = of_project(LedgerResource, resources), of_project(StoreResource, resources)
            if settings.compute is not None:
                check_reachable(settings.compute.targets, ledger.url or ledger_url())
        return body(context, ledger=ledger, store=store, **states)

    return step


def _partitioned(cut: PartitionSettings | None) -> dict[str, Any]:
    """Return the partitions, and one run over all of a backfill's if asked; one run for each is Dagster's own default."""
    if cut is None:
        return {}
    single = {"backfill_policy": dg.BackfillPolicy.single_run()} if cut.backfill == "single_run" else {}
    return {"partitions_def": partitions.definition(cut), **single}


def freshness(settings: AnySettings) -> dg.FreshnessPolicy | None:
    if settings.fresh_for is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=duration(settings.fresh_for, "fresh_for"))


def _described(public: PublicSettings | None, description: str) -> str:
    if public is None:
        return description
    notice = no_guarantee(public.by, public.why)
    without = f"{notice[0].upper()}{notice[1:]}. Made without noise, clipping or charge, where under privacy: dp it is:"
    return f"{without} {description}"


def opened(
    context: dg.AssetExecutionContext,
    settings: TableSettings,
    state: dict[str, Any],
    ledger: LedgerResource,
    store: StoreResource,
) -> Release:
    """Go on with the release that an upstream asset's state is of, under the release's own terms."""
    release = Release.open(
        settings,
        RunState.from_dict(state),
        ledger.get(),
        store.get(),
        attempt=f"{context.run_id}:{context.retry_number}",
        progress=DagsterProgress(context),
    )
    release.renew_profile = context.run_tags.get(RENEW, "").lower() == "true"
    if settings.compute is not None and settings.compute.training is not None:
        release.workers = settings.compute.training.processes
    return release


def materialized(release: Release, visibility: str, facts: Mapping[str, Any], **how: Any) -> dg.MaterializeResult:
    """Return what an asset hands on, and what the UI shows of it: its cost, and public facts, in three digits."""
    return dg.MaterializeResult(
        value=release.state.to_dict(),
        metadata=metadata.readable({**metadata.cost(release.record), "visibility": visibility, **facts}),
        **how,
    )
