"""Reads the declared holdout, rows of the source's population that were never learnt from, for the restricted report only.

They are real rows. Nothing of them is charged, since nothing made of them leaves: not a figure, and not whether one warns,
which would be one fact about real rows in the event log. `evidence_checks` is a person's word that this bit may.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dp_synth_pipeline.errors import DpSynthError, InvalidInput
from dp_synth_pipeline.synthesis.blocks import part
from dp_synth_pipeline.synthesis.reading import reading
from dp_synth_pipeline.synthesis.retention import private
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv.values import CellType
from dp_synth_pipeline.validation import evidence
from dp_synth_pipeline.validation.evidence import Evidence

OTHER_RELEASE = (
    "Nothing can be said: the snapshot that is left is not the one that this table was learnt from. Materialize the table "
    "again from `ingested`, and this report after it."
)
"""What the page says when a later refresh has replaced the rows."""


def check(settings: ReleaseSettings, schema: TableSchema, untyped: Collection[str] = ()) -> None:
    """Refuse a holdout that is not there or has other columns, before anything is spent; only names and types are read.

    Args:
        untyped: columns of the source whose types are not known yet, so that only their names are compared.

    Raises:
        InvalidInput: naming the first column that does not fit; the message holds no value.
    """
    uri = settings.validation.holdout
    if uri is None:
        return
    with (
        _naming_holdout(),
        TemporaryDirectory() as folder,
        ingestion.opened(source.parse(uri), Path(folder), **reading(settings, _learned(schema))) as table,
    ):
        found, unknown = table.schema, {*untyped, *table.untyped}
    _check_columns(found, schema, unknown)


def gather(settings: ReleaseSettings, synthetic: RunState, completed: RunState) -> Evidence:
    """Return what distances and attacks find; it belongs on the restricted page, and nowhere else.

    Args:
        synthetic: the state of the synthetic table.
        completed: the state of the rows that it was learnt from.

    Raises:
        InvalidInput: if the holdout cannot be used, or has other columns; the message holds no value.
    """
    uri = settings.validation.holdout
    if uri is None:
        return Evidence(evidence.HOW)
    if completed.release != synthetic.release:
        return Evidence(OTHER_RELEASE)
    profile = synthetic.table_profile()
    schema, rows = synthetic.table_schema(), completed.path("completed")
    # In the release's own folder, which only its owner can open and which goes when the snapshot goes.
    with private(), TemporaryDirectory(dir=rows.parent, prefix="holdout-") as folder:
        snapshot = _snapshot(settings, uri, synthetic, Path(folder))
        if snapshot.digest == synthetic.digest:
            return Evidence(evidence.SAME)
        _check_columns(snapshot.schema, schema)
        whole = nulls.complete(snapshot.path, schema, profile, Path(folder) / "completed.parquet")
        return evidence.gather(
            rows,
            whole,
            synthetic.path("synthetic"),
            TableCodec(schema, profile),
            sensitive=settings.validation.sensitive,
            unit=settings.privacy_unit.column or "row",
        )


def _snapshot(settings: ReleaseSettings, uri: str, state: RunState, folder: Path) -> ingestion.Snapshot:
    """Copy the holdout as `ingested` copies the source: the same filter and partitions, the same bound on rows a unit."""
    where = part(settings.model_copy(update={"source": uri, "target": None}), state.partitions).where
    types = {c.name: CellType.of_column(c) for c in state.table_schema().learned}
    how: ingestion.Reading = {**reading(settings, _learned(state.table_schema())), "types": types}
    with ExitStack() as stack:
        with _naming_holdout():
            table = stack.enter_context(ingestion.opened(source.parse(uri, where=where), folder, **how))
        try:
            return table.copy(folder / "holdout.parquet")
        except InvalidInput as error:  # rows were read, so why it failed is a fact about them
            raise DpSynthError(f"validation: holdout: {error}") from None


def _learned(schema: TableSchema) -> list[str]:
    return [c.name for c in schema.learned]


@contextmanager
def _naming_holdout() -> Iterator[None]:
    """Say of what is refused that it is the holdout, and not the source."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"validation: holdout: {error}") from None


def _check_columns(holdout_schema: TableSchema, source_schema: TableSchema, untyped: Collection[str] = ()) -> None:
    """Refuse a holdout whose learned columns have other names, or kinds that are coded in another way."""
    kinds = {c.name: c.kind for c in holdout_schema.learned}
    for column in source_schema.learned:
        if column.name not in kinds:
            raise InvalidInput(
                f"validation: holdout: it needs the source's columns, and {column.name!r} is missing; name rows of the "
                f"same population."
            )
        if column.name not in untyped and not kinds[column.name].same_cells(column.kind):
            raise InvalidInput(
                f"validation: holdout: {column.name!r} is of kind {column.kind} in the source, and of kind "
                f"{kinds[column.name]} here; store it alike, or declare its kind under columns."
            )
