"""The check `drift`: whether a table moved since its last release, as the noisy counts of both tell it, so for free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.validation.checks import DRIFT, Check

EXPECTATION = "expect_released_counts_to_have_moved_at_most"

MOST_TOLD = 5
"""Columns that are named with how far they moved, those that moved furthest."""


def check_for(at_most: float, drift: Mapping[str, Any] | None) -> Check:
    """Return the check, which warns.

    Args:
        at_most: the mean total variation distance at which it fails.
        drift: the release's `drift`; None if it goes on from no other one.
    """
    text = f"The table moved by at most {at_most:g} since the releases that this one goes on from."
    kwargs = {"at_most": at_most, "drift": None if drift is None else dict(drift)}
    return Check(DRIFT, None, "drift", False, text, EXPECTATION, kwargs)


def evaluate(check: Check, table: pa.Table) -> tuple[bool, dict[str, Any]]:
    """Return whether the table stayed, and which columns moved furthest; the rows themselves are not looked at."""
    drift, at_most = check.kwargs["drift"], check.kwargs["at_most"]
    if drift is None:
        return True, {"note": "this release goes on from no other one"}
    furthest = dict(list(drift["columns"].items())[:MOST_TOLD])
    return drift["mean"] <= at_most, {"moved": drift["mean"], "at_most": at_most, "furthest": furthest}
