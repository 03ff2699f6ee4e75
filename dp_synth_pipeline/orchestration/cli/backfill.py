"""`dp-synth backfill`: how many partitions of a table fit what is left of its account, before the first one runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import dagster as dg
import typer
from dagster_shared.utils.config import discover_config_file
from rich.console import Console
from rich.table import Table

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import partitions
from dp_synth_pipeline.orchestration.cli import running
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.preflight import Preflight, asked_of, preflight
from dp_synth_pipeline.orchestration.resources import ledger_url

MOST = 40
"""Rows that the table shows; of a longer backfill, those around the first partition that does not fit."""


def backfill(
    table: Annotated[str, typer.Argument(help="A table of this project that has partitions.")],
    wanted: Annotated[
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
    console, definitions = Console(), project(ledger)
    settings = _asked(definitions, table)
    keys = chosen(settings, wanted)
    answer = preflight(settings, Ledger.open(ledger or ledger_url()), keys)
    _show(settings, answer, console)
    if not answer.fitting or not (fitting or all(answer.fits)):
        raise typer.Exit(3)
    if not launch:
        return
    for group in runs(settings, answer.fitting):
        outcome = running.refresh(definitions, table, console, show=console.is_terminal, partitions=group)
        name = partitions.folded_label(group)
        if outcome.exit_code:
            console.print(f"{name}: {outcome.message}", highlight=False, soft_wrap=True, markup=False)
            raise typer.Exit(outcome.exit_code)
        console.print(f"{name}: published.", highlight=False)


def project(ledger: str = "") -> dg.Definitions:
    """Return the definitions of the Dagster project here, or else of this one, complete with ledger and store."""
    from dp_synth_pipeline.orchestration.build import completed_definitions, project_definitions

    if discover_config_file(Path.cwd()) is None:
        return project_definitions()
    if str(Path.cwd()) not in sys.path:  # as `dagster` and `dg` do
        sys.path.insert(0, str(Path.cwd()))
    return completed_definitions(dg.load_from_defs_folder(path_within_project=Path.cwd()), ledger)


def chosen(settings: TableSettings, wanted: str) -> list[str]:
    """Return the partitions that a person named, in their own order.

    Raises:
        InvalidInput: if the table has no such partition, or none yet.
    """
    if settings.partitions is None:
        return []
    known = list(partitions.definition(settings.partitions).get_partition_keys())
    first, mark, last = wanted.partition("..")
    named = [first, last] if mark else [k.strip() for k in wanted.split(",") if k.strip()]
    unknown = [k for k in named if k not in known]
    if unknown or not known:
        have = f"it has {known[0]} to {known[-1]}" if known else "its first window is not over yet"
        raise InvalidInput(
            f"--partitions: {settings.name} has no partition {unknown[0] if unknown else 'yet'!r}; {have}."
        )
    if mark:
        return known[known.index(first) : known.index(last) + 1]
    return [k for k in known if k in named] if named else known


def runs(settings: TableSettings, keys: list[str]) -> list[list[str]]:
    """Return the partitions of each run: one, or under single_run all that adjoin one another."""
    cut = settings.partitions
    if cut is None or cut.backfill == "multi_run":
        return [[k] for k in keys]
    known = list(partitions.definition(cut).get_partition_keys())
    found: list[list[str]] = []
    for key in keys:
        if found and known.index(key) == known.index(found[-1][-1]) + 1:
            found[-1].append(key)
        else:
            found.append([key])
    return found


def _asked(definitions: dg.Definitions, table: str) -> TableSettings:
    name = f"{table}_refresh"
    known = sorted(j.name.removesuffix("_refresh") for j in definitions.jobs or () if j.name.endswith("_refresh"))
    if table not in known:
        raise InvalidInput(f"this project has no table {table!r}; it has: {', '.join(known) or 'none'}.")
    return asked_of(definitions.resolve_job_def(name).metadata, table)


def _show(settings: TableSettings, answer: Preflight, console: Console) -> None:
    shown = Table("partition", "charged to", "fits", title=f"Backfill of {settings.name}", title_justify="left")
    begin = max(0, answer.fits.index(False) - MOST // 2) if False in answer.fits else 0
    account, epsilon = settings.charge
    for key, fits in list(zip(answer.keys, answer.fits, strict=True))[begin : begin + MOST]:
        blocks = partitions.part(settings, [key]).blocks
        shown.add_row(key, blocks[0] if blocks else f"{account} as a whole", "yes" if fits else "[red]no[/]")
    console.print(shown)
    console.print(
        f"{answer.told}. Each asks {account} for epsilon {epsilon:g}; nothing was reserved.",
        highlight=False,
        soft_wrap=True,
    )
