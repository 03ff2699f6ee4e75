"""Public facts about columns: kind, storage type, domain, bounds and null handling, declared by a person or left open.

Whatever is declared is public, costs nothing and is named as public on the release card. Whatever is left open is
discovered by the profile, at a charge. Column names and storage types are always public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput


class Kind(StrEnum):
    """What a column means to the codec."""

    CATEGORY = "category"
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    IDENTIFIER = "identifier"
    """Regenerated as a running number, never read and never learned."""
    EXCLUDED = "excluded"
    """Neither read nor published."""

    @property
    def learned(self) -> bool:
        """Whether the profile and the generator look at this column."""
        return self not in (Kind.IDENTIFIER, Kind.EXCLUDED)

    @property
    def numeric(self) -> bool:
        """Whether values lie on an axis, so that bounds, bins and a mean make sense."""
        return self in (Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.DATETIME)


class NullPolicy(StrEnum):
    """What becomes of a null before training."""

    KEEP = "keep"
    """Missingness is modelled and reproduced."""
    MEAN = "mean"
    """The private mean, or the private mode of a category."""
    DROP = "drop"
    """The whole row is left out."""
    CONSTANT = "constant"
    """A declared value."""


@dataclass(frozen=True)
class Column:
    """One column's public facts; `None` means not declared, so the profile measures it.

    `lower` and `upper` are numbers, or dates for a date column. `categories` are the allowed values as text.
    """

    name: str
    kind: Kind
    storage: str
    nulls: NullPolicy = NullPolicy.KEEP
    constant: Any = None
    categories: tuple[str, ...] | None = None
    lower: int | float | date | datetime | None = None
    upper: int | float | date | datetime | None = None
    decimals: int | None = None

    def __post_init__(self) -> None:
        if self.nulls is NullPolicy.CONSTANT and self.constant is None:
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
        names = ("categories", "lower", "upper", "decimals", "constant")
        return tuple(n for n in names if getattr(self, n) is not None)


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
        """The Arrow schema of the synthetic table."""
        return pa.schema([pa.field(c.name, c.arrow_type) for c in self.published])


_DECLARABLE = {f.name for f in fields(Column)} - {"name", "storage"}

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.CATEGORY, Kind.IDENTIFIER)

_READABLE_AS = {
    Kind.BOOLEAN: (Kind.BOOLEAN, Kind.CATEGORY),
    Kind.INTEGER: _NUMBERS,
    Kind.DECIMAL: _NUMBERS,
    Kind.DATE: (Kind.DATE, Kind.CATEGORY),
    Kind.DATETIME: (Kind.DATETIME, Kind.DATE, Kind.CATEGORY),
    Kind.CATEGORY: (Kind.CATEGORY, Kind.IDENTIFIER),
}
"""For the kind that a storage type suggests, the kinds that its values can be read as and written back from."""


def build(
    storage: Mapping[str, pa.DataType],
    declared: Mapping[str, Mapping[str, Any] | None] | None = None,
    *,
    nulls: str = "keep",
    unit_column: str | None = None,
    complete: bool = False,
) -> TableSchema:
    """Combine a source's storage types with what a person declared; the declaration wins.

    Args:
        storage: column name to Arrow type, as the source has them.
        declared: column name to declared facts (`kind`, `nulls`, `constant`, `categories`, `lower`, `upper`, `decimals`).
        nulls: the table's null policy, for columns that declare none.
        unit_column: the privacy unit's column, an identifier unless declared otherwise.
        complete: whether `declared` must name every column.

    Raises:
        InvalidInput: for an unknown column, fact, kind or policy, a storage type that the kind cannot be read from, or a
            bound or constant that is no value of the column.
    """
    declared = declared or {}
    unknown = sorted(set(declared) - set(storage))
    if unknown:
        raise InvalidInput(f"declared column {unknown[0]!r} is not in the source, which has: {', '.join(storage)}.")
    if unit_column is not None and unit_column not in storage:
        raise InvalidInput(f"unit column {unit_column!r} is not in the source, which has: {', '.join(storage)}.")
    left = sorted(set(storage) - set(declared))
    if complete and left:
        raise InvalidInput(
            f"the source has a column {left[0]!r} that is not declared, though columns_complete is true."
        )
    columns = []
    for name, arrow_type in storage.items():
        facts = dict(declared.get(name) or {})
        wrong = sorted(set(facts) - _DECLARABLE)
        if wrong:
            raise InvalidInput(f"column {name!r}: unknown fact {wrong[0]!r}; known: {', '.join(sorted(_DECLARABLE))}.")
        if name == unit_column:
            facts.setdefault("kind", Kind.IDENTIFIER)
        kind = _member(Kind, facts.pop("kind", None) or kind_of(name, arrow_type), f"column {name!r}: kind")
        policy = _member(NullPolicy, facts.pop("nulls", None) or nulls, f"column {name!r}: nulls")
        if policy is NullPolicy.CONSTANT and facts.get("constant") is None:
            raise InvalidInput(f"column {name!r}: nulls: constant needs a value, as in 'constant: unknown'.")
        if kind is not Kind.EXCLUDED and kind not in _READABLE_AS[kind_of(name, arrow_type)]:
            raise InvalidInput(
                f"column {name!r} has storage type {arrow_type}, which is not read as {kind}; cast it in the source, or "
                f"declare another kind, such as category or excluded."
            )
        if facts.get("categories") is not None:
            facts["categories"] = tuple(
                str(v).lower() if v is True or v is False else str(v) for v in facts["categories"]
            )
        for end in ("lower", "upper"):
            facts[end] = _bound(kind, facts.get(end), f"column {name!r}: {end}")
        if facts.get("constant") is not None and kind.learned:
            _check_constant(facts["constant"], arrow_type, name)
        columns.append(Column(name, kind, format_storage(arrow_type, kind), policy, **facts))
    schema = TableSchema(tuple(columns))
    if not schema.learned:
        raise InvalidInput("no column is left to learn; declare fewer columns as identifier or excluded.")
    return schema


def kind_of(name: str, arrow_type: pa.DataType) -> Kind:
    """Infer a column's kind from its storage type alone, which is public; values are never looked at."""
    t = pa.types
    if t.is_boolean(arrow_type):
        return Kind.BOOLEAN
    if t.is_integer(arrow_type):
        return Kind.INTEGER
    if t.is_floating(arrow_type) or t.is_decimal(arrow_type):
        return Kind.DECIMAL
    if t.is_date(arrow_type):
        return Kind.DATE
    if t.is_timestamp(arrow_type):
        return Kind.DATETIME
    if _is_text(arrow_type):
        return Kind.CATEGORY
    raise InvalidInput(
        f"column {name!r} has storage type {arrow_type}, which cannot be synthesized; "
        f"cast it in the source, or declare it: columns: {{{name}: {{kind: excluded}}}}."
    )


