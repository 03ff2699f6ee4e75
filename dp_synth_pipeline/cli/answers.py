"""Prints what `dp-synth ledger` answers: balances, history, what would fit, and exports."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.ledger import export as exports
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from dp_synth_pipeline.reporting import statements
from dp_synth_pipeline.tabular.targets import sink


def show(book: Ledger, account: str | None, console: Console) -> None:
    """Print balances, and for one account its releases, entries, plans and blocks."""
    accounts = [book.account(account)] if account else book.accounts()
    if not accounts:
        console.print(f"No account yet in {book.place}. Open one: dp-synth ledger open NAME --epsilon E --delta D.")
        return
    table = Table("account", "unit", "ε", "δ", "ε spent", "ε left", title="Privacy accounts", title_justify="left")
    for a in accounts:
        b = book.balance(a.name)
        table.add_row(
            a.name, a.unit, f"{a.epsilon:g}", f"{a.delta:.1e}", f"{b.epsilon_spent:.3f}", f"{b.epsilon_left:.3f}"
        )
    console.print(table)
    console.print("ε left: the most that one more release may cost.", style="dim")
    console.print(f"Ledger: {book.place}", style="dim", soft_wrap=True)
    if account:
        _releases(book, account, console)
        for plan in book.plans(account):
            console.print(f"Plan {plan.name}: {plan.used} of {plan.times} uses taken.")
        for block in book.blocks(account):
            b = book.balance(account, block)
            console.print(f"Block {block}: ε spent {b.epsilon_spent:.3f}, ε left {b.epsilon_left:.3f}.")


def _releases(book: Ledger, account: str, console: Console) -> None:
    table = Table("release", "when", "table", "state", "ε", "δ", "run", title="Releases", title_justify="left")
    open_entries, settled_lines = [], []
    for r in book.releases(account):
        epsilon = f"{r.final_epsilon:.3f}" if r.final_epsilon is not None else f"≤ {r.epsilon:g}"
        delta = f"{r.final_delta:.1e}" if r.final_delta is not None else f"≤ {r.delta:.1e}"
        table.add_row(r.id[:12], r.reserved_at[:16], r.table, r.state, epsilon, delta, r.run_id[:8])
        if r.state == "started":
            marked = [e for e in book.entries(release_id=r.id) if e.state == "started" and _has_mark(e)]
            open_entries += marked
            if not marked:
                console.print(
                    f"Open before its training: {r.id}. If it is dead: dp-synth ledger settle {r.id} --why REASON",
                    soft_wrap=True,
                )
        elif r.state == "settled" and r.why:
            settled_lines.append(f"Settled {r.id[:12]}: {r.why}.")
    console.print(table)
    for line in settled_lines:
        console.print(line, soft_wrap=True)
    for e in open_entries:
        console.print(
            f"Open: {e.mechanism}, {e.steps_started} of {e.steps_paid} steps started. If it is dead: "
            f"dp-synth ledger settle {e.id} --at-mark --why REASON",
            soft_wrap=True,
        )


def _has_mark(entry: Entry) -> bool:
    """Whether an entry can be settled at its mark: at 0 too, if it is nothing but steps."""
    return bool(entry.steps_started or all(isinstance(e, SubsampledGaussian) for e in entry.events))


def history(book: Ledger, account: str | None, console: Console) -> None:
    """Print the journal, oldest first."""
    table = Table("n", "when", "what", "account", "by", "hash", title="Journal", title_justify="left")
    for row in book.history(account):
        table.add_row(str(row.seq), row.at[:19], row.action, row.account or "", row.who, row.hash[:12])
    console.print(table)


def can(book: Ledger, account: str, epsilon: float, delta: float | None, console: Console) -> None:
    """Print whether, and how often, a release would be admitted; exit code 3 if not once."""
    terms = book.account(account)
    release_delta = terms.delta if delta is None else delta
    try:
        book.preview(account, epsilon=epsilon, delta=release_delta)
    except BudgetExceeded as refusal:
        console.print(f"No. {refusal}", soft_wrap=True)
        raise typer.Exit(3) from None
    capacity = book.capacity(account, epsilon=epsilon, delta=release_delta)
    console.print(f"Yes: {capacity} more of epsilon {epsilon:g} would be admitted now. Nothing was charged.")


def export(book: Ledger, account: str | None, format: str, out: str) -> None:
    """Write the statement in one of three formats to a file, or to standard output."""
    if format not in ("json", "csv", "html"):
        raise InvalidInput(f"--format: expected json, csv or html, got {format!r}.")
    if format == "html":
        from dp_synth_pipeline.reporting.statement_page import render_statement

        text = render_statement(statements.page(book, account) | {"verified": _verifies(book)})
    else:
        text = exports.to_json(book, account) if format == "json" else exports.to_csv(book, account)
    if out:
        sink.write_text(text, Path(out))
    else:
        typer.echo(text)


def _verifies(book: Ledger) -> bool:
    try:
        book.verify()
    except LedgerCorrupted:
        return False
    return True
