"""`dp-synth`: synthesize a file, run the demo, and look after privacy accounts."""

from __future__ import annotations

import logging
import os
import sys

import typer
from rich.console import Console

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.orchestration.cli import demo, ledger, synthesize

app = typer.Typer(
    name="dp-synth",
    help="Differentially private synthetic tables, with a privacy budget that refuses to be overspent.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
app.command("synthesize")(synthesize.synthesize)
app.command("demo")(demo.demo)
app.add_typer(ledger.app, name="ledger")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line: exit code 0 done, 1 failed, 2 bad input, 3 refused by the ledger, 4 ledger corrupted."""
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    logging.basicConfig(level=logging.WARNING)  # before a library does it at a chattier level
    try:
        app()
    except DpSynthError as error:
        Console(stderr=True).print(f"[bold red]{type(error).__name__}[/]: {error}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
