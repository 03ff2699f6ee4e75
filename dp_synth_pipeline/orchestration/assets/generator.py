"""`generator` trains by DP-SGD with the least noise at which the whole release fits its reservation, then settles it."""

import dagster as dg

from dp_synth_pipeline.errors import AuditFailed
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.orchestration import accounts, audits, metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.continuity import HEAD
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.generator import GeneratorStage

ABOUT = {
    Method.HYBRID: "A network that starts from the fit to the noisy marginals and is trained by DP-SGD",
    Method.AUTOREGRESSIVE: "An autoregressive network trained by DP-SGD",
    Method.MARGINALS: "A network taught by the fits to the noisy marginals",
}


def generator(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""
    method = Method(settings.training.spec().method)

    @stage(
        settings,
        "generator",
        visibility=metadata.RELEASABLE,
        description=f"{ABOUT[method]}; its weights are released, and all that it learnt from was charged.",
        kinds={"pytorch"},
        after=("marginals" if method.measures else "texts" if settings.text_columns else "completed",),
        checks=audits.specs(settings),
    )
    def _generator(context: dg.AssetExecutionContext, ledger: LedgerResource, store: StoreResource, **states: dict):
        with reported("generator"):
            (state,) = states.values()
            release, learning = opened(context, settings, state, ledger, store), GeneratorStage()
            try:
                facts = release.run(learning)
            except AuditFailed:  # what was seen is told all the same; nobody may draw from these weights
                yield from audits.evaluations(settings, learning.audit)
                raise
            yield from audits.evaluations(settings, learning.audit)
        accounts.show(context.instance, release, "settled")
        converged = metadata.convergence(facts.pop("looks", ()))
        cost_facts = metadata.cost(release.record, release.protection.entries(release.id), release.lineage)
        yield materialized(
            release,
            metadata.RELEASABLE,
            {**cost_facts, HEAD: release.protection.head(), "method": str(method), **facts, **converged},
        )

    return _generator
