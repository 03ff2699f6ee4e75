"""How far a long stage is: to Dagster's log by default, to a progress bar when the command line asks. Public facts only."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import dagster as dg

Reporter = Callable[[str, int, int, str], None]
"""Called with a stage's name, what is done, what there is to do, and a note."""

REPORTER: ContextVar[Reporter | None] = ContextVar("REPORTER", default=None)


def reporter(context: dg.AssetExecutionContext, stage: str) -> Callable[..., None]:
    """Return a callback for one stage that reports every tenth of the way."""
    shown = REPORTER.get()
    last = -1

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal last
        if shown is not None:
            shown(stage, done, total, note)
        tenth = 10 * done // max(total, 1)
        if tenth > last:
            last = tenth
            context.log.info(f"{stage}: {done:,} of {total:,}{', ' if note else ''}{note}")

    return report


def with_epsilon(report: Callable[..., None], epsilon: Callable[[int], float]) -> Callable[[int, int], None]:
    """Add to a callback what was spent when so many steps are done, worked out every tenth of the way."""
    said, note = -1, ""

    def told(done: int, steps: int) -> None:
        nonlocal said, note
        if done and 10 * done // steps > said:
            said = 10 * done // steps
            note = f"epsilon so far {epsilon(done):.3g}"
        report(done, steps, note)

    return told


def waiting(context: dg.AssetExecutionContext, stage: str) -> Callable[[str], None]:
    """Return a callback that says, on the terminal and in the log, what a stage waits for."""
    shown = REPORTER.get()

    def told(why: str) -> None:
        context.log.warning(f"{stage} {why}.")
        if shown is not None:
            shown(stage, 0, 1, why)

    return told
