"""Turns errors into failed steps that are clear, quote no value, and are never retried where that would charge again."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dp_synth_pipeline.errors import DpSynthError, LedgerUnavailable, UnexpectedFailure
from dp_synth_pipeline.orchestration.dagster_internals import MAX_RETRIES_TAG, current_execution_context

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
    """Turn errors into `dagster.Failure`: ours with their text, everybody else's without."""
    try:
        with withheld(stage):
            yield
    except KeyboardInterrupt:
        raise dg.DagsterExecutionInterruptedError from None
    except DpSynthError as error:
        if not isinstance(error, UnexpectedFailure | LedgerUnavailable):
            _never_again()  # but a lost connection may work the next time, for those who set retries
        raise _failure(error) from None


def _never_again() -> None:
    """Keep `run_retries` from launching this run anew: `allow_retries=False` holds for a step, not for its run.

    What is refused once is refused again. A retry is a run of its own, so it would reserve anew.
    """
    context = current_execution_context.get()
    if context is not None:
        context.instance.add_run_tags(context.run.run_id, {MAX_RETRIES_TAG: "0"})


def _failure(error: DpSynthError) -> dg.Failure:
    facts = {"error": type(error).__name__, "exit_code": error.exit_code}
    return dg.Failure(description=str(error), metadata=facts, allow_retries=False)
