"""Runs a table's assets with a live display of how far each stage is."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.progress_bars import ProgressBars


def refresh(definitions: Any, table: str, console: Console, *, show: bool = True, **how: Any) -> Outcome:
    """Materialize one table's whole graph and say how it went; expected failures are told, not raised.

    Args:
        definitions: the project's Dagster definitions.
        show: draw the bars, under a heading.
        how: as `in_process.refresh` takes it.
    """
    if show:
        console.print(f"[bold]{escape(table)}[/]: stage, steps done, time taken, time left", highlight=False)
    with ProgressBars(console, show=show) as bars:
        return in_process.refresh(definitions, table, bars, **how)
