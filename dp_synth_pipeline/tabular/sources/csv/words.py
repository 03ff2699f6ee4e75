"""Columns of a CSV that are numbers, times of day or truth values but for words for nulls; and codes, which are none.

Words for nulls are `NA`, `?` and the like; in columns of names they stay names, since `NA` may be Namibia. A column of
digits of which some begin with 0, such as `02139`, holds codes, whose zeros a number would lose. Like a storage type, all
that is public: yes or no for a whole column, told from all of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import duckdb

from dp_synth_pipeline.tabular.sql import literal, quoted

NULLS = ("na", "n/a", "#n/a", "<na>", "null", "nil", "none", "nan", "?", "-", "--", ".")
"""What stands for a null in a column of numbers, dates or truth values, in whatever case."""

TRUTHS = ("true", "false")

SAMPLE = 20_480
"""Rows of which one must be such a value for a whole column to be looked at."""

Read = Callable[[Iterable[str]], str]
"""The relation that reads a CSV with some columns as text."""


def is_null(name: str) -> str:
    """Write a condition that holds where a text column's cell is a word for null."""
    return f"lower(trim({quoted(name)})) IN ({', '.join(map(literal, NULLS))})"


def without(relation: str, names: Iterable[str]) -> str:
    """Return the relation with nulls for these words in text columns."""
    blanked = ", ".join(f"CASE WHEN {is_null(n)} THEN NULL ELSE {quoted(n)} END AS {quoted(n)}" for n in names)
    return f"(SELECT * REPLACE ({blanked}) FROM {relation})" if blanked else relation


def find(
    con: duckdb.DuckDBPyConnection, read: Read, names: Iterable[str], numbers: Collection[str] = ()
) -> dict[str, str]:
    """Return the SQL type of each text column that holds values of one type and words for nulls, and nothing else.

    Args:
        names: columns read as text of which nobody declared that they are.
        numbers: columns that a person declared to be numbers, so that digits that begin with 0 are no codes.
    """
    columns = list(names)
    if not columns:
        return {}
    relation = read(columns)
    some = ", ".join(f"count({_any(n)})" for n in columns)
    (counts,) = con.execute(f"SELECT {some} FROM (SELECT * FROM {relation} LIMIT {SAMPLE})").fetchall()
    tried = [n for n, count in zip(columns, counts, strict=True) if count]
    if not tried:
        return {}
    conditions = [(n, kind, holds(n) + _uncoded(n, kind, numbers)) for n in tried for kind, holds in TYPES.items()]
    held = ", ".join(f"bool_and({quoted(n)} IS NULL OR coalesce({condition}, false))" for n, _, condition in conditions)
    (answers,) = con.execute(f"SELECT {held} FROM {without(relation, tried)}").fetchall()
    fitting = [(n, kind) for (n, kind, _), holds in zip(conditions, answers, strict=True) if holds]
    return dict(reversed(fitting))  # the first type that fits


def is_code(name: str) -> str:
    """Write a condition that holds where a text column's cell is digits of which the first of several is 0."""
    return f"regexp_full_match(trim({quoted(name)}), '0[0-9]+')"


def value(name: str, kind: str) -> str:
    """Write the value of a cell of a column that `find` found."""
    return f"CASE WHEN {is_null(name)} THEN NULL ELSE CAST(trim({quoted(name)}) AS {kind}) END"


def _uncoded(name: str, kind: str, numbers: Collection[str]) -> str:
    return f" AND NOT {is_code(name)}" if kind in NUMBERS and name not in numbers else ""


def _any(name: str) -> str:
    """Write what is null unless a cell is a value of one of the types; a whole number is a number too."""
    return f"CASE WHEN {_number(name)} OR {_time(name)} OR {_truth(name)} THEN 1 END"


def _whole(name: str) -> str:
    return f"regexp_full_match(trim({quoted(name)}), '[-+]?[0-9]+') AND TRY_CAST({quoted(name)} AS BIGINT) IS NOT NULL"


def _number(name: str) -> str:
    return f"isfinite(TRY_CAST({quoted(name)} AS DOUBLE))"


def _time(name: str) -> str:
    clock = f"regexp_full_match(trim({quoted(name)}), '[0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\\.[0-9]+)?)?')"
    return f"({clock} AND TRY_CAST(trim({quoted(name)}) AS TIME) IS NOT NULL)"


def _truth(name: str) -> str:
    return f"lower(trim({quoted(name)})) IN ({', '.join(map(literal, TRUTHS))})"


TYPES = {"BIGINT": _whole, "DOUBLE": _number, "TIME": _time, "BOOLEAN": _truth}
"""SQL types, and the condition that a cell is one of their values; the narrower first."""

NUMBERS = ("BIGINT", "DOUBLE")
