"""Writes a release's quality report, for the data's owner only. It reads real rows, so it is restricted like them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import report
from dp_synth_pipeline.synthesis import holdout, retention
from dp_synth_pipeline.synthesis.protection import Record, Unprotected
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation import figures, frames
from dp_synth_pipeline.validation.evidence import Evidence


def write(release: Release, completed: RunState, run_id: str) -> Evidence:
    """Write the report of a release whose rows were drawn, readable by its owner only; return what attacks found.

    Args:
        completed: the state of the real rows, which may be those of a later release.
        run_id: the run that writes it.

    Raises:
        InvalidInput: if the real rows were deleted, or the holdout cannot be used; the message holds no value.
    """
    settings, schema, record = release.settings, release.schema, release.record
    names, rows = [c.name for c in schema.learned], completed.path("completed")
    if not rows.exists():
        raise InvalidInput(
            f"the snapshot of {settings.name} was deleted, so there is nothing to compare with; materialize the table "
            f"again from `ingested`."
        )
    real = frames.read_frame(rows, names)
    synthetic = frames.read_frame(release.state.path("synthetic"), names)
    validation = settings.validation
    measurements = figures.measure(real, synthetic, schema, predict=validation.predict, sensitive=validation.sensitive)
    evidence = holdout.gather(settings, release.state, completed)
    meta = report.ReportMeta(
        table=settings.name,
        unit=settings.privacy_unit.column or "row",
        **_promise(record),
        run_id=run_id,
        code_version=record.code_version,
        created=record.ended_at,
    )
    path = _place(release)
    sink.write_text(report.render_report(measurements, real, synthetic, schema, meta, evidence), path)
    path.chmod(0o600)
    if settings.retention_days == 0:  # no later stage reads real rows
        retention.drop(release.store, settings.name, release.id)
    release.state = release.state.with_(report=path)
    return evidence


def _place(release: Release) -> Path:
    name = ".".join(filter(None, ("quality_report", release.part.label, "html")))
    return release.store.restricted(release.settings.name) / name


def _promise(release: Record) -> dict[str, Any]:
    """Return what a report says about the release's guarantee."""
    if isinstance(release, Unprotected):
        return {"guarantee": release.notice}
    return {"epsilon": release.final_epsilon, "delta": release.final_delta, "account": release.account}
