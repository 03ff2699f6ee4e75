"""`dp-synth synthesize`: the same assets on any file, without YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, journal
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.cli import resuming, running
from dp_synth_pipeline.orchestration.cli.options import checked, open_once
from dp_synth_pipeline.orchestration.cli.summary import show, summarise
from dp_synth_pipeline.orchestration.config import table_name
from dp_synth_pipeline.orchestration.inference import load_columns
from dp_synth_pipeline.orchestration.resources import StoreResource, ledger_url
from dp_synth_pipeline.tabular.sources import source as sources
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.targets import sink


def synthesize(
    source: Annotated[str, typer.Argument(help="CSV or Parquet file, or duckdb:///file.duckdb?table=schema.table.")],
    out: Annotated[Path, typer.Option(help="Where the synthetic table goes: .parquet or .csv.")],
    epsilon: Annotated[float | None, typer.Option(help="The most that this release may cost.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Default: 1 / N^1.2, at most the account's, and 1e-5 if it is opened here.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="The account to charge; default: the file's name.")] = None,
    open_account: Annotated[
        bool,
        typer.Option("--open-account", help="Open the account for exactly this one release, if it does not exist."),
    ] = False,
    no_privacy: Annotated[
        bool, typer.Option("--no-privacy", help="No guarantee at all: for data that you declare public, with --why.")
    ] = False,
    why: Annotated[str | None, typer.Option(help="With --no-privacy: why everybody may see each row.")] = None,
    by: Annotated[str | None, typer.Option(help="With --no-privacy: who says so; default: you.")] = None,
    ledger: Annotated[str, typer.Option(help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")] = "",
    rows: Annotated[int | None, typer.Option(help="Rows to draw; default: the noisy count.", min=1)] = None,
    nulls: Annotated[str, typer.Option(help="keep, drop, mean, median or mode.")] = "keep",
    unit: Annotated[str | None, typer.Option(help="Column that names a person, if one has several rows.")] = None,
    max_rows: Annotated[int, typer.Option(help="With --unit: rows kept per person.", min=1)] = 4,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="YAML with declared `columns:`, such as dp-synth schema infer writes.")
    ] = None,
    purpose: Annotated[
        str, typer.Option(help="testing, analytics or machine_learning: how long it trains.")
    ] = "analytics",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with this table's release that an interrupted run left open.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and nothing else, on standard output.")
    ] = False,
) -> None:
    """Make a differentially private synthetic copy of one table; or, with --no-privacy, one without any guarantee.

    The release is reserved in the ledger before the file is opened; what does not fit is refused with exit code 3.

    Example: dp-synth synthesize people.csv --out synthetic.parquet --epsilon 2 --open-account
    """
    url = ledger or ledger_url()
    declared = load_columns(schema) if schema is not None else {}
    stem = Path(shown(source).split("?")[0]).stem
    settings = checked(
        table=table_name(account or stem),
        source=source,
        **_promise(no_privacy, why, by, account, epsilon, open_account=open_account, stem=stem),
        delta="auto" if delta is None else delta,
        unit={"column": unit, "max_rows": max_rows} if unit else "row",
        nulls=nulls,
        columns=declared | {name: {"kind": "excluded"} for name in exclude or ()},
        rows=rows,
        target=str(out),
        training={"purpose": purpose},
    )
    if out.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InvalidInput(f"--out {out}: write a .parquet or .csv file.")
    found = sources.parse(source)  # a missing file should not open an account
    size = found.file.stat().st_size if found.file is not None else 0
    for place in (str(out), str(StoreResource().get().root / "store")):
        sink.check_writable(place, needed=size)
    console = Console(stderr=True)
    book = Ledger.open(url)
    definitions, left, begun = build_defs([settings], ledger=url), None, None
    if resume:
        begun = resuming.begun(book, settings)
        left = resuming.unfinished(definitions, StoreResource().get(), begun)
    elif open_account:
        open_once(book, settings, "synthesize", console)
    outcome = running.refresh(
        definitions, settings.name, console, show=not json, only=left, continues=begun.run_id if begun else None
    )
    if begun is not None:
        outcome.run_id = begun.run_id or outcome.run_id
    if outcome.exit_code:
        console.print(f"[bold red]Not released[/]: {escape(outcome.message)}", highlight=False, soft_wrap=True)
        for line in resuming.left_open(book, StoreResource().get(), outcome.run_id):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
        raise typer.Exit(outcome.exit_code)
    summary = summarise(book, StoreResource().get(), settings.name, outcome)
    if json:
        typer.echo(summary.to_json())
    else:
        show([summary], console)


def _promise(
    no_privacy: bool,
    why: str | None,
    by: str | None,
    account: str | None,
    epsilon: float | None,
    *,
    open_account: bool,
    stem: str,
) -> dict[str, Any]:
    """Return the settings of the guarantee that the options ask for: an account's, or none on somebody's word."""
    if not no_privacy:
        if why is not None or by is not None:
            raise InvalidInput("--why and --by go with --no-privacy: they say who declares the data public, and why.")
        if epsilon is None:
            raise InvalidInput(
                "--epsilon is missing: name the most that this release may cost, such as --epsilon 2. For data that you "
                "declare public: --no-privacy --why REASON."
            )
        return {"account": account or table_name(stem), "epsilon": epsilon}
    if not why:
        raise InvalidInput("--no-privacy gives no guarantee, so say why everybody may see each row: --why REASON.")
    if open_account:
        raise InvalidInput("--open-account: with --no-privacy nothing is charged; remove it, or name an --epsilon.")
    public = {"why": why, "by": by or journal.who()}
    return {"privacy": "none", "public": public, "account": account, "epsilon": epsilon}
