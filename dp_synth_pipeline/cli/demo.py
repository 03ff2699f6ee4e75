"""`dp-synth demo` takes two tables through the whole graph, until their accounts are exhausted."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from dp_synth_pipeline.cli import refreshing
from dp_synth_pipeline.cli.summary import show, summarise
from dp_synth_pipeline.demo import NAMES
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.synthesis.store import ledger_url

ACCOUNTS = {
    "rand_hie": {"epsilon": 6.0, "delta": 1e-5, "unit": "row", "max_rows": 1},
    "clinic_visits": {"epsilon": 8.0, "delta": 1e-5, "unit": "patient_id", "max_rows": 3},
}
"""What the demo's accounts may ever spend; opened at the first run, and only because the demo says so."""


def demo(
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be repeated.")] = None,
) -> None:
    """Synthesize the demo's two tables; run it again and it spends again, until the ledger refuses (exit code 3)."""
    from dp_synth_pipeline.orchestration.build import project_definitions

    console, book = Console(stderr=True), Ledger.open(ledger_url())
    open_accounts = {a.name for a in book.accounts()}
    for name, facts in ACCOUNTS.items():
        if name not in open_accounts:
            book.open_account(name, **facts, why="opened by dp-synth demo")  # type: ignore[arg-type]
            console.print(f"Opened the demo's account [bold]{name}[/]: epsilon {facts['epsilon']:g}.", highlight=False)
    definitions, summaries, code = project_definitions(), [], 0
    for name in table or NAMES:
        outcome = refreshing.refresh(definitions, name, console)
        if outcome.exit_code:
            title, message = "refused by the ledger" if outcome.exit_code == 3 else "not released", outcome.message
            if outcome.exit_code == in_process.STOPPED:
                message += f" What started stays charged; dp-synth ledger show {name} says how to end it."
            console.print(Panel(escape(message), title=f"{name}: {title}", border_style="red", title_align="left"))
            code = code or outcome.exit_code
            if outcome.exit_code == in_process.STOPPED:
                break  # whoever presses Ctrl-C wants no other table's budget spent
        else:
            summaries.append(summarise(book, StoreResource().get(), name, outcome))
    if summaries:
        show(summaries, console)
    raise typer.Exit(code)
