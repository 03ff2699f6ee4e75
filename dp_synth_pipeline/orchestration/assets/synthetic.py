"""`synthetic`: rows drawn from released weights: post-processing, free, as many as asked."""

from collections.abc import Callable, Iterator

import dagster as dg
import numpy as np

from dp_synth_pipeline.orchestration import metadata, progress
from dp_synth_pipeline.orchestration.assets.handles import load, load_schema
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.tabular.codec import TableCodec
from dp_synth_pipeline.tabular.profile import TableProfile


def synthetic(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""
    source = dg.AssetKey([settings.name, "source"])

    @link(
        settings,
        "synthetic",
        visibility=metadata.RELEASABLE,
        description="Synthetic rows with the source's columns, types, precision and null rates.",
        kinds={"parquet"},
        after=("generator",),
    )
    def _synthetic(context: dg.AssetExecutionContext, generator: dict, ledger: LedgerResource, store: StoreResource):
        from dp_synth_pipeline.model import artifact, generation

        with reported("synthetic"):
            refresh = load(generator)
            network, facts = artifact.load(refresh.path("generator"))
            schema = load_schema(facts["schema"])
            codec = TableCodec(schema, TableProfile.from_json(refresh.path("profile").read_text()))
            wanted = settings.rows or int((refresh.facts or {})["rows"])
            drawn = generation.draw(network, wanted, forbidden=codec.forbidden)
            report = progress.reporter(context, f"{settings.name}: generation")
            path = store.get().releasable(settings.name) / "synthetic.parquet"
            rows = sink.write_parquet(codec.decode_stream(_counted(drawn, wanted, report)), schema.arrow_schema(), path)
        return dg.MaterializeResult(
            value=refresh.with_({"synthetic": path}, synthetic_rows=rows, asked_rows=wanted),
            metadata={
                **metadata.cost(ledger.get().release(refresh.release)),
                "visibility": metadata.RELEASABLE,
                "dagster/row_count": rows,
                "dagster/column_schema": metadata.column_schema(schema),
                "dagster/column_lineage": metadata.column_lineage(schema, source),
                "path": dg.MetadataValue.path(str(path)),
            },
        )

    return _synthetic


def _counted(drawn: Iterator[np.ndarray], wanted: int, report: Callable[[int, int], None]) -> Iterator[np.ndarray]:
    done = 0
    report(0, wanted)
    for codes in drawn:
        done += len(codes)
        report(done, wanted)
        yield codes
