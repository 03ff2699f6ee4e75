"""One place where errors become failed steps: clear, never retried when that would charge again, never quoting a value."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dp_synth_pipeline.errors import DpSynthError, UnexpectedFailure


@contextmanager
def reported(stage: str) -> Iterator[None]:
    """Turn our errors into `dagster.Failure` with the same text; withhold the text of everybody else's."""
    try:
        yield
    except dg.Failure:
        raise
    except DpSynthError as error:
        raise _failure(error) from None
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        raise
    except Exception as error:
        if os.environ.get("DP_SYNTH_DEBUG") and sys.stderr.isatty():  # a file would be Dagster's captured log
            traceback.print_exc()
        raise _failure(UnexpectedFailure(stage, error)) from None


def _failure(error: DpSynthError) -> dg.Failure:
    facts = {"error": type(error).__name__, "exit_code": error.exit_code}
    return dg.Failure(description=str(error), metadata=facts, allow_retries=False)
