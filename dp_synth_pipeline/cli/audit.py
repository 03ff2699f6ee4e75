"""`dp-synth audit` attacks a training like a released one, on a made-up table, and says what that proves."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from dp_synth_pipeline.orchestration.assets.one_run_audit import audit, latest
from dp_synth_pipeline.orchestration.resources import StoreResource


def one_run(
    table: Annotated[str, typer.Argument(help="A table whose generator was released.")],
    partition: Annotated[
        str,
        typer.Option("--partition", metavar="KEY", help="Of a partitioned table; without it, the one released last."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Train once on a made-up table of canaries, watch every noisy sum, and bound epsilon from below. Charges nothing.

    Exit code 1 if the claim is refuted. Example: dp-synth audit visits
    """
    outcome = audit(latest(StoreResource().get().releasable(table), partition))
    if as_json:
        typer.echo(json.dumps(outcome, indent=1))
    else:
        console = Console()
        console.print(
            "[green]passed[/]" if outcome["passed"] else "[bold red]FAILED[/]", outcome["told"], highlight=False
        )
        console.print(outcome["meaning"], style="dim", highlight=False)
    if not outcome["passed"]:
        raise typer.Exit(1)
