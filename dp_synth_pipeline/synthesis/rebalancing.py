"""Shares that a person asks for: which groups of rows are drawn, and how many of each. Free, like every draw.

With one column, each named value is a group and all others together are one more; within a group rows come as the model has
them, so values that are not named share what is left in proportion. With several columns, the groups are their
combinations: their shares are the nearest ones to the model's that have the shares asked for (iterative proportional
fitting, Deming & Stephan 1940), found on rows that were drawn without them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.condition import value_literal
from dp_synth_pipeline.tabular.sql import quoted

Share = Mapping[str, Mapping[Any, float]]
"""By column: parts of the rows, by value; None stands for null."""

MOST_GROUPS = 64

ROUNDS, CLOSE = 500, 1e-3
"""Rounds of proportional fitting, and how near each share must come."""

FORM = "write parts of all rows by value, as in {'y': {'yes': 0.5}}"

Holds = Callable[[str, pa.Table], np.ndarray]
"""Says which rows satisfy an SQL condition."""


def groups(share: Share) -> list[list[tuple[str, float]]]:
    """Return for each column its groups, each an SQL condition and the part of the rows that it is to have.

    Raises:
        InvalidInput: if parts are none, add up to more than 1, or make too many groups.

    Example:
        >>> groups({"y": {"yes": 0.5}})
        [[('"y" = \\'yes\\'', 0.5), ('("y" NOT IN (\\'yes\\') OR "y" IS NULL)', 0.5)]]
    """
    if not isinstance(share, Mapping) or not share or not all(isinstance(v, Mapping) and v for v in share.values()):
        raise InvalidInput(f"share: {FORM}.")
    found = [_of_column(name, parts) for name, parts in share.items()]
    if math.prod(map(len, found)) > MOST_GROUPS:
        raise InvalidInput(
            f"share: its values make {math.prod(map(len, found)):,} groups, and {MOST_GROUPS} are the most; name fewer "
            f"columns or values."
        )
    return found


def _of_column(name: str, parts: Mapping[Any, float]) -> list[tuple[str, float]]:
    for value, part in parts.items():
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 <= part <= 1:
            raise InvalidInput(f"share: {name}: {value}: a part lies between 0 and 1, got {part!r}; {FORM}.")
    total, column = math.fsum(parts.values()), quoted(name)
    if total > 1 + 1e-9:
        raise InvalidInput(f"share: the parts of {name!r} add up to {total:g}, which is more than 1.")
    found = [(f"{column} IS NULL" if v is None else f"{column} = {value_literal(v)}", p) for v, p in parts.items()]
    if total < 1 - 1e-9:
        named = ", ".join(value_literal(v) for v in parts if v is not None)
        tests = [f"{column} NOT IN ({named})"] if named else []
        tests += [f"{column} IS NOT NULL"] if None in parts else [f"{column} IS NULL"] if named else []
        joined = (" AND " if None in parts else " OR ").join(tests)
        found.append((f"({joined})" if len(tests) > 1 else joined, 1 - total))
    return found


def planned(share: Share, rows: int, pilot: Callable[[], pa.Table], holds: Holds) -> list[tuple[str, int]]:
    """Return the groups to draw, each an SQL condition and its number of rows; together they are `rows`.

    Args:
        pilot: draws rows without the shares; called only for several columns.
        holds: judges them.
    """
    columns = groups(share)
    shares = np.array([part for _, part in columns[0]])
    if len(columns) > 1:
        shares = _fitted(columns, pilot(), holds)
    names = [" AND ".join(sql for sql, _ in chosen) for chosen in itertools.product(*columns)]
    counts = _whole(shares.ravel(), rows)
    return [(name, int(count)) for name, count in zip(names, counts, strict=True) if count]


def _fitted(columns: list[list[tuple[str, float]]], drawn: pa.Table, holds: Holds) -> np.ndarray:
    """Return the shares of all combinations, an axis for each column."""
    place = np.zeros(drawn.num_rows, dtype=np.int64)
    for column in columns:
        held = np.stack([holds(sql, drawn) for sql, _ in column])
        place = place * len(column) + held.argmax(0)
    sizes = [len(column) for column in columns]
    joint = np.bincount(place, minlength=math.prod(sizes)).reshape(sizes) / max(drawn.num_rows, 1)
    wanted = [np.array([part for _, part in column]) for column in columns]
    for _ in range(ROUNDS):
        for axis, parts in enumerate(wanted):
            joint = joint * _along(parts / np.maximum(_margin(joint, axis), 1e-300), axis, joint.ndim)
    for axis, parts in enumerate(wanted):
        if np.abs(_margin(joint, axis) - parts).max() > CLOSE:
            sql = columns[axis][int(np.abs(_margin(joint, axis) - parts).argmax())][0]
            raise InvalidInput(
                f"share: no rows were drawn that give all these shares at once, such as that of {sql}; ask for one column "
                f"only, or for other parts."
            )
    return joint / joint.sum()


def _margin(joint: np.ndarray, axis: int) -> np.ndarray:
    return joint.sum(tuple(a for a in range(joint.ndim) if a != axis))


def _along(values: np.ndarray, axis: int, dimensions: int) -> np.ndarray:
    return values.reshape([-1 if a == axis else 1 for a in range(dimensions)])


def _whole(shares: np.ndarray, rows: int) -> np.ndarray:
    """Return whole numbers that add up to `rows`, by largest remainder."""
    exact = shares * rows
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = rows - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts
