"""`dp-synth schema`: what a table's columns are: free where storage types tell it, charged where rows do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import inference
from dp_synth_pipeline.orchestration.cli.options import checked, open_once
from dp_synth_pipeline.orchestration.config import table_name
from dp_synth_pipeline.orchestration.failures import withheld
from dp_synth_pipeline.orchestration.resources import StoreResource, ledger_url
from dp_synth_pipeline.tabular.schema import kind_of
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources import source as sources
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.targets import sink

app = typer.Typer(help="See a table's columns, or discover privately what to declare about them.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="CSV or Parquet file, or duckdb:///file.duckdb?table=schema.table.")]


@app.command("show")
def show(source: Source) -> None:
    """Show column names, storage types and the kinds that follow from them: public, free, no row is shown.

    Example: dp-synth schema show people.parquet
    """
    with withheld("schema show"):
        types = ingestion.storage_types(sources.parse(source))
    table = Table("column", "stored as", "kind", title=escape(source.split("@")[-1]), title_justify="left")
    for name, stored in types.items():
        try:
            kind = str(kind_of(name, stored))
        except InvalidInput:
            kind = "[red]exclude it, or cast it[/]"
        table.add_row(escape(name), escape(str(stored)), kind)
    Console().print(table)


@app.command("infer")
def infer(
    source: Source,
    epsilon: Annotated[float, typer.Option(help="The most that discovering the schema may cost.")],
    account: Annotated[str | None, typer.Option(help="The account to charge; default: the file's name.")] = None,
    delta: Annotated[float | None, typer.Option(help="Default: 1 / N^1.2, at most the account's.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that names a person, if one has several rows.")] = None,
    max_rows: Annotated[int, typer.Option(help="With --unit: rows kept per person.", min=1)] = 4,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new YAML file; default: standard output.")] = None,
    open_account: Annotated[
        bool,
        typer.Option("--open-account", help="Open the account for exactly this one release, if it does not exist."),
    ] = False,
    ledger: Annotated[
        str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")
    ] = "",
) -> None:
    """Discover kinds, categories and bounds privately, and write them as YAML for a person to edit. Charged, once.

    What was released by that charge may be declared in a table's YAML at no further cost, so that its refreshes spend
    less on their profile.

    Example: dp-synth schema infer people.csv --account people --epsilon 0.3 --out schema.yaml
    """
    name = table_name(Path(shown(source).split("?")[0]).stem)
    settings = checked(
        table=table_name(account) if account else name,
        source=source,
        account=account or name,
        epsilon=epsilon,
        delta="auto" if delta is None else delta,
        unit={"column": unit, "max_rows": max_rows} if unit else "row",
        columns={column: {"kind": "excluded"} for column in exclude or ()},
    )
    store, console = StoreResource().get(), Console(stderr=True)
    kept = store.root / "releasable" / settings.name / "schema.yaml"
    if out is not None and out.exists():
        raise InvalidInput(f"--out {out} exists, and somebody may have edited it; name another file.")
    sources.parse(source)  # a missing file should not open an account
    for place in (kept, *([out] if out else [])):
        sink.check_writable(str(place))
    book = Ledger.open(ledger or ledger_url())
    if open_account:
        open_once(book, settings, "schema infer", console)
    with withheld("schema infer"):
        found = inference.infer(book, store, settings)
        text = inference.to_yaml(found, settings)
    store.releasable(settings.name)
    for place in (kept, *([out] if out else [])):
        sink.write_text(text, place)
    if out is None:
        typer.echo(text, nl=False)
    console.print(
        f"Charged [bold]{settings.account}[/] epsilon {found.release.final_epsilon:.4g}; left for one release: "
        f"{book.balance(settings.charge.account).epsilon_left:.4g}. Written to {out or kept}.",
        highlight=False,
        soft_wrap=True,
    )
