"""`dp-synth governance` answers what a review of the whole project asks, on one page or one by one."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.cli import terminal
from dp_synth_pipeline.cli.options import opened
from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, anchors
from dp_synth_pipeline.orchestration import governance, in_process, lineage
from dp_synth_pipeline.orchestration.build import load_project
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.targets import sink

app = typer.Typer(
    help="One page on all accounts, tables and sources; what depends on what; and what an assessment asks.",
    no_args_is_help=True,
)

Url = Annotated[str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")]
Module = Annotated[
    str, typer.Option("--module", "-m", help="The project, as for dagster dev -m; default: this package's own.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


@app.command("report")
def report(
    out: Annotated[Path, typer.Option(help="The page; its facts go beside it, as .json.")] = Path("governance.html"),
    days: Annotated[int, typer.Option(help="How far ahead the forecast looks.", min=1)] = 365,
    since: Annotated[
        str, typer.Option(help="A day, such as 2026-01-31: also tell one by one what was decided from it on (UTC).")
    ] = "",
    ledger: Url = "",
    module: Module = "",
) -> None:
    """Write the governance page: accounts, balances, released tables, sources, refusals, raises, and what to look into.

    With --since it also lists what was charged, refused, asked, approved and raised since that day.

    Example: dp-synth governance report --since 2026-01-01 --out governance.html
    """
    from dp_synth_pipeline.reporting.governance_page import render_governance
    from dp_synth_pipeline.reporting.wording import counted

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"--out {out}: name an .html file; the JSON is written beside it.")
    json_file = out.with_suffix(".json")
    for place in (out, json_file):
        sink.check_writable(str(place))
    facts = _facts(ledger, module, days, _day(since))
    sink.write_text(render_governance(facts), out)
    sink.write_text(json.dumps(facts, indent=1, allow_nan=False), json_file)
    Console().print(
        f"Wrote {out} and {json_file}: {counted(len(facts['accounts']), 'account')}, "
        f"{counted(len(facts['tables']), 'table')}, {counted(len(facts['refused']), 'run')} refused.",
        highlight=False,
        soft_wrap=True,
    )
    if since:
        counts = Counter(act["act"] for act in facts["decided"])
        told = ", ".join(f"{count} {act}" for act, count in counts.items()) or "nothing was decided"
        Console().print(f"Since {since}: {told}.", highlight=False, soft_wrap=True)
    if facts["verified"] is False:
        Console(stderr=True).print("[bold red]The ledger does not verify.[/] Stop all runs on it.")
        raise typer.Exit(4)


@app.command("sources")
def sources(
    source: Annotated[
        str | None, typer.Argument(help="A part of a source's name, or the start of a release that read it.")
    ] = None,
    ledger: Url = "",
    module: Module = "",
    as_json: Json = False,
) -> None:
    """Say which releases depend on a source; without one, list all sources, and who else released the same content.

    Who runs a refresh is never told whether its content is another account's: this command is for whoever may open the
    ledger and its key.

    Example: dp-synth governance sources visits.parquet
    """
    facts = _facts(ledger, module)
    selection = facts["sources"] if source is None else governance.dependent(facts, source)
    if as_json:
        typer.echo(json.dumps(selection))
        return
    if source is None:
        rows = [
            (s["name"], ", ".join(s["tables"]), ", ".join(s["accounts"]), str(len(s["releases"])), _same_content(s))
            for s in selection
        ]
        _print("Person-level sources", ("source", "tables", "accounts", "releases", "same content"), rows)
        return
    rows = [
        (r["table"], r["state"], _number(r["final_epsilon"]), r["account"] or "none", r["run_id"]) for r in selection
    ]
    _print(f"Releases that depend on {source}", ("table", "state", "ε added", "account", "run"), rows)


@app.command("table")
def table(
    name: Annotated[str, typer.Argument(help="A synthetic table, or an asset made from one, such as marts/report.")],
    ledger: Url = "",
    module: Module = "",
    as_json: Json = False,
) -> None:
    """Say which person-level sources feed a table, at what cost, and what is made from it.

    Example: dp-synth governance table clinic
    """
    facts = _facts(ledger, module)
    tables_by_name = {t["table"]: t for t in facts["tables"]}
    graph = lineage.read(load_project(module))
    fed = [tables_by_name[n] for n in ([name] if name in tables_by_name else graph.sources_of(name))]
    if as_json:
        typer.echo(json.dumps(fed))
        return
    rows = [(t["source"] or "not known", t["table"], t["account"] or "none", _cost(t)) for t in fed]
    _print(f"Person-level sources of {name}", ("source", "through", "account", "ε, δ of its release"), rows)
    descendants = sorted({d for t in fed for d in t["downstream"]} - {name})
    Console().print(
        f"Made from it: {', '.join(descendants) or 'nothing in this project'}.", highlight=False, soft_wrap=True
    )


@app.command("export")
def export(
    questionnaire: Annotated[
        str,
        typer.Option(
            "--for",
            help="dpia: a data protection impact assessment (GDPR, article 35(7)); nist: the pyramid of NIST SP 800-226.",
        ),
    ],
    account: Annotated[str, typer.Option(help="The account that is assessed, or an umbrella with all its members.")],
    out: Annotated[
        Path | None, typer.Option(help="A .md file, or .json for the same answers as data; default: Markdown, printed.")
    ] = None,
    anchor_file: Annotated[
        str, typer.Option("--anchors", help="Also say whether the ledger holds the anchors in this file.")
    ] = "",
    signers: Annotated[str, typer.Option(help="With --anchors: OpenSSH's file of allowed signers.")] = "",
    ledger: Url = "",
    module: Module = "",
) -> None:
    """Draft an assessment of an account: what the ledger and the cards answer, and where each answer stands.

    What only a person can answer is marked NOT ANSWERED BY THIS SYSTEM, with who should. No row of a source is read. The
    draft names people and runs, so it is internal. Word processors import its Markdown. Exit code 4 if the ledger does not
    verify, or lacks an anchor: the draft is written all the same, and says so.

    Example: dp-synth governance export --for dpia --account patients --out dpia.md
    """
    from dp_synth_pipeline.reporting import assessment

    assessment.check(questionnaire)
    _check_draft(out)
    book, store = opened(ledger), StoreResource().get()
    book.account(account)  # refused before anything else is looked up
    facts = governance.of_account(_facts(ledger, module), book, store, account)
    whole, told = _anchored(book, anchor_file, signers)
    _write_draft(assessment.draft(questionnaire, {**facts, "anchors": told}), out)
    if facts["verified"] is False or not whole:
        Console(stderr=True).print("[bold red]The ledger does not verify.[/] Stop all runs on it.")
        raise typer.Exit(4)


def _check_draft(out: Path | None) -> None:
    """Refuse a file that a draft cannot be written to."""
    if out is None:
        return
    if out.suffix.lower() not in (".md", ".json"):
        raise InvalidInput(f"--out {out}: name an .md file, or a .json one for the same answers as data.")
    sink.check_writable(str(out))


def _write_draft(drafted: dict[str, Any], out: Path | None) -> None:
    """Write a draft as its file's name says, or print it as Markdown."""
    from dp_synth_pipeline.reporting import assessment

    if out is None:
        typer.echo(assessment.to_markdown(drafted), nl=False)
        return
    as_json = out.suffix.lower() == ".json"
    sink.write_text(json.dumps(drafted, indent=1, allow_nan=False) if as_json else assessment.to_markdown(drafted), out)
    left = sum(len(section["unanswered"]) for section in drafted["sections"])
    Console().print(f"Wrote {out}: {left} answers are left to people, and marked.", highlight=False, soft_wrap=True)


