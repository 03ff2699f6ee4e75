"""One column's public facts, and a table's: an immutable value that every room may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import spelling
from dp_synth_pipeline.tabular.kinds import Kind, NullPolicy, OtherPolicy, parse_storage

Bound = int | float | date | datetime | timedelta
"""A declared end of a number line."""


@dataclass(frozen=True)
class Column:
    """One column's public facts; `None` means not declared, so the profile measures it.

    Attributes:
        name, kind: the column, and what it means to the codec.
        storage: Arrow type of the synthetic column, as text.
        nulls: what becomes of a null before training.
        constant: what `nulls: constant` fills in, or the value of a constant column.
        categories: the allowed values as text; in order, for an ordinal column.
        lower, upper: numbers, dates, datetimes or durations.
        decimals: digits after the point.
        zone: time zone that datetimes are written in.
        other: what becomes of values that are not named.
        other_label: what `other: draw` writes for them; public.
        format: how dates and times are written in a CSV, for strftime; declared, or found in a CSV. Public.
    """

    name: str
    kind: Kind
    storage: str
    nulls: NullPolicy = NullPolicy.KEEP
    constant: Any = None
    categories: tuple[str, ...] | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    decimals: int | None = None
    zone: str | None = None
    other: OtherPolicy = OtherPolicy.DROP
    other_label: str = "other"
    format: str | None = None

    def __post_init__(self) -> None:
        if self.nulls is NullPolicy.CONSTANT and self.constant is None and self.kind.learned:
            raise InvalidInput(f"column {self.name!r}: nulls: constant needs a value, as in 'constant: unknown'.")
        if self.lower is not None and self.upper is not None and self._crossed():
            raise InvalidInput(f"column {self.name!r}: lower is above upper.")
        if self.categories is not None and len(set(self.categories)) != len(self.categories):
            raise InvalidInput(f"column {self.name!r}: a category is declared twice.")

    def _crossed(self) -> bool:
        try:
            return self.lower > self.upper  # type: ignore[operator]
        except TypeError:
            raise InvalidInput(f"column {self.name!r}: lower and upper must be of one type.") from None

    @property
    def arrow_type(self) -> pa.DataType:
        """The storage type that the synthetic column will have."""
        return parse_storage(self.storage)

    @property
    def declared(self) -> tuple[str, ...]:
        """Names of the facts that a person declared about this column."""
        names = ("categories", "lower", "upper", "decimals", "constant", "zone")
        return tuple(n for n in names if getattr(self, n) is not None)

    @property
    def label(self) -> str | None:
        """What stands for values without a name; None if generation leaves them out."""
        return self.other_label if self.other is OtherPolicy.DRAW and self.kind.named else None


@dataclass(frozen=True)
class TableSchema:
    """An immutable sequence of columns with unique names."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise InvalidInput(f"duplicate column name {twice[0]!r}; rename one of them in the source.")

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidInput(f"no column {name!r}; the table has: {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in table order."""
        return tuple(c.name for c in self.columns)

    @property
    def learned(self) -> tuple[Column, ...]:
        """The columns that the profile measures and the generator models, in table order."""
        return tuple(c for c in self.columns if c.kind.learned)

    @property
    def published(self) -> tuple[Column, ...]:
        """The columns of the synthetic table, in table order."""
        return tuple(c for c in self.columns if c.kind is not Kind.EXCLUDED)

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the synthetic table; the format of a column goes with its field."""
        return pa.schema([pa.field(c.name, c.arrow_type, metadata=_metadata(c)) for c in self.published])


def _metadata(column: Column) -> dict[bytes, bytes] | None:
    return None if column.format is None else {spelling.FORMAT: column.format.encode()}
