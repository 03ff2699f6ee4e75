"""Checks by name: what Dagster must know before anything is read, and what comes back after.

The names depend on column names alone, which are public, so they are the same in every run.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "types",
    "domain",
    "range",
    "null_rate",
    "uniqueness",
    "row_count",
    "columns",
    "rule",
    "own",
    "regenerated",
    "quality",
    "drift",
    "text",
]

REGENERATED, QUALITY, DRIFT = "identifiers_regenerated", "quality_gate", "drift"
"""The check that no identifier was modelled; the gate on charged figures; how far the table moved since its last release."""

OUTPUT = "output_"
"""How the check of a further table begins, before the table's name."""

TYPE, DOMAIN, NULLS = "type", "domain", "nulls"
"""The check of each column: its storage type; its values; its nulls."""

MOST_TOLD = 3
"""Expectations that were not met and are quoted where one result stands for many."""

GROUPS = {TYPE: "types", DOMAIN: "domains", NULLS: "nulls"}
"""The check that stands for all columns at once, when column names are not known ahead."""


@dataclass(frozen=True)
class CheckName:
    """A check before it has run.

    Attributes:
        name: valid as a Dagster check name, unique within the table, the same in every run.
        blocking: whether a failure *may* keep the table from being published; the result's own `blocking` decides.
        column: the column it is about; None for the whole table.
        title: what it is about, in a few words.
    """

    name: str
    blocking: bool
    column: str | None
    title: str


@dataclass(frozen=True)
class Check:
    """One expectation about the synthetic table, as data that can be stored, shown and edited.

    Attributes:
        name: as `check_names` gives it.
        column: the column it is about; None for the whole table.
        kind: what it is about, one of `Kind`.
        blocking: whether a failure keeps the table from being published; otherwise it is a warning.
        description: what is expected, in plain words, with released or declared values only.
        expectation: the type of the Great Expectations expectation, in snake case.
        kwargs: its arguments, JSON-ready; temporal bounds are ISO text.
    """

    name: str
    column: str | None
    kind: Kind
    blocking: bool
    description: str
    expectation: str
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckResult:
    """How one check, or one group of checks, went.

    Attributes:
        name, blocking, column, description: as in the check.
        passed: whether the synthetic table is as expected.
        observed: JSON-ready figures about the synthetic table: counts, rates and types, never a cell.
    """

    name: str
    passed: bool
    blocking: bool
    column: str | None
    description: str
    observed: dict[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> bool:
        """Whether this result keeps the table from being published."""
        return self.blocking and not self.passed


def check_names(columns: Sequence[str] | None) -> list[CheckName]:
    """Return every check that a table has, before anything is read.

    Args:
        columns: names of the published columns, in any order; None if they are not known ahead. Then one check stands
            for each group, and `grouped` brings results to that form.
    """
    table = [
        CheckName("columns", True, None, "the columns and their order"),
        CheckName("row_count", True, None, "the number of rows"),
        CheckName(REGENERATED, True, None, "that no identifier was modelled"),
    ]
    if columns is None:
        return [
            *table,
            CheckName("types", True, None, "the storage type of every column"),
            CheckName("domains", True, None, "the values of every column"),
            CheckName("nulls", True, None, "the nulls of every column"),
        ]
    stems = stems_of(columns)
    titles = {TYPE: "storage type", DOMAIN: "values", NULLS: "nulls"}
    members = [CheckName(f"{stems[c]}__{k}", True, c, f"{titles[k]} of {c}") for c in columns for k in titles]
    return [*table, *members]


def stems_of(columns: Iterable[str]) -> dict[str, str]:
    """Return for each column name a unique stem of `[A-Za-z0-9_]`, equal to the name wherever that is possible.

    Where two names come to the same stem, the name that is its own stem keeps it, and each other one takes a short hash
    of its name; so a stem does not depend on the order of the columns.

    Example:
        >>> stems_of(["age", "marital status"])
        {'age': 'age', 'marital status': 'marital_status'}
    """
    plain = {c: ascii_name(c) for c in columns}
    taken = list(plain.values())
    stems = {c: s if s == c or taken.count(s) == 1 else f"{s}_{_digest(c, 6)}" for c, s in plain.items()}
    values = list(stems.values())
    return {c: s if values.count(s) == 1 or s == c else f"{ascii_name(c)}_{_digest(c, 16)}" for c, s in stems.items()}


def grouped(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Bring results to the form of `check_names(None)`: one result a group, with each column's outcome in `observed`.

    A group passes iff all its members pass. A failed group blocks iff one of its failed members blocks; so a null rate
    off by a little stays a warning.
    """
    results = list(results)
    whole = [r for r in results if r.column is None]
    for suffix, name in GROUPS.items():
        members = [r for r in results if r.column is not None and r.name.endswith(f"__{suffix}")]
        whole.append(_group(name, members))
    return whole


def summary(results: Iterable[CheckResult]) -> str:
    """Return one sentence about the checks, for a person."""
    results = list(results)
    failed = [r for r in results if not r.passed]
    if not failed:
        return f"All {len(results)} checks passed."
    blocked = sum(r.blocks for r in failed)
    names = ", ".join(r.name for r in failed[:5]) + (", …" if len(failed) > 5 else "")
    tail = "the table is not published" if blocked else "warnings only"
    return f"{len(failed)} of {len(results)} checks failed ({names}); {tail}."


def together(name: str, subject: str, results: Sequence[CheckResult]) -> CheckResult:
    """Return one result for many: it passes iff all pass, and blocks iff one that failed blocks."""
    failed = [r for r in results if not r.passed]
    observed = {"passed": len(results) - len(failed), "failed": [r.name for r in failed]}
    said = " ".join(r.description for r in failed[:MOST_TOLD])
    text = f"{subject} meets {len(results) - len(failed)} of {len(results)} expectations."
    text += f" Not met: {said}" if said else ""
    return CheckResult(name, not failed, any(r.blocking for r in failed or results), None, text, observed)


def _group(name: str, members: list[CheckResult]) -> CheckResult:
    failed = [r for r in members if not r.passed]
    blocking = any(r.blocking for r in failed) if failed else any(r.blocking for r in members)
    good = len(members) - len(failed)
    title = {"types": "storage type", "domains": "values", "nulls": "nulls"}[name]
    observed = {
        "passed": good,
        "failed": [str(r.column) for r in failed],
        "columns": {str(r.column): {"passed": r.passed, **r.observed} for r in members},
    }
    text = f"The {title} of every column: {good} of {len(members)} as expected."
    return CheckResult(name, not failed, blocking, None, text, observed)


def ascii_name(name: str) -> str:
    """Return a name of `[A-Za-z0-9_]` alone, equal to the given one wherever that is possible."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_") or "column" if plain != name or not _valid(name) else name


def _valid(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_]+", name) is not None


def _digest(name: str, digits: int) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:digits]
