"""Keeps what a release learnt durably before the release is settled, and releases it only after.

Until then it lies with the restricted rows, so that nobody draws from what nobody has paid for. A settlement is final: were
the weights written after it, a crash between the two would lose a release that is paid for.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.synthesis.retention import private
from dp_synth_pipeline.tabular.targets import sink

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

FOLDER = "learnt"
"""In a release's restricted folder."""

AUDIT, FAILED_AUDIT = "audit.json", "audit_failed.json"
"""The audit beside the weights that passed it; the last one that failed, in the table's releasable folder."""

DESCRIBED = "generator.json"
"""Says whose weights lie beside it: gone first and written last, so that it never stands beside another release's."""


def keep(folder: Path, model: GenerativeModel, facts: dict[str, Any], profile: str, audit: Audit | None) -> None:
    """Write what was learnt into `folder`, durably, whole or not at all.

    Args:
        facts: public facts of how it came to be, its release among them.
        profile: the release's own profile, as JSON text: a later refresh that fails half-way leaves another one behind.
    """
    from dp_synth_pipeline.model import artifact

    partial = folder.with_name(f".{FOLDER}")
    shutil.rmtree(partial, ignore_errors=True)
    with private():
        artifact.save(partial, model, facts)
        (partial / "profile.json").write_text(profile, encoding="utf-8")
        if audit is not None:
            (partial / AUDIT).write_text(audit.to_json(release=facts["release"]), encoding="utf-8")
    for path in (*partial.iterdir(), partial):
        _sync(path)
    os.replace(partial, folder)
    _sync(folder.parent)


def found(folder: Path, release: str) -> bool:
    """Say whether `folder` holds what a release learnt."""
    try:
        return json.loads((folder / DESCRIBED).read_text(encoding="utf-8"))["facts"]["release"] == release
    except (OSError, ValueError, KeyError):
        return False


def audit(folder: Path) -> Audit | None:
    """Return the audit beside what was learnt; None if no noisy step was taken."""
    path = folder / AUDIT
    return Audit.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def findings(folder: Path, release: str) -> list[dict[str, Any]]:
    """Return the findings of the audit beside a generator's weights, if it is about the training of this release."""
    try:
        audit_record = json.loads((folder / AUDIT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return audit_record["findings"] if audit_record["release"] == release else []


def keep_failed(audit: Audit | None, folder: Path, release: str) -> None:
    """Write an audit that failed into a table's releasable folder; one that passed lies beside the weights."""
    if audit is not None and not audit.passed:
        sink.write_text(audit.to_json(release=release), folder / FAILED_AUDIT)


def release_to(learnt_folder: Path, folder: Path) -> None:
    """Copy what was learnt to where it may leave; called again after a crash, it ends as if it had not been cut short."""
    if learnt_folder == folder:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in (DESCRIBED, AUDIT):
        (folder / name).unlink(missing_ok=True)
    for path in sorted(learnt_folder.iterdir(), key=lambda p: p.name == DESCRIBED):
        with sink.replacing(folder / path.name) as partial:
            shutil.copyfile(path, partial)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
