"""Runs a table's assets with a live display of how far each stage is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.orchestration.progress import Reporter


def refresh(definitions: Any, table: str, console: Console, *, show: bool = True, **how: Any) -> Outcome:
    """Materialize one table's whole graph and say how it went; expected failures are told, not raised.

    Args:
        definitions: the project's Dagster definitions.
        show: draw the bars.
        how: as `in_process.refresh` takes it.
    """
    with bars(console, show) as report:
        return in_process.refresh(definitions, table, report, **how)


@contextmanager
def bars(console: Console, show: bool) -> Iterator[Reporter]:
    """Yield a callback that draws one bar for each stage."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not show) as shown:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int, note: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(escape(stage), total=total, note="")
            shown.update(tasks[stage], completed=done, total=total, note=note)

        yield report
