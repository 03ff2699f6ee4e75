"""Rules between two columns that every real row keeps and that synthetic rows break: a person may want to declare them.

Restricted: that every real row keeps a rule is a fact about the rows, found without noise. Whoever declares it says that it
is public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.constraints.hold import numbers
from dp_synth_pipeline.tabular.schema import TableSchema

MOST_RULES = 8
MOST_COLUMNS = 40
"""Columns of a table whose order is compared, at most, the first ones."""

FEWEST = 100
"""Real rows in which both values are known, from which a rule is believed."""

BY_CHANCE = 0.05
"""A rule that so few rows would break if one column were shuffled says little: an age below every income."""

BROKEN = 0.01
"""Share of the synthetic rows that break a rule, from which it is worth a line."""


@dataclass(frozen=True)
class SuggestedRule:
    """One rule.

    Attributes:
        line: as a line of YAML under `rules:`.
        rows: real rows that keep it: all in which both values are known.
        broken: share of the synthetic rows, of those with both values, that break it.
        by_chance: share of the real rows that would break it if one column were shuffled.
    """

    line: str
    rows: int
    broken: float
    by_chance: float


def suggested_rules(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    declared: Sequence[Rule],
    rng: np.random.Generator,
) -> list[SuggestedRule]:
    """Return at most `MOST_RULES` rules `a <= b`, those first that most synthetic rows break.

    Args:
        declared: rules that the table has; no pair of their columns is looked at.
        rng: shuffles a column, to tell what chance would give; protects nothing.
    """
    columns = [c for c in schema.learned if c.kind.numeric and c.kind.family is not None][:MOST_COLUMNS]
    tables = [
        pa.Table.from_pandas(t[[c.name for c in columns]].reset_index(drop=True), preserve_index=False)
        for t in (real, synthetic)
    ]
    points = {c.name: tuple(numbers(table, c.name) for table in tables) for c in columns}
    known = [set(rule.columns) for rule in declared]
    found = []
    for a, b in permutations(columns, 2):
        if a.kind.family == b.kind.family and not any({a.name, b.name} <= pair for pair in known):
            found.extend(_rule(a.name, b.name, points, schema, rng))
    return sorted(found, key=lambda rule: -rule.broken)[:MOST_RULES]


def _rule(
    a: str,
    b: str,
    points: dict[str, tuple[np.ndarray, ...]],
    schema: TableSchema,
    rng: np.random.Generator,
) -> Iterator[SuggestedRule]:
    (real_a, real_b), (drawn_a, drawn_b) = (_known(points[a][side], points[b][side]) for side in (0, 1))
    if len(real_a) < FEWEST or not len(drawn_a) or (real_a > real_b).any():
        return
    broken, by_chance = float((drawn_a > drawn_b).mean()), float((real_a > rng.permutation(real_b)).mean())
    text = f"{_name(a)} <= {_name(b)}"
    if broken >= BROKEN and by_chance >= BY_CHANCE and _declarable(text, schema):
        yield SuggestedRule(
            yaml.safe_dump([text], width=1000, allow_unicode=True).strip(), len(real_a), broken, by_chance
        )


def _known(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = ~(np.isnan(a) | np.isnan(b))
    return a[known], b[known]


def _name(column: str) -> str:
    """Write a column's name as a rule does."""
    return column if re.fullmatch(r"[^\W\d][\w.]*", column) else f'"{column}"'


def _declarable(text: str, schema: TableSchema) -> bool:
    try:
        constraints.check([constraints.parse(text)], schema)
    except InvalidInput:  # a quotation mark in a name, or columns that no rule may relate
        return False
    return True
