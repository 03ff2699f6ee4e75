"""Reports how far a long stage is, in public facts only: to Dagster's log, and to a progress bar if there is one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import dagster as dg

Reporter = Callable[[str, int, int, str], None]
"""Called with a stage's name, what is done, what there is to do, and a note."""

REPORTER: ContextVar[Reporter | None] = ContextVar("REPORTER", default=None)


class DagsterProgress:
    """Tells the run's log of every tenth of the way, and the command line's display, if there is one, of every part."""

    def __init__(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> None:
        self._context, self._shown = context, REPORTER.get()
        self._tenths: dict[str, int] = {}

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        if self._shown is not None:
            self._shown(stage, done, total, note)
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenths.get(stage, -1):
            self._tenths[stage] = tenth
            self._context.log.info(f"{stage}: {done:,} of {total:,}{', ' if note else ''}{note}")

    def log(self, message: str) -> None:
        """Take note of a decision."""
        self._context.log.info(message)

    def wait(self, stage: str, why: str) -> None:
        """Say, on the terminal and in the log, what a stage waits for."""
        self._context.log.warning(f"{stage} {why}.")
        if self._shown is not None:
            self._shown(stage, 0, 1, why)
