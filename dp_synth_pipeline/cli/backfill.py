"""`dp-synth backfill` says, before the first one runs, how many partitions of a table fit what is left of its account."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from dp_synth_pipeline.cli import refreshing, terminal
from dp_synth_pipeline.cli.options import opened
from dp_synth_pipeline.orchestration.preflight import Preflight, asking_table, chosen, preflight, runs
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import blocks

MOST = 40
"""Rows that the table shows; of a longer backfill, those around the first partition that does not fit."""


def backfill(
    table: Annotated[str, typer.Argument(help="A table of this project that has partitions.")],
    selection: Annotated[
        str, typer.Option("--partitions", help="FIRST..LAST, or some, separated by commas; all of them without it.")
    ] = "",
    fitting: Annotated[bool, typer.Option("--fitting", help="Be content with those that fit.")] = False,
    launch: Annotated[bool, typer.Option("--launch", help="Run them here, one after the other.")] = False,
    ledger: Annotated[
        str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")
    ] = "",
) -> None:
    """Ask the ledger how many partitions fit. Nothing is reserved; exit code 3 if not all of them fit.

    Example: dp-synth backfill visits --partitions 2026-01-01..2026-01-30 --fitting --launch
    """
    from dp_synth_pipeline.orchestration.build import current_project

    console, definitions = Console(), current_project(ledger)
    settings = asking_table(definitions, table)
    keys = chosen(settings, selection)
    answer = preflight(settings, opened(ledger), keys)
    _show(settings, answer, console)
    if not answer.fitting or not (fitting or all(answer.fits)):
        raise typer.Exit(3)
    if not launch:
        return
    for group in runs(settings, answer.fitting):
        outcome = refreshing.refresh(definitions, table, console, show=console.is_terminal, partitions=group)
        name = blocks.folded_label(group)
        if outcome.exit_code:
            console.print(f"{name}: {outcome.message}", highlight=False, soft_wrap=True, markup=False)
            raise typer.Exit(outcome.exit_code)
        console.print(f"{name}: published.", highlight=False)


def _show(settings: TableSettings, answer: Preflight, console: Console) -> None:
    rows: list[tuple[str, ...]] = []
    begin = max(0, answer.fits.index(False) - MOST // 2) if False in answer.fits else 0
    account, epsilon = settings.charge
    for key, fits in list(zip(answer.keys, answer.fits, strict=True))[begin : begin + MOST]:
        block_names = blocks.part(settings, [key]).blocks
        charged = block_names[0] if block_names else f"{account} as a whole"
        more = f" and {len(block_names) - 1} more" if len(block_names) > 1 else ""
        rows.append((key, charged + more, "yes" if fits else "[red]no[/]"))
    console.print(terminal.table(f"Backfill of {settings.name}", ("partition", "charged to", "fits"), rows))
    console.print(
        f"{answer.told}. Each asks {account} for epsilon {epsilon:g}; nothing was reserved.",
        highlight=False,
        soft_wrap=True,
    )
