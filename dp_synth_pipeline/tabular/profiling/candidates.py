"""Tries on the rows a formula that noisy counts suggest, so that none becomes a rule that chance alone explains.

What suggests a formula counts for it every row that does not contradict it, and of a column that is nearly always one value
there are many: of 45, which is 45 times any flag that is set. So the rows that keep it, and those that break it, are
counted by what they are computed from. Those of the commonest values are left out, and the others must keep it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_synth_pipeline.tabular.constraints.parse import Formula
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.kept_formulas import Numbers, mixed
from dp_synth_pipeline.tabular.profiling.multiples import RELATIVE

BUCKETS = 8
"""Groups of rows by the values that a formula computes from, of which the largest is left out."""

CELLS = 2 * BUCKETS
"""First the rows that keep the formula, by their group, and then those that break it."""


class Candidate(NamedTuple):
    """A formula that may hold, and how many rows keep it, with noise, by the counts that suggest it."""

    formula: Formula
    kept: float


def cells(formula: Formula, values: Numbers, halves: Numbers) -> np.ndarray:
    """Return in which cell each row lies that has all values of a formula, int64 (rows,); none where it divides by 0.

    A target of 0 has no digits that say how it was rounded, so it must be 0 by the formula, too.

    Args:
        halves: by how much each value may be off by its rounding.
    """
    known = np.logical_and.reduce([np.isfinite(values[name]) for name in formula.columns])
    held = {name: values[name][known] for name in formula.columns}
    target, half = held[formula.target], halves[formula.target][known]
    with np.errstate(all="ignore"):
        computed, size = formula.solved(formula.target, held.__getitem__), formula.size(held.__getitem__)
        breaks = np.abs(target - computed) > np.where(target == 0, 0.0, half) + RELATIVE * size
    group = mixed([x for name, x in held.items() if name != formula.target]) % np.uint64(BUCKETS)
    return (group.astype(np.int64) + BUCKETS * breaks)[np.isfinite(computed)]


def held(noisy: np.ndarray, scale: float) -> bool:
    """Say whether a formula holds in nearly all rows, and in nearly all beside the commonest values, by noisy cells."""
    rows, broken = noisy.reshape(2, BUCKETS).sum(0), noisy[BUCKETS:]
    everywhere, others = np.full(BUCKETS, True), np.arange(BUCKETS) != rows.argmax()
    return all(
        ordered_dates.few(broken[some].sum(), rows[some].sum(), scale * math.sqrt(some.sum()))
        for some in (everywhere, others)
    )
