"""Pairs numbers of two tables that may be the same in rows which lie beside each other, such as what was ordered and paid.

Which they are follows from names and types alone, which are public. A pair that was guessed wrongly costs little: a row is
told of one more number, and has one more code to learn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dp_synth_pipeline.tabular.kinds.base import NUMBER, Column
from dp_synth_pipeline.tabular.recognition import words_of

LEAST_LETTERS = 3
"""Letters of a word that tells that two columns are about the same, at least."""


def pairs(own: Sequence[Column], other: Sequence[Column]) -> dict[str, str]:
    """Return the names of numbers of one table, each with that of another one that is stored in the same way.

    First come those of one name; then those whose names have a word in common, in the order of the tables; then, if one of a
    type is left in each table, these. Dates, and lengths of time, are paired by their whole names alone.

    Args:
        own: columns of one table on a number line; other: of another one.

    Example:
        >>> import pyarrow as pa
        >>> from dp_synth_pipeline.tabular.schema import build
        >>> own, other = ({"amount": pa.float64(), "fee_paid": pa.int64()}, {"total": pa.float64(), "fee": pa.int64()})
        >>> pairs(build(own, {}).columns, build(other, {}).columns)
        {'fee_paid': 'fee', 'amount': 'total'}
    """
    found: dict[str, str] = {}
    for alike in (_of_one_name, _of_one_word):
        for mine in own:
            left = _left(other, found.values(), mine)
            theirs = next((column for column in left if alike(mine, column)), None)
            if mine.name not in found and theirs is not None:
                found[mine.name] = theirs.name
    return found | _only_ones(
        [c for c in own if c.name not in found], [c for c in other if c.name not in found.values()]
    )


def _only_ones(own: Sequence[Column], other: Sequence[Column]) -> dict[str, str]:
    """Return numbers that are the only ones of their type in both tables."""
    found = {}
    for arrow_type in dict.fromkeys(c.arrow_type for c in own):
        mine, theirs = (
            [c.name for c in columns if c.kind.family == NUMBER and c.arrow_type == arrow_type]
            for columns in (own, other)
        )
        if len(mine) == len(theirs) == 1:
            found[mine[0]] = theirs[0]
    return found


def _left(other: Sequence[Column], taken: Collection[str], mine: Column) -> list[Column]:
    return [c for c in other if c.name not in taken and c.arrow_type == mine.arrow_type]


def _of_one_name(mine: Column, theirs: Column) -> bool:
    return mine.name == theirs.name


def _of_one_word(mine: Column, theirs: Column) -> bool:
    numbers = mine.kind.family == theirs.kind.family == NUMBER
    words, others = ({w for w in words_of(column.name) if len(w) >= LEAST_LETTERS} for column in (mine, theirs))
    return numbers and not words.isdisjoint(others)
