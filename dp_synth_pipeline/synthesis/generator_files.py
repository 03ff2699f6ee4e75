"""Keeps what a release learnt durably before the release is settled, and releases it only after.

Until then it lies with the restricted rows, so that nobody draws from what nobody has paid for. A settlement is final: were
the weights written after it, a crash between the two would lose a release that is paid for.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.model.histories import pair_weights
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.synthesis.retention import LEARNT, private
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.texts import storage, survivors
from dp_synth_pipeline.texts.writer import Writer

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel

FOLDER = "generator"
"""Of a released generator, in a table's releasable folder."""

DATABASE = "database.json"
"""In the releasable folder of related tables: how they hang together, and what they promise."""

MEMORY = "memory.safetensors"
"""Beside the weights: what this release and those before it tell of the marginals, for a refresh that remembers them."""

NOTES, NOTE_WORDS = "notes.safetensors", "note_words.safetensors"
"""Beside the weights: what writes a text column with a language model (see `note_writer`)."""

AUDIT, FAILED_AUDIT = "audit.json", "audit_failed.json"
"""The audit beside the weights that passed it; the last one that failed, in the table's releasable folder."""

ATTACKED = "one_run_audit.json"
"""What the last one-run audit of a table or partition proved, in its releasable folder."""

EARLIER, MOST_EARLIER = "earlier", 5
"""Beside a table's generator: those of its earlier releases, each in a folder of its release's name; and how many stay."""

PROVED = ("release", "passed", "claimed", "epsilon", "ratio", "delta", "confidence")
"""What a release card shows of it."""

DESCRIBED = "generator.json"
"""Says whose weights lie beside it: gone first and written last, so that it never stands beside another release's."""


def keep(
    folder: Path,
    model: GenerativeModel,
    facts: dict[str, Any],
    profile: str,
    audit: Audit | None,
    beside: Sequence[Path] = (),
    texts: Sequence[Writer] = (),
) -> None:
    """Write what was learnt into `folder`, durably, whole or not at all.

    Args:
        facts: public facts of how it came to be, its release among them.
        profile: the release's own profile, as JSON text: a later refresh that fails half-way leaves another one behind.
        beside: further files to copy, of those that exist: what a later refresh may remember, and what writes notes.
        texts: what writes its text columns.
    """
    from dp_synth_pipeline.model import artifact

    partial = folder.with_name(f".{LEARNT}")
    shutil.rmtree(partial, ignore_errors=True)
    with private():
        artifact.save(partial, model, facts)
        (partial / "profile.json").write_text(profile, encoding="utf-8")
        if texts:
            storage.save(partial / storage.FILE, texts)
        if audit is not None:
            (partial / AUDIT).write_text(audit.to_json(release=facts["release"]), encoding="utf-8")
        for path in beside:
            if path.exists():
                shutil.copyfile(path, partial / path.name)
    for path in (*partial.iterdir(), partial):
        _sync(path)
    os.replace(partial, folder)
    _sync(folder.parent)


def found(folder: Path, release: str) -> bool:
    """Say whether `folder` holds what a release learnt."""
    return facts(folder).get("release") == release


def facts(folder: Path) -> dict[str, Any]:
    """Return the public facts of the generator in `folder`; none if it holds none of ours, or half of one."""
    try:
        return dict(json.loads((folder / DESCRIBED).read_text(encoding="utf-8"))["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


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


def looks(folder: Path, release: str) -> list[dict[str, Any]]:
    """Return the noisy losses that the training of a release paid for; none if it asked for none, or is another's."""
    if not found(folder, release):
        return []
    return json.loads((folder / DESCRIBED).read_text(encoding="utf-8"))["facts"].get("looks", [])


def last_attack(folder: Path) -> dict[str, Any]:
    """Return what the last one-run audit in a releasable folder proved; empty if there is none, or one of an older form.

    Its `release` is the one whose plan was audited, which may be an earlier one.
    """
    try:
        outcome = json.loads((folder / ATTACKED).read_text(encoding="utf-8"))
        return {fact: outcome[fact] for fact in PROVED}
    except (FileNotFoundError, KeyError):
        return {}


def keep_failed(audit: Audit | None, folder: Path, release: str) -> None:
    """Write an audit that failed into a table's releasable folder; one that passed lies beside the weights."""
    if audit is not None and not audit.passed:
        sink.write_text(audit.to_json(release=release), folder / FAILED_AUDIT)


def release_to(learnt_folder: Path, folder: Path) -> None:
    """Move what was learnt to where it may leave; called again after a crash, it ends as if it had not been cut short."""
    if learnt_folder == folder:
        return
    folder.mkdir(parents=True, exist_ok=True)
    _keep_earlier(folder)
    for name in (DESCRIBED, AUDIT, MEMORY, NOTES, pair_weights.FILE, storage.FILE, survivors.FILE):
        (folder / name).unlink(missing_ok=True)
    for path in sorted(learnt_folder.iterdir(), key=lambda p: p.name == DESCRIBED):
        with sink.replacing(folder / path.name) as partial:
            shutil.copyfile(path, partial)
    for path in (*folder.iterdir(), folder):
        _sync(path)
    shutil.rmtree(learnt_folder)


def _keep_earlier(folder: Path) -> None:
    """Copy the generator that is about to be replaced to where it can still be drawn from; the oldest ones give way."""
    release = facts(folder).get("release")
    if release is None:
        return
    earlier = folder.parent / EARLIER
    partial = earlier / f".{folder.name}"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(folder, partial)
    (earlier / release).mkdir(exist_ok=True)
    shutil.rmtree(earlier / release / folder.name, ignore_errors=True)
    os.replace(partial, earlier / release / folder.name)
    kept = sorted((path for path in earlier.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST_EARLIER]:
        shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
