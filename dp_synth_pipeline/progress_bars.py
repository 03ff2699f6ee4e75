"""Progress bars, one for each long stage, in a terminal and in a notebook."""

from __future__ import annotations

from typing import Any, Self

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
from rich.text import Text


class ProgressBars:
    """Draws how far each stage is, while its context lasts.

    Args:
        show: False draws nothing.
    """

    def __init__(self, console: Console | None = None, *, show: bool = True) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Progress(*columns, console=console, transient=True, disable=not show)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Move a stage's bar."""
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(escape(stage), total=total, note="")
        self._bars.update(self._tasks[stage], completed=done, total=total, note=note)

    def log(self, message: str) -> None:
        """Say nothing: decisions stand on the release card."""

    def say(self, message: str) -> None:
        """Print a remark above the bars, if there is one and they are drawn."""
        if message and not self._bars.disable:
            self._bars.console.print(Text(message, "dim"), soft_wrap=True)

    def warn(self, message: str) -> None:
        """Print above the bars what a person should hear, whether bars are drawn or not."""
        self._bars.console.print(Text(f"Warning: {message}", "yellow"), soft_wrap=True)

    def wait(self, stage: str, why: str) -> None:
        """Say beside a stage's bar what it waits for."""
        self.report(stage, 0, 1, why)
