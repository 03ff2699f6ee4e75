"""Columns that hang on each other in every real row, and not in synthetic ones: a person may want to declare that they do.

Restricted: that every real row keeps an order is a fact about the rows, found without noise. Whoever declares it says that
it is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from dp_synth_pipeline.tabular.constraints.hold import DAY, numbers
from dp_synth_pipeline.tabular.offsets import AFTER, SAME_AS, circle
from dp_synth_pipeline.tabular.schema import Column, TableSchema

MOST_RULES = 8
MOST_COLUMNS = 40
"""Columns of a table whose order is compared, at most, the first ones."""

FEWEST = 100
"""Real rows in which both values are known, from which a rule is believed."""

BY_CHANCE = 0.05
"""A rule that so few rows would break if one column were shuffled says little: an age below every income."""

BROKEN, OFF = 0.01, 0.2
"""Share of the synthetic rows that break a rule, and distance of their gaps, from which it is worth a line."""


@dataclass(frozen=True)
class SuggestedRule:
    """One column that hangs on another.

    Attributes:
        line: as a line of YAML under `columns:`.
        rows: real rows that keep it: all in which both values are known.
        broken: share of the synthetic rows, of those with both values, that break it.
        off: distance of the synthetic gaps from the real ones, 0 to 1 (Kolmogorov and Smirnov).
        by_chance: share of the real rows that would break it if one column were shuffled.
        gap: median of the real gaps, in microseconds or units; of several columns that one may hang on, the nearest counts.
    """

    line: str
    rows: int
    broken: float
    off: float
    by_chance: float
    gap: float


def suggested_rules(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, rng: np.random.Generator
) -> list[SuggestedRule]:
    """Return at most `MOST_RULES` columns with what to declare of each, those first that most synthetic rows break.

    Args:
        rng: shuffles a column, to tell what chance would give; protects nothing.
    """
    columns = [c for c in schema.learned if c.kind.numeric and c.kind.family is not None][:MOST_COLUMNS]
    columns = [c for c in columns if not pa.types.is_time(c.arrow_type)]
    tables = [
        pa.Table.from_pandas(t[[c.name for c in columns]].reset_index(drop=True), preserve_index=False)
        for t in (real, synthetic)
    ]
    points = {c.name: [numbers(table, c.name) for table in tables] for c in columns}
    declared = {c.name: c.base for c in schema}
    found: dict[str, list[SuggestedRule]] = {}
    equal: set[frozenset[str]] = set()
    for fact in (SAME_AS, AFTER):
        for base, column in permutations(columns, 2):
            pair = frozenset((base.name, column.name))
            closed = circle(column.name, {**declared, column.name: base.name})
            free = column.base is None and base.kind.family == column.kind.family and pair not in equal and not closed
            for rule in _rule(fact, base, column, points, rng) if free else ():
                found.setdefault(column.name, []).append(rule)
                equal |= {pair} if fact == SAME_AS else set()
    nearest = [min(rules, key=lambda rule: rule.gap) for rules in found.values()]
    return sorted(nearest, key=lambda rule: (-rule.broken, -rule.off))[:MOST_RULES]


def _rule(
    fact: str, base: Column, column: Column, points: dict[str, list[np.ndarray]], rng: np.random.Generator
) -> Iterator[SuggestedRule]:
    from scipy.stats import ks_2samp

    starts, ends = points[base.name], points[column.name]
    if column.kind.name == "date" and base.kind.name == "datetime":
        starts = [np.floor(start / DAY) * DAY for start in starts]
    elif fact == SAME_AS and column.kind != base.kind:  # a moment is not the same as its day
        return
    (real_a, real_b), (drawn_a, drawn_b) = (_known(a, b) for a, b in zip(starts, ends, strict=True))
    breaks = np.not_equal if fact == SAME_AS else np.greater
    if len(real_a) < FEWEST or not len(drawn_a) or breaks(real_a, real_b).any():
        return
    broken, by_chance = float(breaks(drawn_a, drawn_b).mean()), float(breaks(real_a, rng.permutation(real_b)).mean())
    off = float(ks_2samp(real_b - real_a, drawn_b - drawn_a).statistic)  # type: ignore[attr-defined]
    if by_chance >= BY_CHANCE and (broken >= BROKEN or off >= OFF):
        line = yaml.safe_dump({column.name: {fact: base.name}}, default_flow_style=None, width=1000, allow_unicode=True)
        yield SuggestedRule(line.strip(), len(real_a), broken, off, by_chance, float(np.median(real_b - real_a)))


def _known(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = ~(np.isnan(a) | np.isnan(b))
    return a[known], b[known]
