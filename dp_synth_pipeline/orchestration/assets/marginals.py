"""`marginals`: noisy counts of pairs and triples of columns, charged: where the network starts, what draws are raked to."""

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.model.plan import MarginalsPlan
from dp_synth_pipeline.orchestration import headline, metadata, planning, progress, unprotected
from dp_synth_pipeline.orchestration.assets.encoded import encoded
from dp_synth_pipeline.orchestration.assets.handles import declared_events, started_events
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.unprotected import Unprotected
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile


def marginals(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "marginals",
        visibility=metadata.RELEASABLE,
        description="Noisy counts of pairs (and, if asked, triples) of columns, charged to the account.",
        kinds={"opendp"},
        after=("completed",),
    )
    def _marginals(context: dg.AssetExecutionContext, completed: dict, ledger: LedgerResource, store: StoreResource):
        from dp_synth_pipeline.model import artifact
        from dp_synth_pipeline.model import marginals as noisy

        with reported("marginals"):
            here = begun(settings, completed, ledger, store)
            refresh, book, release = here.refresh, here.book, here.release
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            codec = TableCodec(refresh.table_schema(), profile)
            report = progress.reporter(context, f"{settings.name}: marginals")
            report(0, 1)
            if isinstance(book, Ledger):
                plan = _plan(here.settings, book, refresh.release, codec, profile)
            else:
                plan = unprotected.marginals_plan(book.release(refresh.release), codec.cardinalities)
            if plan is None or plan.chosen == 0:  # one column only, or a declared plan without marginals
                return dg.MaterializeResult(value=completed, metadata={"visibility": metadata.RELEASABLE, "pairs": 0})
            if isinstance(book, Ledger):
                book.start(release.id, "marginals", [plan.event])
                refresh = refresh.having_run([plan.event])
            codes, _ = encoded(refresh.path("completed"), codec)
            measured = noisy.measure(codes, codec.cardinalities, codec.marginals(), plan, rows=profile.rows)
            if isinstance(release, Unprotected):
                measured = unprotected.sampled(measured)
            path = here.store.releasable(part(here.settings, refresh.partitions).folder) / "marginals.safetensors"
            artifact.save_marginals(path, measured)
            report(1, 1)
        return dg.MaterializeResult(
            value=refresh.with_({"marginals": path}),
            metadata={
                **metadata.cost(release),
                "visibility": metadata.RELEASABLE,
                **_noise(release, plan),
                "pairs": plan.chosen,
                "pairs_in_all": plan.pairs,
                "triples": plan.triples,
            },
        )

    return _marginals


def _noise(release: Release | Unprotected, plan: MarginalsPlan) -> dict[str, float]:
    if isinstance(release, Unprotected):
        return {}
    return {"noise_multiplier": plan.noise_multiplier, "noise_per_cell": plan.scale}


def _plan(
    settings: TableSettings, ledger: Ledger, release_id: str, codec: TableCodec, profile: TableProfile
) -> MarginalsPlan | None:
    release = ledger.release(release_id)
    declared = declared_events(ledger, release)
    if declared is not None:
        return planning.declared_marginals(codec.cardinalities, profile.rows, declared, settings.privacy_unit.max_rows)
    if len(codec.cardinalities) < 2:
        return None
    delta = planning.final_delta(settings, planning.Asked.of(release), profile.population)
    later = headline.ahead(settings, release, len(codec.cardinalities))
    return planning.marginals(
        planning.Room.of(release, [*started_events(ledger, release), *later], delta),
        settings.training.spec(),
        codec.cardinalities,
        profile.population,
        profile.rows,
        settings.privacy_unit.max_rows,
    )
