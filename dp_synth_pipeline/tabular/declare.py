"""Combines a source's storage types with what a person declared, and refuses what cannot hold, before a row is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular import formats, offsets
from dp_synth_pipeline.tabular.durations import duration
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import KINDS, Column, Kind, kind_of, lookup, readable
from dp_synth_pipeline.tabular.kinds.surrogates import check_locale
from dp_synth_pipeline.tabular.policies import NullPolicy, OtherPolicy
from dp_synth_pipeline.tabular.storage import is_real, is_text

Facts = Mapping[str, Any]

_DECLARABLE = {f.name for f in fields(Column)} - {"name", "storage"}

SOME = ("pattern", "locale", "max_length", "model", "prompt")
"""Facts that only some kinds have."""


def build(
    storage: Mapping[str, pa.DataType],
    declared: Mapping[str, Facts | None] | None = None,
    *,
    nulls: str = "keep",
    other: str = "drop",
    unit_column: str | None = None,
    complete: bool = False,
    formats: Mapping[str, str] | None = None,
) -> TableSchema:
    """Combine a source's storage types with what a person declared; the declaration wins.

    Args:
        storage: column name to Arrow type, as the source has them.
        declared: column name to facts, which are `description` and the fields of `Column` but for `name` and `storage`.
        nulls: the table's null policy, for columns that declare none.
        other: what becomes of suppressed categories, for text columns that do not declare it.
        unit_column: the privacy unit's column, an identifier unless declared otherwise.
        complete: whether `declared` must name every column.
        formats: column name to the format that a CSV writes it in; a declared one wins.

    Raises:
        InvalidInput: for an unknown column, fact, kind or policy, a storage type that the kind cannot be read from, or a
            bound, constant, zone or format that is none of the column's; or a column that hangs on what it cannot.
    """
    declared = declared or {}
    check_names(list(storage), declared, unit_column, complete)
    columns = []
    for name, arrow_type in storage.items():
        facts = described(name, declared.get(name))
        if name == unit_column or INDEX.fullmatch(name):
            facts.setdefault("kind", "identifier" if name == unit_column else "excluded")
        if facts.get("format") is None:
            facts["format"] = (formats or {}).get(name)
        columns.append(_column(name, arrow_type, facts, nulls, other))
    schema = offsets.checked(TableSchema(tuple(columns)))
    if not schema.learned:
        raise InvalidInput("no column is left to learn; declare fewer columns as identifier, constant or excluded.")
    return schema


def described(name: str, facts: Facts | None) -> dict[str, Any]:
    """Return a column's facts without what changes nothing of how it is read: its description, and that it is after none."""
    if not isinstance((facts or {}).get("description", ""), str):
        raise InvalidInput(f"column {name!r}: description: expected text.")
    said = {fact: value for fact, value in (facts or {}).items() if fact != "description"}
    return {fact: value for fact, value in said.items() if not (fact == offsets.AFTER and value is False)}


INDEX = re.compile(r"__index_level_\d+__")
"""How pandas names a row index without a name in a Parquet file; left out unless somebody declares what it is."""

RESERVED = "__privacy_unit"
"""How names begin that a snapshot gives to columns of its own."""


def check_names(names: Sequence[str], declared: Facts, unit_column: str | None, complete: bool) -> None:
    """Refuse names that the source does not have, or that nobody may use; see `build`."""
    taken = sorted(name for name in names if name.lower().startswith(RESERVED))
    if taken:
        raise InvalidInput(
            f"column {taken[0]!r}: names that begin with {RESERVED} are reserved; rename it in the source."
        )
    unknown = sorted(set(declared) - set(names))
    if unknown:
        raise InvalidInput(
            f"declared column {unknown[0]!r} is not in the source, which has: {', '.join(names)}."
            f"{nearest(unknown[0], names)}"
        )
    if unit_column is not None and unit_column not in names:
        raise InvalidInput(
            f"unit column {unit_column!r} is not in the source, which has: {', '.join(names)}."
            f"{nearest(unit_column, names)}"
        )
    undeclared = sorted(set(names) - set(declared))
    if complete and undeclared:
        raise InvalidInput(
            f"columns: the source has a column {undeclared[0]!r} that is not declared, though columns_complete is true."
        )


