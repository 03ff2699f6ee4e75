"""`dp-synth demo` takes a table and a clinic through the whole graph until their accounts are exhausted, or starts over."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from dp_synth_pipeline.cli.terminal import Verbose, console, refused, sentence
from dp_synth_pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from dp_synth_pipeline.ledger import Ledger
    from dp_synth_pipeline.orchestration.in_process import Outcome

TABLES = {
    "rand_hie": "the RAND Health Insurance Experiment, 20,190 real rows",
    "clinic": "a simulated clinic, 6,000 patients and their 20,243 visits",
}
"""What the demo synthesizes."""

DATABASES = ("clinic",)
"""Which of it is related tables."""

ACCOUNTS = {
    "rand_hie": {"epsilon": 6.0, "delta": 1e-5, "unit": "row"},
    "clinic": {"epsilon": 8.0, "delta": 1e-5, "unit": "patient_id"},
}
"""What the demo's accounts may ever spend; opened at the first run, and only because the demo says so."""

FORMER = ("clinic_visits",)
"""What demos of earlier versions synthesized: theirs is put aside too."""

START_OVER = "To start over: {} (or make demo FRESH=1), which puts this ledger aside and deletes nothing."


def demo(
    table: Annotated[list[str] | None, typer.Option(help="Only this one of them; may be repeated.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: put the demo's ledger and releases aside, deleting nothing.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Synthesize a table and a clinic of two tables; each further run spends more, until the ledger refuses.

    It takes about two minutes on two cores, and ends with exit code 3 if the ledger refused one of them. With --fresh,
    ledger and releases of the demo are renamed, and it says to what.
    """
    err = console(stderr=True)
    for name in table or TABLES:
        if name not in TABLES:
            raise InvalidInput(f"--table {name}: the demo has {' and '.join(TABLES)}.")
        err.print(f"Synthesizing {name}: {TABLES[name]}.")
    err.print("Each release is reserved in the ledger before a row is read. Loading …", style="dim")
    if fresh:
        for line in _put_aside():
            err.print(line, soft_wrap=True)
    from dp_synth_pipeline.cli.options import opened

    book = opened(create=True)
    known = {a.name for a in book.accounts()}
    for name, facts in ACCOUNTS.items():
        if name not in known:
            book.open_account(name, **facts, why="opened by dp-synth demo")  # type: ignore[arg-type]
            err.print(f"Opened the demo's account {name}: at most epsilon {facts['epsilon']:g} for all its releases.")
    raise typer.Exit(_refresh(book, list(table or TABLES), Console(stderr=True)))


def _refresh(book: Ledger, names: list[str], err: Console) -> int:
    """Refresh what is named, one after the other, print what came of it and what to do next, and return the exit code."""
    from dp_synth_pipeline.cli import refreshing
    from dp_synth_pipeline.orchestration import in_process
    from dp_synth_pipeline.orchestration.build import project_definitions

    in_process.without_beta_warnings()
    definitions, released, codes = project_definitions(), {}, []
    for name in names:
        outcome = refreshing.refresh(definitions, name, err)
        codes.append(outcome.exit_code)
        if outcome.exit_code:
            _say_why_not(name, outcome, err)
        else:
            released[name] = outcome
        if outcome.exit_code == in_process.STOPPED:
            return in_process.STOPPED  # whoever presses Ctrl-C wants no other table's budget spent
    _show(book, released, err)
    _say_what_next(book, names, codes, err)
    return next((code for code in codes if code), 0)


def _show(book: Ledger, released: Mapping[str, Outcome], err: Console) -> None:
    from dp_synth_pipeline.cli import related_summary, summary
    from dp_synth_pipeline.orchestration.resources import StoreResource

    store = StoreResource().get()
    for name, outcome in released.items():
        if name in DATABASES:
            related_summary.summarise(book, store, name, outcome).show(book, err)
        else:
            summary.show([summary.summarise(book, store, name, outcome)], err)


def _say_why_not(name: str, outcome: Outcome, err: Console) -> None:
    message = sentence(refused(outcome.message, outcome.details))
    title, color = ("refused by the ledger", "yellow") if outcome.exit_code == 3 else ("not released", "red")
    if outcome.exit_code == 130:
        message += f" What started stays charged; dp-synth ledger show {name} says how to end it."
    err.print(Panel(escape(message), title=f"{name}: {title}", border_style=color, title_align="left"))


def _say_what_next(book: Ledger, names: list[str], codes: list[int], err: Console) -> None:
    if 3 in codes:
        err.print("[bold]That is what a ledger is for[/]: what was promised to the people in the data still holds.")
        err.print(START_OVER.format(_from_any_shell("demo --fresh")), highlight=False, soft_wrap=True)
        return
    if any(codes):
        return
    err.print("[bold]Next[/]", highlight=False)
    for line in (
        "open the release cards above in a browser: they may leave the house, the quality reports may not",
        f"{_from_any_shell(f'ledger show {names[0]}')}   what was charged, and for what",
        f"{_from_any_shell('demo')}   once more: it spends more, until the ledger refuses",
        "make ui   the same as assets in the Dagster UI",
    ):
        err.print(f"  {line}", highlight=False, soft_wrap=True)


def _from_any_shell(command: str) -> str:
    """Return a command of `dp-synth` as a shell that knows neither this home nor the program must spell it."""
    from dp_synth_pipeline.cli.options import LEDGER_VARIABLES
    from dp_synth_pipeline.ledger.place import parse

    files = {
        name: parse(os.environ[name]).path for name in LEDGER_VARIABLES if os.environ.get(name)
    }  # a server's is None
    places = [f"{name}={shlex.quote(str(file))}" for name, file in files.items() if file]
    program = "dp-synth" if shutil.which("dp-synth") else str(Path(sys.executable).with_name("dp-synth"))
    return " ".join([*places, program, command])


def _put_aside() -> list[str]:
    """Rename the ledger and the releases of the demo, and say to what; its Dagster history then starts over too.

    Raises:
        InvalidInput: if the ledger is on a server, or keeps accounts that are not the demo's.
    """
    from dp_synth_pipeline.ledger.place import parse
    from dp_synth_pipeline.orchestration import continuity, in_process
    from dp_synth_pipeline.synthesis.store import default_store, ledger_url

    place = parse(ledger_url())
    if place.path is None:
        raise InvalidInput(
            f"--fresh renames files, and the ledger {place} is on a server. Name a file in DP_SYNTH_LEDGER."
        )
    _check_nobody_elses(str(place))
    aside = place.beside(f".aside-{datetime.now():%Y-%m-%d-%H%M%S}")
    store, names = default_store().root, (*TABLES, *FORMER)
    files = {f: aside / f.name for f in map(place.beside, ("", ".key", ".head", "-wal", "-shm"))}
    folders = {
        store / part / name: aside / "store" / part / name for part in ("restricted", "releasable") for name in names
    }
    found = {old: new for old, new in (files | folders).items() if old.exists()}
    if not found:
        return ["There was nothing to put aside."]
    for old, new in found.items():
        new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        old.rename(new)
    with in_process.instance() as instance:
        continuity.forget(instance, names)
    ledger = aside / place.path.name
    return [
        f"Put ledger and releases of the demo aside: {aside}.",
        f"To look at it: {_from_any_shell(f'ledger show --ledger {ledger}')}",
    ]


def _check_nobody_elses(place: str) -> None:
    """Refuse to put a ledger aside that keeps other accounts, or that nobody can read: other people's promises stand."""
    from dp_synth_pipeline.ledger import Ledger
    from dp_synth_pipeline.ledger.place import parse

    ledger = parse(place)
    if ledger.path is None or not ledger.path.exists():
        return
    others = [a.name for a in Ledger.open(place, create=False).accounts() if a.name not in (*ACCOUNTS, *FORMER)]
    if others:
        raise InvalidInput(
            f"the ledger {place} also keeps {', '.join(others)}, whose promises stand, so --fresh does not put it aside. "
            f"Give the demo a place of its own: DP_SYNTH_HOME=FOLDER dp-synth demo."
        )
