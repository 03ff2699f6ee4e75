"""Finds the generators that a store holds: each table's newest, each partition's, and earlier releases' that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.blocks import FOLDER as FOLDER_OF_PARTITION
from dp_synth_pipeline.synthesis.blocks import RANGE
from dp_synth_pipeline.synthesis.generator_files import DATABASE, DESCRIBED, EARLIER, FOLDER, facts
from dp_synth_pipeline.synthesis.store import Store


class Released(NamedTuple):
    """A released generator.

    Attributes:
        table: its table; of a partition, with the partition's folder.
        release: the id of the release that paid for it.
        folder: where it lies.
    """

    table: str
    release: str
    folder: Path


def generators(store: Store) -> list[Released]:
    """Return every released generator of a store, by table; the newest of each table before its earlier ones."""
    root = store.root / "releasable"
    found = sorted(root.rglob(f"{FOLDER}/{DESCRIBED}")) if root.is_dir() else []
    return sorted(_described(root, found), key=lambda r: (r.table, EARLIER in r.folder.parts))


def _described(root: Path, paths: list[Path]) -> Iterator[Released]:
    for path in paths:
        try:
            release = json.loads(path.read_text(encoding="utf-8"))["facts"]["release"]
        except (OSError, ValueError, KeyError):
            continue  # half-written, or none of ours
        table = path.parent.parent.relative_to(root)
        if EARLIER in table.parts:
            table = Path(*table.parts[: table.parts.index(EARLIER)])
        yield Released(table.as_posix(), release, path.parent)


def generator_of(store: Store, table: str, release: str = "") -> Released:
    """Return the generator of a table's newest release, or of a release whose id begins so.

    Raises:
        InvalidInput: if there is none, naming those that there are.
    """
    every = generators(store)
    own = [r for r in every if r.table == table]
    if not own:
        names = ", ".join(dict.fromkeys(database_of(store, r) or r.table for r in every)) or "none yet"
        raise InvalidInput(
            f"no released generator of a table {table!r}, and no such file; released are: {names}. Name one of them, a file "
            f"that `save` wrote, or a folder under store/releasable."
        )
    chosen = [r for r in own if r.release.startswith(release)]
    if not chosen or (release and len({r.release for r in chosen}) > 1):
        ids = ", ".join(r.release[:12] for r in own)
        raise InvalidInput(
            f"--release {release}: the store holds none of {table!r} whose id begins so, or several; it holds {ids}."
        )
    return chosen[0]


def database_of(store: Store, found: Released) -> str | None:
    """Return the name of the related tables to which a table belongs; None if it stands by itself."""
    database = Path(found.table).parent
    return database.as_posix() if (store.root / "releasable" / database / DATABASE).is_file() else None


def partitions_of(store: Store, table: str) -> list[Released]:
    """Return the newest generators whose rows together are a table's, of its partitions; of one released as a whole, none.

    That is one of each partition. Those that were learnt of several together are left out: their rows are those of the
    partitions. Where a partition covers windows before it too, the last partition is the table.
    """
    found = {r.table: r for r in reversed(generators(store))}
    names = sorted(name for name in found if name.startswith(f"{table}/{FOLDER_OF_PARTITION}") and RANGE not in name)
    parts = [] if table in found else [found[name] for name in names]
    rolling = [part for part in parts if facts(part.folder).get("windows")]
    return rolling[-1:] if parts[-1:] == rolling[-1:] else [part for part in parts if part not in rolling]


def like(store: Store, name: str) -> Released:
    """Return the generator of a table's newest release, or of the release whose id begins with a name.

    Raises:
        InvalidInput: if there is none, or several, naming the tables that there are.
    """
    every = generators(store)
    found = [r for r in every if r.table == name][:1] or [r for r in every if r.release.startswith(name)]
    if len({r.release for r in found}) != 1:
        names = ", ".join(dict.fromkeys(r.table for r in every)) or "none yet"
        how = "no release" if not found else "several releases"
        raise InvalidInput(
            f"{how} in {store.root} by {name!r}, and no table; released are: {names}. Name one of them, or more of a "
            f"release's id; or say the number of rows and columns, as is publicly known."
        )
    return found[0]