def _column(name: str, arrow_type: pa.DataType, facts: dict[str, Any], nulls: str, other: str) -> Column:
    wrong = sorted(set(facts) - _DECLARABLE)
    if wrong:
        known = sorted({*_DECLARABLE, "description"})
        raise InvalidInput(
            f"column {name!r}: unknown fact {wrong[0]!r}; known: {', '.join(known)}.{nearest(wrong[0], known)}"
        )
    kind = _kind(name, arrow_type, facts.pop("kind", None))
    policy = _policy(name, kind, facts, nulls)
    if not readable(arrow_type, kind, name):
        raise InvalidInput(
            f"column {name!r} has storage type {arrow_type}, which is not read as {kind}; cast it in the source, or "
            f"declare another kind, such as category or excluded."
        )
    decimals = facts.get("decimals")
    if decimals is not None and (not isinstance(decimals, int) or decimals < 0):
        raise InvalidInput(f"column {name!r}: decimals: expected a whole number from 0, got {decimals!r}.")
    _check_taken(name, kind, facts)
    facts["categories"] = _categories(name, kind, facts.get("categories"))
    kind.check_declared(name, arrow_type, facts)
    if pa.types.is_time(arrow_type):
        _check_clocks(name, facts)
    for end in ("lower", "upper"):
        value = facts.get(end)
        facts[end] = None if value is None else kind.bound(value, f"column {name!r}: {end}")
    exact.check(name, arrow_type, kind, facts)
    if facts.get("constant") is not None and (kind.learned or kind.fixed):
        _check_constant(facts["constant"], arrow_type, name)
    facts["other"] = _other(name, arrow_type, kind, facts, other)
    facts["format"] = _format(name, arrow_type, facts["format"])
    return Column(name, kind, kind.storage(_zoned(arrow_type, facts.get("zone"), name)), policy, **facts)


def _policy(name: str, kind: Kind, facts: dict[str, Any], nulls: str) -> NullPolicy:
    """Return what becomes of a column's nulls, and take it out of its facts."""
    if facts.get("same_as") is not None and facts.get("nulls") is not None:
        raise InvalidInput(
            f"column {name!r}: same_as: its nulls are those of {facts['same_as']!r}; declare them there."
        )
    policy = _member(NullPolicy, facts.pop("nulls", None) or nulls, f"column {name!r}: nulls")
    if kind.composed and policy not in (NullPolicy.KEEP, NullPolicy.DROP):
        raise InvalidInput(
            f"column {name!r}: nulls: {policy}: a text has no such value; declare nulls: keep or drop for it."
        )
    if policy is NullPolicy.CONSTANT and facts.get("constant") is None and kind.learned:
        raise InvalidInput(f"column {name!r}: nulls: constant needs a value, as in 'constant: unknown'.")
    return policy


def _check_taken(name: str, kind: Kind, facts: dict[str, Any]) -> None:
    """Refuse a fact of a kind that has none such, and a locale that nobody knows."""
    for fact in SOME:
        if facts.get(fact) is not None and fact not in kind.takes:
            having = ", ".join(k.name for k in KINDS.values() if fact in k.takes)
            raise InvalidInput(f"column {name!r}: {fact}: kind {kind} has none; these have: {having}.")
    if facts.get("locale") is not None:
        check_locale(facts["locale"], f"column {name!r}: locale")


def _kind(name: str, arrow_type: pa.DataType, declared: Any) -> Kind:
    """Return the declared kind, else the one that recognises the storage type."""
    if not declared:
        return kind_of(name, arrow_type)
    try:
        return lookup(declared)
    except InvalidInput as error:
        raise InvalidInput(f"column {name!r}: kind: {error}") from None


