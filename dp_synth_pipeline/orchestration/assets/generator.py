"""`generator`: DP-SGD with the least noise at which the whole release fits what was reserved, then the settlement."""

from pathlib import Path

import dagster as dg

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.model.spec import Method
from dp_synth_pipeline.orchestration import audits, headline, learnt, metadata, progress
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import Begun, begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.continuity import HEAD
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.learning import Learner, Learning, Report
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.public_learning import PublicLearning
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile

KEPT_FACTS = ("release", "schema", "guarantee", "accuracy", "ran")
"""Facts that lie beside the weights and are no metadata of their own."""

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
            here = begun(settings, handle, ledger, store)
            refresh, book = here.refresh, here.book
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            codec = TableCodec(refresh.table_schema(), profile)
            folder = here.store.releasable(part(here.settings, refresh.partitions).folder) / "generator"
            what = (here.settings, refresh, codec, profile)
            attempt = f"{context.run_id}:{context.retry_number}"
            learning = Learning(*what, book, attempt) if isinstance(book, Ledger) else PublicLearning(*what, book)
            kept = _adopted(here, folder)
            if kept is None:
                kept = here.store.restricted(settings.name, refresh.release) / learnt.FOLDER
                _learn(learning, folder, kept, progress.reporter(context, f"{settings.name}: training"))
            yield from audits.evaluations(settings, learning.audit or learnt.audit(kept))
            if failed := audits.ended(learning.audit, book, refresh.release):
                raise failed  # it was not kept: nobody may draw from it
            made, facts = artifact.load(kept)
            release = learning.settle(facts.get("ran"))
            learnt.release_to(kept, folder)
        figures, public = facts.get("accuracy", {}), {k: v for k, v in facts.items() if k not in KEPT_FACTS}
        yield dg.MaterializeResult(
            value=refresh.with_(
                {"generator": folder, "profile": folder / "profile.json"}, rows=profile.rows, accuracy=figures
            ),
            metadata={
                **metadata.cost(release, book.entries(release_id=release.id)),
                "visibility": metadata.RELEASABLE,
                HEAD: book.head(),
                "method": str(method),
                "weights": made.weights,
                **public,
                **figures,
            },
        )

    return _generator


def _adopted(here: Begun, folder: Path) -> Path | None:
    """Return where an earlier attempt left what this release learnt, if it got so far: nothing is learnt twice then.

    A release that was settled for a reason, such as a crash or an audit, releases nothing.
    """
    release = here.release
    if release.state == "voided" or (isinstance(release, Release) and release.state == "settled" and release.why):
        return None
    places = (here.store.restricted(here.settings.name, release.id) / learnt.FOLDER, folder)
    return next((place for place in places if learnt.found(place, release.id)), None)


def _learn(learning: Learner, folder: Path, kept: Path, report: Report) -> None:
    """Learn from the rows, and keep what was learnt unless the audit of how failed."""
    refresh, settings, codec, rows = learning.refresh, learning.settings, learning.codec, learning.profile.rows
    # Begun before training, which then leaves it its room; measured before the settlement, which is final.
    begun = learning.begin_figures()
    made, facts = learning.learn(folder, report)
    if learning.audit is not None and not learning.audit.passed:
        audits.keep_failed(learning.audit, folder.parent, refresh.release)
        return
    figures = headline.measure(begun, refresh, codec, made, rows)
    about = {"release": refresh.release, "schema": refresh.schema, "guarantee": settings.privacy, **facts}
    about |= {"accuracy": figures, "ran": learning.reported()}
    learnt.keep(kept, made, learning.spec, about, learning.profile.to_json(), learning.audit)
