"""What is counted apart from the cells of a number line, nulls and released values, by each of the line's histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_synth_pipeline.tabular.profiling import grid


@dataclass
class SpecialValues:
    """Nulls and released values of a number line: every histogram of the line counts them too, each in a cell of its own.

    A row lies in one cell of each histogram, as it does without them (`counting.Counts.line`), so that costs nothing.

    Attributes:
        values: the released values, ascending.
        decimals: digits after the point that other values are written with; None for full precision.
        first: (1 + values,) noisy counts of nulls and of each, in the histogram that released them, with noise of `scale`.
        sure: the count from which a value would have been released whatever its noise.
        again: their noisy counts in the later ones, with the deviation of the noise.
    """

    values: list[Any]
    decimals: int | None
    first: np.ndarray
    scale: float
    sure: float
    again: list[tuple[np.ndarray, float]] = field(default_factory=list)

    @property
    def points(self) -> np.ndarray:
        """The released values on the number line, float64."""
        return np.array([float(v) for v in self.values], dtype=np.float64)

    @property
    def finer(self) -> bool:
        """Whether some of them need more digits than all others are written with."""
        return bool((grid.respelled(self.points, self.decimals) != grid.written(self.points, self.decimals)).any())

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means of the noisy counts, weighted by inverse variance, and the deviation of the noise of each.

        The count that released a value is left out unless it was `sure`: of a value that barely passed its threshold it is
        too high. That choice looks at no later count, so these stay right in the mean, and sums of all are at most too high.
        """
        trust = np.array([1 / noise**2 for _, noise in self.again])
        later = np.average([noisy for noisy, _ in self.again], axis=0, weights=trust)
        total = trust.sum() + 1 / self.scale**2
        all_of_them = (later * trust.sum() + self.first / self.scale**2) / total
        lucky = np.append(False, self.first[1:] < self.sure)
        return np.where(lucky, later, all_of_them), np.where(lucky, trust.sum(), total) ** -0.5

    def without(self, counts: np.ndarray, cells: Sequence[np.ndarray]) -> np.ndarray:
        """Return a noisy histogram of all rows without those of released values.

        Args:
            counts: of all rows, (cells,).
            cells: which cell a row of each released value lies in: 1 there and 0 elsewhere, (cells,) each.
        """
        (_, *heavy), _ = self.counts()
        return counts - sum((n * cell for n, cell in zip(heavy, cells, strict=True)), np.zeros(len(counts)))
