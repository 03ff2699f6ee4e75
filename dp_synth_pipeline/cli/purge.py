"""`dp-synth purge` deletes what holds real rows, once nothing needs it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.cli.options import opened
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.synthesis import retention

UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def purge(
    table: Annotated[str | None, typer.Argument(help="One table; all of the store without it.")] = None,
    older_than: Annotated[str, typer.Option(help="Only what was last written so long ago: 12h, 7d, 4w.")] = "0d",
    open_too: Annotated[
        bool, typer.Option("--all", help="Also of releases that are open or unknown; a run in progress then fails.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm --all.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    ledger: Annotated[
        str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")
    ] = "",
) -> None:
    """Delete restricted files (snapshots, codes, quality reports) of releases that ended. Nothing released is touched.

    Synthetic tables, generators, profiles and cards stay, and so does every charge.

    Example: dp-synth purge visits --older-than 7d
    """
    age = _duration(older_than)
    if open_too and not (yes or dry_run):
        raise InvalidInput(
            "--all also deletes what runs in progress read; their reservations stay charged. Add --yes if that is meant, "
            "or --dry-run to see what would go."
        )
    book, store = opened(ledger), StoreResource().get()
    names = retention.purge(store, book, table, older_than=age, open_too=open_too, dry_run=dry_run)
    console = Console()
    for name in names:
        console.print(f"{'would delete' if dry_run else 'deleted'} {escape(name)}", highlight=False, soft_wrap=True)
    if not names:
        console.print("Nothing to delete. Releases that are open keep their files; --all deletes those too.")


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"(\d+)([hdw])", text.strip().lower())
    if match is None:
        raise InvalidInput(f"--older-than: expected hours, days or weeks, such as 12h, 7d or 4w; got {text!r}.")
    return timedelta(**{UNITS[match[2]]: int(match[1])})
