"""`dp-synth` synthesizes files, discovers schemas, runs the demo, and manages accounts, cards, profiles and snapshots."""

from __future__ import annotations

import logging
import os
import sys

import typer
from rich.text import Text

from dp_synth_pipeline import __version__
from dp_synth_pipeline.cli import (
    audit,
    backfill,
    card,
    demo,
    governance,
    ledger,
    profile,
    purge,
    schema,
    synthesize,
)
from dp_synth_pipeline.cli.terminal import console
from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.orchestration.failures import withheld
from dp_synth_pipeline.orchestration.in_process import without_beta_warnings

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
app.command("purge")(purge.purge)
app.command("audit")(audit.one_run)
app.command("backfill")(backfill.backfill)
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")
app.add_typer(profile.app, name="profile")
app.add_typer(card.app, name="card")
app.add_typer(governance.app, name="governance")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line: exit code 0 done, 1 failed, 2 bad input, 3 refused by the ledger, 4 trouble with the ledger."""
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    logging.basicConfig(level=logging.WARNING)  # before a library does it at a chattier level
    without_beta_warnings()
    try:
        with withheld("The command"):
            app()
    except DpSynthError as error:
        message = Text.assemble((type(error).__name__, "bold red"), f": {error}")
        console(stderr=True).print(message, soft_wrap=True)
        sys.exit(error.exit_code)
