"""What a release learnt, kept durably before the release is settled, and released only after.

Until then it lies with the restricted rows, so that nobody draws from what nobody has paid for. A settlement is final: were
the weights written after it, a crash between the two would lose a release that is paid for.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.orchestration import audits
from dp_synth_pipeline.orchestration.restricted import private
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.tabular.targets import sink

if TYPE_CHECKING:
    from dp_synth_pipeline.model.generation import Generator
    from dp_synth_pipeline.model.spec import GeneratorSpec

FOLDER = "learnt"
"""In a release's restricted folder."""

DESCRIBED = "generator.json"
"""Says whose weights lie beside it: gone first and written last, so that it never stands beside another release's."""


def keep(
    folder: Path, generator: Generator, spec: GeneratorSpec, facts: dict[str, Any], profile: str, audit: Audit | None
) -> None:
    """Write what was learnt into `folder`, durably, whole or not at all.

    Args:
        facts: public facts of how it came to be, its release among them.
        profile: the release's own profile, as JSON text: a later refresh that fails half-way leaves another one behind.
    """
    from dp_synth_pipeline.model import artifact

    partial = folder.with_name(f".{FOLDER}")
    shutil.rmtree(partial, ignore_errors=True)
    with private():
        artifact.save(partial, generator, spec, facts)
        (partial / "profile.json").write_text(profile, encoding="utf-8")
        if audit is not None:
            (partial / audits.FILE).write_text(audit.to_json(release=facts["release"]), encoding="utf-8")
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
    path = folder / audits.FILE
    return Audit.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def release_to(kept: Path, folder: Path) -> None:
    """Copy what was learnt to where it may leave; called again after a crash, it ends as if it had not been cut short."""
    if kept == folder:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in (DESCRIBED, audits.FILE):
        (folder / name).unlink(missing_ok=True)
    for path in sorted(kept.iterdir(), key=lambda p: p.name == DESCRIBED):
        with sink.replacing(folder / path.name) as partial:
            shutil.copyfile(path, partial)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
