"""What a table's declared facts say about the cells of a CSV, before the file is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.kinds.base import KINDS
from dp_synth_pipeline.tabular.sources.csv.values import MOMENT, TEMPORAL, TEXT, CellType
from dp_synth_pipeline.tabular.storage import is_text


@dataclass(frozen=True)
class Untyped:
    """A column whose type must be measured, and what a person declared about it nevertheless.

    Attributes:
        name: the column.
        allowed: the SQL types that its declared kind allows; None for all.
        numbers: whether digits that begin with 0 are numbers.
    """

    name: str
    allowed: tuple[str, ...] | None = None
    numbers: bool = False

    @property
    def otherwise(self) -> CellType:
        """What its cells are taken for where noise hides what they are, and by a filter, which comes before any noise."""
        return CellType(self.allowed[0] if self.allowed else "DOUBLE" if self.numbers else TEXT)


def cell_type(name: str, facts: Mapping[str, Any] | None) -> CellType | Untyped:
    """Return what the cells of a column are by declaration, or what must be measured.

    A declared kind, format or list of categories tells it, but for dates and datetimes without a format: there are many
    ways to write one.

    Raises:
        InvalidInput: for a format that is none.
    """
    facts = facts or {}
    kind = KINDS.get(str(facts.get("kind")))
    known = kind.csv_type(facts) if kind is not None else TEXT if facts.get("categories") else None
    format = None if facts.get("format") is None else formats.check(name, facts["format"])
    if format is not None and (known in (None, "DOUBLE", "INTERVAL", *TEMPORAL) or (kind is not None and kind.fixed)):
        return _formatted(format)
    if known in TEMPORAL:
        return Untyped(name, TEMPORAL[TEMPORAL.index(known) :])
    return CellType(known) if known is not None else Untyped(name, numbers=_are_numbers(facts))


def as_iso(name: str, facts: Mapping[str, Any] | None) -> CellType | None:
    """Return what the cells of a column declared to hold dates or datetimes are if ISO's way is the one they are written in.

    It is None where a format is declared, or none of these kinds.
    """
    cells = cell_type(name, facts)
    return cells.otherwise if isinstance(cells, Untyped) and cells.allowed else None


def of_texts(
    storage: Mapping[str, pa.DataType], declared: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, CellType]:
    """Return what the cells of a source's text columns are that are declared to be of a kind that no text is.

    Where a CSV's dates are measured for want of a format, they are read as ISO writes them.
    """
    found: dict[str, CellType] = {}
    for name, arrow_type in storage.items():
        facts = declared.get(name)
        kind = KINDS.get(str(facts.get("kind"))) if isinstance(facts, Mapping) else None
        if kind is not None and kind.learned and is_text(arrow_type) and not kind.reads(arrow_type):
            cells = cell_type(name, facts)
            found[name] = cells.otherwise if isinstance(cells, Untyped) else cells
    return found


def _are_numbers(facts: Mapping[str, Any]) -> bool:
    """Whether bounds or digits after the point say that a column holds numbers, and no codes."""
    return any(isinstance(facts.get(fact), (int, float)) for fact in ("lower", "upper", "decimals"))


def _formatted(format: str) -> CellType:
    if format in formats.NOTATIONS:
        return CellType("DOUBLE", format)
    if not formats.of_day(format):
        return CellType("TIME", format, strict=True)
    moment = MOMENT if formats.in_utc(format) else "TIMESTAMP"
    return CellType(moment if formats.of_clock(format) else "DATE", format, strict=True)
