"""`dp-synth card` verifies a release card and writes it in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_synth_pipeline.cli.options import Options, opened, takes_options
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import card_verification, registry
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown
from dp_synth_pipeline.targets import sink

app = typer.Typer(help="Verify a release card against the ledger, or write it in another form.", no_args_is_help=True)

Card = Annotated[Path, typer.Argument(metavar="CARD", help="A release_card.json.")]
FORMATS = ("markdown", "html", "registry")


@app.command("verify")
def verify(
    card: Card,
    table: Annotated[
        Path | None, typer.Option(help="The published Parquet file: is it the one that the card is about?")
    ] = None,
    ledger: Annotated[
        str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")
    ] = "",
) -> None:
    """Check every claim of a card against the ledger. Exit code 0 if all hold, 4 if one does not, 2 for no card.

    Example: dp-synth card verify release_card.json --table synthetic.parquet
    """
    text = card_verification.read(card)
    findings = card_verification.verify(text, opened(ledger), table)
    listing = Table("", "claim", "", title=f"Release card {escape(str(card))}", title_justify="left", show_header=False)
    for finding in findings:
        mark = "[green]holds[/]" if finding.holds else "[bold red]does not hold[/]"
        listing.add_row(mark, escape(finding.what), escape(finding.note))
    console, broken_count = Console(), sum(not finding.holds for finding in findings)
    console.print(listing)
    if broken_count:
        console.print(
            f"[bold red]Not verified[/]: {broken_count} of {len(findings)} claims do not hold. Rely on none of them."
        )
        raise typer.Exit(4)
    facts = from_json(text).facts
    guarantee = "no guarantee, as it says" if facts.epsilon is None else f"epsilon {facts.epsilon:.4g}"
    console.print(f"[green]Verified[/]: all {len(findings)} claims hold; {guarantee}.", highlight=False)


class CurationOptions(Options):
    """What a record of the registry says that no card knows."""

    curator: str = Field(default=registry.FILL_IN, description="registry: who publishes.")
    use: str = Field(default=registry.FILL_IN, description="registry: intended use.")
    region: str = Field(default=registry.FILL_IN, description="registry: whom the data describe.")
    sector: str | None = Field(default=None, description="registry: such as Healthcare or Finance.")
    data_source: str | None = Field(default=None, description="registry: Static, or Dynamic if new rows come in.")
    author: list[str] | None = Field(default=None, description="registry: who fills this in; may be repeated.")

    def curation(self) -> registry.Curation:
        """Return what the record says."""
        authors = tuple(self.author or (registry.FILL_IN,))
        return registry.Curation(self.curator, self.use, self.region, self.sector, self.data_source, authors)


@app.command("export")
@takes_options
def export(
    card: Card,
    curation: CurationOptions,
    format: Annotated[str, typer.Option(help="markdown, html, or registry (a YAML record).")] = "markdown",
    out: Annotated[Path | None, typer.Option(help="A file; default: standard output.")] = None,
) -> None:
    """Write a card as Markdown, as HTML, or as a record of the public Differential Privacy Deployments Registry.

    Example: dp-synth card export release_card.json --format registry --curator "Ministry of Health" --region Norway
    """
    text = _text(from_json(card_verification.read(card)), format, curation.curation())
    if out is None:
        typer.echo(text, nl=False)
    else:
        sink.write_text(text, out)


def _text(card: ReleaseCard, format: str, curation: registry.Curation) -> str:
    if format == "registry":
        return registry.to_yaml(card, curation)
    if format == "markdown":
        return render_markdown(card)
    if format == "html":
        return render_card(card)
    raise InvalidInput(f"--format: expected {', '.join(FORMATS)}, got {format!r}.")
