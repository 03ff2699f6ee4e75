"""Columns of a CSV that are numbers or truth values but for words that stand for nulls, such as `NA` and `?`.

Like a storage type, that is public: yes or no for a whole column, told from all of its cells. In columns of names the
same words stay names, since `NA` may be Namibia.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import duckdb

from dp_synth_pipeline.tabular.sql import literal, quoted

NULLS = ("na", "n/a", "#n/a", "<na>", "null", "nil", "none", "nan", "?", "-", "--", ".")
"""What stands for a null in a column of numbers, dates or truth values, in whatever case."""

TRUTHS = ("true", "false")

SAMPLE = 20_480
"""Rows of which one must be a number for a whole column to be looked at."""

Read = Callable[[Iterable[str]], str]
"""The relation that reads a CSV with some columns as text."""


def is_null(name: str) -> str:
    """Write a condition that holds where a text column's cell is a word for null."""
    return f"lower(trim({quoted(name)})) IN ({', '.join(map(literal, NULLS))})"


def without(relation: str, names: Iterable[str]) -> str:
    """Return the relation with nulls for these words in text columns."""
    blanked = ", ".join(f"CASE WHEN {is_null(n)} THEN NULL ELSE {quoted(n)} END AS {quoted(n)}" for n in names)
    return f"(SELECT * REPLACE ({blanked}) FROM {relation})" if blanked else relation


def find(con: duckdb.DuckDBPyConnection, read: Read, names: Iterable[str]) -> dict[str, str]:
    """Return the SQL type of each text column that holds numbers, or truth values, and words for nulls, and nothing else.

    Args:
        names: columns read as text of which nobody declared that they are.
    """
    asked = list(names)
    if not asked:
        return {}
    relation = read(asked)
    some = ", ".join(f"count(TRY_CAST({quoted(n)} AS DOUBLE)), bool_or({_truth(n)})" for n in asked)
    (seen,) = con.execute(f"SELECT {some} FROM (SELECT * FROM {relation} LIMIT {SAMPLE})").fetchall()
    tried = [n for n, numbers, truth in zip(asked, seen[::2], seen[1::2], strict=True) if numbers or truth]
    if not tried:
        return {}
    held = ", ".join(f"bool_and({_whole(n)}), bool_and({_number(n)}), bool_and({_truth(n)})" for n in tried)
    (answers,) = con.execute(f"SELECT {held} FROM {without(relation, tried)}").fetchall()
    kinds = {
        n: dict(zip(("BIGINT", "DOUBLE", "BOOLEAN"), answers[3 * i : 3 * i + 3], strict=True))
        for i, n in enumerate(tried)
    }
    return {n: next(t for t, holds in found.items() if holds) for n, found in kinds.items() if any(found.values())}


def value(name: str, kind: str) -> str:
    """Write the value of a cell of a column that `find` found."""
    return f"CASE WHEN {is_null(name)} THEN NULL ELSE CAST({quoted(name)} AS {kind}) END"


def _whole(name: str) -> str:
    digits = f"regexp_full_match(trim({quoted(name)}), '[-+]?[0-9]+')"
    return f"{quoted(name)} IS NULL OR ({digits} AND TRY_CAST({quoted(name)} AS BIGINT) IS NOT NULL)"


def _number(name: str) -> str:
    return f"{quoted(name)} IS NULL OR coalesce(isfinite(TRY_CAST({quoted(name)} AS DOUBLE)), false)"


def _truth(name: str) -> str:
    return f"lower(trim({quoted(name)})) IN ({', '.join(map(literal, TRUTHS))})"