def format_storage(arrow_type: pa.DataType, kind: Kind) -> str:
    """Name the storage type of the synthetic column; text of every width becomes `string`.

    Identifiers number the synthetic rows, of which there may be more than a narrow integer can count.
    """
    if kind.learned or kind is Kind.IDENTIFIER:
        if _is_text(arrow_type):
            return "string"
        if kind is Kind.IDENTIFIER and pa.types.is_integer(arrow_type) and arrow_type.bit_width < 32:
            return "int64"
    return str(arrow_type)


def parse_storage(storage: str) -> pa.DataType:
    """Read back an Arrow type that `format_storage` wrote."""
    if storage.startswith("timestamp["):
        unit, _, zone = storage[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    if storage.startswith("decimal128("):
        precision, scale = storage[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if storage.startswith("date32"):
        return pa.date32()
    if storage.startswith("date64"):
        return pa.date64()
    return pa.type_for_alias(storage)


def with_nulls(schema: TableSchema, policy: NullPolicy) -> TableSchema:
    """Return the schema with one null policy for every column."""
    return TableSchema(tuple(replace(c, nulls=policy) for c in schema))


def _is_text(arrow_type: pa.DataType) -> bool:
    t = pa.types
    return (
        t.is_string(arrow_type) or t.is_large_string(arrow_type) or t.is_dictionary(arrow_type) or t.is_null(arrow_type)
    )


def _bound(kind: Kind, value: Any, what: str) -> Any:
    """Return a declared bound as a point of the kind's number line; dates may be written as ISO text."""
    if value is None:
        return None
    wanted = {Kind.DATE: date, Kind.DATETIME: datetime}.get(kind)
    if wanted is not None:
        try:
            parsed = wanted.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            parsed = None
        if isinstance(parsed, date):
            return parsed
    elif kind.numeric and isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    expected = "a date, as in 2024-01-31" if wanted is not None else "a finite number" if kind.numeric else "no bound"
    raise InvalidInput(f"{what}: a column of kind {kind} takes {expected}, got {value!r}.")


def _check_constant(value: Any, arrow_type: pa.DataType, name: str) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        if pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type):
            datetime.fromisoformat(text)
        elif not _is_text(arrow_type):
            pa.scalar(text).cast(arrow_type)
    except (pa.ArrowException, ValueError):
        raise InvalidInput(
            f"column {name!r}: constant {value!r} is not a value of storage type {arrow_type}."
        ) from None


def _member(enum: type[StrEnum], value: Any, what: str) -> Any:
    try:
        return enum(str(value))
    except ValueError:
        raise InvalidInput(f"{what}: expected one of {', '.join(enum)}, got {value!r}.") from None
