"""What a table's declared facts say about the cells of a CSV, before the file is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dp_synth_pipeline.tabular.kinds.base import KINDS

BOUNDS = {"lower", "upper", "decimals"}
"""Facts that declare digits to be numbers, and no codes."""


@dataclass(frozen=True)
class DeclaredCells:
    """What a person declared about the cells of a CSV.

    Attributes:
        text, durations, booleans: columns whose cells are read as this, and whose type is not guessed.
        formats: column to the format that its cells are written in.
        others: columns that are no dates.
        names: columns whose cells are names, or are not read.
        numbers: columns whose cells are numbers, though they begin with 0.
    """

    text: tuple[str, ...] = ()
    durations: tuple[str, ...] = ()
    booleans: tuple[str, ...] = ()
    formats: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def declared_cells(columns: Mapping[str, Any]) -> DeclaredCells:
    """Pick what declared facts say about a CSV's cells; whether it can hold is checked once the file is open."""
    facts = {n: f or {} for n, f in columns.items()}
    kinds = {n: KINDS.get(str(f.get("kind"))) for n, f in facts.items()}
    undeclared = [n for n, f in facts.items() if f.get("kind") is None]
    dates = [n for n, k in kinds.items() if n in undeclared or (k is not None and k.csv_dates(facts[n]))]
    values = [n for n, k in kinds.items() if n in undeclared or (k is not None and not k.csv_names)]
    numbers = [n for n, k in kinds.items() if facts[n].keys() & BOUNDS or (k is not None and k.csv_numbers)]
    listed = [n for n, f in facts.items() if f.get("categories")]
    text, durations, booleans = (
        tuple(n for n, k in kinds.items() if k is not None and k.csv_type == sql_type)
        for sql_type in ("VARCHAR", "INTERVAL", "BOOLEAN")
    )
    return DeclaredCells(
        text,
        durations,
        booleans,
        formats={n: facts[n]["format"] for n in dates if facts[n].get("format") is not None},
        others=tuple(n for n in facts if n not in dates or n in listed),
        names=tuple(n for n in facts if n not in values or n in listed),
        numbers=tuple(n for n in numbers if n not in listed),
    )
