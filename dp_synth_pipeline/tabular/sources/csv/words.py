"""Words that a CSV writes for nulls, and digits that are codes."""

from __future__ import annotations

from dp_synth_pipeline.tabular.sql import literal

NULLS = ("na", "n/a", "#n/a", "<na>", "null", "nil", "none", "nan", "?", "-", "--", ".")
"""What stands for a null among numbers, dates and truth values, in whatever case; among names it is a name."""

CODE = "0[0-9]+"
"""Digits of which the first of several is 0, such as `02139`: a number would lose its zeros."""


def key(cell: str) -> str:
    """Write the SQL of a unit's own name; null for a cell that names nobody."""
    return f"CASE WHEN trim({cell}) <> '' AND NOT {is_null(cell)} THEN trim({cell}) END"


def is_null(cell: str) -> str:
    """Write a condition that holds where the SQL value `cell` is a word for null."""
    return f"lower(trim({cell})) IN ({', '.join(map(literal, NULLS))})"
