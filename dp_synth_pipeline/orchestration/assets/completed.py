"""`completed`: the snapshot with its nulls handled by released numbers; as restricted as the snapshot."""

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.restricted import private
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.profiling.profile import TableProfile


def completed(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "completed",
        visibility=metadata.RESTRICTED,
        description="The snapshot with nulls kept, filled with private values, or their rows left out.",
        kinds={"duckdb", "parquet"},
        after=("profile",),
    )
    def _completed(profile: dict, ledger: LedgerResource, store: StoreResource):
        with reported("completed"):
            refresh = begun(settings, profile, ledger, store).refresh
            schema = refresh.table_schema()
            known = TableProfile.from_json(refresh.path("profile").read_text())
            path = refresh.path("snapshot").with_name("completed.parquet")
            with private():
                nulls.complete(refresh.path("snapshot"), schema, known, path)
        policies = {c.name: str(c.nulls) for c in schema.learned}
        return dg.MaterializeResult(
            value=refresh.with_({"completed": path}),
            metadata={"visibility": metadata.RESTRICTED, "null_policy": policies},
        )

    return _completed