def _anchored(book: Ledger, file: str, signers: str) -> tuple[bool, str]:
    """Return whether the chain holds the anchors of a file, and that in words; true and no words without a file."""
    if not file:
        return True, ""
    found = anchors.read(file)
    try:
        anchors.check(book, found, signers or None)
    except LedgerCorrupted as error:
        return False, str(error)
    signed = "each signed by somebody who is allowed to" if signers else "their signatures were not checked"
    return True, f"The chain holds all {len(found)} that were compared; {signed}."


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(f"--since {text}: expected a day, such as 2026-01-31.") from None


def _facts(ledger: str, module: str, days: int = 365, since: date | None = None) -> dict[str, Any]:
    book, store = opened(ledger), StoreResource().get()
    definitions = load_project(module)
    if not os.environ.get("DAGSTER_HOME"):
        return governance.facts(book, store, definitions, None, days, since)
    with in_process.instance() as instance:
        return governance.facts(book, store, definitions, instance, days, since)


def _print(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    Console().print(terminal.table(escape(title), columns, [list(map(escape, row)) for row in rows]))


def _same_content(source: dict[str, Any]) -> str:
    """Return who released the same content, a line for each; empty if nobody else did."""
    matches = [
        [*m["accounts"], *(f"{t} (no guarantee)" for t in m["without_guarantee"])] for m in source["same_content"]
    ]
    return "\n".join(", ".join(names) for names in matches)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _cost(table: dict[str, Any]) -> str:
    card = table["card"]
    if table["guarantee"] == "none":
        return "no guarantee"
    return "no card" if card is None else f"{_number(card['epsilon'])}, {_number(card['delta'])}"
