"""The audit of what ran, as asset checks of the generator: three that keep its rows from being drawn and published."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import AuditFailed
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.unprotected import Book
from dp_synth_pipeline.privacy.audit import NAMES, TITLES, Audit
from dp_synth_pipeline.tabular.targets import sink

FILE, FAILED_FILE = "audit.json", "audit_failed.json"
"""The audit beside the weights that passed it; the last one that failed, in the table's releasable folder."""

NOT_APPLICABLE = "Not applicable: no noisy step was taken, since method: marginals trains no network on rows."


def specs(settings: TableSettings) -> list[dg.AssetCheckSpec]:
    """Return the checks of one table's generator, known before anything runs; none without a privacy guarantee.

    They are part of the generator's step, not steps of their own, so that no selection of assets leaves them out.
    """
    if settings.privacy == "none":
        return []
    asset = _generator(settings)
    return [
        dg.AssetCheckSpec(n, asset=asset, blocking=True, description=f"Checks {TITLES[n]}.", metadata={"alpha": 1e-6})
        for n in NAMES
    ]


def evaluations(settings: TableSettings, audit: Audit | None) -> Iterator[dg.AssetCheckResult]:
    """Yield a result for each of `specs`; every number in them was measured on coordinates that hold no data."""
    if settings.privacy == "none":
        return
    asset = _generator(settings)
    if audit is None:
        for name in NAMES:
            yield dg.AssetCheckResult(asset_key=asset, check_name=name, passed=True, description=NOT_APPLICABLE)
        return
    for found in audit.findings:
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=found.name,
            passed=found.passed,
            severity=dg.AssetCheckSeverity.ERROR,
            description=found.told,
            metadata={
                "claimed": found.claimed,
                "measured": dg.MetadataValue.float(found.measured),
                "low": dg.MetadataValue.float(found.low),
                "high": dg.MetadataValue.float(found.high),
                "steps": audit.steps,
            },
        )


def ended(audit: Audit | None, book: Ledger | Book, release: str) -> AuditFailed | None:
    """End a release whose training failed its audit, and return what to raise; None if there is nothing against it.

    It is charged for all that started, and its weights are not released. Nothing of it runs any more, so nobody need find
    it open, its snapshot may go, and no later attempt can go on with this training.
    """
    if audit is None or audit.passed:
        return None
    try:
        who = f"run {book.release(release).run_id}"
        if isinstance(book, Ledger):
            why = f"its weights are not released, since the audit of what ran failed ({', '.join(audit.failed)})"
            book.settle(release, why=why, who=who)
    except Exception:  # such as a lost connection: what the audit found must be told all the same
        return AuditFailed(audit.failed, release, settled=False)
    return AuditFailed(audit.failed, release, settled=True)


def _generator(settings: TableSettings) -> dg.AssetKey:
    return dg.AssetKey([settings.name, "generator"])


def kept(folder: Path, release: str) -> list[dict[str, Any]]:
    """Return the findings of the audit beside a generator's weights, if it is about the training of this release."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found["findings"] if found["release"] == release else []


def keep_failed(audit: Audit | None, folder: Path, release: str) -> None:
    """Write an audit that failed into a table's releasable folder; one that passed lies beside the weights."""
    if audit is not None and not audit.passed:
        sink.write_text(audit.to_json(release=release), folder / FAILED_FILE)