def _categories(name: str, kind: Kind, declared: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Return declared categories as text; truth values as YAML writes them."""
    if declared is None:
        return None
    if isinstance(declared, Mapping):
        raise InvalidInput(f"column {name!r}: categories: a public table is read by a release alone; list its values.")
    if kind.learned and not kind.categorical:
        raise InvalidInput(f"column {name!r}: kind {kind} takes no categories; write kind: category or kind: ordinal.")
    return tuple(str(v).lower() if v is True or v is False else str(v) for v in declared)


def _check_clocks(name: str, facts: dict[str, Any]) -> None:
    """Refuse a bare number for a time of day: it is what YAML makes of 18:30 without quotes, in minutes."""
    for fact in ("lower", "upper", "constant"):
        if isinstance(facts.get(fact), (int, float)):
            raise InvalidInput(
                f"column {name!r}: {fact}: a time of day goes in quotes, as in {fact}: '18:30'; without them YAML reads a "
                f"number, and found {facts[fact]}."
            )


def _check_constant(value: Any, arrow_type: pa.DataType, name: str) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        if pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type):
            datetime.fromisoformat(text)
        elif pa.types.is_duration(arrow_type) or pa.types.is_interval(arrow_type):
            duration(value)
        elif pa.types.is_time(arrow_type):
            if not timedelta(0) <= duration(value) < timedelta(days=1):
                raise ValueError("not a time of day")
        elif not is_text(arrow_type):
            pa.scalar(text).cast(arrow_type)
    except (pa.ArrowException, ValueError):
        raise InvalidInput(
            f"column {name!r}: constant {value!r} is not a value of storage type {arrow_type}."
        ) from None


def _other(name: str, arrow_type: pa.DataType, kind: Kind, facts: dict[str, Any], table: str) -> OtherPolicy:
    """Return what becomes of suppressed categories; the table's policy holds where a label can be written."""
    if not isinstance(facts.get("other_label", "other"), str):
        raise InvalidInput(f"column {name!r}: other_label must be text, got {facts['other_label']!r}.")
    writable = kind.categorical and is_text(arrow_type)
    default = _member(OtherPolicy, table, "other")
    if "other" not in facts:
        return default if writable else OtherPolicy.DROP
    policy = _member(OtherPolicy, facts["other"], f"column {name!r}: other")
    if policy is OtherPolicy.DRAW and not writable:
        raise InvalidInput(
            f"column {name!r}: other: draw writes a label for unnamed values, which takes text categories; this column "
            f"is {kind} stored as {arrow_type}. Use other: drop, or cast it to text in the source."
        )
    return policy


def _format(name: str, arrow_type: pa.DataType, value: Any) -> str | None:
    if value is None:
        return None
    format = formats.check(name, value)
    if format in formats.NOTATIONS:
        if not (pa.types.is_integer(arrow_type) or is_real(arrow_type)):
            raise InvalidInput(f"column {name!r}: format: {format!r} needs numbers; storage type {arrow_type} is none.")
        return format
    dated = pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type)
    if not dated and not pa.types.is_time(arrow_type):
        raise InvalidInput(
            f"column {name!r}: format needs dates, datetimes or times of day; storage type {arrow_type} is none. Remove it."
        )
    if dated != formats.of_day(format):
        have, want = (
            ("times of day", "a day, as in %d.%m.%Y") if dated else ("days", "a time of day alone, as in %H:%M")
        )
        raise InvalidInput(
            f"column {name!r}: format: {format!r} is one of {have}; storage type {arrow_type} takes {want}."
        )
    if getattr(arrow_type, "tz", None) is not None and not formats.in_utc(format):
        raise InvalidInput(
            f"column {name!r}: format: datetimes with a zone are written in UTC, so it should end in Z or +00:00, got "
            f"{format!r}."
        )
    return format


def _zoned(arrow_type: pa.DataType, zone: str | None, name: str) -> pa.DataType:
    """Return the storage type in the declared zone; only a type that has a zone can change it."""
    if zone is None:
        return arrow_type
    if not pa.types.is_timestamp(arrow_type) or arrow_type.tz is None:
        raise InvalidInput(
            f"column {name!r}: zone needs datetimes with a zone; storage type {arrow_type} has none, and keeps none."
        )
    try:
        ZoneInfo(str(zone))
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"column {name!r}: zone: expected a name such as Europe/Paris, got {zone!r}.") from None
    return pa.timestamp(arrow_type.unit, str(zone))


def _member(enum: type[StrEnum], value: Any, what: str) -> Any:
    try:
        return enum(str(value))
    except ValueError:
        raise InvalidInput(f"{what}: expected one of {', '.join(enum)}, got {value!r}.{nearest(value, enum)}") from None
