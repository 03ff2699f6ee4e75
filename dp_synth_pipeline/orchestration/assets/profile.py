"""`profile`: one private pass, charged, or the last one reused: row count, bounds, categories, nulls, fine histograms."""

from dataclasses import replace
from pathlib import Path

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration import metadata, planning, progress, reuse, unprotected
from dp_synth_pipeline.orchestration.assets.handles import Refresh, declared_events
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.restricted import private
from dp_synth_pipeline.orchestration.unprotected import Unprotected
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Threshold
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile


def profile(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "profile",
        visibility=metadata.RELEASABLE,
        description="Noisy row count and 1-way histograms: charged once, then reused free until a person renews them.",
        kinds={"opendp"},
        after=("ingested",),
    )
    def _profile(context: dg.AssetExecutionContext, ingested: dict, ledger: LedgerResource, store: StoreResource):
        with reported("profile"):
            here = begun(settings, ingested, ledger, store)
            refresh, release = here.refresh, here.release
            if isinstance(release, Unprotected):
                result, told = _counted(here.settings, refresh, release), {"profile_release": release.id}
            else:
                folder = here.store.releasable(part(here.settings, refresh.partitions).folder)
                result, told = _charged(context, here.settings, refresh, ledger.get(), folder)
                if told["profile_release"] == release.id:
                    refresh = refresh.having_run(result.events)
            # This run's own copy, since another run may replace the cached one before this one is done.
            own = here.store.restricted(settings.name, release.id) / reuse.PROFILE
            with private():
                own.write_text(result.to_json(), encoding="utf-8")
        return dg.MaterializeResult(
            value=refresh.with_({"profile": own}, profile_release=told["profile_release"]),
            metadata={
                **metadata.cost(release),
                "visibility": metadata.RELEASABLE,
                **told,
                "columns": dg.MetadataValue.md(_table(result)),
            },
        )

    return _profile


def _counted(settings: TableSettings, refresh: Refresh, release: Unprotected) -> TableProfile:
    """Count a source that was declared public, without noise; the counts are not kept for any later refresh."""
    plan = unprotected.profile_plan(release, settings.privacy_unit, settings.population)
    population = measure.measure_population(refresh.units, plan)
    return replace(measure.measure(refresh.path("snapshot"), refresh.table_schema(), plan, population), events=())


def _charged(
    context: dg.AssetExecutionContext, settings: TableSettings, refresh: Refresh, ledger: Ledger, folder: Path
) -> tuple[TableProfile, dict[str, str | float]]:
    """Return a profile that an account paid for, now or earlier, and what to say about where it comes from."""
    release = ledger.release(refresh.release)
    cached, why_not = _cached(context, settings, refresh, ledger, folder)
    if cached is None:
        context.log.info(f"{settings.name}: the profile is measured, since {why_not}.")
        report = progress.reporter(context, f"{settings.name}: profile")
        report(0, 1)
        result = _measure(settings, refresh, release, ledger)
        origin = reuse.keep(folder, result, release, reuse.facts(settings, release, refresh.schema, refresh.partitions))
        report(1, 1)
    else:
        result, origin = cached.profile, cached.origin
        context.log.info(f"{settings.name}: the profile of release {origin.release} is reused, at no charge.")
    noise = next(e.scale for e in result.events if isinstance(e, DiscreteGaussian))
    return result, {**_origin(origin, reused=cached is not None), "noise_per_cell": noise}


def _cached(
    context: dg.AssetExecutionContext, settings: TableSettings, refresh: Refresh, ledger: Ledger, folder: Path
) -> tuple[reuse.Cached | None, str]:
    """Return the profile that this refresh reuses, or None and why it measures one."""
    release = ledger.release(refresh.release)
    if not settings.reuse_profile:
        return None, "reuse_profile is false"
    if context.run_tags.get(reuse.RENEW, "").lower() == "true":
        return None, f"this run is tagged {reuse.RENEW}"
    if any(isinstance(e, Threshold) for e in declared_events(ledger, release) or ()):
        return None, "the declared plan has paid for one"
    shaped_by = reuse.facts(settings, release, refresh.schema, refresh.partitions)
    return reuse.find(folder, ledger, release.account, shaped_by)


def _measure(settings: TableSettings, refresh: Refresh, release: Release, ledger: Ledger) -> TableProfile:
    schema = refresh.table_schema()
    declared = declared_events(ledger, release)
    asked = planning.Asked.of(release) if declared is None else None
    if asked is not None:
        plan = planning.plan_profile(settings, asked, schema, release.relation)
    else:
        plan = planning.declared_profile(settings, declared or ())
    if plan.count_events():
        ledger.start(release.id, "row count", plan.count_events())
    population = measure.measure_population(refresh.units, plan)
    if asked is not None:  # the count is composed as a pure epsilon, so what comes after may depend on it
        plan = planning.plan_profile(settings, asked, schema, release.relation, population)
    ledger.start(release.id, "profile", plan.histogram_events(schema))
    return measure.measure(refresh.path("snapshot"), schema, plan, population)


def _origin(origin: reuse.Origin, *, reused: bool) -> dict[str, str | float]:
    where = f"reused from release {origin.release}, which was charged for it" if reused else "measured in this release"
    return {
        "profile": where,
        "profile_release": origin.release,
        "profile_epsilon": origin.epsilon,
        "profile_measured_at": origin.measured_at,
    }


def _table(profile: TableProfile) -> str:
    rows = ["| column | kind | values | cells | null rate | lower | upper |", "|---|---|---|---|---|---|---|"]
    for c in profile.columns:
        ends = [f"{v:.6g}" if v is not None else "" for v in (c.lower, c.upper)]
        rows.append(
            f"| {c.name} | {c.kind} | {len(c.values)} | {len(c.bins)} | {c.null_rate:.3f} | {' | '.join(ends)} |"
        )
    return "\n".join(rows)
