"""Prints what `dp-synth ledger` answers: how much is used, history, what would fit, and exports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from dp_synth_pipeline.cli import expecting
from dp_synth_pipeline.cli.expecting import AskOptions
from dp_synth_pipeline.cli.terminal import bar, refused, say_large, standing, table
from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Account, Entry, Ledger, Share
from dp_synth_pipeline.ledger import export as exports
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from dp_synth_pipeline.reporting import wording

TERMS = ("name", "unit", "max_rows", "relation", "epsilon", "delta", "rule", "umbrella", "under", "approve_above")
"""What `show --json` says of an account's terms."""


def share_facts(share: Share | None) -> dict[str, Any]:
    """Return how much of an account is used, JSON-ready."""
    if share is None:
        return dict.fromkeys(("used", "set_aside", "fits_more"))
    return {"used": share.used, "set_aside": share.set_aside, "fits_more": share.more}


def show(book: Ledger, account: str | None, console: Console) -> None:
    """Print how much of each account is used, and for one account its releases, entries, plans and blocks."""
    accounts = [book.account(account)] if account else book.accounts()
    if not accounts:
        console.print("No account yet. Open one: dp-synth ledger open NAME --epsilon E --delta D.")
        return
    rows = [(a, book.share(a.name)) for a in accounts]
    listing = [
        [
            a.name,
            Text.assemble(bar(share, console), f" {share.percent}"),
            "" if share.more is None else str(share.more),
            a.unit,
            f"ε {a.epsilon:g}, δ {a.delta:.2g}",
        ]
        for a, share in rows
    ]
    console.print(table("Privacy accounts", ("account", "used", "fits more", "unit", "limit"), listing))
    if not account:
        console.print("fits more: releases of the same terms as the last one.", style="dim")
        return
    console.print(standing(book.share(account), console), soft_wrap=True)
    (terms,) = accounts
    if terms.under is not None:
        under(book, terms.under, console)
    _bounds(book, terms, console)
    if terms.umbrella:
        _members(book, account, console)
    _releases(book, account, console)
    names = {p.id: f"{p.name} of {p.account}" for p in book.plans()} if terms.umbrella else {}
    for plan in book.plans(account):
        name = names.get(plan.mirrors or "", plan.name)
        console.print(f"Plan {name}: {plan.used} of {plan.times} uses taken.")
    for block in book.blocks(account):
        console.print(f"Block {block}: {book.share(account, block)}.")
    _as_epsilon(book, account, console)


def _bounds(book: Ledger, terms: Account, console: Console) -> None:
    """Print what needs a second person, and what one requester or purpose may take."""
    if terms.approve_above is not None and terms.approve_above < 1:
        charge = f"A charge of more than {100 * terms.approve_above:g} % of it needs a second person"
        found = f"{len(book.requests(terms.name))} asked for: dp-synth ledger requests {terms.name}"
        console.print(f"{charge}; {found}.", soft_wrap=True)
    for use in book.quotas(terms.name):
        console.print(wording.quota(use.facts), soft_wrap=True, markup=False, highlight=False)


def under(book: Ledger, umbrella: str, console: Console) -> None:
    """Print how much is used of the umbrella that an account is under."""
    share = book.share(umbrella)
    console.print(Text.assemble(f"Under umbrella {umbrella}: ", bar(share, console), f" {share}"), soft_wrap=True)


def _members(book: Ledger, umbrella: str, console: Console) -> None:
    """Print the members of an umbrella, and which part of it each of them took."""
    taken, listing = book.taken(umbrella), []
    for member in book.members(umbrella):
        rows = f"at most {member.max_rows} rows" if member.max_rows > 1 else "1 row"
        own = book.share(member.name).percent
        listing.append([member.name, f"{100 * taken[member.name]:.1f} %", own, f"ε {member.epsilon:g}", rows])
    if not listing:
        console.print(f"No member yet. Open one: dp-synth ledger open NAME --under {umbrella} --epsilon E.")
        return
    columns = ("member", f"took of {umbrella}", "own used", "own limit", "of one person")
    console.print(table("Members", columns, listing, right=columns[1:3]))


def _as_epsilon(book: Ledger, account: str, console: Console) -> None:
    """Print, below all else, what the account's units convert to, and why that does not add up."""
    terms, balance = book.account(account), book.balance(account)
    if balance.epsilon_spent == 0 or terms.order is None:
        return
    console.print(
        f"As epsilons: everything so far is at most ε {balance.epsilon_spent:.3f} at δ {terms.delta:.2g}, and one more "
        f"release may have at most ε {balance.epsilon_left:.3f}. {wording.NO_SUM}",
        style="dim",
        soft_wrap=True,
    )


def facts(book: Ledger, account: str | None) -> str:
    """Return what `show` prints as one JSON object: the ledger, and for each account its terms and its balance."""
    accounts = [book.account(account)] if account else book.accounts()
    rows = [
        {
            **{name: getattr(a, name) for name in TERMS},
            "quotas": [use.facts for use in book.quotas(a.name)],
            "members": book.taken(a.name),
            **share_facts(book.share(a.name)),
            "balance": asdict(book.balance(a.name)),
            "blocks": {block: share_facts(book.share(a.name, block)) for block in book.blocks(a.name)},
            "plans": {p.name: {"times": p.times, "used": p.used} for p in book.plans(a.name) if p.mirrors is None},
        }
        for a in accounts
    ]
    return json.dumps({"ledger": str(book.place), "accounts": rows})


