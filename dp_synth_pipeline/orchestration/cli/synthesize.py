"""`dp-synth synthesize`: the same assets on any file, without YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.cli import running
from dp_synth_pipeline.orchestration.cli.summary import show, summarise
from dp_synth_pipeline.orchestration.config import DEFAULT_DELTA, TableSettings, table_name
from dp_synth_pipeline.orchestration.resources import StoreResource, ledger_url
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.tabular import source as sources


def synthesize(
    source: Annotated[str, typer.Argument(help="CSV or Parquet file, or duckdb:///file.duckdb?table=schema.table.")],
    out: Annotated[Path, typer.Option(help="Where the synthetic table goes: .parquet or .csv.")],
    epsilon: Annotated[float, typer.Option(help="The most that this release may cost.")],
    delta: Annotated[float | None, typer.Option(help="Default: 1 / N^1.2, at most 1e-5.")] = None,
    account: Annotated[str | None, typer.Option(help="The account to charge; default: the file's name.")] = None,
    open_account: Annotated[
        bool,
        typer.Option("--open-account", help="Open the account for exactly this one release, if it does not exist."),
    ] = False,
    ledger: Annotated[str, typer.Option(help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")] = "",
    rows: Annotated[int | None, typer.Option(help="Rows to draw; default: the noisy count.", min=1)] = None,
    nulls: Annotated[str, typer.Option(help="keep, drop or mean.")] = "keep",
    unit: Annotated[str | None, typer.Option(help="Column that names a person, if one has several rows.")] = None,
    max_rows: Annotated[int, typer.Option(help="With --unit: rows kept per person.", min=1)] = 4,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    purpose: Annotated[
        str, typer.Option(help="testing, analytics or machine_learning: how long it trains.")
    ] = "analytics",
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and nothing else, on standard output.")
    ] = False,
) -> None:
    """Make a differentially private synthetic copy of one table.

    The release is reserved in the ledger before the file is opened; what does not fit is refused with exit code 3.

    Example: dp-synth synthesize people.csv --out synthetic.parquet --epsilon 2 --open-account
    """
    url = ledger or ledger_url()
    settings = _settings(
        table=table_name(account or Path(source.split("?")[0]).stem),
        source=source,
        account=account or table_name(Path(source.split("?")[0]).stem),
        epsilon=epsilon,
        delta="auto" if delta is None else delta,
        unit={"column": unit, "max_rows": max_rows} if unit else "row",
        nulls=nulls,
        columns={name: {"kind": "excluded"} for name in exclude or ()},
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
    if open_account and settings.account not in {a.name for a in book.accounts()}:
        _open(book, settings, console)
    outcome = running.refresh(build_defs([settings], ledger=url), settings.name, console, show=not json)
    if outcome.exit_code:
        console.print(f"[bold red]Not released[/]: {outcome.message}", highlight=False, soft_wrap=True)
        raise typer.Exit(outcome.exit_code)
    summary = summarise(book, StoreResource().get(), settings.name, outcome)
    if json:
        typer.echo(summary.to_json())
    else:
        show([summary], console)


def _settings(**facts: Any) -> TableSettings:
    check_epsilon(facts["epsilon"])
    if facts["delta"] != "auto":
        check_delta(facts["delta"])
    try:
        return TableSettings(**facts)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise InvalidInput(f"--{where}: {first['msg']}.") from None


def _open(book: Ledger, settings: TableSettings, console: Console) -> None:
    delta = DEFAULT_DELTA if settings.delta == "auto" else float(settings.delta)
    unit = settings.privacy_unit
    book.open_account(
        settings.account,
        epsilon=settings.epsilon,
        delta=delta,
        unit=str(unit),
        max_rows=unit.max_rows,
        rule="plan",
        why="opened for one release by dp-synth synthesize --open-account",
    )
    console.print(
        f"Opened account [bold]{settings.account}[/] for this one release: epsilon {settings.epsilon:g}, delta {delta:g}.",
        highlight=False,
    )
