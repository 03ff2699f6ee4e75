"""Writes a release's quality report, for the data's owner only. It reads real rows, so it is restricted like them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import report
from dp_synth_pipeline.synthesis import generator_files, holdout, retention
from dp_synth_pipeline.synthesis.protection import Unprotected
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation import figures, frames
from dp_synth_pipeline.validation.evidence import Evidence
from dp_synth_pipeline.validation.rows_per_unit import RowsPerUnit, rows_per_unit

HEADLINE = ".headline"
"""Ends the name of the file beside the page that holds its verdict."""


def write(release: Release, completed: RunState, run_id: str) -> Evidence:
    """Write the report of a release whose rows were drawn, readable by its owner only; return what attacks found.

    Args:
        completed: the state of the real rows, which may be those of a later release.
        run_id: the run that writes it.

    Raises:
        InvalidInput: if the real rows were deleted, or the holdout cannot be used; the message holds no value.
    """
    settings, record, rows = release.settings, release.record, completed.path("completed")
    if not rows.exists():
        raise InvalidInput(
            f"the snapshot of {settings.name} was deleted, so there is nothing to compare with; materialize the table "
            f"again from `ingested`."
        )
    measurements = _measured(release, rows) if pq.read_metadata(rows).num_rows else None
    evidence = holdout.gather(settings, release.state, completed)
    meta = report.ReportMeta(
        table=settings.name,
        unit=settings.privacy_unit.column or "row",
        max_rows=settings.privacy_unit.max_rows,
        **_promise(release),
        run_id=run_id,
        code_version=record.code_version,
        created=record.ended_at,
        looks=generator_files.looks(release.folder / generator_files.FOLDER, release.id),
    )
    path = _place(release)
    if measurements is None:  # noise made up all rows: a report that failed would tell whoever reads the log
        keep(path, report.render_without_rows(meta), {"told": report.NO_ROWS})
    else:
        units = _units(rows, release.state.path("synthetic"), settings.privacy_unit.column)
        keep(path, report.render_report(measurements, meta, evidence, units), _headline(measurements))
    if settings.retention_days == 0:  # no later stage reads real rows
        retention.drop(release.store, settings.name, release.id)
    release.state = release.state.with_(report=path)
    return evidence


def _measured(release: Release, rows: Path) -> figures.Figures:
    """Return the figures; real sample rows only where no day was set for their deletion, since the page stays."""
    schema, asked = release.schema, release.settings.validation
    names = [c.name for c in schema.learned]
    found = figures.measure(
        frames.read_frame(rows, names),
        frames.read_frame(release.state.path("synthetic"), names),
        schema,
        predict=asked.predict,
        sensitive=asked.sensitive,
    )
    shown = found.samples if release.settings.retention_days is None else found.samples.without_real()
    return replace(found, samples=shown)


def _units(real: Path, synthetic: Path, unit: str | None) -> RowsPerUnit | None:
    """Return how many rows each unit has; None where a row is a unit."""
    if unit is None or UNIT not in pq.read_schema(real).names:
        return None
    drawn = unit if unit in pq.read_schema(synthetic).names else None
    return rows_per_unit(
        unit,
        pq.read_table(real, columns=[UNIT])[UNIT].to_pandas(),
        None if drawn is None else pq.read_table(synthetic, columns=[drawn])[drawn].to_pandas(),
    )


def keep(path: Path, page: str, headline: dict[str, Any]) -> None:
    """Write a page, and its verdict for the owner's terminal beside it: as restricted as the page, and nowhere else."""
    for place, text in ((path, page), (path.with_suffix(HEADLINE), json.dumps(headline))):
        sink.write_text(text, place)
        place.chmod(0o600)


def _headline(found: figures.Figures) -> dict[str, Any]:
    reached = found.accuracy
    return {
        "verdict": found.fidelity.verdict,
        "accuracy": reached.overall,
        "best": reached.best,
        "told_apart": None if found.told_apart is None else found.told_apart.auc,
    }


def _place(release: Release) -> Path:
    name = ".".join(filter(None, ("quality_report", release.part.label, "html")))
    return release.store.restricted(release.settings.name) / name


def _promise(release: Release) -> dict[str, Any]:
    """Return what a report says about the guarantee of the release's table."""
    record, lineage = release.record, release.lineage
    if isinstance(record, Unprotected):
        return {"guarantee": record.notice}
    assert lineage is not None
    return {"epsilon": lineage.epsilon, "delta": lineage.delta, "account": record.account}
