"""Atomically replaces the table that analysts read by the checked one, if its release is settled and drew it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.home import home
from dp_synth_pipeline.synthesis.blocks import Part
from dp_synth_pipeline.synthesis.progress import Progress
from dp_synth_pipeline.synthesis.protection import Record
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.sampling import sealed
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, table_name
from dp_synth_pipeline.targets import sink


class Publication(Stage):
    """Writes the drawn rows to each target: old or new, never half."""

    name, makes = "published", "published"

    def done(self, release: Release) -> bool:
        """Say whether the rows were published."""
        return release.state.facts.published is not None

    def run(self, release: Release) -> dict[str, Any]:
        """Return where the rows were written.

        Raises:
            ReleaseStateError: if nobody paid for them, or the file is not the one that was drawn under this release.
        """
        require_settled(release.record)
        outputs = [(Path(t["path"]), t["seal"]) for t in (release.state.facts.outputs or {}).values()]
        drawn = [(release.state.path("synthetic"), release.state.facts.seal), *outputs]
        require_drawn(drawn, release.id, release.protection.seal)
        check_targets(release.settings, release.part, release.progress)
        on_wait = partial(release.progress.wait, f"{release.settings.name}: publishing")
        rows = release.state.path("synthetic")
        places = [sink.publish(rows, target, on_wait) for target in targets_of(release.settings.name, release.part)]
        others = {n: sink.publish(path, release.part.outputs[n], on_wait) for n, path in _outputs(release).items()}
        release.state = release.state.with_(published=[*places, *others.values()])
        return {"places": places, **({"outputs": others} if others else {})}


def targets_of(table: str, part: Part) -> list[str]:
    """Return where a release writes its rows: where a person said, else the warehouse at home."""
    return part.targets or [default_target(table, part.label)]


def default_target(table: str, partition: str = "") -> str:
    """Return the DuckDB warehouse at home, schema `synthetic`; a table of its own for each partition."""
    name = f"{table}__{partition}" if partition else table
    return f"duckdb:///{home() / 'warehouse.duckdb'}?table=synthetic.{table_name(name) if partition else name}"


def check_targets(settings: ReleaseSettings, part: Part, progress: Progress) -> None:
    """Refuse a target that cannot be written, or that the release reads from, before anything is spent on it.

    Raises:
        InvalidInput: naming the target.
    """
    for target in (*targets_of(settings.name, part), *part.outputs.values()):
        sink.check_kind(target)
        sink.check_spared(target, settings.read)
        sink.check_writable(target, told=partial(progress.wait, f"{settings.name}: publishing"))


def _outputs(release: Release) -> dict[str, Path]:
    """Return the further tables that were drawn and are still asked for, by name."""
    drawn = release.state.facts.outputs or {}
    return {name: Path(table["path"]) for name, table in drawn.items() if name in release.part.outputs}


def require_drawn(drawn: Iterable[tuple[Path, str | None]], release: str, seal: Callable[[str], str]) -> None:
    """Refuse to publish any file but the one that was drawn from this very release, whatever its state says.

    Args:
        drawn: the files, each with the seal that was made of it when it was drawn.
        release: the release's id.
        seal: the ledger's keyed hash.

    Raises:
        ReleaseStateError: if one is another file, or was changed since.
    """
    if any(not rows.is_file() or kept != seal(sealed(release, rows)) for rows, kept in drawn):
        raise ReleaseStateError(
            "the file to publish is gone, was changed, or is not the one that was drawn under this release; what was "
            "published before is intact. Materialize `synthetic` again, which is free."
        )


def require_settled(record: Record) -> None:
    """Refuse to publish what no settled release paid for, or no record of an unprotected one accounts for.

    Raises:
        ReleaseStateError: if the release is in another state.
    """
    if record.state != "settled":
        raise ReleaseStateError(
            f"the release behind this table is {record.state}, not settled, so nobody paid for it; nothing was published. "
            f"Materialize the table again from `ingested`."
        )
