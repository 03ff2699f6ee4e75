"""`synthetic`: rows drawn from released weights: post-processing, free, as many as asked."""

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa

from dp_synth_pipeline.orchestration import metadata, progress
from dp_synth_pipeline.orchestration.assets.handles import load_schema
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import part
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.verification import sha256
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.targets import sink


def synthetic(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""
    source = dg.AssetKey([settings.name, "source"])

    @link(
        settings,
        "synthetic",
        visibility=metadata.RELEASABLE,
        description="Synthetic rows with the source's columns, types, precision, null rates and declared rules.",
        kinds={"parquet"},
        after=("generator",),
    )
    def _synthetic(context: dg.AssetExecutionContext, generator: dict, ledger: LedgerResource, store: StoreResource):
        from dp_synth_pipeline.model import artifact, generation

        with reported("synthetic"):
            here = begun(settings, generator, ledger, store)
            refresh = here.refresh
            learnt, facts = artifact.load(refresh.path("generator"))
            schema = load_schema(facts["schema"])
            profile = TableProfile.from_json(refresh.path("profile").read_text())
            codec = TableCodec(schema, profile)
            wanted = settings.rows or int((refresh.facts or {})["rows"])

            def draw(rows: int) -> Iterator[pa.RecordBatch]:
                return codec.decode_stream(generation.draw(learnt, rows, forbidden=codec.forbidden))

            kept = _ruled(draw, wanted, here.settings, codec, profile)
            report = progress.reporter(context, f"{settings.name}: generation")
            path = here.store.releasable(part(here.settings, refresh.partitions).folder) / "synthetic.parquet"
            rows = sink.write_parquet(_counted(kept, wanted, report), schema.arrow_schema(), path)
            seal = here.book.fingerprint(sealed(refresh.release, path))
        return dg.MaterializeResult(
            value=refresh.with_({"synthetic": path}, synthetic_rows=rows, asked_rows=wanted, seal=seal),
            metadata={
                **metadata.cost(here.release),
                "visibility": metadata.RELEASABLE,
                "dagster/row_count": rows,
                "dagster/column_schema": metadata.column_schema(schema),
                "dagster/column_lineage": metadata.column_lineage(schema, source),
                "path": dg.MetadataValue.path(str(path)),
            },
        )

    return _synthetic


def sealed(release: str, rows: Path) -> str:
    """Return what the ledger's key seals of drawn rows: which release they were drawn from, and the file's own digest.

    Whoever cannot read the key cannot make any other file, such as the snapshot of the real rows, pass for them.
    """
    return f"drawn under {release}: {sha256(rows)}"


def _ruled(
    draw: Callable[[int], Iterator[pa.RecordBatch]],
    wanted: int,
    settings: TableSettings,
    codec: TableCodec,
    profile: TableProfile,
) -> Iterator[pa.RecordBatch]:
    """Draw as many rows as are wanted, made to keep the declared rules; only drawn rows are looked at for it."""
    declared = settings.validation.parsed_rules if settings.validation.enforce_rules else []
    if not declared:
        return draw(wanted)
    constraints.check(declared, codec.schema)
    schema = codec.schema.arrow_schema()
    kept = constraints.enforced(
        lambda rows: pa.Table.from_batches(draw(rows), schema),
        wanted,
        declared,
        limits=constraints.limits(codec.schema, profile),
        digits=constraints.digits(codec.schema, profile),
    )
    return codec.renumber(kept)


def _counted(
    drawn: Iterator[pa.RecordBatch], wanted: int, report: Callable[[int, int], None]
) -> Iterator[pa.RecordBatch]:
    done = 0
    report(0, wanted)
    for batch in drawn:
        yield batch
        done += batch.num_rows
        report(done, wanted)
