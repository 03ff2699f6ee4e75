"""Turns errors into steps that end clearly, quote no value, and are never retried where that would charge again.

A refusal is no outage: the ledger did its work, nothing was read, and what was published is as it was. Dagster calls an
asset "Failed" if the last run that was to make it has the status FAILURE. So a run that the ledger refuses ends as
*canceled*, however it began: by a button, a backfill, `dg launch` or a schedule. It bears the tag `REFUSED`, and its reason
is written before anything else of its end. What it ends as decides more than a colour:

* as a *failure*, all assets of the run would be called failed, `published` among them, and `run_retries` would try again;
* as a *success*, with nothing yielded and the rest skipped, it would look as if the table were refreshed: `dg launch` would
  exit with 0, and a backfill would wait for ever for partitions that never come (Dagster before 1.13);
* as *canceled*, `dg launch` exits with 1, a backfill counts the partition as not made, assets stay as they were, and nothing
  runs again.

The steps that would have come after it are not executed, and Dagster says so of each. A run that does other work besides,
such as the refresh of a second table, goes on and ends as a failure: to cancel it would hide what still runs from whoever
asks whether it is alive. A schedule or a sensor asks the ledger first (`preflight`), so that no run begins at all. The
command line reads the error of the failed step, and so keeps its exit code of 3.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg

from dp_synth_pipeline.errors import BudgetExceeded, DpSynthError, LedgerUnavailable, UnexpectedFailure
from dp_synth_pipeline.orchestration.dagster_internals import (
    MAX_RETRIES_TAG,
    DagsterUserCodeProcessError,
    SerializableErrorInfo,
    StepExecutionContext,
    current_execution_context,
)

REFUSED = "dp_synth/refused"
"""Tag of a run that the ledger refused: the first line of the reason."""

SHORT = 160
"""Characters of a tag; the whole reason is in the run's log."""

CUT_SHORT = "Query interrupted"
"""What DuckDB makes of Ctrl-C while it works: a RuntimeError of this text, whatever the signal's handler raised."""


@contextmanager
def withheld(stage: str) -> Iterator[None]:
    """Let our own errors pass, whose texts are written to be shown; withhold the text of everybody else's."""
    try:
        yield
    except DpSynthError as error:
        if error.__cause__ is not None and os.environ.get("DP_SYNTH_DEBUG"):
            _show_on_terminal()  # what our own text stands for
        raise
    except (dg.Failure, KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error) == CUT_SHORT:
            raise KeyboardInterrupt from None
        if os.environ.get("DP_SYNTH_DEBUG"):
            _show_on_terminal()
        raise UnexpectedFailure(stage, error) from None


def _show_on_terminal() -> None:
    """Print the traceback on the terminal that the process belongs to, if any; standard error is a log of Dagster's."""
    try:
        with open("/dev/tty", "w") as terminal:
            traceback.print_exc(file=terminal)
    except OSError:
        if sys.stderr.isatty():
            traceback.print_exc()


@contextmanager
def reported(stage: str) -> Iterator[None]:
    """Turn errors into `dagster.Failure`: ours with their text, everybody else's without, and none with a stack trace."""
    try:
        with withheld(stage):
            yield
    except KeyboardInterrupt:
        raise dg.DagsterExecutionInterruptedError from None
    except DpSynthError as error:
        if not isinstance(error, UnexpectedFailure | LedgerUnavailable):
            _never_again()  # but a lost connection may work the next time, for those who set retries
        raise Explained(error) from None


class _Traceless(DagsterUserCodeProcessError):
    """An error that says itself what Dagster shows of it, as those do that come from another process: no frame of ours."""

    def __init__(self, text: str | None) -> None:
        shown = SerializableErrorInfo(text or "", [], type(self).__name__)
        super().__init__(text, user_code_process_error_infos=[shown])


class Explained(dg.Failure, _Traceless):
    """A failed step that one of our own errors explains: where in the code it was raised would help nobody mend it."""

    def __init__(self, error: DpSynthError) -> None:
        facts: dict[str, dg.RawMetadataValue] = {"error": type(error).__name__, "exit_code": error.exit_code}
        if isinstance(error, BudgetExceeded) and error.details:
            facts["details"] = error.details
        super().__init__(description=str(error), metadata=facts, allow_retries=False)


def _never_again() -> None:
    """Keep `run_retries` from launching this run anew: `allow_retries=False` holds for a step, not for its run.

    What is refused once is refused again. A retry is a run of its own, so it would reserve anew.
    """
    context = current_execution_context.get()
    if context is not None:
        context.instance.add_run_tags(context.run.run_id, {MAX_RETRIES_TAG: "0"})


def refuse(context: dg.AssetExecutionContext, why: str) -> None:
    """Tag a run that was refused before it read anything, and have it end as canceled where that ends nothing else."""
    context.instance.add_run_tags(context.run_id, {REFUSED: short(why)})
    if _is_alone(context.get_step_execution_context()):
        context.instance.report_run_canceling(context.run, why)


def short(why: str) -> str:
    """Return the first line of a reason, cut to what a tag shows.

    Example:
        >>> short("Account 'people' refuses this release.\\nIt asks for too much.")
        "Account 'people' refuses this release."
    """
    line = why.partition("\n")[0]
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def _is_alone(step: StepExecutionContext) -> bool:
    """Say whether every other step of the run waits for this one, or came before it."""
    plan = step.execution_plan
    above = plan.get_all_step_deps()
    before, after = _closure(step.step.key, above), {k for k in above if step.step.key in _closure(k, above)}
    return set(plan.step_keys_to_execute) <= {step.step.key, *before, *after}


def _closure(key: str, above: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    queue = [key]
    while queue:
        new = above.get(queue.pop(), set()) - found
        found |= new
        queue += new
    return found
