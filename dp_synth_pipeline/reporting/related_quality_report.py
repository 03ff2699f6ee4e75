"""Writes the quality report of related tables, for the data's owner only: it reads real rows, and is as restricted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.reporting import quality_report
from dp_synth_pipeline.reporting.related_report import render_related
from dp_synth_pipeline.reporting.report import ReportMeta
from dp_synth_pipeline.synthesis.database import public_tables
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.validation import related_frames
from dp_synth_pipeline.validation.related_figures import RelatedFigures, measure_related


def write(release: DatabaseRelease, run_id: str) -> Path:
    """Write the report of a release whose tables were drawn, readable by its owner only; return where it is.

    Args:
        run_id: the run that writes it.

    Raises:
        InvalidInput: if the real rows were deleted; the message holds no value.
    """
    settings, record, lineage = release.settings, release.record, release.lineage
    if not all(rows.path.exists() for rows in release.state.rows.values()):
        raise InvalidInput(
            f"the snapshots of {settings.name} were deleted, so there is nothing to compare with; materialize its tables "
            f"again from `ingested`."
        )
    meta = ReportMeta(
        table=settings.name,
        unit=str(release.relations.root.key),
        epsilon=lineage.epsilon,
        delta=lineage.delta,
        account=record.account,
        run_id=run_id,
        code_version=record.code_version,
        created=record.ended_at,
    )
    path = release.store.restricted(settings.name) / "quality_report.html"

    def page() -> tuple[str, dict[str, Any]]:
        figures = _measured(release)
        words = {name: found.fidelity.verdict for name, found in figures.tables.items()}
        return render_related(figures, meta), {"verdict": figures.verdict, "tables": words}

    rows = relating.rows_of(release.state.rows[release.relations.root.name].path)
    quality_report.keep_page(release, path, meta, page, rows)
    if settings.retention_days == 0:  # no later stage reads real rows
        release.drop()
    return path


def _measured(release: DatabaseRelease) -> RelatedFigures:
    """Return the figures; real sample rows only where no day was set for their deletion, since the page stays."""
    relations, sources, state = release.relations, release.state.sources, release.state
    real = {
        table.name: related_frames.RealFiles(release.table(table.name).whole_rows(), state.rows[table.name].path)
        for table in relations
    }
    drawn = {table.name: state.table(table.name).path("synthetic") for table in relations}
    found = measure_related(
        relations,
        sources,
        related_frames.real_frames(relations, sources, real),
        related_frames.synthetic_frames(relations, sources, drawn),
        public_tables.read(state.public),
    )
    if release.settings.retention_days is None:
        return found
    tables = {name: replace(own, samples=own.samples.without_real()) for name, own in found.tables.items()}
    return replace(found, tables=tables)
