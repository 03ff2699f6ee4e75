"""What `dp-synth ledger` prints: balances, history, what would fit, when an account is exhausted, exports."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, advice
from dp_synth_pipeline.ledger import export as exports
from dp_synth_pipeline.orchestration import statements
from dp_synth_pipeline.orchestration.planning import THRESHOLD_SHARE
from dp_synth_pipeline.orchestration.schedules import ACCOUNT, EPSILON, ticks
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.tabular import sink


def show(book: Ledger, account: str | None, console: Console) -> None:
    """Print balances, and for one account its releases, entries, plans and blocks."""
    accounts = [book.account(account)] if account else book.accounts()
    if not accounts:
        console.print("No account yet. Open one: dp-synth ledger open NAME --epsilon E --delta D.")
        return
    table = Table("account", "unit", "ε", "δ", "ε spent", "ε left", title="Privacy accounts", title_justify="left")
    for a in accounts:
        b = book.balance(a.name)
        table.add_row(
            a.name, a.unit, f"{a.epsilon:g}", f"{a.delta:.1e}", f"{b.epsilon_spent:.3f}", f"{b.epsilon_left:.3f}"
        )
    console.print(table)
    console.print("ε left: the most that one more release may cost.", style="dim", highlight=False)
    if account:
        _releases(book, account, console)
        for plan in book.plans(account):
            console.print(f"Plan {plan.name}: {plan.used} of {plan.times} uses taken.", highlight=False)
        for block in book.blocks(account):
            b = book.balance(account, block)
            console.print(
                f"Block {block}: ε spent {b.epsilon_spent:.3f}, ε left {b.epsilon_left:.3f}.", highlight=False
            )


def _releases(book: Ledger, account: str, console: Console) -> None:
    table = Table("release", "when", "table", "state", "ε", "δ", "run", title="Releases", title_justify="left")
    open_entries = []
    for r in book.releases(account):
        epsilon = f"{r.final_epsilon:.3f}" if r.final_epsilon is not None else f"≤ {r.epsilon:g}"
        delta = f"{r.final_delta:.1e}" if r.final_delta is not None else f"≤ {r.delta:.1e}"
        table.add_row(r.id[:12], r.reserved_at[:16], r.table, r.state, epsilon, delta, r.run_id[:8])
        if r.state == "started":
            marked = [e for e in book.entries(release_id=r.id) if e.state == "started" and e.steps_started]
            open_entries += marked
            if not marked:
                console.print(
                    f"Open before its training: {r.id}. If it is dead: dp-synth ledger settle {r.id} --why REASON",
                    highlight=False,
                    soft_wrap=True,
                )
    console.print(table)
    for e in open_entries:
        console.print(
            f"Open: {e.mechanism}, {e.steps_started} of {e.steps_paid} steps started. If it is dead: "
            f"dp-synth ledger settle {e.id} --at-mark --why REASON",
            highlight=False,
            soft_wrap=True,
        )


def history(book: Ledger, account: str | None, console: Console) -> None:
    """Print the journal, oldest first."""
    table = Table("n", "when", "what", "account", "hash", title="Journal", title_justify="left")
    for row in book.history(account):
        table.add_row(str(row.seq), row.at[:19], row.action, row.account or "", row.hash[:12])
    console.print(table)


def can(book: Ledger, account: str, epsilon: float, delta: float | None, console: Console) -> None:
    """Print whether, and how often, a release would be admitted; exit code 3 if not once."""
    opened = book.account(account)
    each = opened.delta if delta is None else delta
    try:
        book.preview(account, epsilon=epsilon, delta=each)
    except BudgetExceeded as refusal:
        console.print(f"No. {refusal}", highlight=False, soft_wrap=True)
        raise typer.Exit(3) from None
    many = book.capacity(account, epsilon=epsilon, delta=each)
    console.print(
        f"Yes: {many} more of epsilon {epsilon:g} would be admitted now. Nothing was charged.", highlight=False
    )


def forecast(
    book: Ledger, account: str | None, days: int, epsilon: float | None, every: str | None, console: Console
) -> None:
    """Print for each scheduled account when it is exhausted, and the epsilon at which all refreshes fit."""
    planned = _assumed(account, epsilon, every) if every else _scheduled(account, epsilon)
    if not planned:
        raise InvalidInput(
            "no table of this project has a schedule for that account; write `schedule: 0 3 * * 1` in its YAML, or "
            "assume one: dp-synth ledger forecast ACCOUNT --every '0 3 * * 1' --epsilon E."
        )
    until = datetime.now(UTC) + timedelta(days=days)
    for name, asks in planned.items():
        dates = ticks([cron for cron, _ in asks], until)
        largest = max(e for _, e in asks)
        own = book.account(name).delta * THRESHOLD_SHARE
        found = advice.forecast(book.capacity(name, epsilon=largest, own_delta=own), dates)
        what = f"[bold]{name}[/]: {len(dates)} refreshes of epsilon {largest:g} in {days} days; "
        if found.first_refused is None:
            console.print(f"{what}all fit.", highlight=False, soft_wrap=True)
            continue
        fit = book.affordable(name, times=len(dates), own_delta=own)
        console.print(
            f"{what}{found.fits} fit, and the account is exhausted on {found.first_refused:%d %B %Y}. All {len(dates)} "
            f"would fit at epsilon {fit:.3g} each{_noise(book, name, len(dates))}.",
            highlight=False,
            soft_wrap=True,
        )


def _noise(book: Ledger, account: str, times: int) -> str:
    """Say how much more noise than the last settled release's would let `times` more of it fit; nothing without one."""
    opened, balance = book.account(account), book.balance(account)
    settled = [r for r in book.releases(account) if r.state == "settled"]
    if opened.order is None or not settled:
        return ""
    events = [e for entry in book.entries(release_id=settled[-1].id) for e in entry.events]
    factor = advice.noise_factor(events, times, opened.order, balance.cost_left / NANO, opened.relation)
    return "" if factor is None else f", or with {factor:.3g} times the noise of the last release"


def _assumed(account: str | None, epsilon: float | None, every: str) -> dict[str, list[tuple[str, float]]]:
    if account is None or epsilon is None:
        raise InvalidInput("--every needs an account and --epsilon.")
    return {account: [(every, epsilon)]}


def _scheduled(account: str | None, epsilon: float | None) -> dict[str, list[tuple[str, float]]]:
    from dp_synth_pipeline.orchestration.build import project_definitions

    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for schedule in project_definitions().schedules or ():
        tags = getattr(schedule, "tags", {})
        if ACCOUNT in tags and account in (None, tags[ACCOUNT]):
            found[tags[ACCOUNT]].append((str(schedule.cron_schedule), epsilon or float(tags[EPSILON])))  # type: ignore[union-attr]
    return found


def export(book: Ledger, account: str | None, format: str, out: str) -> None:
    """Write the statement in one of three formats to a file, or to standard output."""
    if format not in ("json", "csv", "html"):
        raise InvalidInput(f"--format: expected json, csv or html, got {format!r}.")
    if format == "html":
        from dp_synth_pipeline.validation.statement import render_statement

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