def _releases(book: Ledger, account: str, console: Console) -> None:
    limit, listing = book.account(account).cost_limit, []
    member_of = {r.id: r.account for r in book.releases()} if book.account(account).umbrella else {}
    open_entries, settled_lines = [], []
    for r in book.releases(account):
        epsilon = f"{r.final_epsilon:.3f}" if r.final_epsilon is not None else f"≤ {r.epsilon:g}"
        part = r.reserved_cost if r.charged_cost is None else r.charged_cost
        table_name = f"{member_of[r.mirrors]}: {r.table}" if r.mirrors is not None else r.table
        listing.append(
            [(r.mirrors or r.id)[:12], r.reserved_at[:10], table_name, r.state, f"{100 * part / limit:.1f} %", epsilon]
        )
        if r.mirrors is not None:
            continue  # what is open of it is ended where it was begun
        if r.state == "started":
            marked = [e for e in book.entries(release_id=r.id) if e.state == "started" and _has_mark(e)]
            open_entries += marked
            if not marked:
                console.print(
                    f"Open before its training: {r.id}. If it is dead: dp-synth ledger settle {r.id} --why REASON",
                    soft_wrap=True,
                )
        elif r.by_hand:
            settled_lines.append(f"Charged by hand {r.id[:12]} by {r.who}: {r.why}.")
        elif r.state == "settled" and r.why:
            settled_lines.append(f"Settled {r.id[:12]}: {r.why}.")
    columns = ("release", "when", "table", "state", "of account", "ε")
    console.print(table("Releases", columns, listing, right=columns[4:]))
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
    """Print the journal, oldest first, and below it the reasons that people gave."""
    told = book.history(account)
    rows = [[str(r.seq), r.at[:19], r.action, r.account or "", r.who, r.hash[:12]] for r in told]
    console.print(table("Journal", ("n", "when", "what", "account", "by", "hash"), rows))
    for row in told:
        note = row.facts.get("note") or {}
        if note.get("why"):
            who = f", says {note['who']}" if note.get("who") else ""
            console.print(f"{row.seq}, {row.action}: {note['why']}{who}", soft_wrap=True, markup=False, highlight=False)


def requests(book: Ledger, account: str | None, used: bool, console: Console, as_json: bool) -> None:
    """Print what waits for a second person, was approved, and, if asked, was done; a line or two for each."""
    found = book.requests(account, used=used)
    if as_json:
        told = [{**r.to_record(), "terms": r.facts} for r in found]
        typer.echo(json.dumps({"ledger": str(book.place), "requests": told}))
        return
    for r in found:
        console.print(f"{r.id[:12]} {r.state}: {wording.request(r)}", soft_wrap=True)
        if r.approved_by:
            console.print(
                f"  Approved by {r.approved_by} on {(r.approved_at or '')[:10]}: {r.approved_why}", soft_wrap=True
            )
    if not found:
        console.print("Nothing waits for a second person.")


def can(
    book: Ledger, account: str, epsilon: float, delta: float | None, asks: AskOptions, console: Console, as_json: bool
) -> None:
    """Print whether, how often, and how far off a release would be admitted; exit code 3 if not once."""
    from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE

    terms = book.account(account)
    release_delta = terms.delta if delta is None else delta
    own_delta, shape = release_delta * THRESHOLD_SHARE, asks.shape(terms)
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": release_delta,
        "own_delta": own_delta,
        "purpose": asks.purpose,
    }
    refusal: BudgetExceeded | None = None
    try:
        book.preview(account, **asked)
    except BudgetExceeded as error:
        refusal = error
    capacity, share = 0 if refusal else book.capacity(account, **asked), book.share(account)
    if as_json:
        why = {"refusal": str(refusal), "details": refusal.details, **refusal.facts} if refusal else {}
        told = {"ledger": str(book.place), "account": account, "fits": capacity, **why, **share_facts(share)}
        expected = {} if shape is None else {"expected": asdict(expecting.one(shape, terms, epsilon, delta))}
        typer.echo(json.dumps(told | expected))
    elif refusal:
        console.print(f"No. {refused(str(refusal), refusal.details)}", soft_wrap=True)
    else:
        console.print(f"Yes: {capacity} more of epsilon {epsilon:g} would be admitted now. Nothing was charged.")
        say_large("Such a release", epsilon, release_delta, console)
        if shape is not None:
            expecting.say(shape, terms, epsilon, delta, console)
        console.print(Text.assemble(f"{account}: ", standing(share, console)), soft_wrap=True)
        if terms.under is not None:
            under(book, terms.under, console)
    if refusal:
        raise typer.Exit(3)


def export(book: Ledger, account: str | None, format: str, out: str, console: Console) -> None:
    """Write the statement in one of three formats to a file, or to standard output; say first how much is used."""
    from dp_synth_pipeline.targets import sink

    if format not in ("json", "csv", "html"):
        raise InvalidInput(f"--format: expected json, csv or html, got {format!r}.")
    for one in [book.account(account)] if account else book.accounts():
        console.print(Text.assemble(f"{one.name}: ", standing(book.share(one.name), console)), soft_wrap=True)
    if format == "html":
        from dp_synth_pipeline.reporting import statements
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
