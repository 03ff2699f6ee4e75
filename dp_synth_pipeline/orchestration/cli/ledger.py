"""`dp-synth ledger`: open privacy accounts on purpose, and see and verify what was spent."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.resources import ledger_url

app = typer.Typer(help="Open, show and verify privacy accounts.", no_args_is_help=True)

Url = Annotated[str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")]


@app.command("open")
def open_account(
    account: Annotated[str, typer.Argument(help="A name for the protected data set.")],
    epsilon: Annotated[float, typer.Option(help="The most that all releases together may ever cost.")],
    delta: Annotated[
        float, typer.Option(help="The delta of that guarantee; below one over the number of people.")
    ] = 1e-5,
    unit: Annotated[str, typer.Option(help="Whose presence is hidden: row, or a column such as patient_id.")] = "row",
    max_rows: Annotated[int, typer.Option(help="Rows kept per unit; 1 when the unit is a row.")] = 0,
    why: Annotated[str, typer.Option(help="Who decided this, and for what.")] = "",
    ledger: Url = "",
) -> None:
    """Open a privacy account. Only a person does this; a pipeline never opens or raises one."""
    rows = max_rows or (1 if unit == "row" else 4)
    book = Ledger.open(ledger or ledger_url())
    opened = book.open_account(account, epsilon=epsilon, delta=delta, unit=unit, max_rows=rows, why=why)
    Console().print(
        f"Opened [bold]{opened.name}[/]: epsilon {opened.epsilon:g}, delta {opened.delta:g}, unit {opened.unit}, "
        f"Renyi order {opened.order:g}. It starts with nothing spent."
    )


@app.command("show")
def show(
    account: Annotated[str | None, typer.Argument(help="One account; all of them without it.")] = None,
    ledger: Url = "",
) -> None:
    """Show balances, and for one account every release and what each of its mechanisms cost."""
    book, console = Ledger.open(ledger or ledger_url()), Console()
    accounts = [book.account(account)] if account else book.accounts()
    if not accounts:
        console.print("No account yet. Open one: dp-synth ledger open NAME --epsilon E --delta D.")
        return
    table = Table(
        "account", "unit", "epsilon", "delta", "epsilon spent", "one more release up to", title="Privacy accounts"
    )
    for a in accounts:
        b = book.balance(a.name)
        table.add_row(
            a.name,
            a.unit,
            f"{a.epsilon:g}",
            f"{a.delta:.1e}",
            f"{b.epsilon_spent:.3f}",
            f"epsilon {b.epsilon_left:.3f}",
        )
    console.print(table)
    if account:
        _releases(book, account, console)


def _releases(book: Ledger, account: str, console: Console) -> None:
    table = Table("when", "table", "state", "epsilon", "delta", "mechanisms", "run", title=f"Releases of {account}")
    for r in book.releases(account):
        told = [e.mechanism for e in book.entries(release_id=r.id)]
        epsilon = f"{r.final_epsilon:.3f}" if r.final_epsilon is not None else f"up to {r.epsilon:g}"
        delta = f"{r.final_delta:.1e}" if r.final_delta is not None else f"up to {r.delta:.1e}"
        table.add_row(r.reserved_at[:19], r.table, r.state, epsilon, delta, ", ".join(told), r.run_id[:8])
    console.print(table)


@app.command("verify")
def verify(ledger: Url = "") -> None:
    """Recompute the hash chain, every cost from its stored events and every balance; exit 4 if anything differs."""
    book = Ledger.open(ledger or ledger_url())
    found = book.verify()
    Console().print(
        f"Verified {found.accounts} accounts, {found.releases} releases and {found.entries} entries. "
        f"Chain head {found.head[:16]}."
    )
