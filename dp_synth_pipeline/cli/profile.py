"""`dp-synth profile` shows the released profile that a table's refreshes reuse, and has the next refresh measure it anew."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.cli import terminal
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.synthesis.blocks import FOLDER, folded_label
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile

app = typer.Typer(
    help="Look at the profile that a table's refreshes reuse at no charge, or have it measured anew.",
    no_args_is_help=True,
)

MOST = 12
"""Partitions that a message names; of more, the first and the last."""

Name = Annotated[str, typer.Argument(metavar="TABLE", help="A table of this store.")]
Partition = Annotated[
    str,
    typer.Option("--partition", metavar="KEY", help="Of a partitioned table: a partition, or FIRST..LAST of one run."),
]


FACTS = ("column", "kind", "values", "cells", "lower", "upper", "null", "declared")
PARTS = ("partition", "measured", "release", "account", "ε", "units", "rows", "next")
"""What is listed of each column, and of each partition."""


@app.command("show")
def show(table: Name, partition: Partition = "") -> None:
    """Show what the profile holds, which release paid for it, how much, and how old it is. Reads no row; free.

    Each partition has a profile of its own; without --partition, a partitioned table's are listed.

    Example: dp-synth profile show visits --partition 2026-01-01
    """
    console, parts = Console(), _partitions(table)
    if parts and not partition:
        _print_partitions(table, parts, console)
        if not _has_whole_profile(table):
            return
    folder, name = _folder(table, partition)
    cached = _read(folder, name)
    origin, profile = cached.origin, cached.profile
    console.print(
        f"[bold]{escape(name)}[/]: measured {_age(origin)} days ago in release {origin.release} of account "
        f"{origin.account}, at epsilon {origin.epsilon:.4g}. About {profile.population:,} units ({profile.unit}), "
        f"{profile.rows:,} rows.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(terminal.table("", FACTS, [_row(column) for column in profile.columns]))
    if origin.renew is not None:
        console.print(f"The next refresh measures it anew: {origin.renew['who']} asked for it.", highlight=False)


@app.command("renew")
def renew(
    table: Name, partition: Partition = "", why: Annotated[str, typer.Option(help="The reason, for the record.")] = ""
) -> None:
    """Have the next refresh measure the profile anew: when the data have drifted. Charges nothing now.

    Of a partitioned table, that of one partition: its next refresh does.

    One of related tables is named with its database: clinic/visits.

    Example: dp-synth profile renew visits --why "new clinics since May"
    """
    parts = _partitions(table)
    if parts and not partition and not _has_whole_profile(table):
        raise InvalidInput(
            f"{table} has a profile for each partition; say which one to renew: --partition KEY. It has: {_abridge(parts)}."
        )
    folder, name = _folder(table, partition)
    origin = _read(folder, name).origin
    profile_cache.renew(folder, why)
    Console().print(
        f"The next refresh of [bold]{escape(name)}[/] measures its profile anew. The last one cost epsilon "
        f"{origin.epsilon:.4g} of account {origin.account}; a new one costs its share of what that refresh asks, which is "
        f"not more than before: its training gets that much less. Nothing is charged now."
        + (" Its partitions keep theirs; --partition KEY renews one." if parts and not partition else ""),
        highlight=False,
        soft_wrap=True,
    )


def _print_partitions(table: str, parts: list[str], console: Console) -> None:
    listing: list[tuple[str, ...]] = []
    for label in parts:
        folder, name = _folder(table, label)
        try:
            entry = _read(folder, name)
        except InvalidInput as error:
            listing.append((escape(label), escape(str(error))))
            continue
        origin, profile = entry.origin, entry.profile
        counts = (f"{profile.population:,}", f"{profile.rows:,}")
        then = "measured anew" if origin.renew is not None else "reused"
        age = f"{_age(origin)} days ago"
        listing.append(
            (escape(label), age, origin.release[:12], origin.account, f"{origin.epsilon:.4g}", *counts, then)
        )
    console.print(terminal.table(table, PARTS, listing))
    console.print(
        f"dp-synth profile show {table} --partition KEY shows one.", style="dim", highlight=False, soft_wrap=True
    )


def _row(c: ColumnProfile) -> tuple[str, ...]:
    counts = (str(len(c.values)), str(len(c.bins)))
    ends = ["" if v is None else f"{v:.6g}" for v in (c.lower, c.upper)]
    return (escape(c.name), str(c.kind), *counts, *ends, f"{c.null_rate:.1%}", ", ".join(c.declared))


def _age(origin: profile_cache.Origin) -> int:
    return (datetime.now(UTC) - datetime.fromisoformat(origin.measured_at)).days


def _root() -> Path:
    return StoreResource().get().root / "releasable"


def _partitions(table: str) -> list[str]:
    """Return the partitions of a table that have a profile, as their folders name them."""
    if table not in _tables():
        return []
    files = (_root() / table).glob(f"{FOLDER}*/{profile_cache.FACTS}")
    return sorted(f.parent.name.removeprefix(FOLDER) for f in files)


def _has_whole_profile(table: str) -> bool:
    """Say whether a table has a profile of all its rows; beside partitions' if it was refreshed both ways."""
    return (_root() / table / profile_cache.FACTS).exists()


def _tables() -> set[str]:
    """Return the tables that have a profile, of their own or of a partition; related ones as DATABASE/TABLE."""
    whole = {f.parent.name for f in _root().glob(f"*/{profile_cache.FACTS}")}
    below = [f.parent for f in _root().glob(f"*/*/{profile_cache.FACTS}")]
    whole |= {f"{f.parent.name}/{f.name}" for f in below if not f.name.startswith(FOLDER)}
    return whole | {f.parent.parent.name for f in _root().glob(f"*/{FOLDER}*/{profile_cache.FACTS}")}


def _folder(table: str, partition: str) -> tuple[Path, str]:
    """Return where the profile of a table or of one of its partitions lies, and how to call it.

    Raises:
        InvalidInput: if there is none, naming those that there are.
    """
    table_names = sorted(_tables())
    if table not in table_names:
        raise InvalidInput(
            f"the store has no profile of a table {table!r}; it has: {', '.join(table_names) or 'none'}. A refresh "
            f"makes one."
        )
    if not partition:
        return _root() / table, table
    parts, (first, _, last) = _partitions(table), partition.partition("..")
    labels = [folded_label([partition]), folded_label([first, last]) if last else ""]
    label = next((n for n in labels if n in parts), None)
    if label is None:
        raise InvalidInput(
            f"{table} has no profile of a partition {partition!r}; it has: {_abridge(parts)}. A refresh of it makes one."
        )
    return _root() / table / f"{FOLDER}{label}", f"{table}, partition {label}"


def _abridge(parts: list[str]) -> str:
    """Name partitions, the first and last of many."""
    if len(parts) <= MOST:
        return ", ".join(parts) or "none"
    return f"{', '.join(parts[: MOST // 2])}, ..., {', '.join(parts[-MOST // 2 :])} ({len(parts)} in all)"


def _read(folder: Path, name: str) -> profile_cache.Cached:
    try:
        return profile_cache.read(folder)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}; the next refresh measures one.") from None
