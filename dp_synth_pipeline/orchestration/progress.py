"""Reports how far a long stage is, in public facts only: to Dagster's log, and to a progress bar if there is one."""

from __future__ import annotations

from contextvars import ContextVar

import dagster as dg

from dp_synth_pipeline.synthesis.progress import Progress, Silent

SHOWN: ContextVar[Progress | None] = ContextVar("SHOWN", default=None)
"""The command line's display, if there is one."""


class DagsterProgress:
    """Tells the run's log of every tenth of the way, and the command line's display, if there is one, of every part."""

    def __init__(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> None:
        self._context, self._shown = context, SHOWN.get() or Silent()
        self._tenths: dict[str, int] = {}

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        self._shown.report(stage, done, total, note)
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenths.get(stage, -1):
            self._tenths[stage] = tenth
            self._context.log.info(f"{stage}: {done:,} of {total:,}{', ' if note else ''}{note}")

    def log(self, message: str) -> None:
        """Take note of a decision."""
        self._context.log.info(message)

    def warn(self, message: str) -> None:
        """Say it in the log, and on the terminal."""
        self._context.log.warning(message)
        self._shown.warn(message)

    def wait(self, stage: str, why: str) -> None:
        """Say, on the terminal and in the log, what a stage waits for."""
        self._context.log.warning(f"{stage} {why}.")
        self._shown.wait(stage, why)
