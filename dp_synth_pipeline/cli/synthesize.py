"""`dp-synth synthesize` runs the same assets on any file, without YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.cli import refreshing
from dp_synth_pipeline.cli.options import (
    AccountOptions,
    Options,
    SetOptions,
    UnitOptions,
    checked,
    open_once,
    opened,
    takes_options,
)
from dp_synth_pipeline.cli.summary import show, summarise
from dp_synth_pipeline.cli.terminal import VERBOSE, refused, say_more
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, journal
from dp_synth_pipeline.orchestration import resuming
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.orchestration.settings import AnySettings
from dp_synth_pipeline.synthesis import schema_inference
from dp_synth_pipeline.synthesis.settings import table_name
from dp_synth_pipeline.tabular.sources import source as sources
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.targets import sink


class GuaranteeOptions(Options):
    """What the release may cost, or who says that it needs no guarantee."""

    epsilon: float | None = Field(default=None, description="The most that this release may cost.")
    no_privacy: bool = Field(
        default=False, description="No guarantee at all: for data that you declare public, with --why."
    )
    why: str | None = Field(default=None, description="With --no-privacy: why everybody may see each row.")
    by: str | None = Field(default=None, description="With --no-privacy: who says so; default: you.")


class TableOptions(SetOptions):
    """What is known of the table, and what is drawn."""

    rows: int | None = Field(default=None, ge=1, description="Rows to draw; default: the noisy count.")
    nulls: str = Field(default="keep", description="keep, drop, mean, median or mode.")
    schema_: Path | None = Field(
        default=None, description="YAML with declared `columns:`, such as dp-synth schema infer writes."
    )
    purpose: str = Field(default="analytics", description="testing, analytics or machine_learning: how long it trains.")


class RunOptions(Options):
    """How it runs here."""

    resume: bool = Field(
        default=False,
        description="Go on with this table's release that an interrupted run left open, or that a second person approved.",
    )
    verbose: bool = Field(default=False, description=VERBOSE)
    json_: bool = Field(default=False, description="Print one JSON object, and nothing else, on standard output.")


@takes_options
def synthesize(
    source: Annotated[str, typer.Argument(help="CSV or Parquet file, or duckdb:///file.duckdb?table=schema.table.")],
    out: Annotated[Path, typer.Option(help="Where the synthetic table goes: .parquet or .csv.")],
    guarantee: GuaranteeOptions,
    account: AccountOptions,
    table: TableOptions,
    unit: UnitOptions,
    run: RunOptions,
) -> None:
    """Make a differentially private synthetic copy of one table; or, with --no-privacy, one without any guarantee.

    The release is reserved in the ledger before the file is opened; what does not fit is refused with exit code 3.

    Example: dp-synth synthesize people.csv --out synthetic.parquet --epsilon 2 --open-account
    """
    say_more(run.verbose)
    settings = checked(**table.over(_asked(source, out, guarantee, account, table, unit), replace=False))
    _check_places(source, out)
    console, book = Console(stderr=True), opened(account.ledger, create=True)
    if account.open_account and not run.resume:
        open_once(book, settings, "synthesize", console)
    outcome = run_or_resume(settings, book, account.url, run, console)
    summary = summarise(book, StoreResource().get(), settings.name, outcome)
    if run.json_:
        typer.echo(summary.to_json())
    else:
        show([summary], console)


def _asked(
    source: str,
    out: Path,
    guarantee: GuaranteeOptions,
    account: AccountOptions,
    table: TableOptions,
    unit: UnitOptions,
) -> dict[str, Any]:
    """Return the settings that the options amount to."""
    stem = Path(shown(source).split("?")[0]).stem
    declared = schema_inference.load(table.schema_) if table.schema_ is not None else {"columns": {}}
    return {
        "table": table_name(account.account or stem),
        "source": source,
        **_promise(guarantee, account, stem),
        "delta": "auto" if account.delta is None else account.delta,
        **unit.settings(declared["columns"]),
        "inferred_by": declared.get("inferred_by"),
        "nulls": table.nulls,
        "rows": table.rows,
        "target": str(out),
        "training": {"purpose": table.purpose},
    }


def _check_places(source: str, out: Path) -> None:
    """Refuse a source that is missing, and places that cannot be written, before an account is opened.

    Raises:
        InvalidInput: naming the place.
    """
    if out.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InvalidInput(f"--out {out}: write a .parquet or .csv file.")
    file = sources.parse(source).file
    size = file.stat().st_size if file is not None else 0
    for place in (str(out), str(StoreResource().get().root / "store")):
        sink.check_writable(place, needed=size)


def run_or_resume(settings: AnySettings, book: Ledger, url: str, run: RunOptions, console: Console) -> Outcome:
    """Run the assets, or those that an interrupted run had left; end the command if they fail."""
    definitions, store = build_defs([settings], ledger=url), StoreResource().get()
    release = resuming.begun(book, settings) if run.resume else None
    remaining_assets = resuming.unfinished(definitions, store, release) if release else None
    continues = release.run_id if release else None
    outcome = refreshing.refresh(
        definitions, settings.name, console, show=not run.json_, only=remaining_assets, continues=continues
    )
    outcome.run_id = continues or outcome.run_id
    if outcome.exit_code:
        message = refused(outcome.message, outcome.details)
        console.print(f"[bold red]Not released[/]: {escape(message)}", highlight=False, soft_wrap=True)
        for line in resuming.left_open(book, store, outcome.run_id):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
        raise typer.Exit(outcome.exit_code)
    return outcome


def _promise(guarantee: GuaranteeOptions, account: AccountOptions, stem: str) -> dict[str, Any]:
    """Return the settings of the guarantee that the options ask for: an account's, or none on somebody's word."""
    if not guarantee.no_privacy:
        if guarantee.why is not None or guarantee.by is not None:
            raise InvalidInput("--why and --by go with --no-privacy: they say who declares the data public, and why.")
        if guarantee.epsilon is None:
            raise InvalidInput(
                "--epsilon is missing: name the most that this release may cost, such as --epsilon 2. For data that you "
                "declare public: --no-privacy --why REASON."
            )
        return {"account": account.account or table_name(stem), "epsilon": guarantee.epsilon}
    if not guarantee.why:
        raise InvalidInput("--no-privacy gives no guarantee, so say why everybody may see each row: --why REASON.")
    if account.open_account:
        raise InvalidInput("--open-account: with --no-privacy nothing is charged; remove it, or name an --epsilon.")
    public = {"why": guarantee.why, "by": guarantee.by or journal.who()}
    return {"privacy": "none", "public": public, "account": account.account, "epsilon": guarantee.epsilon}
