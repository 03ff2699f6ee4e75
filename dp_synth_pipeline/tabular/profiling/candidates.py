"""Tries on the rows a formula that noisy counts suggest, so that none becomes a rule that chance alone explains.

What suggests a formula counts for it every row that does not contradict it, and of a column that is nearly always one value
there are many: of 45, which is 45 times any flag that is set. So the rows that keep it, and those that break it, are
counted by what they are computed from. Those of the commonest values are left out, and the others must keep it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dp_synth_pipeline.tabular.constraints.parse import written_name
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.multiples import RELATIVE

BUCKETS = 8
"""Groups of rows by the values that a formula computes from, of which the largest is left out."""

CELLS = 2 * BUCKETS
"""First the rows that keep the formula, by their group, and then those that break it."""

Numbers = Mapping[str, np.ndarray]
"""A number of each row, by column: float64 (rows,), NaN where null."""


class Candidate(NamedTuple):
    """A formula that may hold: `target = first sign second`.

    Attributes:
        broken: the rows that break it, with noise, by the counts that suggest it.
        by: of which it is that multiple, if it has one part.
    """

    target: str
    sign: str
    parts: tuple[str, ...]
    broken: float
    by: float = 1.0

    @property
    def rule(self) -> str:
        """The formula as a person would declare it."""
        target, *parts = (str(written_name(name)) for name in (self.target, *self.parts))
        return f"{target} = {f' {self.sign} '.join([f'{self.by:g}', *parts][-2:])}"

    def computed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return what it computes of its parts, float64 (rows,); infinite or NaN where it cannot."""
        first, second = (self.by, *parts)[-2:]
        return np.asarray({"+": np.add, "*": np.multiply, "/": np.divide}[self.sign](first, second), dtype=float)


def cells(candidate: Candidate, values: Numbers, halves: Numbers) -> np.ndarray:
    """Return in which cell each row lies that has all values of a formula, int64 (rows,).

    A target of 0 has no digits that say how it was rounded, so it must be 0 by the formula, too.

    Args:
        halves: by how much each value may be off by its rounding.
    """
    known = np.logical_and.reduce([np.isfinite(values[name]) for name in (candidate.target, *candidate.parts)])
    target, half = values[candidate.target][known], halves[candidate.target][known]
    parts = [values[name][known] for name in candidate.parts]
    with np.errstate(all="ignore"):
        computed = candidate.computed(parts)
        size = (
            sum((np.abs(part) for part in parts), np.zeros(len(target))) if candidate.sign == "+" else np.abs(computed)
        )
        breaks = np.abs(target - computed) > np.where(target == 0, 0.0, half) + RELATIVE * size
    return _group(parts) + BUCKETS * breaks.astype(np.int64)


def held(noisy: np.ndarray, scale: float) -> bool:
    """Say whether a formula holds in nearly all rows, and in nearly all beside the commonest values, by noisy cells."""
    rows, broken = noisy.reshape(2, BUCKETS).sum(0), noisy[BUCKETS:]
    everywhere, others = np.full(BUCKETS, True), np.arange(BUCKETS) != rows.argmax()
    return all(
        ordered_dates.few(broken[some].sum(), rows[some].sum(), scale * math.sqrt(some.sum()))
        for some in (everywhere, others)
    )


def _group(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return a group of each row that depends on its values alone, int64 (rows,) from 0 to `BUCKETS` - 1."""
    mixed = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        bits = (part + 0.0).view(np.uint64)  # 0 and -0 are one value
        mixed = (mixed ^ bits ^ (bits >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(BUCKETS)).astype(np.int64)
