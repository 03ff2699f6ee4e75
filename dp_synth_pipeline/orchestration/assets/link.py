"""What every link of a table's chain has in common as a Dagster asset."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration import automation, metadata, partitions
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.executors.compute import op_tags, pool_of
from dp_synth_pipeline.orchestration.sections import PartitionSettings, PublicSettings, duration
from dp_synth_pipeline.validation import wording

HANDLES = "dp_synth_handles"
"""Key of the IO manager, so that it can live beside a project's own."""


def key(settings: TableSettings, name: str) -> dg.AssetKey:
    """Name one link of one table."""
    return dg.AssetKey([settings.name, name])


def link(
    settings: TableSettings,
    name: str,
    *,
    visibility: str,
    description: str,
    kinds: set[str],
    after: tuple[str, ...] = (),
    deps: tuple[str, ...] = (),
    pool: str | None = None,
    checks: Sequence[dg.AssetCheckSpec] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes an asset of one link; `after` names the links whose handles it takes.

    Args:
        visibility: `metadata.RESTRICTED` or `metadata.RELEASABLE`.
        deps: links it follows without taking their handles.
        checks: asset checks that the link itself evaluates, so that nobody can run it without them.
    """
    cut = settings.partitions
    spends = automation.spending_tag(name) if settings.privacy == "dp" else {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", dg.BetaWarning
        )  # backfill policies: once a link would say it nine times a table
        return dg.asset(  # type: ignore[return-value]
            key=key(settings, name),
            ins={other: dg.AssetIn(key=key(settings, other)) for other in after},
            deps=[key(settings, other) for other in deps],
            check_specs=checks,
            description=description if settings.public is None else f"{_without(settings.public)} {description}",
            kinds=kinds,
            tags=metadata.tags(visibility, settings.privacy, settings.tags) | spends,
            group_name=settings.group or settings.name,
            owners=settings.owners or None,
            code_version=settings.code_version(),
            io_manager_key=HANDLES,
            op_tags=op_tags(settings.compute, name),
            pool=pool or pool_of(settings.compute, name),
            partitions_def=None if cut is None else partitions.definition(cut),
            **_backfill(cut),
            automation_condition=automation.condition(settings, name),
            freshness_policy=_freshness(settings) if name == "published" else None,
        )


def _backfill(cut: PartitionSettings | None) -> dict[str, Any]:
    """Return the policy of one run over all partitions; one run for each is Dagster's own default."""
    single = cut is not None and cut.backfill == "single_run"
    return {"backfill_policy": dg.BackfillPolicy.single_run()} if single else {}


def _freshness(settings: TableSettings) -> dg.FreshnessPolicy | None:
    if settings.fresh_for is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=duration(settings.fresh_for, "fresh_for"))


def _without(public: PublicSettings) -> str:
    told = wording.unprotected(public.by, public.why)
    return f"{told[0].upper()}{told[1:]}. Made without noise, clipping or charge, where under privacy: dp it is:"
