"""`generator`: DP-SGD with the least noise at which the whole release fits what was reserved, then the settlement."""

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.model.spec import TrainingPlan
from dp_synth_pipeline.orchestration import metadata, planning, progress
from dp_synth_pipeline.orchestration.assets.handles import declared_events, load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.continuity import HEAD
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.tabular.codec import TableCodec
from dp_synth_pipeline.tabular.profile import TableProfile


def generator(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "generator",
        visibility=metadata.RELEASABLE,
        description="An autoregressive network trained by DP-SGD; its weights are released, its training was charged.",
        kinds={"pytorch"},
        after=("completed",),
    )
    def _generator(context: dg.AssetExecutionContext, completed: dict, ledger: LedgerResource, store: StoreResource):
        from dp_synth_pipeline.model import artifact, training

        with reported("generator"):
            refresh, book = load(completed), ledger.get()
            release, schema = book.release(refresh.release), refresh.table_schema()
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            codec = TableCodec(schema, profile)
            plan, delta = _plan(book, release, settings, profile.population)
            entry = book.start(release.id, "training", [plan.event])
            codes, units = codec.encode_file(
                refresh.path("completed"), refresh.path("completed").with_name("codes.npy")
            )
            trained = training.train(
                codes,
                codec.cardinalities,
                plan,
                settings.training.spec(),
                units=units,
                marginals=codec.marginals(),
                mark=lambda steps: book.mark(entry.id, steps),
                progress=progress.reporter(context, f"{settings.name}: training"),
            )
            release = book.settle(release.id, delta=delta, fingerprint=book.fingerprint(refresh.digest))
            folder = store.get().releasable(settings.name) / "generator"
            facts = {"release": release.id, "event": trained.event.to_dict(), "schema": refresh.schema}
            artifact.save(folder, trained.network, settings.training.spec(), facts)
            # Beside the weights, since a later refresh that fails half-way leaves another profile behind.
            own_profile = sink.write_text(profile.to_json(), folder / "profile.json")
        return dg.MaterializeResult(
            value=refresh.with_({"generator": folder, "profile": own_profile}, rows=profile.rows),
            metadata={
                **metadata.cost(release, book.entries(release_id=release.id)),
                "visibility": metadata.RELEASABLE,
                HEAD: book.head(),
                "noise_multiplier": plan.noise_multiplier,
                "sample_rate": plan.sample_rate,
                "steps": plan.steps,
                "max_grad_norm": settings.training.spec().max_grad_norm,
                "weights": sum(p.numel() for p in trained.network.parameters()),
            },
        )

    return _generator


def _plan(ledger: Ledger, release: Release, settings: TableSettings, population: int) -> tuple[TrainingPlan, float]:
    """Calibrate training to what the release has left after its count and profile."""
    asked = planning.Asked(release.epsilon, release.delta, release.own_delta)
    delta = planning.final_delta(settings, asked, population)
    declared = declared_events(ledger, release)
    if declared is not None:
        return planning.declared_training(population, declared), delta
    spent = [event for entry in ledger.entries(release_id=release.id) for event in entry.events]
    plan = planning.calibrate(
        planning.training_plan(population, settings.training.spec()),
        spent,
        Budget(release.epsilon, delta),
        order=release.order,
        rdp_limit=release.rdp_limit,
        relation=release.relation,
    )
    return plan, delta
