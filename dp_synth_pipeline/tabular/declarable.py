"""Refuses declared facts that would hold for no storage type, before there is a source to ask for its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import declare, offsets

STORAGE = (
    *(pa.string(), pa.bool_(), pa.int64(), pa.uint64(), pa.int8(), pa.float64(), pa.float32()),
    *(pa.decimal128(38, 10), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.time64("us")),
    *(pa.duration("us"), pa.month_day_nano_interval(), pa.dictionary(pa.int32(), pa.string())),
)
"""One type of each sort that a source may have."""

OTHER = "a column beside it"
FROM, COLUMN, FILTER = "from", "column", "filter"
"""What categories that are read from a public table are declared by."""

HERE_ONLY = ("storage type", "which is not read as")
"""What refusals say that may be the storage type's fault, and that surely are."""


def mistakes(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with columns' declared facts whatever their source holds, by column.

    Example:
        >>> mistakes({"age": {"lower": 0}, "sex": {"nulls": "delete"}})
        {'sex': "nulls: expected one of keep, mean, median, mode, drop, constant, got 'delete'."}
    """
    found = {name: _mistake(name, facts, columns) for name, facts in columns.items()}
    return {name: mistake for name, mistake in found.items() if mistake}


def _mistake(name: str, facts: Any, columns: Mapping[str, Any]) -> str:
    if facts is not None and not isinstance(facts, Mapping):
        return f"expected facts such as {{kind: category}}, or nothing, got {facts!r}."
    try:
        facts = _listed(facts)
    except InvalidInput as error:
        return str(error)
    if path := offsets.circle(name, {n: _base(of) for n, of in columns.items()}):
        return offsets.circle_text(path)
    base, refusals = _base(facts), []
    of_base = columns.get(base or "")
    other = {k: v for k, v in of_base.items() if k not in offsets.HANGS} if isinstance(of_base, Mapping) else {}
    for arrow_type, other_type in product(STORAGE, STORAGE if base is not None else STORAGE[:1]):
        try:
            beside = {} if base is None else {base: other_type}
            declare.build(
                {**beside, OTHER: pa.int64(), name: arrow_type}, {**dict.fromkeys(beside, other), name: facts}
            )
        except InvalidInput as error:
            if str(error).startswith(f"column {base!r}"):  # its own mistake, which is told there
                continue
            refusals.append(str(error).removeprefix(f"column {name!r}").removeprefix(":").strip())
        else:
            return ""
    if not refusals:
        return ""
    for words in HERE_ONLY:
        refusals = [text for text in refusals if words not in text] or refusals
    return Counter(refusals).most_common(1)[0][0]


def _listed(facts: Any) -> Any:
    """Return a column's facts with some category in place of those of a public table, which is not read here."""
    named = (facts or {}).get("categories")
    if not isinstance(named, Mapping):
        return facts
    if (
        not isinstance(named.get(FROM), str)
        or not all(isinstance(named.get(name, ""), str) for name in (COLUMN, FILTER))
        or set(named) - {FROM, COLUMN, FILTER}
    ):
        raise InvalidInput("categories: expected a list, or a public table as {from: codes.parquet, column: code}.")
    if facts.get("kind") == "ordinal":
        raise InvalidInput("categories: a table's rows have no order; list the categories of kind: ordinal in theirs.")
    return {**facts, "categories": ["1"]}


def _base(facts: Any) -> str | None:
    """Return the column that one hangs on by what a person wrote; None if by nothing that could be a name."""
    facts = facts if isinstance(facts, Mapping) else {}
    named = facts.get(offsets.AFTER, facts.get(offsets.SAME_AS))
    return named if isinstance(named, str) else None
