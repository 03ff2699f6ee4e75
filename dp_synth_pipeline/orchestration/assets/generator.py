"""`generator`: DP-SGD with the least noise at which the whole release fits what was reserved, then the settlement."""

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.spec import Method
from dp_synth_pipeline.orchestration import audits, headline, metadata, progress, unprotected
from dp_synth_pipeline.orchestration.assets.handles import load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.continuity import HEAD
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.learning import Learning, PublicLearning
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.tabular.codec import TableCodec
from dp_synth_pipeline.tabular.profile import TableProfile

ABOUT = {
    Method.HYBRID: "A network that starts from the fit to the noisy marginals and is trained by DP-SGD",
    Method.AUTOREGRESSIVE: "An autoregressive network trained by DP-SGD",
    Method.MARGINALS: "A network taught by the fits to the noisy marginals",
}


def generator(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""
    method = Method(settings.training.spec().method)

    @link(
        settings,
        "generator",
        visibility=metadata.RELEASABLE,
        description=f"{ABOUT[method]}; its weights are released, and all that it learnt from was charged.",
        kinds={"pytorch"},
        after=("marginals" if method.measures else "completed",),
        checks=audits.specs(settings),
    )
    def _generator(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **handles: dict):
        from dp_synth_pipeline.model import artifact

        with reported("generator"):
            (handle,) = handles.values()
            refresh = load(handle)
            book = unprotected.book_of(settings, ledger.get(), store.get())
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            codec = TableCodec(refresh.table_schema(), profile)
            folder = store.get().releasable(part(settings, refresh.partitions).folder) / "generator"
            report = progress.reporter(context, f"{settings.name}: training")
            what = (settings, refresh, codec, profile)
            attempt = f"{context.run_id}:{context.retry_number}"
            learning = Learning(*what, book, attempt) if isinstance(book, Ledger) else PublicLearning(*what, book)
            columns = len(codec.cardinalities)
            # Begun before training, which then leaves it its room; measured before the settlement, which is final.
            begun = headline.begin(settings, book, refresh.release, columns) if isinstance(book, Ledger) else None
            learnt, facts = learning.learn(folder, report)
            failed = audits.ended(learning.audit, book, refresh.release)
            audits.keep(learning.audit, folder, refresh.release)
            yield from audits.evaluations(settings, learning.audit)
            if failed is not None:
                raise failed  # before it is saved: nobody may draw from it
            figures = headline.measure(begun, refresh, codec, learnt, profile.rows)
            release = learning.settle()
            about = {"release": release.id, "schema": refresh.schema, "guarantee": settings.privacy, **facts}
            artifact.save(folder, learnt, learning.spec, about)
            # Beside the weights, since a later refresh that fails half-way leaves another profile behind.
            own_profile = sink.write_text(profile.to_json(), folder / "profile.json")
        yield dg.MaterializeResult(
            value=refresh.with_({"generator": folder, "profile": own_profile}, rows=profile.rows, accuracy=figures),
            metadata={
                **metadata.cost(release, book.entries(release_id=release.id)),
                "visibility": metadata.RELEASABLE,
                HEAD: book.head(),
                "method": str(method),
                "weights": learnt.weights,
                **facts,
                **figures,
            },
        )

    return _generator
