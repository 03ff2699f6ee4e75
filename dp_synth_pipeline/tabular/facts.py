"""A table's public facts: an immutable value that every room may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.kinds.base import Column


@dataclass(frozen=True)
class TableSchema:
    """An immutable sequence of columns with unique names.

    Attributes:
        columns: in table order.
        order: what rows of a history are ordered by; not among the columns, since distances from row to row are learnt.
    """

    columns: tuple[Column, ...]
    order: Column | None = None

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
    def last(self) -> Column | None:
        """The last of what a person's rows are ordered by, as a column of one row of each person; None without an order."""
        return None if self.order is None else replace(self.order, name=f"{self.order.name}: the last")

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in table order."""
        return tuple(c.name for c in self.columns)

    @property
    def learned(self) -> tuple[Column, ...]:
        """The columns that the profile measures and the generator models, in table order."""
        return tuple(c for c in self.columns if c.kind.learned)

    @property
    def compared(self) -> tuple[Column, ...]:
        """The learned columns whose values are compared one by one: all but texts, in table order."""
        return tuple(c for c in self.learned if not c.kind.composed)

    @property
    def published(self) -> tuple[Column, ...]:
        """The columns of the synthetic table, in table order."""
        return tuple(c for c in self.columns if c.kind.published)

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the synthetic table; the format of a column goes with its field."""
        return pa.schema([pa.field(c.name, c.arrow_type, metadata=_metadata(c)) for c in self.published])


def _metadata(column: Column) -> dict[bytes, bytes] | None:
    return None if column.format is None else {formats.FORMAT: column.format.encode()}
