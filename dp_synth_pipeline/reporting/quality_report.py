"""Writes a release's quality report, for the data's owner only. It reads real rows, so it is restricted like them."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import report
from dp_synth_pipeline.synthesis import generator_files, holdout, retention
from dp_synth_pipeline.synthesis.protection import Unprotected
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.validation import figures, frames
from dp_synth_pipeline.validation.evidence import Evidence
from dp_synth_pipeline.validation.rows_per_unit import RowsPerUnit, rows_per_unit

if TYPE_CHECKING:
    from dp_synth_pipeline.synthesis.database.release import DatabaseRelease

HEADLINE = ".headline"
"""Ends the name of the file beside the page that holds its verdict."""

FAILURE = "report-failed.txt"

FAILED = f"No figures could be made of these rows. Until they are deleted, {FAILURE} in their folder says why."
"""What the page says then, and nothing else does."""

T = TypeVar("T")


def write(release: Release, completed: RunState, run_id: str) -> Evidence:
    """Write the report of a release whose rows were drawn, readable by its owner only; return what attacks found.

    Args:
        completed: the state of the real rows, which may be those of a later release.
        run_id: the run that writes it.

    Raises:
        InvalidInput: if the real rows were deleted, or the holdout cannot be used; the message holds no value.
    """
    settings, rows = release.settings, completed.path("completed")
    if not rows.exists():
        raise InvalidInput(
            f"the snapshot of {settings.name} was deleted, so there is nothing to compare with; materialize the table "
            f"again from `ingested`."
        )
    evidence = unless_failed(release, lambda: holdout.gather(settings, release.state, completed)) or Evidence(FAILED)
    meta = _meta(release, run_id)

    def page() -> tuple[str, dict[str, Any]]:
        measurements = _measured(release, rows)
        units = _units(rows, release.state.path("synthetic"), settings.privacy_unit.column)
        return report.render_report(measurements, meta, evidence, units), _headline(measurements)

    path = _place(release)
    keep_page(release, path, meta, page, pq.read_metadata(rows).num_rows)
    if settings.retention_days == 0:  # no later stage reads real rows
        retention.drop(release.store, settings.name, release.id)
    release.state = release.state.with_(report=path)
    return evidence


def _meta(release: Release, run_id: str) -> report.ReportMeta:
    settings, record = release.settings, release.record
    return report.ReportMeta(
        table=settings.name,
        unit=settings.privacy_unit.column or "row",
        max_rows=settings.privacy_unit.max_rows,
        **_promise(release),
        run_id=run_id,
        code_version=record.code_version,
        created=record.ended_at,
        looks=generator_files.looks(release.folder / generator_files.FOLDER, release.id),
    )


def unless_failed(release: Release | DatabaseRelease, work: Callable[[], T]) -> T | None:
    """Return what is made of real rows; None if it could not be, which is a fact about them, and so is told to nobody.

    The owner finds why in the release's restricted folder. Nor does anybody see a warning, of numbers too large to square.

    Raises:
        InvalidInput: about what is public, such as a holdout that is not there. Without a guarantee, whatever was raised.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except Exception as error:
        if isinstance(error, InvalidInput) or not release.protection.guaranteed:
            raise
        details = release.restricted / FAILURE
        details.touch(0o600)
        with details.open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return None


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


def keep_page(
    release: Release | DatabaseRelease,
    path: Path,
    meta: report.ReportMeta,
    page: Callable[[], tuple[str, dict[str, Any]]],
    rows: int,
) -> None:
    """Write a page and its verdict, or why there are no figures: a report that failed would tell whoever reads the log.

    Args:
        page: makes both of real rows.
        rows: how many of these there are; there may be none.
    """
    if (made := unless_failed(release, page) if rows else None) is None:
        why = FAILED if rows else report.NO_ROWS
        made = report.render_without_figures(meta, why), {"told": why}
    for place, text in ((path, made[0]), (path.with_suffix(HEADLINE), json.dumps(made[1]))):
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
