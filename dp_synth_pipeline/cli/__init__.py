"""`dp-synth` synthesizes files, discovers schemas, runs the demo, and manages accounts, cards, profiles and snapshots.

A command's module is imported when that command is called, since it brings data frames, databases and Dagster with it:
`--help`, `--version` and a mistyped name need none of them.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from dp_synth_pipeline import __version__
from dp_synth_pipeline.cli import terminal
from dp_synth_pipeline.errors import DpSynthError

COMMANDS = {
    "synthesize": (
        "synthesize",
        "Make a differentially private synthetic copy of one table; or, with --no-privacy, one without any guarantee.",
    ),
    "synthesize-database": (
        "synthesize_database",
        "Make differentially private synthetic copies of related tables, under one epsilon for each person.",
    ),
    "sample": ("sample", "Draw rows from a released generator."),
    "tune": (
        "tune",
        "Compare settings of training on rows drawn from a released generator, and print those to write.",
    ),
    "demo": (
        "demo",
        "Synthesize a table and a clinic of two tables; each further run spends more, until the ledger refuses.",
    ),
    "purge": (
        "purge",
        "Delete restricted files (snapshots, codes, quality reports) of releases that ended. Nothing released is touched.",
    ),
    "audit": (
        "one_run",
        "Train once on a made-up table of canaries, watch every noisy sum, and bound epsilon from below. Charges nothing.",
    ),
    "backfill": (
        "backfill",
        "Ask the ledger how many partitions fit. Nothing is reserved; exit code 3 if not all of them fit.",
    ),
    "docs": ("docs", "Print a page of the documentation, or list the pages."),
    "ledger": (
        "app",
        "Open, raise, approve, plan, charge, settle, show, forecast, export, anchor and verify privacy accounts.",
    ),
    "schema": ("app", "See a table's columns, or discover privately what to declare about them."),
    "profile": ("app", "Look at the profile that a table's refreshes reuse at no charge, or have it measured anew."),
    "card": ("app", "Verify a release card against the ledger, or write it in another form."),
    "governance": (
        "app",
        "One page on all accounts, tables and sources; what depends on what; and what an assessment asks.",
    ),
}
"""What each command is in the module of its name, a function or a group called `app`, and its line in the list of all."""


def application(imported: Collection[str] = COMMANDS.keys()) -> typer.Typer:
    """Return the command line with those commands imported, and nothing but a line for each of the others."""
    made = typer.Typer(
        name="dp-synth",
        help="Differentially private synthetic tables, with a privacy budget that refuses to be overspent.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        add_completion=False,
    )
    made.callback()(_options)
    made.command("version")(version)
    for name, (attribute, line) in COMMANDS.items():
        if name not in imported:
            made.command(name, help=line)(_not_imported)
            continue
        command = getattr(import_module(f"dp_synth_pipeline.cli.{name.replace('-', '_')}"), attribute)
        if attribute == "app":
            made.add_typer(command, name=name)
        else:
            made.command(name)(command)
    if "dagster" in sys.modules:
        from dp_synth_pipeline.orchestration.in_process import without_beta_warnings

        without_beta_warnings()
    return made


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


def _not_imported() -> None:
    raise AssertionError("a command is imported before it is called")


def main() -> None:
    """Run the command line: exit code 0 done, 1 failed, 2 bad input, 3 refused by the ledger, 4 trouble with the ledger."""
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # before a library does it at a chattier level
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        _run(called)
    except DpSynthError as error:
        terminal.tell(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # while a command is imported; later, it is Typer's to end it
        sys.exit(130)


def _run(called: str) -> None:
    try:
        application({called})()
    except Exception as error:
        if isinstance(error, DpSynthError) and not os.environ.get("DP_SYNTH_DEBUG"):
            raise
        from dp_synth_pipeline.orchestration.failures import withheld

        with withheld("The command"):
            raise


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
