"""`dp-synth schema` says what a table's columns are: free where storage types tell it, charged where rows do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.cli.options import AccountOptions, UnitOptions, checked, open_once, opened, takes_options
from dp_synth_pipeline.cli.terminal import Verbose, standing, table
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.failures import withheld
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import schema_inference
from dp_synth_pipeline.synthesis.reading import unit_sentence
from dp_synth_pipeline.synthesis.settings import table_name
from dp_synth_pipeline.tabular.recognition import names_a_unit
from dp_synth_pipeline.tabular.schema import kind_of
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources import source as sources
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.targets import sink

app = typer.Typer(help="See a table's columns, or discover privately what to declare about them.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="CSV or Parquet file, or duckdb:///file.duckdb?table=schema.table.")]


@app.command("show")
def show(source: Source) -> None:
    """Show column names, storage types and the kinds that follow from them: public, free, no row is read.

    A CSV has names alone; what its columns hold is measured by dp-synth schema infer, charged.

    Example: dp-synth schema show people.parquet
    """
    with withheld("schema show"):
        types = ingestion.column_types(sources.parse(source))
    rows: list[tuple[str, ...]] = []
    for name, storage_type in types.items():
        if storage_type is None:
            rows.append((escape(name), "text", "to be measured or declared"))
            continue
        try:
            kind = str(kind_of(name, storage_type))
        except InvalidInput:
            kind = "[red]exclude it, or cast it[/]"
        rows.append((escape(name), escape(str(storage_type)), kind))
    Console().print(table(escape(source.split("@")[-1]), ("column", "stored as", "kind"), rows))
    if owner := next(filter(names_a_unit, types), None):
        text = f"If one {owner} may have several rows, protect them together: --unit {owner}, or unit: {owner} in YAML."
        Console(stderr=True).print(escape(text), highlight=False, soft_wrap=True)


@app.command("infer")
@takes_options
def infer(
    source: Source,
    epsilon: Annotated[float, typer.Option(help="The most that discovering the schema may cost.")],
    account: AccountOptions,
    unit: UnitOptions,
    out: Annotated[Path | None, typer.Option(help="A new YAML file; default: standard output.")] = None,
    verbose: Verbose = False,
) -> None:
    """Discover kinds, categories and bounds privately, and write them as YAML for a person to edit. Charged, once.

    What was released by that charge may be declared in a table's YAML at no further cost, so that its refreshes spend
    less on their profile.

    Example: dp-synth schema infer people.csv --epsilon 0.3 --out schema.yaml
    """
    settings = _settings(source, epsilon, account, unit)
    store, console = StoreResource().get(), Console(stderr=True)
    own_copy = store.root / "releasable" / settings.name / "schema.yaml"
    _check_places(source, own_copy, out)
    book = opened(account.ledger, create=True)
    if account.open_account:
        open_once(book, settings, "schema infer", console)
    with withheld("schema infer"):
        inference = schema_inference.infer(book, store, settings)
        text = schema_inference.to_yaml(inference, settings)
    store.releasable(settings.name)
    for place in filter(None, (own_copy, out)):
        sink.write_text(text, place)
    if out is None:
        typer.echo(text, nl=False)
    console.print(
        f"Charged [bold]{settings.account}[/] epsilon {inference.release.final_epsilon:.4g} by itself. Written to "
        f"{out or own_copy}.",
        highlight=False,
        soft_wrap=True,
    )
    if said := unit_sentence(settings, inference.schema.names):
        console.print(escape(said), highlight=False, soft_wrap=True)
    console.print(standing(book.share(settings.charge.account), console), highlight=False, soft_wrap=True)


def _check_places(source: str, own_copy: Path, out: Path | None) -> None:
    """Refuse a source that is missing, and places that cannot be written, before an account is opened.

    Raises:
        InvalidInput: naming the place.
    """
    if out is not None and out.exists():
        raise InvalidInput(f"--out {out} exists, and somebody may have edited it; name another file.")
    sources.parse(source)
    for place in filter(None, (own_copy, out)):
        sink.check_writable(str(place))


def _settings(source: str, epsilon: float, account: AccountOptions, unit: UnitOptions) -> TableSettings:
    name = account.account or table_name(Path(shown(source).split("?")[0]).stem)
    return checked(
        table=table_name(name),
        source=source,
        account=name,
        epsilon=epsilon,
        delta="auto" if account.delta is None else account.delta,
        **unit.settings(),
    )
