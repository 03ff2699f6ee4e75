"""`dp-synth docs` lists the pages that came with this version, and prints one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dp_synth_pipeline.cli.terminal import console
from dp_synth_pipeline.errors import InvalidInput

FOLDER = Path(__file__).parents[1] / "docs"


def docs(page: Annotated[str, typer.Argument(help="Such as tables; all of them are listed without it.")] = "") -> None:
    """Print a page of the documentation, or list the pages. They came with this version, so they describe it.

    Example: dp-synth docs tables
    """
    pages = {path.stem: path for path in sorted(FOLDER.rglob("*.md"), reverse=True)}
    if not page:
        for name, path in sorted(pages.items()):
            title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            console().print(f"{name:24}{title}", highlight=False, markup=False)
        console().print(f"They lie in {FOLDER}. dp-synth docs NAME prints one.", highlight=False, soft_wrap=True)
        return
    if page not in pages:
        raise InvalidInput(f"there is no page {page!r}; there are: {', '.join(sorted(pages))}.")
    typer.echo(pages[page].read_text(encoding="utf-8"))
