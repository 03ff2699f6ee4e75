"""`dp-synth profile`: the released profile that a table's refreshes reuse: what is in it, and when to measure it anew."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import reuse
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.tabular.profile import ColumnProfile

app = typer.Typer(
    help="Look at the profile that a table's refreshes reuse at no charge, or have it measured anew.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="TABLE", help="A table of this store.")]


@app.command("show")
def show(table: Name) -> None:
    """Show what the profile holds, which release paid for it, how much, and how old it is. Reads no row; free.

    Example: dp-synth profile show visits
    """
    cached, console = _read(table), Console()
    origin, profile = cached.origin, cached.profile
    age = datetime.now(UTC) - datetime.fromisoformat(origin.measured_at)
    console.print(
        f"[bold]{table}[/]: measured {age.days} days ago in release {origin.release} of account {origin.account}, at "
        f"epsilon {origin.epsilon:.4g}. About {profile.population:,} units ({profile.unit}), {profile.rows:,} rows.",
        highlight=False,
        soft_wrap=True,
    )
    shown = Table("column", "kind", "values", "cells", "lower", "upper", "null", "declared", title_justify="left")
    for column in profile.columns:
        shown.add_row(*_row(column))
    console.print(shown)
    if origin.renew is not None:
        console.print(f"The next refresh measures it anew: {origin.renew['who']} asked for it.", highlight=False)


@app.command("renew")
def renew(table: Name, why: Annotated[str, typer.Option(help="The reason, for the record.")] = "") -> None:
    """Have the next refresh measure the profile anew: when the data have drifted. Charges nothing now.

    Example: dp-synth profile renew visits --why "new clinics since May"
    """
    origin = _read(table).origin
    reuse.renew(_folder(table), why)
    Console().print(
        f"The next refresh of [bold]{table}[/] measures its profile anew. The last one cost epsilon {origin.epsilon:.4g} "
        f"of account {origin.account}; a new one costs its share of what that refresh asks, which is not more than "
        f"before: its training gets that much less. Nothing is charged now.",
        highlight=False,
        soft_wrap=True,
    )


def _row(c: ColumnProfile) -> tuple[str, ...]:
    counts = (str(len(c.values)), str(len(c.bins)))
    ends = ["" if v is None else f"{v:.6g}" for v in (c.lower, c.upper)]
    return (escape(c.name), str(c.kind), *counts, *ends, f"{c.null_rate:.1%}", ", ".join(c.declared))


def _folder(table: str) -> Path:
    root = StoreResource().get().root / "releasable"
    known = sorted(f.parent.name for f in root.glob(f"*/{reuse.FACTS}"))
    if table not in known:
        raise InvalidInput(
            f"the store has no profile of a table {table!r}; it has: {', '.join(known) or 'none'}. A refresh makes one."
        )
    return root / table


def _read(table: str) -> reuse.Cached:
    try:
        return reuse.read(_folder(table))
    except InvalidInput as error:
        if table in str(error):
            raise
        raise InvalidInput(f"{table}: {error}; the next refresh measures one.") from None
