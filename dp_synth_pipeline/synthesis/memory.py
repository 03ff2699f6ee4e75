"""Finds what a table's earlier releases tell of its marginals, for a refresh that remembers them; keeps it for the next one.

It lies beside the generator of the release that wrote it, and came there as that did: once the release was settled. A
refresh uses it only if this very account paid for every release in it, and the codes mean the same as then. All of it was
released, so to use it is free; what a table promises is then the promise of all those releases together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis import generator_files, profile_cache, retention
from dp_synth_pipeline.synthesis.protection import Protection
from dp_synth_pipeline.synthesis.run_state import RunState

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Marginals
    from dp_synth_pipeline.model.marginals.remembering import Memory

OTHER_CODES = "the profile or the columns are others than before"
DRIFTED = "the new noisy counts are too far from those that were released before"
"""Why a refresh begins anew though there are releases before it."""


@dataclass(frozen=True)
class Remembered:
    """What earlier releases tell, and which they are.

    Attributes:
        memory: the marginals, as all of them tell them.
        releases: their ids, oldest first.
        codes: digest of the columns and the profile, which say what a code means.
        profile: the release that was charged for that profile.
    """

    memory: Memory
    releases: tuple[str, ...]
    codes: str
    profile: str

    @property
    def last(self) -> str:
        """The release that wrote it; those before are among what that one builds upon."""
        return self.releases[-1]


def expected(protection: Protection, folder: Path) -> bool:
    """Say, before anything is read, whether the next refresh of a table goes on from an earlier one; public facts decide.

    It does not if a person asked for a new profile, of which the codes would mean other values.

    Args:
        folder: the table's or partition's releasable folder.
    """
    settings = protection.settings
    found = _found(protection, folder) if settings.refresh.remember else None
    if found is None:
        return False
    try:
        origin = profile_cache.read(folder).origin
    except InvalidInput:
        return False
    return origin.renew is None and (origin.account, origin.release) == (settings.account, found.profile)


def possible(protection: Protection) -> bool:
    """Say whether the ledger knows a release of the table to go on from; whether its files are there, only a run sees."""
    return protection.settings.refresh.remember and bool(protection.paid_releases())


def find(protection: Protection, folder: Path, state: RunState, given_by: str = "") -> tuple[Remembered | None, str]:
    """Return what a release goes on from; or None and why not, if there are releases before it. It reads no row.

    Args:
        folder: the table's or partition's releasable folder.
        state: of the release, which has its profile.
        given_by: what says what the codes mean that are given with its rows, if there are any.
    """
    found = _found(protection, folder) if protection.settings.refresh.remember else None
    if found is not None and found.codes != _codes(state, given_by):
        return None, OTHER_CODES
    return found, ""


def drift(memory: Memory, measured: Marginals, names: Sequence[str], given: int = 0) -> dict[str, Any]:
    """Return how far a table moved since the releases that a memory holds, by noisy counts alone, so for free.

    Args:
        measured: a further release's counts of the same columns.
        names: of the modelled columns.
        given: how many columns stand before them that are given with each row.

    Returns:
        `mean`, the mean total variation distance of all that is counted, and `columns`, by name that of all that is counted
        of each, the largest first; each from 0 to 1.
    """
    moved = memory.moved(measured)
    cliques = memory.layout.cliques
    found = {n: [m for m, c in zip(moved, cliques, strict=True) if i in c] for i, n in enumerate(names, given)}
    means = {name: round(float(sum(each) / len(each)), 5) for name, each in found.items() if each}
    return {
        "mean": round(float(moved.mean()), 5),
        "columns": dict(sorted(means.items(), key=lambda item: (-item[1], item[0]))),
    }


def keep(memory: Memory, restricted: Path) -> None:
    """Write what a release knows, its own counts included, to where it waits for the settlement."""
    from dp_synth_pipeline.model.marginals import storage

    with retention.private():
        storage.save_memory(waiting(restricted), memory)


def waiting(restricted: Path) -> Path:
    """Return where what a release knows lies until it is settled, in its restricted folder."""
    return restricted / generator_files.MEMORY


def facts(state: RunState, restricted: Path, given_by: str = "") -> dict[str, Any]:
    """Return what the generator's facts say of the memory beside it; nothing if its release keeps none."""
    path = waiting(restricted)
    if not path.exists():
        return {}
    releases = [*(state.facts.remembered or ()), state.release]
    about = {"releases": releases, "codes": _codes(state, given_by), "profile": state.facts.profile_release}
    return {"memory": {**about, "sha256": _digest(path)}}


def _found(protection: Protection, folder: Path) -> Remembered | None:
    """Return the memory beside a table's released generator, if this account paid for all of it."""
    from dp_synth_pipeline.model.marginals import storage

    generator = folder / generator_files.FOLDER
    path, described = generator / generator_files.MEMORY, generator_files.facts(generator)
    about = described.get("memory")
    if about is None or about["releases"][-1] != described["release"]:
        return None
    try:
        found = Remembered(storage.load_memory(path), tuple(about["releases"]), about["codes"], about["profile"])
    except InvalidInput:
        return None
    if about["sha256"] != _digest(path) or not protection.paid_releases().issuperset(found.releases):
        return None
    return found


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file of released numbers."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _codes(state: RunState, given_by: str) -> str:
    """Return the digest of what says what a code means: the columns and the profile, and those of what is given."""
    text = state.schema + state.path("profile").read_text(encoding="utf-8") + given_by
    return hashlib.sha256(text.encode()).hexdigest()
